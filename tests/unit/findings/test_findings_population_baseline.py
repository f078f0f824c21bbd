"""The baseline of a run's number of ledgers, carried from run to run: a drop does not become its
own baseline.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditor.findings.on_cluster import RUNS_TO_AGREE, Listing, judge_population, kept_baseline
from auditor.model.evidence import LastPopulation
from auditor.model.facts import PopulationFacts

BASELINE = LastPopulation("20260101T030000Z-000001", "2026-01-01T03:00:00Z", 1_000, 50)


def listings(*counts: int) -> list[Listing]:
    return [Listing(place * 60_000, count) for place, count in enumerate(counts)]


def played(*counts: int, then: int = 1_000) -> list[tuple[bool, int]]:
    """Apply runs one after another; return whether each has the finding, and the next baseline."""
    baseline = replace(BASELINE, listed=then)
    reported = []
    for number, count in enumerate(counts):
        listed = listings(count, count)
        is_found = judge_population(baseline, listed, [], "id") is not None
        kept = kept_baseline(baseline, listed)
        baseline = kept or replace(BASELINE, run_id=f"run-{number}", listed=count)
        reported.append((is_found, baseline.listed))
    return reported


def test_a_drop_is_found_until_three_runs_agree() -> None:
    """The third of them still reports it; from the fourth on its number is the baseline."""
    assert 3 == RUNS_TO_AGREE
    assert [(True, 1_000), (True, 1_000), (True, 400), (False, 410)] == played(400, 405, 400, 410)


def test_runs_that_do_not_agree_begin_anew() -> None:
    """A further drop by more than the share, below the first of the runs, means that the number is
    not yet stable.
    """
    assert [(True, 1_000)] * 4 + [(True, 100)] == played(400, 390, 150, 140, 100)
    assert [(True, 1_000), (True, 1_000), (True, 200)] == played(400, 200, 200), (
        "exactly at the share they agree"
    )


def test_runs_agree_neither_far_below_nor_far_above_each_other() -> None:
    """If one run listed a quarter of the others, the number is not stable: a rise breaks the
    sequence as a drop does.
    """
    assert [(True, 1_000)] * 3 + [(True, 400)] == played(100, 400, 400, 400)
    assert [(True, 1_000)] * 3 == played(100, 60, 180), "each against the first would do"
    assert [(True, 1_000), (True, 1_000), (True, 400)] == played(200, 400, 400), (
        "exactly at the share they agree"
    )


def test_a_number_that_recovers_is_the_measure_at_once() -> None:
    """The drop is forgotten: a new one needs three runs of its own."""
    assert [(True, 1_000), (False, 900), (True, 900), (True, 900), (True, 300)] == played(
        400, 900, 300, 300, 300
    )


def test_what_each_run_listed_first_is_kept_and_counted() -> None:
    """A run with the finding adds the count of its first listing, which is the audited one, and
    counts itself. A run whose last listing is back to normal clears both.
    """
    once = replace(BASELINE, low_listed=(400,), low_runs=1)
    assert once == kept_baseline(BASELINE, listings(400, 410))
    twice = replace(BASELINE, low_listed=(400, 405), low_runs=2)
    assert twice == kept_baseline(once, listings(405, 410))
    for back in (listings(400, 1_000), listings(400, 405, 1_000)):
        assert BASELINE == kept_baseline(twice, back)


def test_a_run_without_a_recorded_listing_is_the_next_ones_measure() -> None:
    """Nothing shows that its number of ledgers dropped."""
    assert kept_baseline(BASELINE, []) is None


def test_a_run_that_was_not_sure_leaves_the_measure_where_it_is() -> None:
    """A listing that was short for a moment is not a number of ledgers; the next run is compared
    with the old baseline.
    """
    low = replace(BASELINE, low_listed=(400, 405))
    assert replace(BASELINE, low_listed=()) == kept_baseline(low, listings(400, 1_000)), (
        "they were back"
    )
    assert low == kept_baseline(low, listings(400)), (
        "it could not be listed again: neither agreed nor recovered"
    )


@pytest.mark.parametrize(
    "last", [None, replace(BASELINE, drop_percent=0), replace(BASELINE, listed=99)]
)
def test_where_nothing_can_drop_each_run_is_the_next_ones_measure(
    last: LastPopulation | None,
) -> None:
    """The first run, a cluster that is too small, or a run with the check switched off."""
    assert kept_baseline(last, listings(1, 1)) is None


def test_few_ledgers_agree_with_any_number() -> None:
    """Below the smallest population there is no share to compare."""
    assert [(True, 1_000), (True, 1_000), (True, 0), (False, 7)] == played(3, 1, 0, 7)


def test_the_finding_says_how_often_it_was_so() -> None:
    """It has the position of the run in the sequence."""
    found = judge_population(
        replace(BASELINE, low_listed=(400,), low_runs=1), listings(400, 400), [], "id"
    )
    assert found is not None and isinstance(found.facts, PopulationFacts)
    assert 2 == found.facts.runs_in_a_row
    again = judge_population(
        replace(BASELINE, low_listed=(400, 400), low_runs=2), listings(100, 100), [], "id"
    )
    assert again is not None and isinstance(again.facts, PopulationFacts)
    assert 3 == again.facts.runs_in_a_row, "whether they agree or not"
