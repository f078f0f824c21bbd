"""The process that reads a bookie's entry logs: `python -m auditor.lister.scrub_process`.

It reads at idle priority, pass after pass, until its stdin ends: it cannot outlive the lister. Its
first and only message says what to read. What it found, and how far it is, stands in one file of
the lister's own directory, from which it goes on after a restart. It writes nowhere else.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from auditor.clock import now_ms
from auditor.lister.indexed_places import LogGroup, groups_of
from auditor.lister.reader_process import receive
from auditor.lister.scrub_pass import Candidates, LogPass, Position, ScrubPace
from auditor.model.scrub import CANDIDATES_MAX, Candidate, ScrubPass, ScrubReport
from auditor.wire.lister_fields import decode_scrub, scrub_words

STATE_FILE = "scrub.json"
STATE_VERSION = 1
STATE_BYTES_MAX = 2**20
"""Longest state that is read; a real one has some 20 KB."""
SAVE_S = 15.0
"""How often the state is written while a pass lasts. After a crash, so much is read again."""
PROBLEM_PAUSE_S = 60.0
"""Pause before the next pass if the last one could not read a log or an index."""
NICENESS = 19
"""The lowest priority of a process (nice(2))."""
IO_IDLE = 3 << 13
"""The idle class of ioprio_set(2): the disk serves it when no one else wants it."""
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
"""The number of the system call, by machine."""


@dataclass(slots=True)
class ScrubState:
    """What a scrub has found, and how far it is. `key` says of which bookie's directories."""

    key: Sequence[str]
    finished: ScrubPass | None = None
    finished_candidates: tuple[Candidate, ...] = ()
    current: ScrubPass | None = None
    candidates: Candidates = field(default_factory=Candidates)
    position: Position = field(default_factory=Position)

    def report(self, written_at_ms: int) -> ScrubReport:
        """Return what the auditor is told: the newest candidates first."""
        both = {c[:2]: c for c in (*self.candidates.named.values(), *self.finished_candidates)}
        named = tuple(both.values())[:CANDIDATES_MAX]
        return ScrubReport(written_at_ms, self.finished, self.current, named)

    def encode(self, written_at_ms: int) -> bytes:
        """Return the state as JSON."""
        words = {
            "version": STATE_VERSION,
            "key": list(self.key),
            "report": scrub_words(self.report(written_at_ms)),
            "own": scrub_words(
                ScrubReport(written_at_ms, None, None, tuple(self.candidates.named.values()))
            ),
            "earlier": scrub_words(
                ScrubReport(written_at_ms, None, None, self.finished_candidates)
            ),
            "position": [self.position.group, self.position.log, self.position.at],
        }
        return json.dumps(words).encode()

    @classmethod
    def decode(cls, data: bytes, key: Sequence[str]) -> ScrubState:
        """Return the state in such JSON. It is new if the JSON is not of this version or key."""
        try:
            words: Any = json.loads(data)
            report, own, earlier = (
                decode_scrub(words[name]) for name in ("report", "own", "earlier")
            )
            position = Position(*map(int, words["position"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            return cls(key)
        if not _is_mine(words, key) or report is None or own is None or earlier is None:
            return cls(key)
        suspected = report.current.suspected if report.current is not None else 0
        named = {c[:2]: c for c in own.candidates}
        return cls(
            key,
            report.finished,
            earlier.candidates,
            report.current,
            Candidates(named, max(suspected, len(named))),
            position,
        )


def read_report(directory: Path, key: Sequence[str]) -> ScrubReport | None:
    """Return what the scrub with this directory reports; None before its first report.

    A report of another version, or of other directories than those of `key`, is none. Raises
    OSError.
    """
    try:
        with (directory / STATE_FILE).open("rb") as file:
            words: Any = json.loads(file.read(STATE_BYTES_MAX))
    except (FileNotFoundError, ValueError):
        return None
    return decode_scrub(words.get("report")) if _is_mine(words, key) else None


def _is_mine(words: object, key: Sequence[str]) -> bool:
    """Return whether a state is of this version, and of these directories of this bookie."""
    return (
        isinstance(words, dict)
        and words.get("version") == STATE_VERSION
        and words.get("key") == list(key)
    )


@dataclass(slots=True)
class Scrubber:
    """Scrubs a bookie's logs, pass after pass. At most one pass begins in `every_s`."""

    groups: Sequence[LogGroup]
    state: ScrubState
    directory: Path
    pace: ScrubPace
    every_s: float
    on_problem: Callable[[str], None]
    now_ms: Callable[[], int] = now_ms
    monotonic: Callable[[], float] = time.monotonic
    _saved_at: float | None = None

    def run_pass(self) -> bool:
        """Finish the pass that was begun, or run a new one. Return whether all could be read."""
        state = self.state
        one = LogPass(
            self.groups,
            self.pace,
            self.now_ms,
            lambda: self._keep(one),
            state.current or ScrubPass(self.now_ms()),
            state.position,
            state.candidates,
        )
        one.run()
        state.finished, state.current = one.counts, None
        state.finished_candidates = tuple(one.candidates.named.values())
        state.candidates, state.position = Candidates(), Position()
        self.save()
        for problem in one.problems:
            self.on_problem(problem)
        return not one.problems

    def due_in_s(self) -> float:
        """Return the seconds until the next pass, or the rest of one, may begin."""
        last = self.state.finished
        if last is None or self.state.current is not None:
            return 0.0
        return max(0.0, self.every_s - (self.now_ms() - last.began_at_ms) / 1000)

    def _keep(self, one: LogPass) -> None:
        """Take what a pass found so far, and write it if that was not done lately."""
        self.state.current, self.state.position = one.counts, one.position
        now = self.monotonic()
        if self._saved_at is None or now - self._saved_at >= SAVE_S:
            self.save()

    def save(self) -> None:
        """Write the state, at once or not at all. If that fails, the pass goes on."""
        self._saved_at = self.monotonic()
        try:
            self._write()
        except OSError as error:
            self.on_problem(f"the state in {self.directory} cannot be written: {error.strerror}")

    def _write(self) -> None:
        path, new = self.directory / STATE_FILE, self.directory / f"{STATE_FILE}.new"
        with new.open("wb") as file:
            file.write(self.state.encode(self.now_ms()))
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)


def open_scrubber(terms: Mapping[str, Any], on_problem: Callable[[str], None]) -> Scrubber:
    """Return the scrubber that these terms describe, with the state it left."""
    directory = Path(terms["directory"])
    groups = groups_of(
        [Path(name) for name in terms["indexes"]],
        [Path(name) for name in terms["ledgers"]],
        Path(terms["links"]),
        is_db=bool(terms["is_db"]),
    )
    try:
        data = (directory / STATE_FILE).read_bytes()
    except FileNotFoundError:
        data = b""
    pace = ScrubPace(float(terms["bytes_per_second"]))
    state = ScrubState.decode(data, terms["key"])
    return Scrubber(groups, state, directory, pace, float(terms["every_s"]), on_problem)


def take_idle_priority() -> str:
    """Yield to every other process on processors and disks. Return what failed, or ""."""
    os.nice(NICENESS)
    number = _IOPRIO_SET.get(platform.machine())
    if sys.platform != "linux" or number is None:
        return f"the idle class of the disk is not known on {platform.machine()}"
    done = ctypes.CDLL(None, use_errno=True).syscall(number, 1, 0, IO_IDLE)
    return "" if done == 0 else f"the idle class of the disk: {os.strerror(ctypes.get_errno())}"


def main(requests: BinaryIO, says: Callable[[str], None]) -> None:
    """Read the terms, and scrub until `requests` ends. The parent handles signals."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    problem = take_idle_priority()
    if problem:
        says(problem)
    terms = receive(requests)
    if terms is None:
        return
    threading.Thread(target=_end_with, args=(requests,), daemon=True).start()
    scrubber = open_scrubber(terms, says)
    while True:
        time.sleep(scrubber.due_in_s())
        if not scrubber.run_pass():
            time.sleep(PROBLEM_PAUSE_S)


def _end_with(requests: BinaryIO) -> None:
    """End this process when its parent closes the pipe or dies."""
    while requests.read(1):
        pass
    os._exit(0)


def _say(problem: str) -> None:
    sys.stdout.write(problem.replace("\n", " ") + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(open(0, "rb", buffering=0), _say)  # noqa: SIM115 - ends with the process
