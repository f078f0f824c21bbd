"""Read the runs of entries that a `locations` index (RocksDB) has of one ledger.

A key is ledger id and entry id, a value entry log id and offset, all big-endian. rocksdict's
`items` hides an error of the iteration: it ends there. The keys of a ledger are therefore complete
if it reached a key of a later ledger. If it did not, `_check_end` distinguishes an error from the
end of the index.
"""

from __future__ import annotations

import itertools
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from operator import sub
from typing import Any, NamedTuple

import numpy as np

from auditor.errors import AuditorError

CHUNK_KEYS = 512
"""Most keys read between two looks at the rate. What fits the processor's cache is fastest."""
CHUNK_KEYS_MIN = 64
"""Keys read at once where what lies behind the ledgers that are asked for is not wanted."""
KEY_BYTES, VALUE_BYTES = 16, 8

_KEY = struct.Struct(">qq")


class IndexInDoubt(AuditorError):
    """The index could not be read in a way that proves what it holds: no list is made from it."""


class Run(NamedTuple):
    """Entries that follow each other and lie in one entry log."""

    first: int
    entries: int
    log: int


class RunReader:
    """Reads the runs of ledgers from an index that does not change meanwhile. For one thread.

    Keys are read many at a time, and those behind the ledger's are kept: requests in ascending
    order of ledgers cost one iteration in all. No Python code runs for a single key.
    """

    def __init__(self, db: Any) -> None:
        self._db = db
        self._items: Iterator[tuple[bytes, bytes]] = iter(())
        self._next = b""
        """The lowest key that was not read yet."""
        self._low, self._high = 0, -1
        """The ledgers whose keys are kept: all of `_low` and above, but of `_high` only some."""
        self._ledgers: list[int] = []
        self._runs: list[Run] = []
        self._chunk_keys = CHUNK_KEYS_MIN // 2
        self._kept = self._used = 0

    def runs_of(self, ledger_id: int, on_keys: Callable[[int], None]) -> Iterator[Run]:
        """Yield the runs of a ledger, ascending. `on_keys` is called with the number of keys read.

        Raises IndexInDoubt for a key or a value of another size and for an iteration that ended too
        early, and what rocksdict raises.
        """
        if not self._low <= ledger_id <= self._high:
            self._seek(ledger_id)
        held: Run | None = None
        for runs in self._portions(ledger_id, on_keys):
            for run in runs:
                if held is None:
                    held = run
                elif run.first == held.first + held.entries and run.log == held.log:
                    held = Run(held.first, held.entries + run.entries, held.log)
                else:
                    yield held
                    held = run
        if held is not None:
            yield held

    def _portions(self, ledger_id: int, on_keys: Callable[[int], None]) -> Iterator[Iterable[Run]]:
        """Yield the runs that are kept, then those of each chunk that has more of the ledger."""
        end = (ledger_id + 1).to_bytes(KEY_BYTES // 2)
        while True:
            if self._high >= ledger_id:
                yield self._kept_of(ledger_id)
            if self._high > ledger_id:
                return
            chunk = list(itertools.islice(self._items, self._keys_to_read()))
            if not chunk:
                _check_end(self._db, self._next, end)
                return
            on_keys(len(chunk))
            keys, values = zip(*chunk, strict=True)
            if {*map(len, keys)} != {KEY_BYTES} or {*map(len, values)} != {VALUE_BYTES}:
                yield from self._read_exactly(ledger_id, end, on_keys)
                return
            self._keep(ledger_id, keys, values)

    def _keys_to_read(self) -> int:
        """Return the size of the next chunk: smaller if most keys of the last one were not used."""
        if 2 * self._used >= self._kept:
            self._chunk_keys = min(CHUNK_KEYS, 2 * self._chunk_keys)
        else:
            self._chunk_keys = max(CHUNK_KEYS_MIN, self._chunk_keys // 2)
        return self._chunk_keys

    def _seek(self, ledger_id: int) -> None:
        """Begin a new iteration at a ledger."""
        self._low, self._high = ledger_id, -1
        self._next = _KEY.pack(ledger_id, 0)
        self._items = iter(self._db.items(from_key=self._next))

    def _keep(self, ledger_id: int, keys: tuple[bytes, ...], values: tuple[bytes, ...]) -> None:
        """Keep the runs of a chunk instead of those before it."""
        if self._high >= 0:  # a part of the ledger is in the chunk before: it cannot be had again
            self._low = ledger_id + 1
        first, last = _ledger_of(keys[0]), _ledger_of(keys[-1])
        if first == last:
            self._runs = list(_runs_of_chunk(keys, values))
            self._ledgers = [first] * len(self._runs)
        else:
            self._ledgers, self._runs = _runs_by_ledger(keys, values)
        self._high, self._next = last, keys[-1] + b"\0"
        self._kept, self._used = len(keys), 0

    def _kept_of(self, ledger_id: int) -> list[Run]:
        start = bisect_left(self._ledgers, ledger_id)
        runs = self._runs[start : bisect_right(self._ledgers, ledger_id)]
        self._used += sum(run.entries for run in runs)
        return runs

    def _read_exactly(
        self, ledger_id: int, end: bytes, on_keys: Callable[[int], None]
    ) -> Iterator[Iterable[Run]]:
        """Yield the runs from `_next` on, key by key up to the end of the ledger.

        A key or value of another size behind the ledger says nothing about it.
        """
        # From here on no keys are kept.
        start, self._high = self._next, -1
        items = self._db.items(from_key=start)
        mine = itertools.takewhile((end,).__gt__, items)
        while chunk := list(itertools.islice(mine, CHUNK_KEYS)):
            on_keys(len(chunk))
            keys, values = zip(*chunk, strict=True)
            if {*map(len, keys)} != {KEY_BYTES} or {*map(len, values)} != {VALUE_BYTES}:
                raise IndexInDoubt(f"a key of ledger {ledger_id} or its value is not a location")
            start = keys[-1] + b"\0"
            yield _runs_of_chunk(keys, values)
        if next(items, None) is None:
            _check_end(self._db, start, end)


def _runs_of_chunk(keys: tuple[bytes, ...], values: tuple[bytes, ...]) -> Iterable[Run]:
    """Return the runs of keys and values of one ledger."""
    first, last, count = _entry_of(keys[0]), _entry_of(keys[-1]), len(keys)
    logs = np.frombuffer(b"".join(values), ">u4")[::2]
    if last == first + count - 1 and (logs == logs[0]).all():
        return [Run(first, count, int(logs[0]))]
    entries = np.frombuffer(b"".join(keys), ">u8")[1::2]
    starts = np.flatnonzero((np.diff(entries) != 1) | (np.diff(logs) != 0)) + 1
    starts = np.concatenate(([0], starts))
    sizes = np.diff(starts, append=count)
    return map(Run, entries[starts].tolist(), sizes.tolist(), logs[starts].tolist())


def _runs_by_ledger(
    keys: tuple[bytes, ...], values: tuple[bytes, ...]
) -> tuple[list[int], list[Run]]:
    """Return the runs of keys and values of several ledgers, and the ledger of each run."""
    ids = np.frombuffer(b"".join(keys), ">u8").astype("u8")
    ledgers, entries = ids[::2], ids[1::2]
    logs = np.frombuffer(b"".join(values), ">u4")[::2].astype("u4")
    is_new = entries[1:] - entries[:-1] != 1
    is_new |= ledgers[1:] != ledgers[:-1]
    is_new |= logs[1:] != logs[:-1]
    starts = [0, *(is_new.nonzero()[0] + 1).tolist()]
    sizes = map(sub, [*starts[1:], len(keys)], starts)
    runs = map(Run, entries[starts].tolist(), sizes, logs[starts].tolist())
    return ledgers[starts].tolist(), list(runs)


def _ledger_of(key: bytes) -> int:
    return int.from_bytes(key[: KEY_BYTES // 2])


def _entry_of(key: bytes) -> int:
    return int.from_bytes(key[KEY_BYTES // 2 :])


def _check_end(db: Any, start: bytes, end: bytes) -> None:
    """Raise an error if keys of the ledger lie behind those that were read: at `start` or later."""
    it = db.iter()
    it.seek(start)
    it.status()
    if it.valid() and it.key() < end:
        raise IndexInDoubt("the iteration ended before the last key of the ledger")
