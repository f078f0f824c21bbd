"""Where the second checker places entries, and what it keeps in memory for it."""

from __future__ import annotations

import pytest

from auditor.first_checker.schedule import extents, promised_copies
from auditor.sandbox.notation import ledger
from auditor.second_checker import schedule
from auditor.second_checker.schedule import KEPT_PLACES_MAX, Stretch, copies_due, stretches


@pytest.mark.parametrize("size", [3, KEPT_PLACES_MAX // 2, KEPT_PLACES_MAX // 2 + 1])
def test_an_entry_was_written_to_the_bookies_from_its_place_on(size: int) -> None:
    """It does not matter whether the write sets of its ensemble are kept. A bookie with two
    positions occurs once.
    """
    ensemble = ("b0", *(f"b{place}" for place in range(size - 1)))
    stretch = Stretch(0, 10 * size, ensemble, 2)
    assert ("b0",) == stretch.bookies_of(0) == stretch.bookies_of(5 * size)
    assert (f"b{size - 2}", "b0") == stretch.bookies_of(4 * size - 1)


def test_write_sets_are_kept_of_ensembles_of_usual_size_only() -> None:
    """Metadata may name a thousand bookies, all of them in each write set."""
    schedule._write_sets.cache_clear()
    names = tuple(f"b{place}" for place in range(KEPT_PLACES_MAX))
    assert names[1:] == Stretch(0, 9, names, KEPT_PLACES_MAX - 1).bookies_of(1)
    assert 0 == schedule._write_sets.cache_info().currsize
    Stretch(0, 9, names[:3], 2).bookies_of(1)
    assert 1 == schedule._write_sets.cache_info().currsize
    Stretch(0, 9, names[: KEPT_PLACES_MAX // 2], 2).bookies_of(1)
    assert 2 == schedule._write_sets.cache_info().currsize


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        ("-5:[b1] -3:[b2]", []),
        ("-5:[b1] -1:[b2] 3:[b3]", [(3, 5)]),
        ("-1:[b1] 0:[b2] 3:[b3]", [(0, 2), (3, 5)]),
        ("0:[b1] 3:[b2] 3:[b3]", [(0, 2)]),
        ("0:[b1] 3:[b2] 2:[b3]", [(0, 1)]),
        ("0:[b1] 4:[b2] 3:[b3] 5:[b1]", [(0, 2), (5, 5)]),
    ],
)
def test_a_segment_begins_at_zero_or_above_and_behind_all_before_it(
    segments: str, expected: list[tuple[int, int]]
) -> None:
    """No entry has a negative id, also not in a segment behind another with a negative one. Both
    checkers leave out the same segments.
    """
    metadata = ledger(f"e1 w1 a1 {segments} closed 5")
    assert expected == [(part.first, part.last) for part in stretches(metadata)]
    assert expected == [
        (one.segment.first_entry_id, one.last_entry_id) for one in extents(metadata)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("e2 w2 a1 0:[b1 b2] closed 5", 12),
        ("e2 w1 a1 0:[b1 b2] 3:[b1] closed 5", 6),
        ("e2 w1 a1 0:[b1 b2] 3:[b1 b3] closed", 3),
        ("e2 w1 a1 0:[b1 b2] open", 0),
        ("e2 w3 a1 0:[b1 b2] closed 5", 0),
        ("e2 w0 a0 0:[b1 b2] closed 5", 0),
        ("e2 w2 a1 0:[b1 b2] closed -1", 0),
        ("e2 w2 a1 0:[b1 b2] closed -9", 0),
    ],
)
def test_a_writer_left_a_write_quorum_of_copies_of_each_entry(text: str, expected: int) -> None:
    """An open ledger has no last entry yet, and a write quorum above the ensemble size makes no
    sense. The first checker counts as many.
    """
    metadata = ledger(text)
    assert expected == copies_due(metadata, stretches(metadata)) == promised_copies(metadata)
