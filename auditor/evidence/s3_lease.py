"""A lock in S3: an object that its holder rewrites every few seconds, and that lapses if it does
not.

The store decides who writes, by conditional requests (`If-None-Match: *` and `If-Match: ETAG`).
Clocks are never compared. A run that waits for a lease takes it over when the object has not
changed for LEASE_S by that run's own clock. latest.json is replaced under the condition that it is
still the one that was there when the lease began. A holder that slept past its lease cannot replace
the result of a run that followed it.
"""

from __future__ import annotations

import json
import math
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from auditor.errors import OutputError
from auditor.evidence.run_directory import Place
from auditor.evidence.s3_objects import ConditionUnsupportedError, S3Objects

LEASE_S = 60.0
"""How long a lease lasts without renewal: a run can start this long after one that was killed."""
RENEWAL_S = 10.0
"""How often a lease is renewed: five renewals may fail before it lapses."""
WATCH_S = 1.0
"""How often the lease of another run is looked at while it is waited for."""


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
        """Write the lock, if need be after a lease that lapsed.

        `check` is called while a lease is waited for, and may raise. Raises OutputError where
        another run renews it, and ConditionUnsupportedError where the store does not keep
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
        """Rewrite the lock until it is released or lost. For a thread of its own."""
        renewed_at = time.monotonic()
        while not self.released.wait(RENEWAL_S):
            # Tried again, until the lease lapses.
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
        """Return whether the lock is ours although its ETag is another one: the answer to a renewal
        was lost.
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
        """Replace latest.json. Raises OutputError if the lease was lost or another run replaced
        it.
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
        """Return the ETag of latest.json if it is what we wrote: the answer was lost, and the SDK
        repeated the request.
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

    Waits LEASE_S for the lease of a run that died. Raises OutputError where another run renews it,
    and ConditionUnsupportedError where the store cannot keep a lease.
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
