"""Groups that are out of order, overlap or interleave: a list with them is rejected, and our own
become the sorted union.
"""

from __future__ import annotations

import struct

import pytest

from auditor.errors import MalformedAvailability
from auditor.model.availability import SequenceGroup
from auditor.wire import entry_availability
from auditor.wire.entry_availability import (
    DISORDER_MAX,
    canonical,
    decode,
    encode_periodic,
    groups_of,
)

GROUPS_MAX = 10_000_000
LAST_ID = 2**63 - 1


Groups = list[tuple[int, int, int, int]]


def payload(*groups: tuple[int, int, int, int]) -> bytes:
    """A list with exactly these groups, whatever they say."""
    head = struct.pack(">ii56x", 0, len(groups))
    return head + b"".join(struct.pack(">qqii", *group) for group in groups)


def united(*groups: tuple[int, int, int, int]) -> bytes:
    return canonical(SequenceGroup(*group) for group in groups)


def decoded(*groups: tuple[int, int, int, int]) -> Groups:
    return [tuple(group) for group in groups_of(united(*groups))]


def entries(groups: bytes) -> list[int]:
    """Every entry, one by one, by what BP-34 says a group means."""
    found = []
    for first, last, size, period in groups_of(groups):
        for start in range(first, last + 1, period or 1):
            found.extend(range(start, start + size))
    return found


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([(4, 4, 1, 0), (0, 0, 1, 0)], [0, 4]),
        ([(9, 9, 1, 0), (0, 3, 3, 3)], [0, 1, 2, 3, 4, 5, 9]),
        ([(LAST_ID, LAST_ID, 1, 0), (0, 0, 1, 0)], [0, LAST_ID]),
        ([(0, 0, 6, 0), (2, 2, 1, 0), (9, 9, 1, 0)], [0, 1, 2, 3, 4, 5, 9]),
        ([(0, 0, 3, 0), (0, 0, 1, 0)], [0, 1, 2]),
        ([(0, 100, 1, 10), (5, 5, 1, 0)], sorted([*range(0, 101, 10), 5])),
        ([(0, 20, 1, 4), (2, 22, 1, 4)], list(range(0, 23, 2))),
        ([(0, 8, 2, 4), (2, 10, 2, 4)], list(range(12))),
        ([(7, 7, 1, 0), (7, 7, 1, 0)], [7]),
    ],
)
def test_disorder_is_put_right_in_our_own_groups_and_rejected_in_a_list(
    groups: Groups, expected: list[int]
) -> None:
    """Unsorted, repeated, overlapping and interleaving groups (B5 to B7, B9) become the sorted
    union. No bookie sends them: a list with such groups is rejected, and the sentence says why.
    """
    got = united(*groups)
    assert expected == entries(got)
    assert encode_periodic(expected)[64:] == got
    with pytest.raises(MalformedAvailability, match="groups overlap or are out of order"):
        decode(payload(*groups), GROUPS_MAX)


def test_a_list_is_rejected_at_the_first_group_out_of_order() -> None:
    """The sentence names the group, where it begins and how far the groups before it reach."""
    with pytest.raises(MalformedAvailability, match=r"group 2 begins at entry 8, .* at entry 9:"):
        decode(payload((0, 0, 3, 0), (5, 5, 5, 0), (8, 8, 4, 0), (1, 1, 1, 0)), GROUPS_MAX)


@pytest.mark.parametrize("first", [7, 100])
def test_disorder_elsewhere_does_not_expand_a_long_progression(first: int) -> None:
    """Only what interleaves is expanded: a progression of 2**60 runs that stands clear, by an entry
    or by many, stays whole.
    """
    long = (first, first + 4 * 2**60, 1, 4)
    assert [(0, 0, 6, 0), long] == decoded(long, (0, 0, 4, 0), (2, 2, 4, 0))


def test_a_long_progression_behind_the_first_entry_is_not_expanded() -> None:
    """Entry 0 alone ends where the progression begins: the two stand clear of each other, whatever
    else is out of order.
    """
    long = (1, 1 + 4 * 2**60, 1, 4)
    assert [(0, 0, 2, 0), (5, 1 + 4 * 2**60, 1, 4)] == decoded(long, (0, 0, 1, 0))


def test_a_list_in_order_is_never_too_long_to_sort(monkeypatch: pytest.MonkeyPatch) -> None:
    """A period with nothing to repeat is put right where it stands: it is no disorder."""
    monkeypatch.setattr(entry_availability, "DISORDER_MAX", 1)
    assert [(0, 0, 1, 0), (2, 2, 3, 0)] == decoded((0, 0, 1, 1), (2, 2, 3, 0))


def test_disorder_beyond_the_bound_is_refused() -> None:
    """Interleaving progressions are expanded up to a named bound, however few bytes they take."""
    runs = DISORDER_MAX
    with pytest.raises(MalformedAvailability, match="interleave"):
        united((0, 4 * runs, 1, 4), (2, 6, 1, 4))


@pytest.mark.parametrize(
    "groups",
    [
        [(2 * number, 2 * number, 1, 0) for number in reversed(range(9))],
        [(0, 12, 1, 4), (2, 18, 1, 4)],
        [(0, 28, 1, 4), (2, 2, 1, 0)],
        [(0, 6, 1, 3), (1, 7, 1, 3), (2, 8, 1, 3)],
        # what interleaves with nothing is not counted
        [(0, 28, 1, 4), (2, 2, 1, 0), (100, 136, 1, 4)],
    ],
)
def test_the_bound_on_disorder_counts_groups_and_runs(
    monkeypatch: pytest.MonkeyPatch, groups: list[tuple[int, int, int, int]]
) -> None:
    """Nine groups are sorted, nine runs are made of groups that interleave: just what is allowed
    here, and not one less.
    """
    entries = {e for first, last, _, period in groups for e in range(first, last + 1, period or 1)}
    monkeypatch.setattr(entry_availability, "DISORDER_MAX", 9)
    assert encode_periodic(sorted(entries))[64:] == united(*groups)
    monkeypatch.setattr(entry_availability, "DISORDER_MAX", 8)
    with pytest.raises(MalformedAvailability, match=r"too many to sort|more than 8 runs to sort"):
        united(*groups)


@pytest.mark.parametrize("group", [(0, 27, 3, 3), (0, 0, 30, 40)])
def test_a_run_is_counted_once_however_it_is_written(
    monkeypatch: pytest.MonkeyPatch, group: tuple[int, int, int, int]
) -> None:
    """With a period as long as it is, or with one that repeats nothing."""
    monkeypatch.setattr(entry_availability, "DISORDER_MAX", 2)
    assert [(0, 0, 30, 0)] == decoded(group, (2, 2, 1, 0))
