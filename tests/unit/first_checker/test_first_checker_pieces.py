"""The number of pieces of a result: it shows how two stripes were combined, without a clock.

`test_verify_entry_set.py` checks the contents of a result.
"""

from __future__ import annotations

import pytest

from auditor.first_checker.entry_set import COMMON, MINUS, UNION, WHOLE, Piece, Rule, combine

Stripe = tuple[int, tuple[int, ...]]
"""The period, and the position of single entries in it."""

BASES = (0, 10**12)


def piece(base: int, length: int, stripe: Stripe) -> Piece:
    period, offsets = stripe
    return Piece(base, base + length - 1, period, tuple((offset, 1) for offset in offsets))


def pieces(left: Piece, right: Piece, rule: Rule) -> int:
    return len(list(combine((left,), (right,), rule)))


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize(
    ("one", "other", "length_min"),
    [
        (
            (2, (0,)),
            (3, (0,)),
            12,
        ),  # 3 + 2 runs make the pattern of 6; 12 entries have 4 runs of the sparser stripe
        ((5, (0, 2)), (7, (0, 3)), 84),  # 14 + 10 runs make the pattern of 35; 84 entries have 24
        ((7, (0,)), (7, (2,)), 7),  # 1 + 1 runs make the pattern; 7 entries have one
    ],
)
def test_a_pattern_is_written_down_as_soon_as_walking_the_sparser_stripe_costs_more(
    one: Stripe, other: Stripe, length_min: int, base: int
) -> None:
    """A pattern is one piece, and costs its runs. Walking costs the existing runs and one more, and
    a piece for each.
    """
    for left, right in ((one, other), (other, one)):
        for length, is_pattern in ((length_min - 1, False), (length_min, True)):
            assert is_pattern == (
                pieces(piece(base, length, left), piece(base, length, right), UNION) == 1
            )


@pytest.mark.parametrize("base", BASES)
def test_the_sparser_stripe_is_walked_whichever_side_it_is_on(base: int) -> None:
    """Two single entries in 2,000 split the other stripe: four pieces, not one for each of its 667
    runs.
    """
    sparse, dense = piece(base, 2_000, (1_000, (0,))), piece(base, 2_000, (3, (0,)))
    assert [4, 4] == [pieces(sparse, dense, UNION), pieces(dense, sparse, UNION)]


@pytest.mark.parametrize("rule", [UNION, COMMON, MINUS])
def test_a_stripe_against_a_span_is_never_cut(rule: Rule) -> None:
    """What both hold, and what only the span holds, is one piece each, also if walking three runs
    would cost less.
    """
    assert 1 == pieces(Piece(0, 299, 1, WHOLE), piece(0, 300, (100, (1,))), rule)
