"""Read the runs of entries that a `locations` index (RocksDB) has of one ledger.

A key is ledger id and entry id, a value entry log id and offset, all big-endian.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from auditor.errors import AuditorError

CHUNK_KEYS = 512
"""Keys read between two looks at the rate. What fits the processor's cache is fastest."""
KEY_BYTES, VALUE_BYTES, LOG_BYTES = 16, 8, 4

_KEY = struct.Struct(">qq")


class IndexInDoubt(AuditorError):
    """The index could not be read in a way that proves what it holds: no list is made from it."""


class Run(NamedTuple):
    """Entries that follow each other and lie in one entry log."""

    first: int
    entries: int
    log: int


def read_runs(db: Any, ledger_id: int, on_keys: Callable[[int], None]) -> Iterator[Run]:
    """Yield the runs that the index `db` has of a ledger, ascending. `on_keys` is called with the
    number of keys read.

    Raises IndexInDoubt for a key or a value of another size and for an iteration that ended too
    early, and what rocksdict raises. No step of Python is taken for a key: that doubles the rate.
    """
    held: Run | None = None
    for keys, values in _read_chunks(db, ledger_id):
        on_keys(len(keys))
        for run in _runs_of_chunk(keys, values):
            if held is None:
                held = run
            elif run.first == held.first + held.entries and run.log == held.log:
                held = Run(held.first, held.entries + run.entries, held.log)
            else:
                yield held
                held = run
    if held is not None:
        yield held


def _read_chunks(db: Any, ledger_id: int) -> Iterator[tuple[tuple[bytes, ...], tuple[bytes, ...]]]:
    """Yield the keys of a ledger and their values, ascending, CHUNK_KEYS at a time.

    rocksdict's `items` hides an error of the iteration: it only ends. It never goes on behind one,
    so the keys are whole if it reached a key of a later ledger. If it did not, `_check_end` tells
    an error from the end of the index.
    """
    start, end = _KEY.pack(ledger_id, 0), (ledger_id + 1).to_bytes(KEY_BYTES // 2)
    items = db.items(from_key=start)
    mine = itertools.takewhile((end,).__gt__, items)
    while chunk := list(itertools.islice(mine, CHUNK_KEYS)):
        keys, values = zip(*chunk, strict=True)
        if {*map(len, keys)} != {KEY_BYTES} or {*map(len, values)} != {VALUE_BYTES}:
            raise IndexInDoubt(f"a key of ledger {ledger_id} or its value is no location")
        start = keys[-1] + b"\0"
        yield keys, values
    if next(items, None) is None:
        _check_end(db, start, end)


def _runs_of_chunk(keys: tuple[bytes, ...], values: tuple[bytes, ...]) -> Iterable[Run]:
    """Return the runs of keys and values of one ledger."""
    first, last, count = _entry_of(keys[0]), _entry_of(keys[-1]), len(keys)
    log = min(values)[:LOG_BYTES]
    if last == first + count - 1 and max(values).startswith(log):
        return [Run(first, count, int.from_bytes(log))]
    entries = np.frombuffer(b"".join(keys), ">u8")[1::2]
    logs = np.frombuffer(b"".join(values), ">u4")[::2]
    starts = np.flatnonzero((np.diff(entries) != 1) | (np.diff(logs) != 0)) + 1
    starts = np.concatenate(([0], starts))
    sizes = np.diff(starts, append=count)
    return map(Run, entries[starts].tolist(), sizes.tolist(), logs[starts].tolist())


def _entry_of(key: bytes) -> int:
    return int.from_bytes(key[KEY_BYTES // 2 :])


def _check_end(db: Any, start: bytes, end: bytes) -> None:
    """Raise an error if keys of the ledger lie behind those that were read: at `start` or later."""
    it = db.iter()
    it.seek(start)
    it.status()
    if it.valid() and it.key() < end:
        raise IndexInDoubt("the iteration ended before the last key of the ledger")
