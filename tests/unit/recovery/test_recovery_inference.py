"""Metadata that is inferred from which bookies hold which entries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.first_checker.entry_set import EMPTY, EntrySet
from auditor.first_checker.schedule import expected_list
from auditor.model.ledger import DigestType, LedgerMetadata
from auditor.recovery.inference import Ambiguous, EndOfLedger, infer, last_held, missing_copies
from auditor.sandbox.cluster import ledger, placement


def held_of(metadata: LedgerMetadata) -> dict[str, EntrySet]:
    """Return what bookies hold of a whole ledger, as the sandbox stripes it."""
    held = {}
    for bookie, runs in placement(metadata).items():
        entries = EMPTY
        for first, last in runs:
            entries = entries | EntrySet.span(first, last)
        held[bookie] = entries
    return held


def infer_from(held: dict[str, EntrySet]) -> LedgerMetadata:
    last = last_held(held)
    assert last is not None
    return infer(held, EndOfLedger(last, 1_000, last - 1), DigestType.CRC32C).metadata


@st.composite
def whole_ledgers(draw: st.DrawFn) -> LedgerMetadata:
    """Draw a closed ledger whose segments are long enough to show their ensembles."""
    size = draw(st.integers(1, 6))
    quorum = draw(st.integers(1, size))
    segments, first = [], 0
    for _ in range(draw(st.integers(1, 3))):
        members = draw(st.permutations([f"b{n}" for n in range(1, 9)]))[:size]
        segments.append(f"{first}:[{' '.join(members)}]")
        first += draw(st.integers(2 * size + 2, 40))
    return ledger(f"e{size} w{quorum} {' '.join(segments)} closed {first - 1}")


@given(whole_ledgers())
def test_inferred_metadata_puts_each_entry_where_it_is(metadata: LedgerMetadata) -> None:
    """For any whole ledger, unless nothing is proposed; its quorums are then the true ones."""
    held = held_of(metadata)
    try:
        found = infer_from(held)
    except Ambiguous:
        assert len(metadata.segments) > 1 or metadata.write_quorum < metadata.ensemble_size
        return
    assert {b: e for b, e in held_of(found).items() if e} == {b: e for b, e in held.items() if e}
    assert 0 == missing_copies(found, held)
    assert metadata.last_entry_id == found.last_entry_id


@pytest.mark.parametrize(
    "text",
    [
        "e1 w1 0:[b1] closed 0",
        "e2 w2 0:[b1 b2] closed 0",
        "e3 w3 0:[b1 b2 b3] closed 9",
        "e3 w2 0:[b2 b3 b1] closed 9",
        "e5 w2 0:[b5 b2 b4 b1 b3] closed 99",
        "e5 w3 0:[b5 b2 b4 b1 b3] 50:[b5 b2 b6 b1 b3] closed 99",
        "e2 w2 0:[b1 b2] 7:[b1 b3] 8:[b1 b4] closed 99",
    ],
)
def test_usual_ledgers_are_inferred(text: str) -> None:
    """With one bookie replaced, the new segment begins where its first entry is."""
    metadata = ledger(text)
    found = infer_from(held_of(metadata))
    bookies = {bookie for segment in metadata.segments for bookie in segment.ensemble}
    assert {b: expected_list(metadata, b) for b in bookies} == {
        b: expected_list(found, b) for b in bookies
    } or held_of(metadata) == held_of(found)
    quorums = metadata.ensemble_size, metadata.write_quorum
    assert quorums == (found.ensemble_size, found.write_quorum)
    assert (1_000, found.write_quorum) == (found.length, found.ack_quorum)


def test_copies_may_be_missing() -> None:
    """What is promised and not held is counted; the last entry may have one copy only."""
    held = held_of(ledger("e3 w2 0:[b1 b2 b3] closed 98"))
    held["b1"] = held["b1"] - EntrySet.span(50, 60)
    held["b3"] = held["b3"] | EntrySet.span(99, 99)
    last = EndOfLedger(99, 10, 98)
    with pytest.raises(Ambiguous, match="entry 99 shows 1 copies"):
        infer(held, last, DigestType.CRC32)
    held["b3"] = held["b3"] - EntrySet.span(99, 99)
    held["b1"] = held["b1"] | EntrySet.span(99, 99)
    found = infer(held, last, DigestType.CRC32)
    assert (("b1", "b2", "b3"), 99) == (
        found.metadata.segments[0].ensemble,
        found.metadata.last_entry_id,
    )
    assert 9 == found.missing_copies


@pytest.mark.parametrize(
    ("held", "says"),
    [
        ({"b1": EMPTY}, "no bookie holds an entry"),
        ({"b1": EntrySet.span(3, 9)}, "3 of its entries are on no asked bookie, entry 0 first"),
        (
            {"b1": EntrySet.span(0, 9), "b2": EntrySet.span(5, 9)},
            "entry 5 shows 2 copies on 2 bookies, the entries before it 1 copies on 1 bookies",
        ),
        (
            {
                "b1": EntrySet.of_entries([0, 2]),
                "b2": EntrySet.span(0, 1),
                "b3": EntrySet.span(1, 2),
            },
            "too short to show its ensemble",
        ),
        (
            {
                "b1": EntrySet.span(0, 0) | EntrySet.span(5, 20),
                "b2": EntrySet.span(0, 20),
                "b3": EntrySet.span(1, 4),
            },
            "show no ensemble",
        ),
    ],
)
def test_nothing_is_proposed_for_what_the_entries_do_not_show(
    held: dict[str, EntrySet], says: str
) -> None:
    """The reason names the first entry that contradicts."""
    last = last_held(held) or 0
    with pytest.raises(Ambiguous, match=says):
        infer(held, EndOfLedger(last, 0, -1), DigestType.CRC32)
