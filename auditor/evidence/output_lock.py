"""The lock that one run at a time holds on OUTPUT: the kernel's on a local disk, else a lease."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Protocol

from pyarrow import fs

from auditor.errors import OutputError
from auditor.evidence.file_systems import is_hdfs
from auditor.evidence.hdfs_lock import hold_hdfs_lock
from auditor.evidence.newest_run import LATEST
from auditor.evidence.run_directory import Place
from auditor.evidence.s3_lease import hold_s3_lease
from auditor.evidence.s3_objects import ConditionUnsupportedError
from auditor.evidence.table_scan import file_errors

LOCK = ".lock"
LOCK_WAIT_S = 5.0
"""How long to wait for the lock: the JVM of a run that was killed holds it until it has ended, a
fraction of a second.
"""
LOCK_POLL_S = 0.1
"""How often the lock is tried in this time."""
UNCONDITIONAL = (
    "this S3 server does not keep conditional writes (If-None-Match) and cannot hold a lock: the"
    " scheduler must prevent two runs at once"
)


class HeldLock(Protocol):
    """The lock of OUTPUT while a run holds it."""

    @property
    def descriptor(self) -> int | None:
        """The descriptor of a local lock file: processes that inherit it keep the lock."""

    @property
    def problem(self) -> str | None:
        """Why the lock does not keep a second run away; None where it does."""

    def write_latest(self, text: str) -> None:
        """Replace latest.json in one step. Raises OutputError if the lock was lost."""


class PlainLock:
    """A lock that needs no renewal, or none.

    That of a local file is lost if the file is removed or replaced.
    """

    def __init__(self, root: Place, descriptor: int | None, problem: str | None = None) -> None:
        self.root, self.descriptor, self.problem = root, descriptor, problem

    def write_latest(self, text: str) -> None:
        """Replace latest.json in one step. Raises OutputError if the lock was lost."""
        if self.descriptor is not None and not self._is_at_its_place(self.descriptor):
            raise OutputError(
                f"{self.root.path}/{LOCK} was removed or replaced while this run held it: another"
                " run may be at work there, and nothing is published; find out what removes files"
                " from --output, and run again"
            )
        self.root.write_text(LATEST, text)

    def _is_at_its_place(self, descriptor: int) -> bool:
        """Return whether the file that is locked is the one that the next run will lock."""
        try:
            with file_errors(f"look at {self.root.uri}/{LOCK}"):
                path = f"{self.root.path}/{LOCK}"
                at_place = os.stat(path)  # noqa: PTH116 - a path as Arrow has it
                held = os.fstat(descriptor)
        except OutputError as error:
            if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
                return False
            raise
        return (held.st_dev, held.st_ino) == (at_place.st_dev, at_place.st_ino)


@contextmanager
def hold_output_lock(root: Place, check: Callable[[], None]) -> Iterator[HeldLock]:
    """Hold the lock of a directory that exists. Raises OutputError where another run holds it.

    While the lock is waited for, `check` is called in turn: what it raises ends the wait.

    On a local disk the lock ends with this process and those that were given its descriptor, on
    HDFS a minute after this process, on S3 within s3_lease.LEASE_S after it. On other stores there
    is none, and `problem` says so.
    """
    if isinstance(root.files, fs.LocalFileSystem):
        descriptor = _lock_file(root, check)
        try:
            yield PlainLock(root, descriptor)
        finally:
            os.close(descriptor)
    elif isinstance(root.files, fs.S3FileSystem):
        with ExitStack() as stack:
            try:
                lease = stack.enter_context(hold_s3_lease(root, LOCK, LATEST, check))
            except ConditionUnsupportedError:
                yield PlainLock(root, None, f"{root.uri}: {UNCONDITIONAL}")
                return
            yield lease
    elif is_hdfs(root.files):
        with hold_hdfs_lock(root, LOCK, check):
            yield PlainLock(root, None)
    else:
        yield PlainLock(
            root, None, f"{root.uri} has no lock: the scheduler must prevent two runs at once"
        )


def _lock_file(root: Place, check: Callable[[], None]) -> int:
    with file_errors(f"lock {root.uri}"):
        descriptor = os.open(f"{root.path}/{LOCK}", os.O_RDWR | os.O_CREAT, 0o644)
    deadline = time.monotonic() + LOCK_WAIT_S
    try:
        while not _is_locked(descriptor, root):
            if time.monotonic() > deadline:
                raise OutputError(
                    f"another run is at work in {root.path} (it holds {LOCK}): wait for it, or"
                    " use another --output"
                )
            check()
            time.sleep(LOCK_POLL_S)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _is_locked(descriptor: int, root: Place) -> bool:
    """Try to lock an open file for this process, and return whether it could be done at once.

    Raises OutputError where the file system has no locks, or none left: then no other run is the
    reason.
    """
    with file_errors(f"lock {root.uri}"):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
