"""How many ledgers touch a bookie or a rack, that is, name it in a segment. Each ledger counts
once, hit or not.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from auditor.evidence.rows import ledger_row, table
from auditor.evidence.schemas import LEDGERS
from auditor.model.ledger import LedgerRecord, RecordStatus
from auditor.summary.causes.touches import TOUCHING, Touches, count_touches

RACKS = {"b1": "/r1", "b2": "/r1", "b3": "/r2"}
Row = tuple[int, int, Sequence[Sequence[str]] | None]
"""A ledger, a look, the ensembles of its segments."""


def batch(*rows: Row) -> pa.RecordBatch:
    columns = {
        "ledger_id": [ledger for ledger, _, _ in rows],
        "look": [look for _, look, _ in rows],
        "segments": [
            (
                None
                if named is None
                else [
                    {"first_entry_id": 10 * n, "ensemble": list(one)} for n, one in enumerate(named)
                ]
            )
            for _, _, named in rows
        ],
    }
    schema = pa.schema([LEDGERS.field(name) for name in TOUCHING])
    return pa.RecordBatch.from_pydict(columns, schema=schema)


def touches(
    *batches: pa.RecordBatch, affected: Sequence[int] = (), racks: Mapping[str, str] = RACKS
) -> Touches:
    return count_touches(batches, racks, np.array(affected, np.int64))


def test_a_ledger_touches_each_bookie_and_rack_once():
    """It does so however many segments name them. Two bookies of one rack are one touch of the
    rack.
    """
    found = touches(batch((7, 1, [["b1", "b2"], ["b1", "b3"]]), (8, 1, [["b3", "b9"]])))
    assert ({"b1": 1, "b2": 1, "b3": 2, "b9": 1}, {"/r1": 1, "/r2": 2}) == (
        found.by_bookie,
        found.by_rack,
    )
    assert 2 == found.ledgers


def test_only_the_first_look_counts():
    """The bookies that a ledger names at a later look are not added."""
    found = touches(batch((7, 1, [["b1"]]), (7, 2, [["b2"]])))
    assert ({"b1": 1}, 1) == (found.by_bookie, found.ledgers)


def test_a_ledger_without_metadata_is_listed_and_touches_nobody():
    """It could not be read, or its metadata is malformed."""
    found = touches(batch((7, 1, None), (8, 1, []), (9, 1, [["b1"]])))
    assert ({"b1": 1}, 3) == (found.by_bookie, found.ledgers)
    assert Touches() == touches() == touches(batch())


def test_the_bookies_that_an_affected_ledger_names_are_known():
    """Other ledgers are only counted."""
    found = touches(
        batch((7, 1, [["b1", "b3"]])), batch((8, 1, [["b1"]]), (9, 1, [["b1"]])), affected=[7, 9]
    )
    assert {"b1": [7, 9], "b3": [7]} == {
        bookie: ids.tolist() for bookie, ids in found.named.items()
    }


def test_a_hit_ledger_that_names_the_bookie_only_later_counts():
    """Its ensemble changed between the looks, or its mark names a bookie that was replaced. It is
    added, and no bookie has more hit than touched ledgers.
    """
    found = touches(batch((7, 1, [["b1"]]), (8, 1, [["b1"]])), affected=[7, 8])
    assert (2, 2, 1) == tuple(
        found.of_bookie(b, np.array(ids)) for b, ids in (("b1", [7]), ("b1", [7, 8]), ("b2", [7]))
    )
    assert 2 == found.of_rack("/r1", ["b1", "b2"], np.array([8]))
    assert 1 == found.of_rack("/r2", ["b3"], np.array([8]))


def test_counts_agree_with_counting_one_by_one():
    """Random ledgers in random batches. The seed is in the message."""
    for seed in range(20):
        draw = random.Random(seed)
        names = [f"b{n}" for n in range(9)]
        racks = {name: f"/r{draw.randrange(3)}" for name in names[:7]}
        rows = [
            (n, 1, [draw.sample(names, 3) for _ in range(draw.randint(0, 3))]) for n in range(60)
        ]
        cut = draw.randint(0, 60)
        found = touches(batch(*rows[:cut]), batch(*rows[cut:]), racks=racks)
        named = {ledger: {b for one in ensembles for b in one} for ledger, _, ensembles in rows}
        each = {b: sum(b in some for some in named.values()) for b in names}
        per_rack = {
            r: sum(any(racks.get(b) == r for b in some) for some in named.values())
            for r in set(racks.values())
        }
        assert ({b: n for b, n in each.items() if n}, {r: n for r, n in per_rack.items() if n}) == (
            found.by_bookie, found.by_rack,
        ), seed  # fmt: skip


def test_written_ledgers_have_these_columns():
    """The columns in TOUCHING exist in the evidence."""
    rows = table(LEDGERS, [ledger_row(LedgerRecord(3, 1, 0, RecordStatus.UNREADABLE))])
    found = touches(*pa.Table.from_batches([rows]).select(TOUCHING).to_batches())
    assert (1, {}) == (found.ledgers, found.by_bookie)


def test_batches_are_counted_together():
    """Ledgers add up, and every count is a whole number."""
    found = touches(batch((7, 1, [["b1"]])), batch((8, 1, [["b1", "b9"]]), (9, 1, [["b2"]])))
    assert (3, {"b1": 2, "b9": 1, "b2": 1}, {"/r1": 3}) == (
        found.ledgers,
        found.by_bookie,
        found.by_rack,
    )
    assert {int} == {type(count) for count in (*found.by_bookie.values(), *found.by_rack.values())}
