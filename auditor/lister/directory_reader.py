"""Control the reader process of one directory from the lister. Start a new one when it dies.

The process answers one request after another. The next request is sent while it works: it never
waits for the lister.
"""

from __future__ import annotations

import asyncio
import select
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock
from typing import Any, BinaryIO, cast

from auditor.lister.ledger_lists import LedgerList, ListLimits
from auditor.lister.reader_process import encode_message, read_exactly, receive
from auditor.local_faults import local_fault
from auditor.model.availability import MissingLog
from auditor.wire.ledger_pages import LedgerPage

READ_TIMEOUT_S = 60.0
"""If one request takes longer, the reader process is killed: a disk hangs, or the index is read too
slowly to be useful."""
SENT_MAX = 2
"""Requests that are sent and not answered: the one in work, and the next one."""
Lists = list[LedgerList | None]
"""The lists of some ledgers in their order; None if nothing may be said about a ledger."""
COMMAND = (sys.executable, "-m", "auditor.lister.reader_process")


@dataclass(frozen=True, slots=True)
class Report:
    """The result of one request to a reader process, beside its lists.

    `reasons` says why nothing is said about some ledgers. `missing_logs` counts by path the entries
    that lists left out. `was_lost`: the process did not answer and was ended.
    """

    lists: int = 0
    keys: int = 0
    reasons: tuple[str, ...] = ()
    missing_logs: Mapping[str, int] = field(default_factory=dict)
    was_lost: bool = False


class DirectoryReader:
    """The reader of one directory. May be called from many tasks of one event loop.

    `on_report` gets the result of each request, one at a time, in threads of the reader.
    """

    def __init__(
        self,
        locations: Path,
        logs: Path,
        links: Path,
        limits: ListLimits,
        on_report: Callable[[Report], None],
        command: Sequence[str] = COMMAND,
        timeout_s: float = READ_TIMEOUT_S,
    ) -> None:
        self._terms = {
            "locations": str(locations),
            "logs": str(logs),
            "links": str(links),
            "answer_bytes_max": limits.answer_bytes_max,
            "keys_per_second": limits.keys_per_second,
            "view_age_max_s": limits.view_age_max_s,
        }
        self._links = links
        self._on_report = on_report
        self._command = list(command)
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._threads = ThreadPoolExecutor(SENT_MAX, "lister-reader")
        self._sending = Lock()
        self._answered = Event()
        """Set when the request that was sent last is answered."""
        self._answered.set()
        self._view_at: float | None = None
        self._closed = False

    @property
    def view_age_ms(self) -> int | None:
        """The age of the view of the latest lists; None before the first, or when in doubt."""
        return None if self._view_at is None else int((time.monotonic() - self._view_at) * 1000)

    async def first_lists(self, ledgers: Sequence[int]) -> Lists:
        """Return the lists of the first of these ledgers, at least one; None: nothing may be said.

        They are those that were made within REPLY_S, and have at most REPLY_BYTES_MAX plus one
        longest list.
        """
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, self._ask, list(ledgers)
            )
        except RuntimeError as error:
            fault = local_fault(error)
            if fault is None:
                raise
            self._on_report(Report(reasons=(str(fault),)))
            return [None] * len(ledgers)

    async def ledgers_from(self, first: int) -> LedgerPage | None:
        """Return the indexed ledgers from `first` on; None: nothing may be said."""
        try:
            (found,) = await asyncio.get_running_loop().run_in_executor(
                self._threads, self._ask, [], {"ledgers_from": first}
            )
        except RuntimeError as error:
            fault = local_fault(error)
            if fault is None:
                raise
            self._on_report(Report(reasons=(str(fault),)))
            return None
        if found is None:
            return None
        next_id, *ids = struct.unpack(f">{len(found.payload) // 8}q", found.payload)
        return LedgerPage(tuple(ids), None if next_id < 0 else next_id)

    def _ask(self, ledgers: list[int], request: Mapping[str, object] | None = None) -> Lists:
        """Return the lists of the first of these ledgers, at least one; all None if reading
        failed.

        Another `request` has one list as its answer.
        """
        ledgers = [-1] if request is not None else ledgers
        with self._sending:
            earlier, self._answered = self._answered, Event()
            mine = self._answered
            process, why = self._send(request or {"ledgers": ledgers})
        try:
            earlier.wait()
            if process is None:
                return self._give_up(None, ledgers, why)
            return self._receive(process, ledgers)
        except TimeoutError:
            return self._give_up(process, ledgers, "it did not answer in time")
        except (OSError, ValueError, KeyError, EOFError) as error:
            return self._give_up(process, ledgers, f"it ended: {error}")
        finally:
            mine.set()

    def _send(self, request: Mapping[str, object]) -> tuple[subprocess.Popen[bytes] | None, str]:
        """Send a request to the process, or to a new one. Return why there is none, or "".

        If the process has ended, nothing is sent: `_receive` notices.
        """
        try:
            process = self._start_if_needed()
        except OSError as error:
            return None, f"it did not start: {error}"
        with suppress(OSError):
            cast(BinaryIO, process.stdin).write(encode_message(dict(request)))
        return process, ""

    def _give_up(
        self, process: subprocess.Popen[bytes] | None, ledgers: list[int], why: str
    ) -> Lists:
        """End the process, and return no lists for these ledgers. Report that once a process."""
        if process is None or self._end(process):
            self._view_at = None
            if not self._closed:
                lost = (f"the reader process was lost, {why}",)
                self._on_report(Report(reasons=lost, was_lost=True))
        return [None] * len(ledgers)

    def _receive(self, process: subprocess.Popen[bytes], ledgers: list[int]) -> Lists:
        """Return the answer to the oldest unanswered request."""
        answers = _Deadline(cast(BinaryIO, process.stdout), time.monotonic() + self._timeout_s)
        head = receive(answers)
        if head is None:
            raise EOFError(f"exit code {process.wait()}")
        sizes = [int(size) for size in head["sizes"]]
        payloads = read_exactly(answers, sum(size for size in sizes if size > 0))
        if payloads is None:
            raise EOFError("in the middle of an answer")
        missing = head["missing"]
        found: Lists = []
        at = 0
        for number, size in enumerate(sizes):
            if size < 0:
                found.append(None)
                continue
            logs = missing.get(str(number), ()) if missing else ()
            lost = tuple(MissingLog(*words) for words in logs)
            found.append(LedgerList(payloads[at : at + size], lost))
            at += size
        if not 1 <= len(found) <= len(ledgers):
            raise ValueError(f"{len(found)} answers to {len(ledgers)} questions")
        age_ms = head["view_age_ms"]
        self._view_at = None if age_ms is None else time.monotonic() - age_ms / 1000
        self._on_report(_report(found, head))
        return found

    def _start_if_needed(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._links.mkdir(parents=True, exist_ok=True)
            self._process = subprocess.Popen(  # noqa: S603
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
            )
            cast(BinaryIO, self._process.stdin).write(encode_message(self._terms))
        return self._process

    def _end(self, process: subprocess.Popen[bytes]) -> bool:
        """End a process, and return whether it was the one in use. May be called again.

        It is killed first, because a writer holds the lock until the process reads or is dead.
        """
        process.kill()
        with self._sending:
            was_in_use = self._process is process
            if was_in_use:
                self._process = None
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        return was_in_use

    def close(self) -> None:
        """End the process. A request at work fails. May be called again."""
        self._closed = True
        process = self._process
        if process is not None:
            process.kill()
        self._threads.shutdown(wait=True)
        if self._process is not None:
            self._end(self._process)


@dataclass(frozen=True, slots=True)
class _Deadline:
    """Reads from an unbuffered stream until a time on the monotonic clock."""

    stream: BinaryIO
    ends_at: float

    def read(self, size: int) -> bytes:
        """Return some bytes, at most `size`; none at the end. Raises TimeoutError."""
        poll = select.poll()
        poll.register(self.stream, select.POLLIN)
        if not poll.poll(max(0.0, 1_000 * (self.ends_at - time.monotonic()))):
            raise TimeoutError
        return self.stream.read(size)


def _report(lists: Lists, head: Mapping[str, Any]) -> Report:
    missing = Counter[str]()
    for ledger_list in lists:
        if ledger_list is not None:
            for log in ledger_list.missing_logs:
                missing[log.path] += log.entries
    return Report(len(lists), int(head["keys"]), tuple(head["reasons"]), missing)
