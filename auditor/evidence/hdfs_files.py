"""HDFS for pyarrow, by the client hdfs-native: it needs no Java and no libhdfs."""

from __future__ import annotations

from typing import Any

from hdfs_native.fsspec import HdfsFileSystem


class HdfsFiles(HdfsFileSystem):
    """The file system of a name service or name node. A file that is moved replaces another.

    hdfs-native moves nothing onto a file that exists, unless it is asked to: then the name node
    replaces the file in one step.
    """

    cachable = False  # fsspec would keep one for all processes that are forked

    def __init__(self, authority: str) -> None:
        host, _, port = authority.partition(":")
        super().__init__(host or None, int(port) if port else None)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        """Return a path as it is: pyarrow gives no URLs, and a path may look like one."""
        return path or cls.root_marker

    def mv(self, path1: str, path2: str, **options: Any) -> None:
        """Move a file or directory. A file at `path2` is replaced in one step."""
        super().mv(path1, path2, **{**options, "overwrite": True})
