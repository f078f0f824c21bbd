"""HDFS for pyarrow, by the client hdfs-native, which needs neither Java nor libhdfs."""

from __future__ import annotations

from typing import Any

from hdfs_native import WriteOptions
from hdfs_native.fsspec import HdfsFileSystem

from auditor.evidence.local_files import own_umask


class HdfsFiles(HdfsFileSystem):
    """The file system of a name service or name node. Moving a file replaces the one at its target.

    hdfs-native moves a file onto another only if asked to: then the name node replaces it in one
    step. It has no umask: new files and directories get the permissions that this process would
    give them on a local disk.
    """

    cachable = False  # fsspec would share one instance with all forked processes

    def __init__(self, authority: str) -> None:
        host, _, port = authority.partition(":")
        super().__init__(host or None, int(port) if port else None)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        """Return a path as it is: pyarrow passes no URLs, but a path may look like one."""
        return path or cls.root_marker

    def mkdir(self, path: str, create_parents: bool = True, **options: Any) -> None:
        """Make a directory, and the directories above it."""
        super().mkdir(path, create_parents, **{"permission": 0o777 & ~own_umask(), **options})

    def _open(self, path: str, mode: str = "rb", *given: Any, **options: Any) -> Any:
        """Open a file for reading, or for writing from the beginning."""
        if mode == "wb":
            return self.client.create(path, write_options=options_of_new_file(overwrite=True))
        return super()._open(path, mode, *given, **options)

    def mv(self, path1: str, path2: str, **options: Any) -> None:
        """Move a file or directory. A file at `path2` is replaced in one step."""
        super().mv(path1, path2, **{**options, "overwrite": True})


def options_of_new_file(*, overwrite: bool) -> WriteOptions:
    """Return the options of a new file, with the permissions that the umask leaves."""
    return WriteOptions(overwrite=overwrite, permission=0o666 & ~own_umask())
