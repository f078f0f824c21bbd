"""HDFS for pyarrow, by the client hdfs-native: it needs no Java and no libhdfs."""

from __future__ import annotations

from typing import Any

from hdfs_native import WriteOptions
from hdfs_native.fsspec import HdfsFileSystem

from auditor.evidence.file_systems import own_umask


class HdfsFiles(HdfsFileSystem):
    """The file system of a name service or name node. A file that is moved replaces another.

    hdfs-native moves nothing onto a file that exists, unless it is asked to: then the name node
    replaces the file in one step. It knows no umask: new files and directories get the permissions
    that this process would give them on a local disk.
    """

    cachable = False  # fsspec would keep one for all processes that are forked

    def __init__(self, authority: str) -> None:
        host, _, port = authority.partition(":")
        super().__init__(host or None, int(port) if port else None)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        """Return a path as it is: pyarrow gives no URLs, and a path may look like one."""
        return path or cls.root_marker

    def mkdir(self, path: str, create_parents: bool = True, **options: Any) -> None:
        """Make a directory, and the directories above it."""
        super().mkdir(path, create_parents, **{"permission": 0o777 & ~own_umask(), **options})

    def _open(self, path: str, mode: str = "rb", *given: Any, **options: Any) -> Any:
        """Open a file to read it, or to write it anew."""
        if mode == "wb":
            return self.client.create(path, write_options=options_of_new_file(overwrite=True))
        return super()._open(path, mode, *given, **options)

    def mv(self, path1: str, path2: str, **options: Any) -> None:
        """Move a file or directory. A file at `path2` is replaced in one step."""
        super().mv(path1, path2, **{**options, "overwrite": True})


def options_of_new_file(*, overwrite: bool) -> WriteOptions:
    """Return how a file is made: with the permissions that the umask leaves."""
    return WriteOptions(overwrite=overwrite, permission=0o666 & ~own_umask())
