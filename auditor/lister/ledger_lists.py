"""Make the list of one ledger's entries from an index view and the names of the entry logs.

A list is encoded while its runs arrive, in memory bounded by the answer's groups.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from auditor.errors import AuditorError
from auditor.lister.index_view import IndexInDoubt, IndexView
from auditor.model.availability import MissingLog, SequenceGroup
from auditor.pace import TokenBucket
from auditor.wire.entry_availability import (
    GROUP_BYTES,
    HEADER_BYTES,
    SIZE_MAX,
    canonical,
    groups_of,
)
from auditor.wire.ledger_pages import LEDGERS_A_PAGE_MAX, LedgerPage
from auditor.wire.lister_fields import MISSING_LOGS_MAX, RANGES_MAX

RUNS_MAX = 218_000
"""A list of at most this many runs is sent as bookies send it, one group a run: in that form, a
longer one exceeds the 5 MiB frame of BookKeeper's own clients. Longer lists have periodic groups
(BP-34)."""
PENDING_MAX = 16_384
"""Runs collected before they are packed."""
_TAIL_GROUPS = 4
"""A later run may still change this many groups. All before them are final."""

ONE_RUN_BYTES = HEADER_BYTES + GROUP_BYTES
"""Bytes of a list of one run."""

_HEADER = struct.Struct(">ii56x")
_GROUP = struct.Struct(">qqii")
_HEADER_AND_GROUP = struct.Struct(">ii56xqqii")


def _encode_one_run(first: int, entries: int) -> bytes:
    """Return the list of one run, like `ListEncoder`, at a fraction of its cost."""
    assert entries <= SIZE_MAX, "no bookie holds a run of 2**31 entries"
    return _HEADER_AND_GROUP.pack(0, 1, first, first, entries, 0)


class AnswerTooLong(AuditorError):
    """A list has more bytes than an answer may have."""


class ListEncoder:
    """Collects ascending, disjoint runs; `payload` is the encoded list.

    `bytes_max` bounds the payload and, but for a constant, the memory held. A ledger of any number
    of striped entries costs a few groups.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._final = bytearray()
        self._tail: list[SequenceGroup] = []
        self._is_periodic = False

    def add_runs(self, runs: list[tuple[int, int]]) -> None:
        """Take runs (first entry, size), each behind all before it. Raises AnswerTooLong."""
        groups = [SequenceGroup(first, first, size, 0) for first, size in runs]
        assert all(group.size <= SIZE_MAX for group in groups), (
            "no bookie holds a run of 2**31 entries"
        )
        if not self._is_periodic:
            self._final += b"".join(_GROUP.pack(*group) for group in groups)
            if len(self._final) > RUNS_MAX * GROUP_BYTES:
                self._is_periodic = True
                self._tail = list(groups_of(canonical(groups_of(bytes(self._final)))))
                self._final.clear()
                self._settle_all_but_tail()
        else:
            self._tail = list(groups_of(canonical((*self._tail, *groups))))
            self._settle_all_but_tail()
        if HEADER_BYTES + len(self._final) + len(self._tail) * GROUP_BYTES > self._bytes_max:
            raise AnswerTooLong(f"the list has more than {self._bytes_max} bytes")

    def _settle_all_but_tail(self) -> None:
        self._final += b"".join(_GROUP.pack(*group) for group in self._tail[:-_TAIL_GROUPS])
        del self._tail[:-_TAIL_GROUPS]

    def payload(self) -> bytes:
        """Return the encoded list: header and groups."""
        body = bytes(self._final) + b"".join(_GROUP.pack(*group) for group in self._tail)
        return _HEADER.pack(0, len(body) // GROUP_BYTES) + body


LOG_VIEWS_MAX = 4
"""An entry log is looked for in this many fresh views. Its entries are left out of a list only if
it is missing in all: one view may name a log that garbage collection has just removed."""
BURST_S = 1.0
"""After a pause, the keys of this many seconds of the rate may be read at once."""

Runs = list[tuple[int, int]]


class LedgerList(NamedTuple):
    """The encoded list of one ledger, without the entries in `missing_logs` (MISSING_LOGS_MAX)."""

    payload: bytes
    missing_logs: tuple[MissingLog, ...] = ()


@dataclass(slots=True)
class _LostEntries:
    """The entries of one ledger in one missing log. All are counted, the first ranges are kept."""

    entries: int = 0
    runs: list[tuple[int, int]] = field(default_factory=list)

    def add(self, first: int, last: int) -> None:
        self.entries += last - first + 1
        if len(self.runs) < RANGES_MAX:
            self.runs.append((first, last))

    def of(self, path: Path) -> MissingLog:
        return MissingLog(str(path), self.entries, tuple(self.runs))


@dataclass(slots=True)
class ListLimits:
    """Bounds of one reader. `view_age_max_s` is in seconds, `keys_per_second` 0: no limit."""

    answer_bytes_max: int
    keys_per_second: float
    view_age_max_s: float


@dataclass(slots=True)
class LedgerLists:
    """The lists of one directory's ledgers. For one thread. `logs`: directory of the entry logs.

    `keys_read` counts the keys read from the index.
    """

    view: IndexView
    logs: Path
    limits: ListLimits
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    keys_read: int = 0
    _bucket: TokenBucket = field(init=False)
    _logs: frozenset[int] = field(default=frozenset(), init=False)
    _logs_at: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._bucket = TokenBucket(self.limits.keys_per_second, self.monotonic(), BURST_S)

    def list_ledger(self, ledger_id: int) -> LedgerList:
        """Return the list of a ledger's indexed entries. It is empty if there are none.

        If nothing may be said of the ledger, raises IndexInDoubt or AnswerTooLong.
        """
        if ledger_id < 0:
            raise IndexInDoubt(f"{ledger_id} is not a ledger id")
        self._refresh_if_old()
        run = self.view.only_run_of(ledger_id, self._pay)
        if run is not None and run.log in self._recent_logs():
            return LedgerList(self._encode([(run.first, run.entries)], None))
        payload, named = self._scan(ledger_id, frozenset())
        if not named or named <= self._recent_logs():
            return LedgerList(payload)
        before: frozenset[int] | None = None
        for _ in range(LOG_VIEWS_MAX):
            self.view.refresh()
            payload, named = self._scan(ledger_id, frozenset())
            missing = named - self._logs_on_disk()
            if not missing:
                return LedgerList(payload)
            if before is not None and missing <= before:
                return self._without_logs(ledger_id, missing)
            before = missing
        raise IndexInDoubt(
            f"the index names other entry logs that are not in {self.logs} at each view"
        )

    def _without_logs(self, ledger_id: int, missing: frozenset[int]) -> LedgerList:
        """Return the list without the entries in these logs, and which entries are left out."""
        lost = {log: _LostEntries() for log in sorted(missing)[:MISSING_LOGS_MAX]}
        for first, size, log in self.view.runs_of(ledger_id, self._pay):
            if log in lost:
                lost[log].add(first, first + size - 1)
        left_out = tuple(entries.of(self.logs / f"{log:x}.log") for log, entries in lost.items())
        return LedgerList(self._scan(ledger_id, missing)[0], left_out)

    def page(self, first: int) -> LedgerPage:
        """Return the indexed ledgers from `first` on. Raises IndexInDoubt."""
        self._refresh_if_old()
        ids, next_id = self.view.ledgers_from(first, LEDGERS_A_PAGE_MAX, self._pay)
        return LedgerPage(tuple(ids), next_id)

    def _refresh_if_old(self) -> None:
        seen_at = self.view.seen_at
        if seen_at is None or self.monotonic() - seen_at > self.limits.view_age_max_s:
            self.view.refresh()

    def _scan(self, ledger_id: int, without: frozenset[int]) -> tuple[bytes, frozenset[int]]:
        """Return the list without entries of some logs, and the logs of all entries."""
        encoder: ListEncoder | None = None
        runs: Runs = []
        named: set[int] = set()
        first = next_id = -1
        for entry, size, log in self.view.runs_of(ledger_id, self._pay):
            named.add(log)
            if log in without:
                continue
            if entry == next_id:
                next_id += size
                continue
            if entry < next_id:
                raise IndexInDoubt(
                    f"entry {entry} of ledger {ledger_id} is behind entry {next_id - 1}"
                )
            if next_id >= 0:
                runs.append((first, next_id - first))
                if len(runs) >= PENDING_MAX:
                    encoder = encoder or ListEncoder(self.limits.answer_bytes_max)
                    encoder.add_runs(runs)
                    runs.clear()
            first, next_id = entry, entry + size
        if next_id >= 0:
            runs.append((first, next_id - first))
        return self._encode(runs, encoder), frozenset(named)

    def _encode(self, runs: Runs, encoder: ListEncoder | None) -> bytes:
        """Return the list of the runs in the encoder, followed by these runs."""
        if encoder is None and len(runs) == 1 and self.limits.answer_bytes_max >= ONE_RUN_BYTES:
            return _encode_one_run(*runs[0])
        encoder = encoder or ListEncoder(self.limits.answer_bytes_max)
        encoder.add_runs(runs)
        return encoder.payload()

    def _pay(self, keys: int) -> None:
        self.keys_read += keys
        if not self.limits.keys_per_second:
            return
        self._bucket.spend(keys, self.monotonic())
        owed_s = self._bucket.debt_s(self.monotonic())
        if owed_s > 0:
            self.sleep(owed_s)

    def _recent_logs(self) -> frozenset[int]:
        """Return the ids of the entry logs, read again when they are as old as a view may be.

        Listing thousands of files takes as long as many small ledgers.
        """
        now = self.monotonic()
        if self._logs_at is None or now - self._logs_at >= self.limits.view_age_max_s:
            self._logs, self._logs_at = self._logs_on_disk(), now
        return self._logs

    def _logs_on_disk(self) -> frozenset[int]:
        """Return the ids of the entry logs. Raises IndexInDoubt if they cannot be listed."""
        try:
            names = [path.name for path in self.logs.iterdir() if path.name.endswith(".log")]
        except OSError as error:
            raise IndexInDoubt(
                f"the entry logs in {self.logs} cannot be listed: {error.strerror}"
            ) from None
        return frozenset(
            int(stem, 16) for name in names if _is_hex(stem := name.removesuffix(".log"))
        )


def _is_hex(text: str) -> bool:
    return bool(text) and all(digit in "0123456789abcdefABCDEF" for digit in text)
