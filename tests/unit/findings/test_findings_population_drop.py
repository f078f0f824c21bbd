"""A drop of the population of ledgers: reported only if two listings are below the limit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditor.findings.on_cluster import (
    GONE_NAMED_MAX,
    POPULATION_MIN,
    Listing,
    has_dropped,
    judge_population,
)
from auditor.model.evidence import LastPopulation
from auditor.model.facts import PopulationFacts
from auditor.model.finding import Finding, Kind

LAST = LastPopulation("20260101T030000Z-000001", "2026-01-01T03:00:00Z", 1_000, 50)
FEW, ENOUGH = Listing(1_000, 499), Listing(61_000, 500)


@pytest.mark.parametrize(
    ("dropped", "then", "now", "percent"),
    [
        (True, 1_000, 499, 50),
        (False, 1_000, 500, 50),
        (True, 1_000, 0, 50),
        (False, 1_000, 5_000, 50),
        (True, 1_001, 500, 50),
        (True, 1_000, 989, 1),
        (False, 1_000, 990, 1),
        (True, 1_000, 9, 99),
        (False, 1_000, 10, 99),
        (False, 1_000, 0, 100),
        (False, 1_000, 0, 0),
    ],
)
def test_the_line_is_a_share_of_the_last_run(
    dropped: bool, then: int, now: int, percent: int
) -> None:
    """Fewer than (100 - percent) % is a drop, exactly as many is not; 0 and 100 % report
    nothing.
    """
    assert dropped == has_dropped(replace(LAST, listed=then, drop_percent=percent), now)


def test_a_small_cluster_has_no_population() -> None:
    """Three ledgers may be one tomorrow; nobody is paged for that."""
    assert not has_dropped(replace(LAST, listed=3), 1)
    assert not has_dropped(replace(LAST, listed=POPULATION_MIN - 1), 0)
    assert has_dropped(replace(LAST, listed=POPULATION_MIN), 0)


def test_without_a_last_run_nothing_has_dropped() -> None:
    """The first run of a cluster reports nothing about its number of ledgers."""
    assert not has_dropped(None, 0)
    assert judge_population(None, [FEW, FEW], [], "id") is None


@pytest.mark.parametrize(
    "listings", [[], [FEW], [ENOUGH], [FEW, ENOUGH], [ENOUGH, FEW], [ENOUGH, ENOUGH]]
)
def test_one_listing_below_the_line_is_no_finding(listings: list[Listing]) -> None:
    """Both listings must be below it."""
    assert judge_population(LAST, listings, [7], "id") is None


def test_two_listings_below_the_line_are_found() -> None:
    """The finding is on the cluster, not on a ledger or bookie. The facts are the counts, the runs,
    and some of the ids.
    """
    finding = judge_population(LAST, [FEW, Listing(61_500, 480)], range(50), "id")
    assert finding is not None
    assert (Kind.LEDGER_POPULATION_DROPPED, None, None) == (
        finding.kind,
        finding.ledger_id,
        finding.bookie_id,
    )
    facts = finding.facts
    assert isinstance(facts, PopulationFacts)
    assert (1_000, 499, 480, 60_500) == (
        facts.previous_ledgers,
        facts.ledgers,
        facts.ledgers_again,
        facts.apart_ms,
    )
    assert tuple(range(GONE_NAMED_MAX)) == facts.some_gone


def test_the_finding_says_what_was_listed_each_under_its_name() -> None:
    """It has the first listing and the last one; a cluster without an instance id has none."""
    listings = [Listing(1_000, 400), Listing(5_000, 300), Listing(63_000, 489)]
    facts = PopulationFacts(
        previous_run=LAST.run_id,
        previous_finished_at=LAST.finished_at,
        previous_ledgers=1_000,
        ledgers=400,
        ledgers_again=489,
        apart_ms=62_000,
        drop_percent=50,
        some_gone=(7, 9),
        instance_id="id",
    )
    assert Finding(Kind.LEDGER_POPULATION_DROPPED, facts=facts) == judge_population(
        LAST, listings, [7, 9], "id"
    )
    nameless = Finding(Kind.LEDGER_POPULATION_DROPPED, facts=replace(facts, instance_id=None))
    assert nameless == judge_population(LAST, listings, [7, 9], None)
