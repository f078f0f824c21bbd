"""Control one reader process from the lister: one request at a time, a new process when it dies."""

from __future__ import annotations

import asyncio
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from auditor.lister.ledger_lists import LedgerList, ListLimits
from auditor.lister.reader_process import encode_message, read_exactly, receive
from auditor.model.availability import MissingLog

READ_TIMEOUT_S = 60.0
"""How long one request to a reader process may take before the process is killed: a disk hangs, or
the index is read too slowly to be useful.
"""
Lists = list[LedgerList | None]
"""The lists of some ledgers in their order; None for a ledger about which nothing may be said."""
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

    `on_report` is called with what each request came to, from a thread of the reader's own.
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
        self._thread = ThreadPoolExecutor(1, "lister-reader")
        self._view_at: float | None = None
        self._closed = False

    @property
    def view_age_ms(self) -> int | None:
        """The age of the view from which lists were last made; None before the first, or in
        doubt.
        """
        return None if self._view_at is None else int((time.monotonic() - self._view_at) * 1000)

    async def first_lists(self, ledgers: Sequence[int]) -> Lists:
        """Return the lists of the first of these ledgers, at least one; None: nothing may be said.

        As many as are made within REPLY_S. They have at most REPLY_BYTES_MAX and one longest list.
        """
        return await asyncio.get_running_loop().run_in_executor(
            self._thread, self._ask, list(ledgers)
        )

    def _ask(self, ledgers: list[int]) -> Lists:
        """Return the lists of the first of these ledgers, at least one; all None if reading
        failed.
        """
        try:
            process = self._start_if_needed()
        except OSError as error:
            return self._give_up(ledgers, f"it did not start: {error}")
        try:
            return self._exchange(process, ledgers)
        except TimeoutError:
            return self._give_up(ledgers, "it did not answer in time")
        except (OSError, ValueError, KeyError, EOFError) as error:
            return self._give_up(ledgers, f"it ended: {error}")

    def _give_up(self, ledgers: list[int], why: str) -> Lists:
        self._end()
        self._view_at = None
        if not self._closed:
            self._on_report(Report(reasons=(f"the reader process was lost, {why}",), was_lost=True))
        return [None] * len(ledgers)

    def _exchange(self, process: subprocess.Popen[bytes], ledgers: list[int]) -> Lists:
        requests = cast(BinaryIO, process.stdin)
        answers = _Deadline(cast(BinaryIO, process.stdout), time.monotonic() + self._timeout_s)
        requests.write(encode_message({"ledgers": ledgers}))
        requests.flush()
        head = receive(answers)
        if head is None:
            raise EOFError(f"exit code {process.wait()}")
        sizes = [int(size) for size in head["sizes"]]
        payloads = read_exactly(answers, sum(size for size in sizes if size > 0))
        if payloads is None:
            raise EOFError("in the middle of an answer")
        found: Lists = []
        at = 0
        for number, size in enumerate(sizes):
            if size < 0:
                found.append(None)
                continue
            lost = tuple(MissingLog(*words) for words in head["missing"].get(str(number), ()))
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
            requests = cast(BinaryIO, self._process.stdin)
            requests.write(encode_message(self._terms))
            requests.flush()
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):  # what is still buffered can go nowhere
                        pipe.close()

    def close(self) -> None:
        """End the process. A request at work fails. May be called again."""
        self._closed = True
        if self._process is not None:
            self._process.kill()
        self._thread.shutdown(wait=True)
        self._end()


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
    for one in lists:
        missing.update({log.path: log.entries for log in (one.missing_logs if one else ())})
    return Report(len(lists), int(head["keys"]), tuple(head["reasons"]), missing)
