"""The lock that one run at a time holds on OUTPUT: the kernel's on a local disk, else a lease.

In HDFS it is a file that its holder keeps open for writing. HDFS allows one writer a file, and the
name node ends the write of a client that was silent for a minute. Hadoop's own balancer excludes a
second instance in this way.

In S3 it is an object that its holder rewrites every few seconds; otherwise it lapses. The store
decides who writes, by conditional requests (`If-None-Match: *` and `If-Match: ETAG`). Clocks are
never compared. A run that waits for a lease takes it over if the object has not changed for LEASE_S
by that run's own clock. latest.json is replaced on condition that it is the same as when the lease
began: a holder that slept past its lease cannot replace the result of a later run.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyarrow import fs

from auditor.errors import OutputError
from auditor.evidence.file_systems import ConditionUnsupportedError, S3Objects, is_hdfs
from auditor.evidence.newest_run import LATEST
from auditor.evidence.run_directory import Place
from auditor.evidence.table_scan import file_errors

HDFS_LAPSE_S = 60.0
"""How long the name node keeps a file for a writer that has died (the soft limit of its lease)."""
HDFS_WAIT_S = 75.0
"""How long to wait for the lock of another run: longer than a dead run keeps it."""
HDFS_POLL_S = 2.0
"""Pause between two tries to get the lock."""


@contextmanager
def hold_hdfs_lock(root: Place, lock: str, check: Callable[[], None]) -> Iterator[None]:
    """Keep the lock file of a directory open.

    Raises OutputError if another run has it for HDFS_WAIT_S. The lock ends with this process, or
    HDFS_LAPSE_S after it was killed.
    """
    client = root.files.handler.fs.client
    path = f"{root.path}/{lock}"
    writer = _open(client, path, root, check)
    try:
        with file_errors(f"write {root.uri}/{lock}"):
            writer.write(f"{socket.gethostname()}\n".encode())
            writer.hsync()
        yield
    finally:
        with suppress(OSError, RuntimeError):
            writer.close()


def _open(client: Any, path: str, root: Place, check: Callable[[], None]) -> Any:
    """Return the lock file, opened for writing. Raises OutputError, and what `check` raises."""
    deadline = time.monotonic() + HDFS_WAIT_S
    while True:
        with file_errors(f"lock {root.uri}"):
            writer = _open_unless_held(client, path)
        if writer is not None:
            return writer
        if time.monotonic() > deadline:
            raise OutputError(
                f"another run is at work in {root.uri} (it keeps {path} open): wait for it, or use"
                " another --output"
            )
        check()
        time.sleep(HDFS_POLL_S)


def _open_unless_held(client: Any, path: str) -> Any:
    """Return the lock file, opened for writing; None if another writer has it open."""
    from auditor.evidence.hdfs_files import options_of_new_file

    try:
        try:
            return client.append(path)
        except FileNotFoundError:
            return client.create(path, write_options=options_of_new_file(overwrite=False))
    except FileExistsError:
        return None
    except (OSError, RuntimeError) as error:
        if "RecoveryInProgress" in str(error) or "recovery" in str(error):
            return None  # the name node is ending the write of a dead client
        raise OSError(str(error)) from error


LEASE_S = 60.0
"""How long a lease lasts without renewal: a new run can start this long after one was killed."""
RENEWAL_S = 10.0
"""How often a lease is renewed: five renewals may fail before it lapses."""
WATCH_S = 1.0
"""How often the lease of another run is checked while it is waited for."""


@dataclass(slots=True)
class S3Lease:
    """The lease that this process holds."""

    objects: S3Objects
    lock: str
    latest: str
    holder: str = field(default_factory=lambda: uuid.uuid4().hex)
    etag: str = ""
    latest_etag: str | None = None
    renewals: int = 0
    is_lost: bool = False
    released: threading.Event = field(default_factory=threading.Event)
    descriptor: None = None
    problem: None = None

    def acquire(self, check: Callable[[], None]) -> None:
        """Write the lock, after the lease of another run has lapsed if there is one.

        `check` is called while a lease is waited for, and may raise. Raises OutputError if another
        run renews the lease, and ConditionUnsupportedError if the store does not support
        conditions.
        """
        seen, lapses_at = None, math.inf
        while not self._take(None):
            etag = self.objects.etag(self.lock)
            if etag is None:
                continue
            if seen is not None and etag != seen:
                raise OutputError(
                    f"another run is at work in {self.objects.uri} (it renews {self.lock}): wait"
                    " for it, or use another --output"
                )
            if seen is None:
                seen, lapses_at = etag, time.monotonic() + LEASE_S
            if time.monotonic() > lapses_at and self._take(etag):
                break
            check()
            time.sleep(WATCH_S)
        if self.objects.put(self.lock, self._body(), None) is not None:
            self.objects.delete(self.lock)
            raise ConditionUnsupportedError
        self.latest_etag = self.objects.etag(self.latest)

    def _take(self, replaced: str | None) -> bool:
        """Write the lock if its ETag is still `replaced`, and return whether it was."""
        etag = self.objects.put(self.lock, self._body(), replaced)
        if etag is not None:
            self.etag = etag
        return etag is not None

    def renew(self) -> None:
        """Rewrite the lock until it is released or lost. Runs in a thread."""
        renewed_at = time.monotonic()
        while not self.released.wait(RENEWAL_S):
            # It is tried again until the lease lapses.
            with suppress(OutputError, ConditionUnsupportedError):
                self.renewals += 1
                if not self._take(self.etag):
                    self.is_lost = not self._holds_again()
                    if self.is_lost:
                        return
                renewed_at = time.monotonic()
            if time.monotonic() - renewed_at > LEASE_S:
                self.is_lost = True
                return

    def _holds_again(self) -> bool:
        """Return whether the lock is ours although its ETag has changed.

        The answer to a renewal may have been lost.
        """
        body = self.objects.read(self.lock)
        if body is None or self.holder.encode() not in body[0]:
            return False
        self.etag = body[1]
        return True

    def release(self) -> None:
        """Remove the lock if it is still ours. If the store fails, the lock lapses."""
        with suppress(OutputError):
            if not self.is_lost and self._holds_again():
                self.objects.delete(self.lock)

    def write_latest(self, text: str) -> None:
        """Replace latest.json. Raises OutputError if the lease was lost or another run
        replaced it.
        """
        if self.is_lost:
            raise OutputError(self._loss_text("this run could not renew its lock"))
        etag = self.objects.put(self.latest, text.encode(), self.latest_etag)
        etag = etag or self._etag_if_written(text.encode())
        if etag is None:
            raise OutputError(
                self._loss_text(f"{self.latest} was replaced while this run was at work")
            )
        self.latest_etag = etag

    def _etag_if_written(self, body: bytes) -> str | None:
        """Return the ETag of latest.json if we wrote it.

        The answer may have been lost, and the SDK then repeated the request.
        """
        found = self.objects.read(self.latest)
        return found[1] if found is not None and found[0] == body else None

    def _loss_text(self, what: str) -> str:
        return (
            f"{self.objects.uri}: {what}. Another run may have taken its place: the results are"
            f" written, and {self.latest} does not name them"
        )

    def _body(self) -> bytes:
        facts = {"holder": self.holder, "host": socket.gethostname(), "pid": os.getpid()}
        return json.dumps({**facts, "renewals": self.renewals}).encode()


@contextmanager
def hold_s3_lease(
    root: Place, lock: str, latest: str, check: Callable[[], None]
) -> Iterator[S3Lease]:
    """Hold the lease of a directory, and renew it in a thread.

    Waits LEASE_S for the lease of a run that died. Raises OutputError if another run renews it, and
    ConditionUnsupportedError if the store cannot keep a lease.
    """
    lease = S3Lease(S3Objects(root.path, root.uri, str(root.files.region)), lock, latest)
    lease.acquire(check)
    renewer = threading.Thread(target=lease.renew, name="s3-lease", daemon=True)
    renewer.start()
    try:
        yield lease
    finally:
        lease.released.set()
        renewer.join()
        lease.release()


LOCK = ".lock"
LOCK_WAIT_S = 5.0
"""How long to wait for the lock. The JVM of a killed run holds it until it has ended, a fraction of
a second."""
LOCK_POLL_S = 0.1
"""Pause between two tries to get the lock."""
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
        """Why the lock does not exclude a second run; None if it does."""

    def write_latest(self, text: str) -> None:
        """Replace latest.json in one step. Raises OutputError if the lock was lost."""


class PlainLock:
    """A lock that needs no renewal, or no lock.

    The lock on a local file is lost if the file is removed or replaced.
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
        """Return whether the next run would lock the same file."""
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
    """Hold the lock of an existing directory. Raises OutputError if another run holds it.

    While the lock is waited for, `check` is called repeatedly; an exception from it ends the wait.

    On a local disk the lock ends with this process and those that inherited its descriptor, on HDFS
    a minute after this process, on S3 within LEASE_S. On other stores there is no lock, and
    `problem` says so.
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
