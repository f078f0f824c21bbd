"""Compare the listings of a run with the last run's number of ledgers."""

from __future__ import annotations

from dataclasses import dataclass

from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LISTING, LISTINGS
from auditor.first_checker.population import (
    LastPopulation,
    Listing,
    has_dropped,
    judge_population,
    kept_baseline,
)
from auditor.model.finding_record import FindingRecord
from auditor.model.identity import LedgerId
from auditor.summary.about import About
from auditor.summary.cluster.listings import WHERE, listings_of
from auditor.witness.finding_lines import ClusterLook, cluster_testimony


@dataclass(frozen=True, slots=True)
class Population:
    """The result of the comparison.

    `findings` has one or none. `withheld` has a sentence if the audited listing lacked ledgers
    that exist, or could not be repeated. Such a run is not complete, whether or not it has a
    finding. `baseline` is what the next run is compared with, or None for this run.
    """

    findings: tuple[FindingRecord, ...] = ()
    withheld: tuple[str, ...] = ()
    baseline: LastPopulation | None = None


def population(run: Place, about: About) -> Population:
    """Return what the stored listings show. Costs a count of each listing."""
    last = about.previous_population
    if last is None:
        return Population()
    listings, gone = _listings(run)
    baseline = kept_baseline(last, listings)
    finding = judge_population(last, listings, gone, about.facts.instance_id)
    if finding is not None:
        looks = [
            ClusterLook(one.began_at_ms, "listing", f"{one.count} ledgers") for one in listings
        ]
        found = cluster_testimony(finding, looks, about.facts)
        unjudged = (_short(last, listings),) if listings[-1].count > listings[0].count else ()
        return Population((found,), unjudged, baseline)
    short = bool(listings) and has_dropped(last, listings[0].count)
    return (
        Population(withheld=(_short(last, listings),), baseline=baseline) if short else Population()
    )


def _listings(run: Place) -> tuple[list[Listing], list[LedgerId]]:
    rows = run.read_table("evidence/listings", LISTINGS)
    counts = {
        listing: run.count(WHERE[listing], LISTING) for listing in rows["listing"].to_pylist()
    }
    return listings_of(rows, counts)


def _short(last: LastPopulation, listings: list[Listing]) -> str:
    now = f"{listings[0].count} ledgers were listed, and run {last.run_id} had listed {last.listed}"
    if len(listings) < 2:
        return (
            f"{now}; they could not be listed again, so nothing is said of ledgers that are gone:"
            " run again"
        )
    return (
        f"{now}; listed again at the end of this run there were {listings[-1].count}: what was not"
        " there at first was not judged; run again"
    )
