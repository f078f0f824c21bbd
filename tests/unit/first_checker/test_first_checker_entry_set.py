"""Sets in closed form against Python's sets. Their cost is counted in pieces, not by the clock."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.many_segments import calls

from auditor.first_checker.entry_set import EMPTY, EntrySet, Piece
from auditor.model.availability import SequenceGroup

BASES = (0, 1, 1023, 2**31 - 5, 2**31, 2**53 - 3, 2**53 + 1, 2**63 - 201)
SPAN = 200
PIECES_MAX = 5


def enumerated(made: EntrySet) -> set[int]:
    """Return the set by the definition of a piece."""
    found = set()
    for start, end, period, runs in made.pieces:
        found |= {
            e
            for e in range(start, end + 1)
            if any(o <= (e - start) % period < o + size for o, size in runs)
        }
    return found


def random_set(draw: random.Random, base: int) -> tuple[EntrySet, set[int]]:
    """Return adjacent and separate pieces of different periods over SPAN entries from `base`, as
    both kinds of set.
    """
    at, made, plain = base, EMPTY, set()
    for _ in range(draw.randint(0, 5)):
        first = at + draw.choice((0, 0, 1, draw.randint(0, 20)))
        last = min(first + draw.choice((0, 1, draw.randint(0, 60), SPAN)), base + SPAN - 1)
        if last < first:
            break
        period = draw.choice((1, 2, 3, 4, 5, 6, 7, 12, 30, 97))
        offsets = [o for o in range(period) if draw.random() < draw.choice((0.2, 0.6, 1.0))]
        runs = [(o, 1) for o in offsets]
        joined: list[tuple[int, int]] = []
        for offset, size in runs:
            if joined and sum(joined[-1]) == offset and draw.random() < 0.8:
                joined[-1] = (joined[-1][0], joined[-1][1] + size)
            else:
                joined.append((offset, size))
        made |= EntrySet.stripe(first, last, period, joined)
        plain |= {e for e in range(first, last + 1) if (e - first) % period in offsets}
        at = last + 1
    return made, plain


def runs_of(entries: set[int]) -> list[tuple[int, int]]:
    """Return the maximal runs of a plain set."""
    found: list[tuple[int, int]] = []
    for entry in sorted(entries):
        if found and found[-1][1] == entry - 1:
            found[-1] = (found[-1][0], entry)
        else:
            found.append((entry, entry))
    return found


def check(made: EntrySet, plain: set[int]) -> None:
    """Assert that every question has the same answer as for the plain set."""
    ascending = sorted(plain)
    assert ascending == sorted(enumerated(made))
    assert bool(plain) == bool(made)
    assert len(plain) == made.count()
    assert runs_of(plain) == list(made.runs())
    assert tuple(runs_of(plain)[:3]) == made.ranges(3)
    if plain:
        assert (ascending[0], ascending[-1]) == (made.first(), made.last())
        assert ascending == [made.nth(i) for i in range(len(ascending))]
        around = range(max(0, ascending[0] - 2), ascending[-1] + 3)
        assert [e in plain for e in around] == [e in made for e in around]
    for before, after in zip(made.pieces, made.pieces[1:], strict=False):
        assert before.end < after.start, "pieces are disjoint and ascend"


@pytest.mark.parametrize("base", BASES)
def test_every_operation_agrees_with_plain_sets(base: int) -> None:
    """|, & and - and every question asked of their results agree with Python's sets, for any mix of
    pieces, anywhere.
    """
    for seed in range(60):
        draw = random.Random(f"{base} {seed}")
        (a, plain_a), (b, plain_b), (c, plain_c) = (random_set(draw, base) for _ in range(3))
        try:
            check(a, plain_a)
            check(a | b, plain_a | plain_b)
            check(a & b, plain_a & plain_b)
            check(a - b, plain_a - plain_b)
            check((a | b) - c, (plain_a | plain_b) - plain_c)
            check((a - b) & (b | c), (plain_a - plain_b) & (plain_b | plain_c))
        except AssertionError as error:
            raise AssertionError(f"base {base}, seed {seed}: {error}") from error


stripes = st.builds(
    lambda first, length, period, size: (first, first + length, period, min(size, period)),
    st.integers(0, 40),
    st.integers(0, 120),
    st.integers(1, 16),
    st.integers(1, 16),
)


@settings(max_examples=150, deadline=None)
@given(stripes, stripes, stripes)
def test_the_laws_of_sets_hold(
    one: tuple[int, ...], two: tuple[int, ...], three: tuple[int, ...]
) -> None:
    """a-(b|c) = (a-b)-c; a&b = a-(a-b); |a|+|b| = |a|b|+|a&b|; and a stripe is what its definition
    says.
    """
    a, b, c = (
        EntrySet.stripe(first, last, period, ((0, size),))
        for first, last, period, size in (one, two, three)
    )
    first, last, period, size = one
    assert {e for e in range(first, last + 1) if (e - first) % period < size} == enumerated(a)
    assert enumerated(a - (b | c)) == enumerated((a - b) - c)
    assert enumerated(a & b) == enumerated(a - (a - b))
    assert a.count() + b.count() == (a | b).count() + (a & b).count()


@pytest.mark.parametrize("operation", [EntrySet.__and__, EntrySet.__sub__])
def test_what_is_out_of_reach_costs_nothing(
    operation: Callable[[EntrySet, EntrySet], EntrySet],
) -> None:
    """Combining a small set with one of thousands of pieces costs only the pieces it touches,
    wherever it lies.
    """
    long = EntrySet.of_groups(SequenceGroup(at, at + 4, 1, 2) for at in range(0, 80_000, 10))
    for first in (0, 5, 40_000, 79_990, 10**6):
        small = EntrySet.span(first, first + 15)
        near = EntrySet(
            tuple(piece for piece in long.pieces if first - 20 <= piece.start <= first + 35)
        )
        assert operation(small, near).pieces == operation(small, long).pieces
        assert (
            calls(lambda small=small: operation(small, long))
            <= calls(lambda small=small, near=near: operation(small, near)) + 2
        )
    assert calls(lambda: long & EntrySet.span(40_000, 40_015)) < 60


def test_groups_that_do_not_ascend_are_our_fault() -> None:
    """Stored answers are canonical, so groups that do not ascend are our fault: an assertion
    fails.
    """
    with pytest.raises(AssertionError, match="ascend"):
        EntrySet.of_groups([SequenceGroup(5, 5, 3, 0), SequenceGroup(7, 7, 1, 0)])


def _shapes(entries: int) -> list[EntrySet]:
    """Return the same combinations over a ledger of this many entries: holes, shifts, halves,
    unions of neighbours.
    """
    stripe = EntrySet.stripe(0, entries - 1, 5, ((0, 3),))
    beside = EntrySet.stripe(0, entries - 1, 5, ((1, 3),))
    whole = EntrySet.span(0, entries - 1)
    half = EntrySet.span(0, entries // 2)
    holed = stripe - EntrySet.of_entries([10])
    return [
        stripe - holed,
        stripe - beside,
        stripe & beside,
        stripe | beside,
        whole - stripe,
        stripe - half,
        holed,
        stripe - EntrySet.stripe(0, entries - 1, 10, ((0, 3),)),
        (stripe | beside) - EntrySet.stripe(0, entries - 1, 7, ((2, 1),)),
    ]


def test_cost_does_not_depend_on_the_number_of_entries() -> None:
    """A billion entries need no more pieces than a thousand, and few of either."""
    small = [len(made.pieces) for made in _shapes(1_000)]
    large = [len(made.pieces) for made in _shapes(10**9)]
    largest = [len(made.pieces) for made in _shapes(2**62)]
    assert small == large == largest
    assert max(small) < PIECES_MAX


def test_a_hole_in_a_stripe_of_a_billion_is_found_at_once() -> None:
    """What a list lacks is one piece of one entry, wherever the hole is."""
    stripe = EntrySet.stripe(0, 10**9, 3, ((0, 2),))
    for hole in (0, 999_999_999, 3 * 10**8 + 1):
        lacking = stripe - (stripe - EntrySet.of_entries([hole]))
        assert (Piece(hole, hole, 1, ((0, 1),)),) == lacking.pieces


def test_membership_does_not_walk_the_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Membership in a set of 20,000 pieces is looked up, not computed."""
    made = EntrySet.of_entries(range(0, 40_000, 2))
    monkeypatch.setattr("auditor.first_checker.entry_set.combine", None)
    assert [True, False] * 3 == [e in made for e in (0, 1, 20_000, 20_001, 39_998, 39_999)]


def test_runs_of_a_huge_stripe_come_one_at_a_time() -> None:
    """ranges(20) of 2^60 runs ends."""
    made = EntrySet.stripe(0, 2**62, 4, ((0, 1),))
    assert tuple((4 * n, 4 * n) for n in range(20)) == made.ranges(20)
    assert 2**60 + 1 == made.count()


def test_runs_that_touch_are_one() -> None:
    """A set has as few runs as possible, also if runs touch across the end of a period."""
    one, two = (EntrySet.stripe(0, 99, 4, ((offset, 1),)) for offset in (0, 1))
    assert (Piece(0, 99, 4, ((0, 2),)),) == (one | two).pieces
    late, early = EntrySet.stripe(0, 99, 5, ((3, 2),)), EntrySet.stripe(0, 99, 5, ((0, 1),))
    assert (Piece(2, 97, 5, ((1, 3),)),) == ((late | early) & EntrySet.span(2, 97)).pieces
