"""Runs read from a real RocksDB index: every entry once, whatever fails in between."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.location_index import LocationIndex

from auditor.lister import index_view
from auditor.lister.index_view import (
    CHUNK_KEYS,
    CHUNK_KEYS_MIN,
    PART_KEYS,
    IndexInDoubt,
    IndexView,
    Run,
    RunReader,
)

SEED = 1


@pytest.fixture
def index(tmp_path: Path) -> Iterator[LocationIndex]:
    with LocationIndex(tmp_path / "bookie") as index:
        yield index


@pytest.fixture
def view(index: LocationIndex, tmp_path: Path) -> Iterator[IndexView]:
    links = tmp_path / "links"
    links.mkdir()
    view = IndexView(index.locations, links)
    yield view
    view.close()


def runs(view: IndexView, ledger_id: int) -> list[tuple[int, int, int]]:
    view.refresh()
    return list(view.runs_of(ledger_id, lambda _: None))


def runs_one_by_one(held: dict[int, int]) -> list[tuple[int, int, int]]:
    """What the entries (with their logs) come to, in a loop over all of them."""
    found: list[tuple[int, int, int]] = []
    for entry in sorted(held):
        if found and entry == found[-1][0] + found[-1][1] and held[entry] == found[-1][2]:
            found[-1] = (found[-1][0], found[-1][1] + 1, found[-1][2])
        else:
            found.append((entry, 1, held[entry]))
    return found


@pytest.mark.parametrize("most", [3, CHUNK_KEYS - 1, CHUNK_KEYS, CHUNK_KEYS + 1, 3 * CHUNK_KEYS])
def test_runs_are_those_of_a_loop_over_all_entries(
    index: LocationIndex, view: IndexView, most: int
) -> None:
    """With and without holes, in one log and in several, of one chunk and of more."""
    draw = random.Random(f"{SEED} {most}")
    held: dict[int, dict[int, int]] = {}
    for ledger_id in range(12):
        first, log = draw.randrange(5), draw.randrange(3)
        entries = [e for e in range(first, first + most) if draw.random() > (ledger_id % 3) / 4]
        held[ledger_id] = {}
        for entry in entries:
            if ledger_id % 2 and draw.random() < 0.05:
                log = draw.randrange(3)
            held[ledger_id][entry] = log
            index.put(ledger_id, [entry], log)
    found = {ledger_id: runs(view, ledger_id) for ledger_id in held}
    assert {one: runs_one_by_one(of) for one, of in held.items()} == found, SEED


@pytest.mark.parametrize("missing", [1, 2, 3, 4])
def test_a_hole_parts_a_run(index: LocationIndex, view: IndexView, missing: int) -> None:
    """However many entries it has, next to each other in the index as the keys then are."""
    index.put(7, [0, 1, 2 + missing, 3 + missing])
    assert [(0, 2, 0), (2 + missing, 2, 0)] == runs(view, 7)


@pytest.mark.parametrize("first", [2**32 - 2, 2**62])
def test_large_ids_and_places_are_read_in_full(
    index: LocationIndex, view: IndexView, first: int
) -> None:
    """Entry ids of more than four bytes, log ids of four, and any offset in the log."""
    for entry in range(first, first + 4):
        index.put_raw(
            struct.pack(">qq", 2**62, entry), struct.pack(">II", 2**31 - 1, entry % 2**32)
        )
    assert [(first, 4, 2**31 - 1)] == runs(view, 2**62)


def test_the_number_of_keys_is_said(index: LocationIndex, view: IndexView) -> None:
    """All that are read, in chunks that grow while they are used, and not those that were kept."""
    entries = 2 * PART_KEYS + 3
    index.put(7, range(entries))
    index.put(8, [0])
    view.refresh()
    keys: list[int] = []
    assert [(0, entries, 0)] == list(view.runs_of(7, keys.append))
    grown = [CHUNK_KEYS_MIN, 2 * CHUNK_KEYS_MIN, 4 * CHUNK_KEYS_MIN, PART_KEYS]
    assert [*grown, entries + 1 - sum(grown)] == keys
    assert [(0, 1, 0)] == list(view.runs_of(8, keys.append))
    assert entries + 1 == sum(keys)


class CountsSeeks:
    """An index that counts the iterations begun, and the keys that each was asked for."""

    def __init__(self, db: Any) -> None:
        self.db, self.seeks, self.keys = db, 0, 0

    def items(self, from_key: bytes) -> Iterator[tuple[bytes, bytes]]:
        self.seeks += 1
        for item in self.db.items(from_key=from_key):
            self.keys += 1
            yield item

    def iter(self) -> Any:
        return self.db.iter()


def test_ascending_ledgers_share_an_iteration(index: LocationIndex, view: IndexView) -> None:
    """Ledgers that have no entry too, one after another and with some left out."""
    for ledger_id in range(10, 310):
        index.put(ledger_id, range(ledger_id % 7))
    view.refresh()
    for step in (1, 2):
        counts = CountsSeeks(view._db)
        reader = RunReader(counts)
        for ledger_id in range(5, 312, step):
            entries = ledger_id % 7 if 10 <= ledger_id < 310 else 0
            expected = [Run(0, entries, 0)] if entries else []
            assert expected == list(reader.runs_of(ledger_id, lambda _: None))
        assert counts.seeks <= 300 * 3 / CHUNK_KEYS_MIN / 2


def test_in_any_order_each_ledger_has_its_own_runs(index: LocationIndex, view: IndexView) -> None:
    """Whatever was kept of those asked before, also of a ledger that is asked again."""
    draw = random.Random(f"any order {SEED}")
    held: dict[int, dict[int, int]] = {}
    for ledger_id in draw.sample(range(200), 60):
        most = draw.choice((1, 3, 40, 600))
        kept = [entry for entry in range(most) if draw.random() < 0.9]
        held[ledger_id] = {entry: draw.choice((0, 0, 0, 1)) for entry in kept}
        for entry, log in held[ledger_id].items():
            index.put(ledger_id, [entry], log)
    view.refresh()
    ledger_id = 0
    for _ in range(1_200):
        ledger_id = draw.choice((*held, draw.randrange(210), (ledger_id + 1) % 210))
        only = view.only_run_of(ledger_id, lambda _: None) if draw.random() < 0.7 else None
        found = [only] if only else list(view.runs_of(ledger_id, lambda _: None))
        assert runs_one_by_one(held.get(ledger_id, {})) == found, (SEED, ledger_id)


def test_what_lies_far_apart_is_not_read_ahead(index: LocationIndex, view: IndexView) -> None:
    """Keys that nobody asks for cost as much as others: at most CHUNK_KEYS_MIN a ledger."""
    for ledger_id in range(400):
        index.put(ledger_id, range(50))
    view.refresh()
    counts = CountsSeeks(view._db)
    reader = RunReader(counts)
    asked = range(0, 400, 20)
    for ledger_id in asked:
        assert [(0, 50, 0)] == list(reader.runs_of(ledger_id, lambda _: None))
    assert counts.keys <= 2 * CHUNK_KEYS_MIN * len(asked)


def test_nothing_is_kept_when_the_view_is_renewed(index: LocationIndex, view: IndexView) -> None:
    """What was read before may be old."""
    for ledger_id in (7, 8, 9):
        index.put(ledger_id, range(3))
    assert [(0, 3, 0)] == runs(view, 7)
    index.put(8, [3])
    assert [(0, 3, 0)] == list(view.runs_of(8, lambda _: None))
    assert [(0, 4, 0)] == runs(view, 8)


@pytest.mark.parametrize("asked_before", [False, True])
def test_a_key_of_another_size_is_a_doubt_about_its_own_ledger(
    index: LocationIndex, view: IndexView, asked_before: bool
) -> None:
    """It is no index of locations there: the ledgers beside it have their lists."""
    for ledger_id in (7, 8, 9):
        index.put(ledger_id, range(3))
    index.put_raw(struct.pack(">qqB", 8, 1, 0), bytes(8))
    view.refresh()
    if asked_before:
        assert [(0, 3, 0)] == list(view.runs_of(7, lambda _: None))
    with pytest.raises(IndexInDoubt, match="not a location"):
        list(view.runs_of(8, lambda _: None))
    for ledger_id in (7, 9, 7):
        assert [(0, 3, 0)] == list(view.runs_of(ledger_id, lambda _: None))


@pytest.mark.parametrize("has_later_ledger", [False, True])
def test_a_block_that_cannot_be_read_makes_no_shorter_list(
    index: LocationIndex, view: IndexView, has_later_ledger: bool
) -> None:
    """rocksdict ends the iteration there as if the index ended, and says nothing."""
    index.put(7, range(40_000))
    if has_later_ledger:
        index.put(9, [0])
    index.flush()
    view.refresh()
    for table in index.locations.glob("*.sst"):
        with table.open("r+b") as file:
            file.seek(table.stat().st_size // 2)
            file.write(b"\xa5" * 9_000)
    silent = sum(1 for _ in view._db.items(from_key=struct.pack(">qq", 7, 0)))
    assert silent < 40_000, "the iteration met the harm"
    with pytest.raises(IndexInDoubt, match="failed while it was read"):
        list(view.runs_of(7, lambda _: None))


class EndsEarly:
    """An index whose `items` end after some keys, and that has more when it is asked again."""

    def __init__(self, db: Any, keys: int) -> None:
        self.db, self.keys = db, keys

    def items(self, from_key: bytes) -> Iterator[tuple[bytes, bytes]]:
        found = self.db.items(from_key=from_key)
        return (next(found) for _ in range(self.keys))

    def iter(self) -> Any:
        return self.db.iter()


@pytest.mark.parametrize("keys", [0, 1, 4])
def test_an_iteration_that_ends_before_the_last_key_is_in_doubt(
    index: LocationIndex, view: IndexView, keys: int
) -> None:
    """Also where what failed has healed when the end is looked at."""
    index.put(7, range(5))
    view.refresh()
    with pytest.raises(IndexInDoubt, match="before the last key"):
        list(RunReader(EndsEarly(view._db, keys)).runs_of(7, lambda _: None))
    assert [(0, 5, 0)] == list(RunReader(EndsEarly(view._db, 5)).runs_of(7, lambda _: None))


def test_an_iteration_that_failed_once_is_begun_anew(index: LocationIndex, view: IndexView) -> None:
    """The doubt is about that try: a second request for the ledger returns its runs."""
    index.put(7, range(5))
    view.refresh()
    whole, view._db = view._db, EndsEarly(view._db, 0)
    with pytest.raises(IndexInDoubt, match="before the last key"):
        list(view.runs_of(7, lambda _: None))
    view._db = whole
    assert [(0, 5, 0)] == list(view.runs_of(7, lambda _: None))


def test_the_key_that_no_entry_of_the_next_ledger_has_ends_the_ledger(
    index: LocationIndex, view: IndexView
) -> None:
    """Its id is above all entries of this ledger."""
    index.put(7, [0, 1])
    index.put_raw(struct.pack(">q", 8), struct.pack(">II", 0, 0))
    assert [(0, 2, 0)] == runs(view, 7)


def test_an_end_that_a_later_ledger_shows_costs_no_second_look(
    index: LocationIndex, view: IndexView, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key behind the ledger's proves that nothing failed before it."""
    index.put(7, [0])
    index.put(8, [0, 1])
    view.refresh()
    monkeypatch.setattr(index_view, "_check_end", lambda *_, **__: pytest.fail("looked again"))
    assert [(0, 1, 0)] == list(view.runs_of(7, lambda _: None))
