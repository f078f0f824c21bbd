"""Ledgers are passed over by columns where lists are tested: none that has an entry to read."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.evidence.rows import ledger_row, structs, table
from auditor.evidence.schemas import LEDGERS
from auditor.first_checker.circle import BLAKE2B, CIRCLE, MIXED, NO_ARC, WHOLE, Arc, Starts, arc_of
from auditor.first_checker.probing import Draw
from auditor.first_checker.spot_reads import Density, ListTests
from auditor.judging.tested_ledgers import may_have_reads
from auditor.model.availability import Answer, AnswerStatus
from auditor.model.evidence import LedgerEvidence, Look
from auditor.model.identity import LedgerId
from auditor.model.ledger import (
    LedgerMetadata,
    LedgerRecord,
    LedgerState,
    RecordStatus,
    Segment,
    ZnodeStamp,
)
from auditor.sandbox.cluster import ledger

STARTS = Starts(5)
STRIPED = ledger("e3 w2 a2 0:[b1 b2 b3] closed 29")
BOOKIES = ("b1", "b2", "b3", "b4")
Given = dict[LedgerId, LedgerMetadata | None]


def records_of(given_ledgers: Given) -> list[LedgerRecord]:
    """Return records of these ledgers; one without metadata is gone."""
    return [
        LedgerRecord(
            ledger_id,
            1,
            0,
            RecordStatus.GONE if metadata is None else RecordStatus.FOUND,
            ZnodeStamp(1, 0, 0, 0),
            metadata,
        )
        for ledger_id, metadata in given_ledgers.items()
    ]


def rows_of(given_ledgers: Given) -> pa.StructArray:
    batch = table(LEDGERS, map(ledger_row, records_of(given_ledgers)))
    return structs(pa.Table.from_batches([batch]))


@st.composite
def ledgers(draw: st.DrawFn) -> Given:
    """Draw some ledgers, many of them with metadata that contradicts itself."""
    found: Given = {}
    for ledger_id in draw(st.sets(st.integers(0, 10**12), max_size=8)):
        size = draw(st.integers(1, 4))
        ensembles = st.lists(st.sampled_from(BOOKIES), min_size=size, max_size=size)
        starts = sorted(draw(st.sets(st.integers(0, 40), max_size=3)))
        metadata = replace(
            STRIPED,
            state=draw(st.sampled_from(LedgerState)),
            ensemble_size=size,
            write_quorum=draw(st.integers(1, size)),
            last_entry_id=draw(st.none() | st.integers(-1, 60) | st.just(2**63 - 1)),
            segments=tuple(Segment(start, tuple(draw(ensembles))) for start in starts),
        )
        found[ledger_id] = draw(st.sampled_from([metadata, metadata, None]))
    return found


ARCS = st.just(WHOLE) | st.builds(
    lambda part, first, length: Arc(first * part % CIRCLE, length * part),
    st.integers(6, 18).map(lambda bits: 1 << bits),
    st.integers(0, CIRCLE),
    st.integers(0, 16),
)


DENSITIES = st.builds(Density, st.just(NO_ARC) | ARCS, st.sampled_from([0, 1, 2, 4]))


@given(
    ledgers(),
    st.fixed_dictionaries(dict.fromkeys(BOOKIES[:3], DENSITIES)),
    st.booleans(),
    st.sampled_from([BLAKE2B, MIXED]),
)
def test_no_ledger_with_an_entry_to_read_is_passed_over(
    given_ledgers: Given, bookies: dict[str, Density], of_lists: bool, way: int
) -> None:
    """Neither one with an entry in an arc, nor one with a chosen end of a segment."""
    tests = ListTests(Starts(5, way), bookies, of_lists=of_lists)
    kept = may_have_reads(rows_of(given_ledgers), tests).tolist()
    for is_kept, record in zip(kept, records_of(given_ledgers), strict=True):
        assert is_kept or not has_copies(record, tests)


def has_copies(record: LedgerRecord, tests: ListTests) -> bool:
    answers = {
        bookie: Answer(bookie, record.ledger_id, 1, 0, AnswerStatus.HELD) for bookie in BOOKIES
    }
    return any(tests.copies(LedgerEvidence(record.ledger_id, (Look(record, answers),))))


@pytest.mark.parametrize("shape", ["e1 w1 a1 0:[b1] closed 0", "e2 w2 a2 0:[b1 b2] closed 3"])
def test_where_each_bookie_holds_every_entry_exactly_the_ledgers_of_an_arc_are_left(
    shape: str,
) -> None:
    """Also those of which only the last entry is in the arc."""
    given_ledgers: Given = dict.fromkeys(range(400), ledger(shape))
    tests = ListTests(STARTS, {"b1": Density(arc_of(Draw(16, 3)))})
    kept = may_have_reads(rows_of(given_ledgers), tests).tolist()
    assert kept == [has_copies(record, tests) for record in records_of(given_ledgers)]
    assert 0 < sum(kept) < 400


@pytest.mark.parametrize("write_quorum", [1, 2, 3, 4])
@pytest.mark.parametrize("last", [0, 1, 2, 3, 28, 29, 30])
def test_exactly_the_plain_ledgers_with_a_chosen_end_are_left(write_quorum: int, last: int) -> None:
    """Wherever the stripe ends, and where a bookie should hold one entry or none."""
    shape = f"e4 w{write_quorum} a1 0:[b1 b2 b3 b4] closed {last}"
    given_ledgers: Given = dict.fromkeys(range(100), ledger(shape))
    for bookie in BOOKIES:
        tests = ListTests(STARTS, {bookie: Density(NO_ARC, 3)}, of_lists=True)
        kept = may_have_reads(rows_of(given_ledgers), tests).tolist()
        assert kept == [has_copies(record, tests) for record in records_of(given_ledgers)]


def test_most_ledgers_are_passed_over_where_few_entries_are_read() -> None:
    """Of 2,000 ledgers with ten copies on each of three bookies, one entry in 1,024 is some sixty
    entries, and one end of 200 is too.
    """
    striped = ledger("e3 w3 a2 0:[b1 b2 b3] closed 9")
    rows = rows_of(dict.fromkeys(range(2_000), striped))
    for density in (Density(arc_of(Draw(1_024, 0))), Density(NO_ARC, 200)):
        tests = ListTests(STARTS, dict.fromkeys(("b1", "b2", "b3"), density), of_lists=True)
        assert 20 < may_have_reads(rows, tests).sum() < 200


def test_a_slice_of_records_is_read_like_records_of_their_own() -> None:
    rows = rows_of({number: STRIPED if number % 3 else None for number in range(30)})
    density = Density(arc_of(Draw(16, 0)), 20)
    tests = ListTests(STARTS, dict.fromkeys(("b1", "b2"), density), of_lists=True)
    whole = may_have_reads(rows, tests).tolist()
    assert may_have_reads(rows.slice(7, 11), tests).tolist() == whole[7:18]
    assert any(whole[7:18]) and not all(whole)
