"""What the written listings say of the cluster: the finding, or that the listing that was audited
was short.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.falsehoods import FIRST as CHECKER
from support.falsehoods import ON_BOOKIES_AND_CLUSTER

from auditor.evidence.rows import table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import LISTING, LISTINGS
from auditor.first_checker.population import GONE_NAMED_MAX, LastPopulation
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import Terms
from auditor.summary.about import About
from auditor.summary.cluster.listings import AGAIN, FIRST, WHERE, listing_row, some_gone
from auditor.summary.cluster.population import population

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


def listed(run: Place, listing: int, count: int, gone: list[int] | None = None) -> None:
    """One listing as a run writes it."""
    run.write_table(WHERE[listing], table(LISTING, [(n,) for n in range(count)]), "all")
    run.write_table(
        "evidence/listings",
        table(LISTINGS, [listing_row(listing, listing * 60_000, gone or [])]),
        f"l{listing}",
    )


def test_far_fewer_ledgers_at_two_listings_are_a_finding_on_the_cluster(run: Place):
    """Neither ledger nor bookie; both listings are its looks; the witness names the runs, the
    counts and some ids.
    """
    listed(run, FIRST, 99)
    listed(run, AGAIN, 98, gone=[150, 151])
    said = population(run, ABOUT)
    (line,) = said.findings
    found = json.loads(line)
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


def test_ledgers_of_the_second_listing_were_not_judged_though_there_is_a_finding(run: Place):
    """Both listings are far too short, and the second names more than the first: the run is not
    complete.
    """
    listed(run, FIRST, 10)
    listed(run, AGAIN, 80)
    said = population(run, ABOUT)
    assert 1 == len(said.findings)
    (sentence,) = said.withheld
    assert (
        "listed again at the end of this run there were 80: what was not there at first was not"
        " judged" in sentence
    )


def test_a_second_listing_of_as_many_ledgers_leaves_nothing_unjudged(run: Place):
    """What both name was judged."""
    listed(run, FIRST, 99)
    listed(run, AGAIN, 99)
    said = population(run, ABOUT)
    assert (1, (), ()) == (len(said.findings), said.withheld, said.differ)


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
def test_the_next_run_is_held_against_the_last_one_that_was_not_short(
    run: Place, counts: tuple[int, ...], baseline: LastPopulation | None
):
    """After a drop that stays, after one that was back, and where it could not be listed again;
    else against this one.
    """
    for listing, count in zip((FIRST, AGAIN), counts, strict=False):
        listed(run, listing, count)
    assert baseline == population(replace(run, missing_is_empty=True), ABOUT).baseline


def test_a_finding_on_which_the_checkers_differ_is_withheld(
    run: Place, monkeypatch: pytest.MonkeyPatch
):
    """The next run is still compared with the same one, and a sentence says what was not judged."""
    listed(run, FIRST, 10)
    listed(run, AGAIN, 80)
    ON_BOOKIES_AND_CLUSTER["one ledger less is listed"].plant(monkeypatch, CHECKER)
    said = population(run, ABOUT)
    assert ((), replace(LAST, low_listed=(10,), low_runs=1)) == (said.findings, said.baseline)
    (difference,), (sentence,) = said.differ, said.withheld
    assert "LEDGER_POPULATION_DROPPED on the cluster is withheld" in difference.sentence
    assert "there were 80" in sentence


def test_the_finding_is_the_same_one_in_every_run_of_the_cluster(run: Place):
    """Its id is that of the cluster and the family; another cluster has another."""
    listed(run, FIRST, 9)
    listed(run, AGAIN, 9)
    other = replace(ABOUT, previous_population=replace(LAST, run_id="x", listed=900))
    elsewhere = replace(ABOUT, facts=replace(FACTS, instance_id="elsewhere"))
    ids = [
        json.loads(population(run, about).findings[0])["id"] for about in (ABOUT, other, elsewhere)
    ]
    assert ids[0] == ids[1] != ids[2]


def test_what_is_back_at_the_second_listing_accuses_nobody_and_was_not_judged(run: Place):
    """A listing that was short for a moment is reported, because the missing ledgers were not
    audited.
    """
    listed(run, FIRST, 99)
    listed(run, AGAIN, 200)
    said = population(run, ABOUT)
    assert () == said.findings
    (sentence,) = said.withheld
    assert all(
        words in sentence
        for words in ("99 ledgers were listed", "had listed 200", "there were 200", "run again")
    )


def test_what_could_not_be_listed_again_is_said(run: Place):
    """One listing is no evidence."""
    listed(run, FIRST, 99)
    said = population(run, ABOUT)
    assert ((), True) == (said.findings, "could not be listed again" in said.withheld[0])


@pytest.mark.parametrize("about", [ABOUT, replace(ABOUT, previous_population=None)])
def test_a_listing_within_the_line_is_nothing_to_speak_of(run: Place, about: About):
    """Nor is any where there was no run before."""
    listed(run, FIRST, 100 if about.previous_population else 1)
    assert ((), ()) == (population(run, about).findings, population(run, about).withheld)


def test_a_run_that_died_before_it_noted_its_listing_says_nothing(run: Place):
    """Replay of such a run has no listing to hold against the last one."""
    assert ((), ()) == (population(replace(run, missing_is_empty=True), ABOUT).findings, ())


def test_some_of_what_is_gone_is_named():
    """The lowest ids that were there and are not; new ledgers are none of them."""
    before, now = (
        table(LISTING, [(n,) for n in ids]).column(0)
        for ids in (range(100), (0, 2, *range(500, 600)))
    )
    assert [1, *range(3, 2 + GONE_NAMED_MAX)] == some_gone(before, now)


def test_what_a_run_is_held_against_is_read_as_it_was_written():
    """run.json holds it, so that a replay judges the same."""
    assert ABOUT == About.from_json(json.loads(json.dumps(ABOUT.as_json())))
    assert (
        About.from_json(replace(ABOUT, previous_population=None).as_json()).previous_population
        is None
    )
