"""What the written listings show: a drop in the number of ledgers, or a listing that was short for
a moment.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from auditor.evidence.rows import table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import LISTING, LISTINGS
from auditor.findings.on_cluster import (
    FIRST_LISTING,
    GONE_NAMED_MAX,
    LISTINGS_AT,
    SECOND_LISTING,
    listing_row,
    population,
    some_gone,
)
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import LastPopulation, Terms
from auditor.summary.about import About

FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", "inst", False, None)
LAST = LastPopulation("20251231T030000Z-000001", "2025-12-31T03:01:00Z", 200, 50)
ABOUT = About(
    "20260101T030000Z-000001", "2026-01-01T03:00:00Z", FACTS, Terms(9_000, 1_000, 16, 5), "warning",
    False,
    previous_population=LAST,
)  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Place:
    return place(str(tmp_path / "run"))


def write_listing(run: Place, listing: int, count: int, gone: list[int] | None = None) -> None:
    """Write one listing as a run does."""
    run.write_table(LISTINGS_AT[listing], table(LISTING, [(n,) for n in range(count)]), "all")
    run.write_table(
        "evidence/listings",
        table(LISTINGS, [listing_row(listing, listing * 60_000, gone or [])]),
        f"l{listing}",
    )


def test_far_fewer_ledgers_at_two_listings_are_a_finding_on_the_cluster(run: Place):
    """It names neither ledger nor bookie. Its looks are the two listings, and the witness names the
    runs, the counts and some ids.
    """
    write_listing(run, FIRST_LISTING, 99)
    write_listing(run, SECOND_LISTING, 98, gone=[150, 151])
    said = population(run, ABOUT)
    (finding,) = said.findings
    found = finding.as_json()
    expected = ("LEDGER_POPULATION_DROPPED", "metadata", "critical", None, None, [], None)
    names = ("kind", "family", "severity", "ledger_id", "bookie_id", "entries", "assurance")
    assert expected == tuple(found[name] for name in names)
    assert ["99 ledgers", "98 ledgers"] == [look["answers"]["listing"] for look in found["looks"]]
    assert ["1970-01-01T00:01:00.000Z", "1970-01-01T00:02:00.000Z"] == [
        look["at"] for look in found["looks"]
    ]
    expected_witness = (
        f"Run {LAST.run_id}, finished at {LAST.finished_at}, listed 200 ledgers of this cluster"
        " (instance inst). This run listed 99, and 98 when it listed them again 1 min later: 49 %"
        " of the earlier number. --population-drop is 50 %. Bookies delete the data of ledgers"
        " without metadata. Some that are gone: 150 and 151."
    )
    assert expected_witness == found["witness"]
    assert () == said.withheld


def test_ledgers_that_only_the_second_listing_has_were_not_judged(run: Place):
    """Both listings are far too short. The second has more ledgers than the first, and a sentence
    says that the run is not complete.
    """
    write_listing(run, FIRST_LISTING, 10)
    write_listing(run, SECOND_LISTING, 80)
    said = population(run, ABOUT)
    assert 1 == len(said.findings)
    (sentence,) = said.withheld
    assert (
        "listed again at the end of this run there were 80: what was not there at first was not"
        " judged" in sentence
    )


def test_a_second_listing_of_as_many_ledgers_leaves_nothing_unjudged(run: Place):
    """All ledgers of both listings were judged."""
    write_listing(run, FIRST_LISTING, 99)
    write_listing(run, SECOND_LISTING, 99)
    said = population(run, ABOUT)
    assert (1, ()) == (len(said.findings), said.withheld)


@pytest.mark.parametrize(
    ("counts", "baseline"),
    [
        ((99, 98), replace(LAST, low_listed=(99,), low_runs=1)),
        ((99, 200), LAST),
        ((99,), LAST),
        ((100,), None),
        ((), None),
    ],
)
def test_the_next_run_is_compared_with_the_last_run_that_was_not_short(
    run: Place, counts: tuple[int, ...], baseline: LastPopulation | None
):
    """The old baseline stays if this run listed far fewer ledgers, whatever its second listing
    shows. Otherwise this run is the baseline.
    """
    for listing, count in zip((FIRST_LISTING, SECOND_LISTING), counts, strict=False):
        write_listing(run, listing, count)
    assert baseline == population(replace(run, missing_is_empty=True), ABOUT).baseline


def test_the_finding_is_the_same_one_in_every_run_of_the_cluster(run: Place):
    """Its id depends on the cluster and the family. Another cluster has another id."""
    write_listing(run, FIRST_LISTING, 9)
    write_listing(run, SECOND_LISTING, 9)
    other = replace(ABOUT, previous_population=replace(LAST, run_id="x", listed=900))
    elsewhere = replace(ABOUT, facts=replace(FACTS, instance_id="elsewhere"))
    ids = [population(run, about).findings[0].id for about in (ABOUT, other, elsewhere)]
    assert ids[0] == ids[1] != ids[2]


def test_ledgers_that_are_back_at_the_second_listing_were_not_judged(run: Place):
    """The first listing was short for a moment. There is no finding, and a sentence says what was
    not audited.
    """
    write_listing(run, FIRST_LISTING, 99)
    write_listing(run, SECOND_LISTING, 200)
    said = population(run, ABOUT)
    assert () == said.findings
    (sentence,) = said.withheld
    assert all(
        words in sentence
        for words in ("99 ledgers were listed", "had listed 200", "there were 200", "run again")
    )


def test_a_low_number_that_could_not_be_listed_again_is_reported(run: Place):
    """One short listing is not enough for a finding."""
    write_listing(run, FIRST_LISTING, 99)
    said = population(run, ABOUT)
    assert ((), True) == (said.findings, "could not be listed again" in said.withheld[0])


@pytest.mark.parametrize("about", [ABOUT, replace(ABOUT, previous_population=None)])
def test_a_listing_that_is_not_far_shorter_is_not_reported(run: Place, about: About):
    """Without an earlier run no number is too low."""
    write_listing(run, FIRST_LISTING, 100 if about.previous_population else 1)
    assert ((), ()) == (population(run, about).findings, population(run, about).withheld)


def test_a_run_that_died_before_it_noted_its_listing_has_no_finding(run: Place):
    """A replay of it has no number to compare with the last run."""
    said = population(replace(run, missing_is_empty=True), ABOUT)
    assert ((), ()) == (said.findings, said.withheld)


def test_some_of_what_is_gone_is_named():
    """The lowest ids that only the earlier listing has are named. New ledgers are not."""
    before, now = (
        table(LISTING, [(n,) for n in ids]).column(0)
        for ids in (range(100), (0, 2, *range(500, 600)))
    )
    assert [1, *range(3, 2 + GONE_NAMED_MAX)] == some_gone(before, now)


def test_the_run_to_compare_with_is_read_as_it_was_written():
    """run.json holds it, and a replay judges by the same number."""
    assert ABOUT == About.from_json(json.loads(json.dumps(ABOUT.as_json())))
    assert (
        About.from_json(replace(ABOUT, previous_population=None).as_json()).previous_population
        is None
    )
