"""Runs and lists of keys in memory: what is kept between requests, and how much is read at once.

RocksDB itself is in test_lister_location_runs.py.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, cast

import pytest

from auditor.lister import ledger_lists
from auditor.lister.index_view import (
    CHUNK_KEYS,
    CHUNK_KEYS_MIN,
    PART_KEYS,
    IndexInDoubt,
    IndexView,
    Run,
    RunReader,
    _Keys,
)
from auditor.lister.ledger_lists import LedgerLists, ListLimits
from auditor.wire.entry_availability import HEADER_BYTES, groups_of


def key(ledger_id: int, entry_id: int) -> bytes:
    return struct.pack(">qq", ledger_id, entry_id)


class Index:
    """An index of these keys, all in entry log 0. `ends` has the number of keys after which each
    iteration ends; without one it ends after the last key.
    """

    def __init__(self, keys: Iterable[bytes], *ends: int | None) -> None:
        self.keys = sorted(keys)
        self.ends = iter(ends)
        self.at = b""

    def items(self, from_key: bytes) -> Iterator[tuple[bytes, bytes]]:
        found = ((one, bytes(8)) for one in self.keys if one >= from_key)
        return islice(found, next(self.ends, None))

    # The cursor of `iter`

    def iter(self) -> Index:
        return self

    def seek(self, start: bytes) -> None:
        self.at = next((one for one in self.keys if one >= start), b"")

    def status(self) -> None:
        """Do nothing: these keys can be read."""

    def valid(self) -> bool:
        return bool(self.at)

    def key(self) -> bytes:
        return self.at


def index_of(*sizes: tuple[int, int]) -> Index:
    """An index of ledgers: the id and the number of entries of each."""
    return Index(key(ledger, entry) for ledger, size in sizes for entry in range(size))


def read(reader: RunReader, ledger_id: int) -> tuple[list[Run], list[int]]:
    """Return the runs of a ledger and the number of keys of each chunk that was read for it."""
    chunks: list[int] = []
    return list(reader.runs_of(ledger_id, chunks.append)), chunks


@pytest.mark.parametrize("ledger_id", [0, 1, 7])
def test_a_ledger_of_several_chunks_is_read_whole_a_second_time(ledger_id: int) -> None:
    """Only its last part was kept: a list of that part would hide the entries before."""
    reader = RunReader(index_of((ledger_id, CHUNK_KEYS_MIN + 9), (ledger_id + 1, 500)))
    for _ in range(2):
        assert [Run(0, CHUNK_KEYS_MIN + 9, 0)] == read(reader, ledger_id)[0]


@pytest.mark.parametrize(
    ("used", "next_chunk"),
    [(CHUNK_KEYS_MIN // 2 - 1, CHUNK_KEYS_MIN), (CHUNK_KEYS_MIN // 2, 2 * CHUNK_KEYS_MIN)],
)
def test_a_chunk_of_which_half_was_used_is_followed_by_a_larger_one(
    used: int, next_chunk: int
) -> None:
    """Of fewer keys the rest was read in vain."""
    reader = RunReader(index_of((3, used), (4, 1_000), (5, 1_000)))
    assert [CHUNK_KEYS_MIN] == read(reader, 3)[1]
    assert next_chunk == read(reader, 5)[1][0]


def test_a_chunk_that_was_not_used_is_followed_by_one_of_half_its_size() -> None:
    """A single ledger of another size does not make all chunks small."""
    reader = RunReader(index_of((3, 3 * CHUNK_KEYS), (4, 2 * CHUNK_KEYS), (9, 1), (10, CHUNK_KEYS)))
    assert [PART_KEYS] * 4 == read(reader, 3)[1][-4:]
    assert CHUNK_KEYS // 2 == sum(read(reader, 9)[1])


def test_keys_of_several_ledgers_make_one_run_for_each_stretch() -> None:
    """No Python code runs for a single key. An entry that follows one of another ledger is not part
    of its run.
    """
    held = {3: [4], 5: [0, 1, 5], 6: range(6, 20), 7: range(20, 30)}
    keys = tuple(key(ledger, entry) for ledger, entries in held.items() for entry in entries)
    values = tuple(struct.pack(">II", 2**32 - 1, n) for n in range(len(keys)))
    ledgers, runs, only = _Keys(b"".join(keys), b"".join(values)).runs_by_ledger()
    expected = [(3, 4, 1), (5, 0, 2), (5, 5, 1), (6, 6, 14), (7, 20, 10)]
    assert expected == [
        (ledger, run.first, run.entries) for ledger, run in zip(ledgers, runs, strict=True)
    ]
    assert {repr(2**32 - 1)} == {repr(run.log) for run in runs}
    assert {3: (4, 1), 6: (6, 14)} == {one: run[:2] for one, run in only.items()}


@pytest.mark.parametrize("size", [1, 2, CHUNK_KEYS_MIN - 1, CHUNK_KEYS_MIN, 100, PART_KEYS + 1])
def test_a_single_run_is_known_with_the_keys_of_earlier_ledgers(size: int) -> None:
    """Ledgers that end where a chunk ends, and those that a chunk cuts, have all their entries."""
    ledgers = range(3, 3 + 4 * CHUNK_KEYS // size)
    reader = RunReader(index_of(*((ledger, size) for ledger in ledgers)))
    slow = 0
    for ledger in ledgers:
        run = reader.only_run_of(ledger, lambda _: None)
        slow += run is None
        assert [Run(0, size, 0)] == ([run] if run else read(reader, ledger)[0])
    assert slow <= 2 or size > PART_KEYS


@pytest.mark.parametrize("cut", [CHUNK_KEYS_MIN - 3, CHUNK_KEYS_MIN - 2, CHUNK_KEYS_MIN - 1])
def test_a_ledger_with_a_hole_where_a_chunk_ends_has_no_single_run(cut: int) -> None:
    """Nor has one whose first keys were in a chunk that is not kept."""
    keys = [*(key(1, entry) for entry in range(cut)), key(2, 0), key(2, 2), key(3, 0), key(4, 0)]
    reader = RunReader(Index(keys))
    assert [Run(0, cut, 0)] == read(reader, 1)[0]
    assert reader.only_run_of(2, lambda _: None) is None
    assert [Run(0, 1, 0), Run(2, 1, 0)] == read(reader, 2)[0]
    long = RunReader(index_of((1, CHUNK_KEYS_MIN + 1), (2, 1), (3, 1)))
    assert [Run(0, CHUNK_KEYS_MIN + 1, 0)] == read(long, 1)[0]
    assert long.only_run_of(1, lambda _: None) is None


@pytest.mark.parametrize("bad", [1, 7])
@pytest.mark.parametrize("entries", [1, 3, CHUNK_KEYS_MIN - 1, CHUNK_KEYS_MIN])
def test_a_bad_key_right_behind_another_is_a_doubt(entries: int, bad: int) -> None:
    """Each time, and also where a chunk ends between them. The ledgers beside it have all their
    runs.
    """
    good = [key(ledger, entry) for ledger in (0, 1, 7, 8) for entry in range(entries)]
    reader = RunReader(Index([*good, key(bad, entries - 1) + b"\0"]))
    for _ in range(2):
        with pytest.raises(IndexInDoubt, match=f"a key of ledger {bad} or its value is not a"):
            read(reader, bad)
        assert reader.only_run_of(bad, lambda _: None) is None
    for ledger_id in {0, 1, 7, 8} - {bad}:
        run = reader.only_run_of(ledger_id, lambda _: None)
        assert [Run(0, entries, 0)] == ([run] if run else read(reader, ledger_id)[0])


def test_keys_behind_a_bad_key_are_not_all_read() -> None:
    """However many the ledger has."""
    good = [key(7, entry) for entry in range(3 * CHUNK_KEYS)]
    chunks: list[int] = []
    with pytest.raises(IndexInDoubt, match="not a location"):
        list(RunReader(Index([*good, good[2] + b"\0"])).runs_of(7, chunks.append))
    assert PART_KEYS == max(chunks)


def test_a_ledger_before_a_bad_key_is_read_in_chunks() -> None:
    """Its keys are counted as they are read. The index may end with the bad key."""
    good = [key(7, entry) for entry in range(2 * CHUNK_KEYS + 9)]
    reader = RunReader(Index([key(3, 0), *good, key(8, 0) + b"\0"]))
    runs, chunks = read(reader, 7)
    assert ([Run(0, len(good), 0)], PART_KEYS) == (runs, max(chunks))
    short = RunReader(Index([key(3, 0), *good[:5], key(8, 0) + b"\0"]))
    assert [Run(0, 5, 0)] == read(short, 7)[0]


def test_an_iteration_that_ends_before_a_bad_key_is_in_doubt() -> None:
    """The bad key was there in the iteration before: it could be of the ledger."""
    good = [key(7, entry) for entry in range(3)]
    reader = RunReader(Index([*good, good[-1] + b"\0"], None, len(good)))
    with pytest.raises(IndexInDoubt, match="before the last key"):
        read(reader, 7)


def test_a_run_behind_those_that_were_packed_is_not_the_whole_list(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A list of one run has a short way of its own. It is for a ledger of one run only."""
    monkeypatch.setattr(ledger_lists, "PENDING_MAX", 2)
    (tmp_path / "0.log").touch()
    limits = ListLimits(10_000, 0, 1e9)

    class View:
        seen_at = 0.0

        def only_run_of(self, ledger_id: int, on_keys: Any) -> None:
            """Nothing is kept."""

        def runs_of(self, ledger_id: int, on_keys: Any) -> list[Run]:
            return [Run(first, 2, 0) for first in range(0, 4 * ledger_id, 4)]

    lists = LedgerLists(cast(IndexView, View()), tmp_path, limits, monotonic=lambda: 0.0)
    for runs in range(1, 7):
        payload = lists.list_ledger(runs).payload
        assert [(first, 2) for first in range(0, 4 * runs, 4)] == [
            (group.first, group.size) for group in groups_of(payload[HEADER_BYTES:])
        ]
