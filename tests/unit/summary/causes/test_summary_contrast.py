"""Contrast: whether the share of hit ledgers in a group stands out from the rest."""

from __future__ import annotations

from random import Random

from auditor.summary.causes.contrast import SIGNIFICANCE, Contrast, Group, compare, outliers


def test_three_times_the_share_is_enough_and_less_is_not():
    """30 % stands out from 10 %. With one hit less it does not."""
    assert compare(300, 1_000, 1_000, 10_000, 1).stands_out()
    assert not compare(299, 1_000, 1_000, 10_000, 1).stands_out()


def test_a_share_that_may_be_chance_does_not_stand_out():
    """Three of three against none of a hundred is rare; against none of three it is one in
    twenty.
    """
    assert compare(3, 3, 0, 100, 1).stands_out()
    assert not compare(3, 3, 0, 3, 1).stands_out()


def test_the_more_candidates_the_more_it_takes():
    """The probability is multiplied by the number of candidates (Bonferroni), up to 1."""
    few, many = compare(3, 3, 0, 50, 10), compare(3, 3, 0, 50, 1_000)
    assert few.stands_out() and not many.stands_out()
    assert few.p_value is not None and many.p_value is not None
    assert 1e-9 > abs(100 * few.p_value - many.p_value)
    assert 1.0 == compare(1, 3, 1, 3, 1_000).p_value


def test_without_others_nothing_stands_out():
    """There are no other ledgers to compare with."""
    one = compare(10, 10, 0, 0, 1)
    assert (False, 1.0, None) == (one.stands_out(), one.share_touched, one.share_others)
    assert 0.0 == Contrast(0, 0, 0, 0).share_touched
    assert [False, True] == [Contrast(10, 10, 0, others).stands_out() for others in (0, 1)]


def test_the_probability_may_reach_the_bound():
    """A p-value equal to SIGNIFICANCE stands out; a higher one does not."""
    assert Contrast(3, 3, 0, 100, SIGNIFICANCE).stands_out()
    assert not Contrast(3, 3, 0, 100, 1.001 * SIGNIFICANCE).stands_out()


def test_a_large_group_with_one_hit_hides_no_small_one():
    """Groups are compared by their share of hits, not by their number of ledgers."""
    assert ["b1"] == list(outliers({"b0": Group(1, 1_000), "b1": Group(10, 10)}, 2))


def test_outliers_do_not_hide_each_other():
    """Two wiped bookies of three are compared with the third, and not with each other."""
    groups = {"b1": Group(40, 40), "b2": Group(38, 40), "b3": Group(1, 40)}
    found = outliers(groups, 3)
    assert ["b1", "b2"] == list(found)
    assert [(40, 1), (40, 1)] == [(one.others, one.others_hit) for one in found.values()]


def test_all_hit_alike_are_no_outliers():
    """Groups with equal shares have no outlier, whether few or all of their ledgers are hit. A
    single group has none either.
    """
    for hit in (3, 40):
        assert {} == outliers({f"b{n}": Group(hit, 40) for n in range(5)}, 5)
    assert {} == outliers({}, 1) == outliers({"b1": Group(9, 9)}, 1)


def test_a_small_group_with_a_large_share_hides_nobody():
    """b9 touches one ledger, which is hit: this proves nothing about b9, and does not hide b1."""
    found = outliers(
        {"b9": Group(1, 1), "b1": Group(30, 40), "b2": Group(1, 40), "b3": Group(0, 40)}, 4
    )
    assert ["b1"] == list(found)


def test_what_does_not_stand_out_is_part_of_the_rest():
    """Six small groups are hit but do not stand out. Group b is compared with a rest that includes
    them.
    """
    small, well = (
        {f"small{n}": Group(1, 1) for n in range(6)},
        {f"ok{n}": Group(0, 100) for n in range(5)},
    )
    (one,) = outliers({**small, "b": Group(6, 8), **well}, 24).values()
    assert (6, 506) == (one.others_hit, one.others)


def test_each_outlier_stands_out_from_the_rest_that_is_reported():
    """The rest is all groups that are not outliers, and each outlier has contrast against it."""
    for seed in range(300):
        random = Random(seed)
        touched = [random.choice((1, 2, 5, 40, 200)) for _ in range(random.randint(2, 9))]
        groups = {
            f"b{n}": Group(random.choice((0, number // 20, number // 2, number)), number)
            for n, number in enumerate(touched)
        }
        found = outliers(groups, len(groups))
        rest = [group for name, group in groups.items() if name not in found]
        totals = (sum(group.hit for group in rest), sum(group.touched for group in rest))
        assert all(
            totals == (one.others_hit, one.others) and one.stands_out() for one in found.values()
        ), f"seed {seed}"
