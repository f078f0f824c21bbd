"""Ledgers are passed over for spot reads by their columns: none that has an entry to read."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from auditor.evidence.rows import ledger_row, table
from auditor.evidence.schemas import SEEN
from auditor.first_checker.circle import CIRCLE, WHOLE, Arc, arc_of
from auditor.first_checker.probing import Draw
from auditor.first_checker.spot_reads import spot_copies
from auditor.judging.healthy_ledgers import may_have_spots
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

SEED = 5
STRIPED = ledger("e3 w2 a2 0:[b1 b2 b3] closed 29")
BOOKIES = ("b1", "b2", "b3", "b4")


def batch(ledgers: dict[LedgerId, LedgerMetadata | None]) -> pa.RecordBatch:
    """Return SEEN rows of these ledgers; one without metadata is gone."""
    rows = []
    for ledger_id, metadata in ledgers.items():
        status = RecordStatus.GONE if metadata is None else RecordStatus.FOUND
        record = LedgerRecord(ledger_id, 1, 0, status, ZnodeStamp(1, 0, 0, 0), metadata)
        rows.append((ledger_id, [ledger_row(record)], None, None))
    return table(SEEN, rows)


@st.composite
def ledgers(draw: st.DrawFn) -> dict[LedgerId, LedgerMetadata | None]:
    """Draw some ledgers, many of them with metadata that contradicts itself."""
    found: dict[LedgerId, LedgerMetadata | None] = {}
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


@given(ledgers(), st.fixed_dictionaries(dict.fromkeys(BOOKIES[:3], ARCS)))
def test_no_ledger_with_an_entry_to_read_is_passed_over(
    given_ledgers: dict[LedgerId, LedgerMetadata | None], arcs: dict[str, Arc]
) -> None:
    kept = may_have_spots(batch(given_ledgers), SEED, arcs).to_pylist()
    for is_kept, (ledger_id, metadata) in zip(kept, given_ledgers.items(), strict=True):
        if metadata is not None and any(spot_copies(metadata, ledger_id, SEED, arcs)):
            assert is_kept


def test_most_ledgers_are_passed_over_where_few_entries_are_read() -> None:
    """Of 2,000 ledgers with ten copies on each of three bookies, one entry in 1,024 is some sixty
    entries.
    """
    striped = ledger("e3 w3 a2 0:[b1 b2 b3] closed 9")
    rows = batch(dict.fromkeys(range(2_000), striped))
    arcs = dict.fromkeys(("b1", "b2", "b3"), arc_of(Draw(1_024, 0)))
    assert 0 < sum(may_have_spots(rows, SEED, arcs).to_pylist()) < 200


def test_a_slice_of_a_batch_is_read_like_a_batch_of_its_own() -> None:
    rows = batch({number: STRIPED if number % 3 else None for number in range(30)})
    arcs = dict.fromkeys(("b1", "b2"), arc_of(Draw(16, 0)))
    whole = may_have_spots(rows, SEED, arcs).to_pylist()
    assert may_have_spots(rows.slice(7, 11), SEED, arcs).to_pylist() == whole[7:18]
    assert any(whole[7:18]) and not all(whole)
