"""Which copies of carried ledgers are read: those that a whole run reads of them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.config import JudgingLimits
from auditor.evidence.ids import Ids
from auditor.evidence.rows import bookie_row, ledger_row, named_row, table
from auditor.evidence.run_directory import Place, place, write_json
from auditor.evidence.schemas import BOOKIES, LEDGERS, LISTING, SEEN, VERDICTS
from auditor.first_checker.circle import CIRCLE, Arc
from auditor.first_checker.spot_reads import Density, ListTests
from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration
from auditor.model.evidence import Terms
from auditor.model.ledger import DigestType, LedgerRecord, RecordStatus, ZnodeStamp
from auditor.run import choosing
from auditor.run.carried_reads import COPY_COLUMNS, Lengths, draw_copies
from auditor.run.carrying import Carrying
from auditor.sandbox.cluster import ledger
from auditor.stages.asking import COUNTED_READS
from auditor.stages.selection import DUE_LISTING
from auditor.stages.steps import spots_of
from auditor.summary.about import About, RunBase
from auditor.summary.reading_plan import BookieReads, ReadingPlan
from auditor.zookeeper.ledgers import Marks

SHAPES = (
    "e3 w3 a2 0:[b1 b2 b3] closed 4",
    "e3 w2 a2 0:[b1 b2 b3] closed 40",
    "e2 w2 a2 0:[b1 b2] 10:[b3 b2] closed 30",
    "e3 w2 a2 0:[b3 b4 b1] 7:[b1 b4 b2] 9:[b1 b3 b2] closed 300",
    "e1 w1 a1 0:[b4] closed 0",
)
HOUR_MS = 3_600_000
KINDS = (*DigestType, None)


def record(ledger_id: int, shape: str) -> LedgerRecord:
    metadata = replace(ledger(shape), digest_type=KINDS[ledger_id % len(KINDS)])
    return LedgerRecord(ledger_id, 1, 0, RecordStatus.FOUND, ZnodeStamp(1, 0, 0, 0), metadata)


@st.composite
def arcs(draw: st.DrawFn) -> dict[str, Arc]:
    names = draw(st.sets(st.sampled_from(["b1", "b2", "b3", "b4", "b9"])))
    size = st.one_of(st.integers(1, CIRCLE), st.just(CIRCLE // 8))
    return {one: Arc(draw(st.integers(0, CIRCLE - 1)), draw(size)) for one in sorted(names)}


@given(st.integers(0, 2**32), arcs(), st.sets(st.integers(1, 60)))
@settings(max_examples=60, deadline=None)
def test_the_copies_are_those_that_the_tests_of_a_whole_run_read(
    seed: int, chosen: dict[str, Arc], carried: set[int]
) -> None:
    """Each as the same row. Of other ledgers none is drawn."""
    records = [record(i, SHAPES[i % len(SHAPES)]) for i in range(1, 61)]
    rows = table(LEDGERS, map(ledger_row, records)).select(COPY_COLUMNS)
    plan = ReadingPlan(seed)
    ids = np.array(sorted(carried), np.int64)
    lengths = Lengths()
    batches = draw_copies([(rows[:25], ids), (rows[25:], ids)], plan, chosen, lengths)
    drawn = [row for rows in batches for row in rows.to_pylist()]
    last = {one.ledger_id: one.metadata.last_entry_id for one in records if one.metadata}
    ends = {row["ledger_id"] for row in drawn if row["entry_id"] == last[row["ledger_id"]]}
    assert ends == lengths.keys()
    tests = ListTests(plan.starts, {one: Density(arc) for one, arc in chosen.items()})
    seen = [(one.ledger_id, [ledger_row(one)], None, None) for one in records]
    made = spots_of(tests, JudgingLimits())(iter([table(SEEN, seen)]))
    expected = [row for rows in made for row in rows.to_pylist() if row["ledger_id"] in carried]
    order: Callable[[dict[str, Any]], str] = str
    assert sorted(expected, key=order) == sorted(drawn, key=order)


def test_what_was_read_already_is_not_drawn_again() -> None:
    records = [record(i, SHAPES[0]) for i in (1, 2)]
    seen = [(one.ledger_id, [ledger_row(one)], None, None) for one in records]
    tests = ListTests(
        ReadingPlan(3).starts,
        {"b1": Density(Arc(0, CIRCLE)), "b2": Density(Arc(0, CIRCLE))},
        already_read=frozenset({(1, "b1", 3), (2, "b2", 0)}),
    )
    made = spots_of(tests, JudgingLimits())(iter([table(SEEN, seen)]))
    drawn = {
        (row["ledger_id"], row["bookie_id"], row["entry_id"])
        for rows in made
        for row in rows.to_pylist()
    }
    every = {(i, bookie, n) for i in (1, 2) for bookie in ("b1", "b2") for n in range(5)}
    assert every - tests.already_read == drawn


BYTES_A_LEDGER_MAX = 100
"""What choosing holds at most for each ledger of a range: 25 MB of 250,000."""


class Calm:
    """A ZooKeeper in which nothing changed."""

    def __init__(self, bookies: Sequence[BookieRecord]) -> None:
        self._bookies = bookies

    def bookies(self, look: int, now_ms: Callable[[], int]) -> Sequence[BookieRecord]:
        return self._bookies

    def marks(self) -> Marks:
        return Marks()

    def sync(self) -> None:
        """Do nothing."""

    def changed_ids(self, ids: Ids, czxids: Ids, versions: Ids) -> Ids:
        assert len(ids) == len(czxids) == len(versions) > 0
        return ids[:0]


def many(batch: pa.RecordBatch, count: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows again and again, `count` of them, each with an id of its own."""
    at = batch.schema.get_field_index("ledger_id")
    for start in range(0, count, batch.num_rows):
        ids = pa.array(np.arange(start, start + batch.num_rows, dtype=np.int64))
        yield batch.set_column(at, batch.schema.field(at), ids)


def write_base(base: Place, ledgers: int, bookies: Sequence[BookieRecord]) -> None:
    """Write a run that found so many ledgers sound."""
    records = table(LEDGERS, [ledger_row(record(i, SHAPES[0])) for i in range(10_000)])
    sound = named_row(
        VERDICTS,
        ledger_id=0,
        standing="sound",
        todo="nothing",
        assurance="listed",
        looks=1,
        listing_false_negatives=0,
        unknowns=[],
        findings=[],
        lacks=[],
    )
    verdicts = table(VERDICTS, [sound] * 10_000)
    base.write_stream("evidence/ledgers", many(records, ledgers), LEDGERS, "all")
    base.write_stream("verdicts", many(verdicts, ledgers), VERDICTS, "all")
    base.write_table("evidence/bookies", table(BOOKIES, map(bookie_row, bookies)), "all")


def bytes_to_choose(tmp_path: Path, ledgers: int) -> int:
    """Return how many bytes of values of Python and numpy were held at a time to choose among so
    many ledgers. What Arrow held is given back.
    """
    registered = Registration.WRITABLE
    bookies = [
        BookieRecord(
            name, 1, 0, registered, "h", 1, True, greeting=Greeting.ANSWERED, cookie_czxid=7
        )
        for name in ("b1", "b2", "b3")
    ]
    run, base = place(str(tmp_path / "run")), place(str(tmp_path / "base"))
    write_base(base, ledgers, bookies)
    listed = (ids.select(["ledger_id"]) for ids in many(table(LISTING, [(0,)] * 10_000), ledgers))
    run.write_stream("evidence/listing", listed, LISTING, "listed")
    run.write_table("evidence/reads", COUNTED_READS.empty_table(), "none")
    facts = ClusterFacts("zk://h:1/l", ("h:1",), "/l", "hierarchical", "id", False, None)
    bookies_before = {one.bookie_id: BookieReads(999 * HOUR_MS) for one in bookies}
    began_ms, month_ms = 1_000 * HOUR_MS, 30 * 24 * HOUR_MS
    about = About(
        *("now", "2026-01-01T03:00:00Z", facts),
        *(Terms(0, 0, 16, 5, spot_reads=16), "warning", False),
        reading=ReadingPlan(1, began_ms, month_ms, 2**17, 2_000.0, bookies_before),
        within_ms=10_000 * HOUR_MS,
        base=RunBase("before", 999 * HOUR_MS),
        cookie_czxids={one.bookie_id: 7 for one in bookies},
        cookie_directories=dict.fromkeys(("b1", "b2", "b3")),
    )
    write_json(base, "run.json", about.as_json())
    store: Any = Calm(bookies)
    wanted: list[int] = []

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            wanted.append(batch.num_rows)
            yield table(COUNTED_READS, ())

    carrying = Carrying(run, base, about, store, lambda: None, read)
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    tracemalloc.start()
    try:
        carrying.choose()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    carried = run.count("evidence/carried", LISTING)
    assert 0.99 * ledgers < carried < ledgers
    assert carried + run.count(DUE_LISTING, LISTING) == ledgers
    assert 0 < sum(wanted) < 3 * 5 * ledgers // 100
    assert pool.bytes_allocated() - before < 2**20
    return peak


@pytest.mark.parametrize("ledgers", [50_000, 200_000])
def test_choosing_holds_a_bounded_number_of_bytes(
    ledgers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the ledgers of one range, not for all, and a mebibyte. What is read is not held."""
    at_once = 50_000
    monkeypatch.setattr(choosing, "CHOSEN_AT_ONCE", at_once)
    peak = bytes_to_choose(tmp_path, ledgers)
    assert peak < BYTES_A_LEDGER_MAX * at_once + 2**20
