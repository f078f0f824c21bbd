"""The second checker on the number of listed ledgers."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
from support.night_stories import night
from support.tables_in_memory import Tables

from auditor.evidence.rows import table
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LISTING, LISTINGS
from auditor.first_checker.population import LastPopulation, Listing, judge_population
from auditor.model.finding import Kind
from auditor.summary.cluster.cluster_cross_check import population_agreed
from auditor.summary.cluster.listings import WHERE, listings_of

SEEDS = range(200)


def test_a_finding_without_an_earlier_run_is_withheld() -> None:
    """The second checker has no earlier number of ledgers to compare with."""
    nights = ((seed, night(seed)) for seed in SEEDS)
    seed, one = next(
        (seed, one)
        for seed, one in nights
        if any("LEDGER_POPULATION_DROPPED" in line for line in one.concluded().findings)
    )
    run, last = cast(Place, one.run), one.about.previous_population
    rows = run.read_table("evidence/listings", LISTINGS)
    counts = {
        listing: run.count(WHERE[listing], LISTING) for listing in rows["listing"].to_pylist()
    }
    finding = judge_population(last, *listings_of(rows, counts), one.about.facts.instance_id)
    assert finding is not None, seed
    assert [finding] == population_agreed(run, one.about, finding).findings, seed
    alone = population_agreed(run, replace(one.about, previous_population=None), finding)
    assert ([], [Kind.LEDGER_POPULATION_DROPPED]) == (
        alone.findings,
        [differ.kind for differ in alone.differ],
    ), seed


def test_a_run_that_died_before_it_noted_its_listing_has_no_finding() -> None:
    """It has no number to compare with the earlier run."""
    _, one = next((seed, night(seed)) for seed in SEEDS if night(seed).about.previous_population)
    assert ([], []) == population_agreed(cast(Place, Tables()), one.about, None)


@pytest.mark.parametrize(("gone", "is_confirmed"), [((150, 151), True), ((20, 150), False)])
def test_an_id_that_the_second_listing_has_is_not_gone(
    gone: tuple[int, ...], is_confirmed: bool
) -> None:
    """A finding that names such an id as gone is withheld."""
    run, last = Tables(), LastPopulation("earlier", "2025-12-31T03:01:00Z", 200, 50)
    rows = [(1, 60_000, [*gone]), (2, 90_000, [*gone])]
    run.write_table("evidence/listings", table(LISTINGS, rows), "all")
    for listing in (1, 2):
        run.write_table(WHERE[listing], table(LISTING, [(ledger,) for ledger in range(50)]), "all")
    about = replace(night(0).about, previous_population=last)
    listings = [Listing(60_000, 50), Listing(90_000, 50)]
    finding = judge_population(last, listings, gone, about.facts.instance_id)
    agreed = population_agreed(cast(Place, run), about, finding)
    assert is_confirmed == ([finding] == agreed.findings) == (not agreed.differ)
