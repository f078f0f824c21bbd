"""Make the list of one ledger's entries from an index view and the names of the entry logs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from auditor.lister.index_view import IndexView
from auditor.lister.list_encoder import ONE_RUN_BYTES, PENDING_MAX, ListEncoder, encode_one_run
from auditor.lister.location_runs import IndexInDoubt
from auditor.model.availability import MissingLog
from auditor.pace import TokenBucket
from auditor.wire.lister_fields import MISSING_LOGS_MAX, RANGES_MAX

LOG_VIEWS_MAX = 4
"""Fresh views in which an entry log is looked for. Its entries are left out of a list once it is
missing in two views in a row: one view may name a log that garbage collection has just removed."""
BURST_S = 1.0
"""Keys that may be read at once after a pause, in seconds of the rate."""

Runs = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class LedgerList:
    """The encoded list of one ledger, without the entries in `missing_logs`, LOGS_MAX at most."""

    payload: bytes
    missing_logs: tuple[MissingLog, ...] = ()


@dataclass(slots=True)
class _LostEntries:
    """The entries of one ledger in one missing log: all are counted, the first runs are kept."""

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
        """Return the list of what is indexed of a ledger; no entries make an empty list.

        Raises IndexInDoubt, or AnswerTooLong: then nothing may be said of the ledger.
        """
        if ledger_id < 0:
            raise IndexInDoubt(f"{ledger_id} is not a ledger id")
        self._refresh_if_old()
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
        """Return the list without the entries in these logs, and what is left out."""
        lost = {log: _LostEntries() for log in sorted(missing)[:MISSING_LOGS_MAX]}
        for first, size, log in self.view.runs_of(ledger_id, self._pay):
            if log in lost:
                lost[log].add(first, first + size - 1)
        left_out = tuple(entries.of(self.logs / f"{log:x}.log") for log, entries in lost.items())
        return LedgerList(self._scan(ledger_id, missing)[0], left_out)

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
            return encode_one_run(*runs[0])
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
        """Return the ids of the entry logs as they were listed lately: names of thousands of files
        take as long as many small ledgers. They are no older than a view may be."""
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
