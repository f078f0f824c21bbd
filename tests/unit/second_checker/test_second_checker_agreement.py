"""Which verdicts the second checker gets, and the text of a difference."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from support.stories import GRACE_MS, NOW_MS, drive, stories, tell

from auditor.model.evidence import Terms
from auditor.model.verdict import BookieLack, Exempt, Standing, Unknown, Verdict
from auditor.second_checker.agreement import (
    DIFFERENCE_CHARS_MAX,
    DIFFERENCES_TOLD_MAX,
    are_in_sample,
    compare_verdicts,
    describe_differences,
    differences,
    is_due,
    is_in_sample,
)
from auditor.second_checker.looks import unsupported_claims
from auditor.second_checker.opinion import Opinion

TERMS = Terms(NOW_MS, GRACE_MS, 16, 5)


def test_all_but_the_sound_go_to_the_second_checker() -> None:
    """Every verdict but a sound one is checked, except for ledgers that could not be judged at
    all.
    """
    exempt = Verdict(7, Standing.EXEMPT, Exempt.OPEN)
    unknown = Verdict(7, Standing.INDETERMINATE, unknowns=(Unknown.BOOKIE_SILENT,))
    poison = Verdict(7, Standing.INDETERMINATE, unknowns=(Unknown.POISON,))
    assert [True, True, False, False] == [
        is_due(one, TERMS) for one in (exempt, unknown, poison, Verdict(7, Standing.SOUND))
    ]


def test_the_sample_of_the_sound_has_the_share_asked_for_and_differs_between_runs() -> None:
    """About a tenth of 10,000 ledgers are chosen; none at 0, all at 1."""
    sound = [Verdict(ledger_id, Standing.SOUND) for ledger_id in range(10_000)]
    tenth, other = (replace(TERMS, sound_sample=0.1, probe_seed=seed) for seed in (1, 2))
    drawn = {one.ledger_id for one in sound if is_due(one, tenth)}
    assert drawn == {one.ledger_id for one in sound if is_due(one, tenth)}
    assert 850 < len(drawn) < 1150
    assert drawn != {one.ledger_id for one in sound if is_due(one, other)}
    assert [0, 10_000] == [
        sum(is_due(one, replace(TERMS, sound_sample=share)) for one in sound)
        for share in (0.0, 1.0)
    ]


def test_a_difference_is_reported_with_both_sides() -> None:
    """One sentence has both sides."""
    first = Verdict(
        7, Standing.INDETERMINATE, unknowns=(Unknown.BOOKIE_SILENT,), listing_false_negatives=2
    )
    assert (
        "standing: the first checker says indeterminate, the second sound",
        "unknown because of: the first checker says bookie_silent, the second nothing",
        "entries left out of lists: the first checker says 2, the second 0",
    ) == compare_verdicts(first, Opinion(Standing.SOUND))


def test_what_bookies_lack_is_compared_as_far_as_it_was_counted() -> None:
    """In a ledger that was looked at whole, missing entries are compared to the entry; in any
    other, only the bookies that lack some.
    """
    first = Verdict(7, Standing.SOUND, lacks=(BookieLack("b1", expected=10, absent=3),))
    for lacks, whole, part in (
        ({"b1": (10, 3)}, [], []),
        ({"b1": (10, 4)}, ["what bookies lack"], []),
        ({"b1": (10, 3), "b2": (10, 1)}, ["what bookies lack"], ["bookies that lack entries"]),
    ):
        second = Opinion(Standing.SOUND, lacks=lacks)
        assert whole == [one.partition(":")[0] for one in compare_verdicts(first, second)]
        assert part == [
            one.partition(":")[0]
            for one in compare_verdicts(first, replace(second, is_whole=False))
        ]


def test_many_differences_are_reported_in_a_bounded_text() -> None:
    """The text has the first few differences, each shortened, and the number of the others."""
    text = describe_differences(("x" * 10_000,) * (DIFFERENCES_TOLD_MAX + 3))
    assert text.endswith("; and 3 more differences")
    assert len(text) < DIFFERENCES_TOLD_MAX * (DIFFERENCE_CHARS_MAX + 10) + 50


@pytest.mark.parametrize("cut", [1, 2])
def test_no_entry_is_reported_on_fewer_looks_than_it_takes(cut: int) -> None:
    """The looks behind a finding are removed one by one."""
    seen = 0
    for story in stories(60):
        driven = drive(story)
        verdict, evidence = driven.step.verdict, driven.evidence
        if any(one.family == "entry" for one in verdict.findings) and len(evidence.looks) > cut:
            seen += 1
            early = replace(evidence, looks=evidence.looks[:-cut])
            assert () == unsupported_claims(verdict, evidence, story.terms)
            assert unsupported_claims(verdict, early, story.terms), story.name
    assert seen > 5


def test_a_ledger_is_not_given_up_early() -> None:
    """`unsettled` after one look is not a valid verdict."""
    driven = drive(tell(0))
    given_up = Verdict(7, Standing.INDETERMINATE, unknowns=(Unknown.UNSETTLED,))
    one_look = replace(driven.evidence, looks=driven.evidence.looks[:1])
    assert ("it is given up after 1 looks, where 5 are allowed",) == differences(
        given_up, one_look, TERMS
    )


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
def test_the_sample_of_many_ledgers_is_that_of_each(share: float) -> None:
    """It has about as many ledgers as it should, whatever their ids have in common."""
    terms = replace(TERMS, sound_sample=share, probe_seed=2**48 - 1)
    for ids in (np.arange(20_000), np.arange(20_000) * 40, 2**63 - 1 - np.arange(20_000)):
        drawn = are_in_sample(ids, terms)
        assert drawn.tolist() == [is_in_sample(one, terms) for one in ids.tolist()]
        assert abs(drawn.mean() - share) <= 5 * sqrt(share * (1 - share) / len(ids))
