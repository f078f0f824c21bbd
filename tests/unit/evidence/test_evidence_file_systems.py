"""Files elsewhere than on a local disk: faults are sentences, and paths are those of the URI."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fsspec import AbstractFileSystem
from pyarrow import fs

from auditor.commands.page import has_page
from auditor.errors import OutputError
from auditor.evidence.hdfs_files import HdfsFiles
from auditor.evidence.run_directory import Place, place
from auditor.evidence.s3_objects import S3Objects


class OutOfOrder(AbstractFileSystem):
    """A file system that fails as hdfs-native does."""

    def info(self, path: str, **_options: Any) -> dict[str, Any]:
        raise RuntimeError("StandbyException: not in state standby\n\tat java.base/x.Y(Y.java:1)")


def test_a_name_node_that_fails_is_a_sentence():
    """This includes a check whether a file exists."""
    run = Place(fs.PyFileSystem(fs.FSSpecHandler(OutOfOrder())), "/audits", "hdfs://nn/audits")
    for ask in (lambda: run.has_table("evidence/marks"), lambda: has_page(run)):
        with pytest.raises(OutputError) as raised:
            ask()
        assert str(raised.value).startswith("cannot read hdfs://nn/audits/")
        assert str(raised.value).endswith(": StandbyException: not in state standby")


@pytest.mark.parametrize("port", ["x", "70000"])
def test_the_port_of_a_name_node_is_a_number(port: str):
    """Exit 2, not a fault of ours."""
    with pytest.raises(OutputError, match="the port of a name node is a number"):
        place(f"hdfs://nn:{port}/p")


@pytest.mark.parametrize(
    ("uri", "named"),
    [
        ("s3a://bucket/audits?secret=k", "s3a://bucket/audits"),
        ("s3a://key:a*b@bucket/audits", "s3a://bucket/audits"),
        ("gs://bucket/audits?secret=k", "gs://bucket/audits"),
        ("abfs://fs:secret@account/audits", "abfs://account/audits"),
        ("s3a://key:se/cret@bucket/audits", "s3a://..."),
        ("s3a://key:se?cret@bucket/audits", "s3a://..."),
    ],
)
def test_no_message_repeats_secrets_of_a_uri(uri: str, named: str):
    """Nor one about another fault of the URI."""
    with pytest.raises(OutputError, match="without credentials") as refused:
        place(uri)
    assert str(refused.value).startswith(f"{named}: ")


def test_the_lock_is_on_the_server_of_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Files take the endpoint from variables only, so an AWS configuration file does not count."""
    config = tmp_path / "config"
    config.write_text("[default]\nendpoint_url = http://127.0.0.1:9\nregion = eu-central-1\n")
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    objects = S3Objects("bucket/audits", "s3a://bucket/audits", "eu-central-1")
    assert "https://s3.eu-central-1.amazonaws.com" == objects.endpoint


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("hdfs://127.0.0.1:1//b///prod/", "/b/prod"),
        ("hdfs://127.0.0.1:1/b/prod", "/b/prod"),
        ("hdfs://127.0.0.1:1/", ""),
    ],
)
def test_slashes_in_a_row_are_one(uri: str, path: str):
    """As in Hadoop. A path with two at its beginning was taken for a host and a path."""
    assert path == place(uri).path


@pytest.mark.parametrize("path", ["//b/prod", "/b/a;c", "/b/a:c"])
def test_a_path_in_hdfs_is_not_taken_for_a_url(path: str):
    """pyarrow gives plain paths."""
    assert path == HdfsFiles._strip_protocol(path)
    assert "/" == HdfsFiles._strip_protocol("")
