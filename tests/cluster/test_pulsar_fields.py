"""The .proto files in Pulsar's own jars: no field that can hold a ledger is overlooked."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet
from support.real_jars import PULSAR_NEWEST, pulsar_jars
from support.supported_versions import PULSARS

from auditor.pulsar.metadata import PULSAR_FIELDS

pytestmark = pytest.mark.real

COMPILE_SECONDS_MAX = 60
JARS = {"MLDataFormats": "managed-ledger", "SchemaStorageFormat": "pulsar-broker"}


def fields_of(
    messages: Iterable[DescriptorProto], prefix: str = ""
) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield each message of a file, also inside another, with its fields."""
    for one in messages:
        yield prefix + one.name, frozenset(field.name for field in one.field)
        yield from fields_of(one.nested_type, f"{prefix}{one.name}.")


@pytest.mark.parametrize(
    "version",
    [
        pytest.param(version, marks=[] if version == PULSAR_NEWEST else pytest.mark.long)
        for version in PULSARS
    ],
)
@pytest.mark.parametrize("file", JARS)
def test_the_table_has_every_field_that_a_broker_can_store(
    version: str, file: str, tmp_path: Path
) -> None:
    """A newer Pulsar has all of an older one's, and the table may have more than the oldest."""
    (jar,) = pulsar_jars(version).glob(f"{JARS[file]}-{version}.jar")
    with zipfile.ZipFile(jar) as opened:
        opened.extract(f"{file}.proto", tmp_path)
    out = tmp_path / "descriptors"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{tmp_path}", f"{file}.proto"]
    command.append(f"--descriptor_set_out={out}")
    subprocess.run(command, cwd=tmp_path, check=True, timeout=COMPILE_SECONDS_MAX)
    (described,) = FileDescriptorSet.FromString(out.read_bytes()).file
    found = dict(fields_of(described.message_type))
    assert found
    overlooked = {
        name: sorted(fields - set(PULSAR_FIELDS[file].get(name, {})))
        for name, fields in found.items()
        if fields - set(PULSAR_FIELDS[file].get(name, {}))
    }
    assert {} == overlooked
