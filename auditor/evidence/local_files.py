"""Files on a local disk: find them below a directory, and restrict who may read new ones.

Other users may have filled the directory. No link to a directory leads out of it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from auditor.errors import OutputError

_IGNORED = (".", "_")
"""Prefixes of the names of files that do not belong to a table: Spark's checksums and markers."""

_URI = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")


def is_uri(text: str) -> bool:
    """Return whether the name of a directory is a URI, not a local path."""
    return _URI.match(text) is not None


def find_files(path: str) -> Iterator[tuple[str, int]]:
    """Yield the regular files in a directory and below it, each with its size in bytes.

    Does not follow links to directories. Yields nothing if there is no such directory. Raises
    OSError for one that cannot be read.
    """
    for folder, _, names in os.walk(path, onerror=_refuse_unreadable):
        for name in names:
            found = _status(file := f"{folder}/{name}")
            if found is not None and stat.S_ISREG(found.st_mode):
                yield file, found.st_size


def find_table_files(path: str) -> list[str]:
    """Return the files of the table in a directory, or the file itself, sorted.

    Raises OutputError for a pipe, a device or a link to a directory among them: reading one may
    never end. A link to a file is read like the file. Raises OSError for a directory that cannot be
    read.
    """
    if os.path.islink(path) or not os.path.isdir(path):  # noqa: PTH112, PTH114 - a path that Arrow gave as text
        return [_regular(path)]
    found: list[str] = []
    for folder, folders, names in os.walk(path, onerror=_refuse_unreadable):
        linked = [name for name in folders if os.path.islink(f"{folder}/{name}")]  # noqa: PTH114
        found += [
            _regular(f"{folder}/{name}")
            for name in (*names, *linked)
            if not name.startswith(_IGNORED)
        ]
        folders[:] = [name for name in folders if not name.startswith(_IGNORED)]
    return sorted(found)


def is_table_file(path: str) -> bool:
    """Return whether a file below a table's directory belongs to the table, not to Spark."""
    return not any(part.startswith(_IGNORED) for part in path.split("/"))


def _refuse_unreadable(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _regular(file: str) -> str:
    found = _status(file)
    if found is None or not stat.S_ISREG(found.st_mode):
        raise OutputError(f"{file} is not a file but a link, a pipe or a device: no run writes one")
    return file


def _status(file: str) -> os.stat_result | None:
    """Return the status of a file or of a link's target, None for a dangling link."""
    try:
        return os.stat(file)  # noqa: PTH116
    except OSError:
        return None


def synchronise(path: str) -> None:
    """Flush a file or directory to its disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def own_umask() -> int:
    """Return the umask of this process. It can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


@contextmanager
def restrict_new_files(mask: int) -> Iterator[None]:
    """Remove the permissions in `mask` from files that this process and its children make.

    Never adds one: what the process's own umask removes stays removed. The umask belongs to the
    process: the files of its other threads are restricted too while this lasts.
    """
    own = os.umask(mask)
    try:
        os.umask(own | mask)
        yield
    finally:
        os.umask(own)
