"""The checked-in protobuf code is what the .proto files say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from auditor.wire.generated import bookkeeper_protocol_pb2, data_formats_pb2, managed_ledger_pb2

PROJECT = Path(__file__).parents[3]
GENERATED = "auditor/wire/generated"
COMPILE_SECONDS_MAX = 60


@pytest.mark.parametrize("name", ["bookkeeper_protocol", "data_formats", "managed_ledger"])
def test_generating_again_changes_nothing(name: str, tmp_path: Path) -> None:
    """The command of proto/README.md makes exactly the checked-in files."""
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{GENERATED}=proto/auditor"]
    command += [f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", f"{GENERATED}/{name}.proto"]
    subprocess.run(command, cwd=PROJECT, check=True, timeout=COMPILE_SECONDS_MAX)
    for made in (f"{GENERATED}/{name}_pb2.py", f"{GENERATED}/{name}_pb2.pyi"):
        assert (PROJECT / made).read_text() == (tmp_path / made).read_text(), (
            f"{made} is not what proto/auditor/{name}.proto says"
        )


@pytest.mark.parametrize("module", [bookkeeper_protocol_pb2, data_formats_pb2, managed_ledger_pb2])
def test_the_descriptors_are_our_own(module: object) -> None:
    """Package and file name keep them apart from another library's copy of these messages in one
    process.
    """
    descriptor = module.DESCRIPTOR
    assert descriptor.package == "auditor.wire"
    assert descriptor.name.startswith(GENERATED + "/")
