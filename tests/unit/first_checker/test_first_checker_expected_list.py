"""What a bookie should hold of a whole ledger, as groups to compare with a lister's list."""

from __future__ import annotations

import random
import struct
from dataclasses import replace

import pytest

from auditor.first_checker import schedule
from auditor.first_checker.schedule import (
    expected_groups,
    expected_list,
    held_entries,
    list_by_extents,
    questions,
)
from auditor.model.ledger import LedgerMetadata, LedgerState
from auditor.sandbox.cluster import ledger, placement


def drawn(seed: int) -> LedgerMetadata:
    """Return a ledger of one to four segments on six bookies, some of them twice in an ensemble."""
    draw = random.Random(seed)
    size = draw.randint(1, 5)
    quorum = draw.randint(1, size)
    names = [f"b{number}" for number in range(1, 7)]
    starts = [0, *sorted(draw.sample(range(1, 60), draw.randint(0, 3)))]
    segments = " ".join(f"{start}:[{' '.join(draw.choices(names, k=size))}]" for start in starts)
    return ledger(f"e{size} w{quorum} a1 {segments} closed {starts[-1] + draw.randint(0, 40)}")


@pytest.mark.parametrize("seed", range(200))
def test_it_has_the_entries_of_the_write_sets(seed: int) -> None:
    """For each bookie that is asked, the groups are its entries in all segments, and nothing
    else.
    """
    print("seed", seed)
    metadata = drawn(seed)
    expected = {
        bookie: {e for first, last in runs for e in range(first, last + 1)}
        for bookie, runs in placement(metadata, None).items()
    }
    found = {
        one.bookie_id: {
            e
            for first, last in held_entries(expected_list(metadata, one.bookie_id)).runs()
            for e in range(first, last + 1)
        }
        for one in questions(metadata)
    }
    assert {bookie: entries for bookie, entries in expected.items() if entries} == found


@pytest.mark.parametrize("seed", range(200))
def test_of_a_plain_ledger_it_is_that_of_any_ledger(seed: int) -> None:
    """Also of a bookie that the ledger does not name, of a segment that does not begin at 0, of
    quorums that make no sense, and of ends that contradict the segment.
    """
    print("seed", seed)
    draw, one = random.Random(seed), drawn(seed)
    for metadata in (
        one,
        replace(one, segments=one.segments[-1:]),
        replace(one, segments=one.segments[:1], last_entry_id=draw.choice([None, -1, 0, 70])),
        replace(one, segments=one.segments[:1], write_quorum=draw.randint(0, 7)),
        replace(one, segments=one.segments[:1], ensemble_size=draw.randint(1, 6)),
        replace(one, segments=one.segments[:1], state=draw.choice(list(LedgerState))),
        replace(one, segments=(replace(one.segments[0], first_entry_id=draw.choice([-3, 5])),)),
    ):
        for bookie in [f"b{number}" for number in range(1, 8)]:
            assert list_by_extents(metadata, bookie) == expected_list(metadata, bookie)


def test_most_ledgers_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their lists are made without a walk over segments and places."""
    monkeypatch.setattr(schedule, "extents", lambda _: pytest.fail("the segments are walked"))
    plain = ledger("e3 w2 a1 0:[b1 b2 b3] closed 99")
    assert expected_groups(0, 99, 2, 3, 2) == expected_list(plain, "b3")


def test_it_is_the_answer_of_a_healthy_bookie_in_one_segment_to_the_byte() -> None:
    """Stripes are one group, as a bookie lists them. For a bookie that an ensemble names twice each
    run is a group.
    """
    striped = ledger("e3 w2 a1 0:[b1 b2 b3] 100:[b4 b5 b6] closed 199")
    assert expected_groups(0, 99, 1, 3, 2) == expected_list(striped, "b2")
    assert [(0, 96, 2, 3), (99, 99, 1, 0)] == groups_of(expected_list(striped, "b2"))
    doubled = ledger("e3 w1 a1 0:[b1 b1 b2] closed 4")
    assert [(0, 0, 2, 0), (3, 3, 2, 0)] == groups_of(expected_list(doubled, "b1"))


def groups_of(packed: bytes) -> list[tuple[int, ...]]:
    """Return groups as first, last, size and period."""
    return list(struct.iter_unpack(">qqii", packed))


def test_of_a_bookie_that_is_not_named_nothing_is_expected() -> None:
    """Nothing is expected of a bookie that is not named, or of a ledger that is not closed."""
    assert b"" == expected_list(ledger("e1 w1 a1 0:[b1] closed 9"), "b2")
    assert b"" == expected_list(ledger("e1 w1 a1 0:[b1] open"), "b1")
