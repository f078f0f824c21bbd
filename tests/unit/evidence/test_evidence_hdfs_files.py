"""Files in HDFS: what the client hdfs-native is asked for.

What a name node makes of it is held in `tests/outputs/test_outputs_on_spark.py`.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import Any

import pytest
from pyarrow import fs

from auditor.evidence.hdfs_files import HdfsFiles

Call = tuple[str, tuple[object, ...], dict[str, Any]]


class Opened(io.BytesIO):
    """A file, and by which call it was opened."""

    def __init__(self, by: str) -> None:
        super().__init__()
        self.by = by


class Client:
    """A client that keeps what it is asked for."""

    def __init__(self, url: str, options: dict[str, str]) -> None:
        self.url, self.options = url, options
        self.calls: list[Call] = []

    def __getattr__(self, name: str) -> Any:
        def call(*given: object, **options: Any) -> Opened:
            self.calls.append((name, given, options))
            return Opened(name)

        return call


@pytest.fixture(autouse=True)
def client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hdfs_native.fsspec.Client", Client)


@pytest.fixture(params=[(0o027, 0o750, 0o640), (0o002, 0o775, 0o664), (0, 0o777, 0o666)])
def umask(request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    """What a umask leaves of the permissions of directories and of files."""
    mask, directories, files = request.param
    before = os.umask(mask)
    yield directories, files
    assert mask == os.umask(before)


@pytest.mark.parametrize(
    ("authority", "host", "port"),
    [("nn.example:8020", "nn.example", 8020), ("prod", "prod", None), ("", None, None)],
)
def test_the_name_node_is_that_of_the_uri(authority: str, host: str | None, port: int | None):
    """A host with its port, a name service, or Hadoop's default."""
    files = HdfsFiles(authority)
    assert (host, port) == (files.host, files.port)
    assert f"hdfs://{authority}" == files.client.url


def test_a_directory_gets_what_the_umask_leaves(umask: tuple[int, int]):
    """hdfs-native knows no umask. The directories above it are made too."""
    files = HdfsFiles("prod")
    files.mkdir("/a/b")
    files.mkdir("/a/c", create_parents=False)
    files.makedirs("/a/d", exist_ok=True)
    expected = [("/a/b", umask[0], True), ("/a/c", umask[0], False), ("/a/d", umask[0], True)]
    assert [("mkdirs", given, {}) for given in expected] == files.client.calls


@pytest.mark.usefixtures("umask")
def test_a_directory_gets_the_permissions_that_are_asked_for():
    """Whatever the umask."""
    files = HdfsFiles("prod")
    files.mkdir("/a/b", permission=0o700)
    assert [("mkdirs", ("/a/b", 0o700, True), {})] == files.client.calls


def test_a_new_file_gets_what_the_umask_leaves_and_replaces_another(umask: tuple[int, int]):
    """As on a local disk."""
    files = HdfsFiles("prod")
    assert "create" == files._open("/a/b", "wb").by
    ((name, given, options),) = files.client.calls
    assert ("create", ("/a/b",)) == (name, given)
    assert (True, umask[1]) == (
        options["write_options"].overwrite,
        options["write_options"].permission,
    )


def test_pyarrow_makes_files_and_directories_so(umask: tuple[int, int]):
    """It passes options of its own."""
    files = HdfsFiles("prod")
    through = fs.PyFileSystem(fs.FSSpecHandler(files))
    through.create_dir("/a")
    with through.open_output_stream("/a/b"):
        pass
    (_, directory, _), (_, file, options) = files.client.calls
    assert ("/a", umask[0], True) == directory
    assert (("/a/b",), umask[1]) == (file, options["write_options"].permission)


def test_a_file_is_read_and_appended_to_as_hdfs_native_does():
    """The call goes to hdfs-native unchanged."""
    files = HdfsFiles("prod")
    assert "read" == files._open("/a/b").by
    assert "read" == files._open("/a/b", "rb").by
    assert "append" == files._open("/a/b", "ab").by
    assert [("read", ("/a/b",), {})] * 2 + [("append", ("/a/b",), {})] == files.client.calls


def test_a_file_that_is_read_in_blocks_is_buffered(monkeypatch: pytest.MonkeyPatch):
    """The options for reading are those of hdfs-native."""
    sizes: list[int] = []
    monkeypatch.setattr(
        "hdfs_native.fsspec.io.BufferedReader",
        lambda reader, buffer_size: sizes.append(buffer_size),
    )
    HdfsFiles("prod")._open("/a/b", "rb", block_size=512)
    HdfsFiles("prod")._open("/a/b", "rb", True, None, 1024)
    assert [512, 1024] == sizes


@pytest.mark.parametrize("options", [{}, {"overwrite": False}])
def test_a_file_that_is_moved_replaces_another(options: dict[str, bool]):
    """The name node does it in one step."""
    files = HdfsFiles("prod")
    files.mv("/a/.b.tmp", "/a/b", **options)
    assert [("rename", ("/a/.b.tmp", "/a/b", True), {})] == files.client.calls


def test_no_file_system_is_kept_for_processes_that_are_forked():
    """fsspec would give each the connections of the first."""
    assert HdfsFiles("prod") is not HdfsFiles("prod")
