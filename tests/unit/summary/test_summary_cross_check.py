"""A finding on a bookie or the cluster on which the checkers differ: withheld, said, and a fault of
ours."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import cast

import pyarrow as pa
import pytest
from support.falsehoods import FIRST, ON_BOOKIES_AND_CLUSTER
from support.night_stories import night
from support.tables_in_memory import Tables

from auditor.evidence.rows import answer_row, ledger_row, table
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, LEDGERS, LISTING, LISTINGS, VERDICTS
from auditor.evidence.table_scan import scan_rows
from auditor.first_checker.population import LastPopulation, Listing, judge_population
from auditor.model.availability import NO_COOKIE, Answer, AnswerStatus, Greeting
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.finding import Kind
from auditor.model.ledger import (
    LedgerMetadata,
    LedgerRecord,
    LedgerState,
    RecordStatus,
    Segment,
    ZnodeStamp,
)
from auditor.report.outcome_words import outcome_sentences
from auditor.run.conclusion import Conclusion, conclude
from auditor.summary.cross_check import population_agreed
from auditor.summary.listings import WHERE, listings_of
from auditor.summary.previous_run import NO_PREVIOUS

TOLD = {
    "a silent bookie was looked at once more": "BOOKIE_SILENT_YET_REGISTERED",
    "one ledger more is unmarked": "BOOKIE_LOST_UNNOTICED",
    "a bookie answered for one ledger more": "BOOKIE_LOST_CONTENT",
    "one ledger more was refused": "BOOKIE_FAILING_REQUESTS",
    "one mark more has no ledger": "MARK_WITHOUT_LEDGER",
    "one ledger less is listed": "LEDGER_POPULATION_DROPPED",
    "one topic more needs a missing ledger": "REFERENCED_LEDGER_MISSING",
    "one entry more was recorded": "LEDGER_TRUNCATED",
    "one orphan more": "LEDGER_ORPHANED",
}
"""A false fact of each kind."""
SEEDS = range(200)


def first_with(kind: str) -> tuple[int, Conclusion]:
    """The first run of the swarm that has such a finding, by its seed."""
    told = ((seed, night(seed).concluded()) for seed in SEEDS)
    return next((seed, done) for seed, done in told if any(kind in line for line in done.findings))


@pytest.mark.parametrize(("name", "kind"), TOLD.items())
def test_what_the_checkers_differ_on_is_withheld_and_all_else_stands(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The summary names it, the outcome is a fault, and no standing changes; the seed is the first
    that finds the kind."""
    seed, before = first_with(kind)
    ON_BOOKIES_AND_CLUSTER[name].plant(monkeypatch, FIRST)
    after = night(seed).concluded()
    kinds = [json.loads(line)["kind"] for line in before.findings]
    assert [one for one in kinds if one != kind] == [
        json.loads(line)["kind"] for line in after.findings
    ], seed
    assert {kind} == {one["kind"] for one in after.summary["findings_differ"]}, seed
    assert any(
        f"{kind} on " in sentence and "is withheld" in sentence
        for sentence in after.summary["withheld"]
    ), seed
    assert ("AUDITOR_FAULT", 4) == (after.summary["outcome"], after.summary["exit_code"]), seed
    assert before.summary["ledgers"] == after.summary["ledgers"], seed
    assert 0 == after.summary["findings"][kind]["findings"], seed
    of = "1 finding" if kinds.count(kind) == 1 else f"{kinds.count(kind)} findings"
    assert (
        f"its two checkers differ on the same evidence for {of} on bookies, references or the"
        " cluster" in outcome_sentences(after.summary)
    ), seed


def test_a_finding_without_an_earlier_run_is_withheld() -> None:
    """The second checker has nothing to hold the number of ledgers against."""
    seed, _ = first_with("LEDGER_POPULATION_DROPPED")
    one = night(seed)
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
    """There is nothing to hold against the earlier run."""
    _, one = next((seed, night(seed)) for seed in SEEDS if night(seed).about.previous_population)
    assert ([], []) == population_agreed(cast(Place, Tables()), one.about, None)


@pytest.mark.parametrize(("gone", "is_confirmed"), [((150, 151), True), ((20, 150), False)])
def test_an_id_that_the_second_listing_has_is_not_gone(
    gone: tuple[int, ...], is_confirmed: bool
) -> None:
    """Whatever was noted of it: the finding that names it is withheld."""
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


def test_open_and_empty_ledgers_do_not_need_a_lost_bookie() -> None:
    """Nobody asks bookies about them. Where the evidence says that somebody did, the finding is
    withheld.
    """
    ensemble = (Segment(0, ("b1", "g")),)
    written = [
        (1, LedgerState.CLOSED, 9),
        (2, LedgerState.CLOSED, 9),
        (3, LedgerState.OPEN, None),
        (4, LedgerState.CLOSED, -1),
    ]
    states = [
        LedgerRecord(
            n,
            look,
            0,
            RecordStatus.FOUND,
            ZnodeStamp(1, 0, 0),
            LedgerMetadata(3, state, 2, 2, 1, last, 9, ensemble),
        )
        for n, state, last in written
        for look in (1, 2, 3)
    ]
    gone = [
        Answer("g", n, look, 0, AnswerStatus.UNREGISTERED, detail=NO_COOKIE)
        for n, *_ in written
        for look in (1, 2)
    ]
    records = [
        BookieRecord("b1", k, k, Registration.WRITABLE, "h", 1, True, "", Greeting.ANSWERED)
        for k in (1, 20_000)
    ]
    records += [
        BookieRecord("g", k, k, Registration.NONE, greeting=Greeting.UNREGISTERED)
        for k in (1, 20_000)
    ]
    records = [replace(one, look=1 if one.read_at_ms == 1 else 2) for one in records]
    rows = {
        "listing": (LISTING, [(n,) for n, *_ in written]),
        "ledgers": (LEDGERS, [ledger_row(one) for one in states]),
    }
    rows |= {"answers": (ANSWERS, [answer_row(one) for one in gone])}
    run = Tables(
        {f"evidence/{name}": pa.Table.from_batches([table(*one)]) for name, one in rows.items()}
    )
    verdicts = [
        {"ledger_id": n, "standing": "sound", "unknowns": [], "findings": [], "lacks": []}
        for n, *_ in written
    ]
    told = scan_rows(pa.Table.from_pylist(verdicts, schema=VERDICTS))
    about = replace(
        night(0).about, partial=False, previous_population=None, unregistered_since_ms={}
    )
    done = conclude(
        cast(Place, run),
        about,
        records,
        NO_PREVIOUS,
        verdicts=told,
        finished_at="2026-01-01T03:01:00Z",
        duration_s={},
    )
    (sentence,) = done.summary["withheld"]
    assert [] == done.findings
    assert (
        "unmarked ledgers: the first says 4, the second 2; some ledgers: the first says (1, 2, 3,"
        " 4), the second (1, 2)" in sentence
    )
