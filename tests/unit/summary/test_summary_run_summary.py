"""The summary of a run, which counts only what was written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from support import report_stories

from auditor import __version__
from auditor.evidence.schemas import VERDICTS
from auditor.evidence.table_scan import TableScan, scan_rows
from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration
from auditor.model.codec import encode
from auditor.model.evidence import LastPopulation, Sweep, Terms
from auditor.model.finding import Kind, Severity
from auditor.model.finding_record import FindingRecord
from auditor.model.summary import RequestOutcomes, RequestTotals
from auditor.model.verdict import Exempt, Standing, Unknown
from auditor.summary.about import About
from auditor.summary.costs import Costs
from auditor.summary.outcome import (
    exit_code,
    exit_code_if_clean,
    findings_by_kind,
    outcome_of,
    worst_of,
)
from auditor.summary.previous_run import NO_PREVIOUS, Previous
from auditor.summary.run_summary import RunFacts, findings_of, summarise
from auditor.summary.sweeps import Series, Span, SweptRun, sampling_of

FACTS = ClusterFacts(
    "zk+hierarchical://zk1:2181/ledgers",
    ("zk1:2181",),
    "/ledgers",
    "hierarchical",
    "inst",
    False,
    None,
)
TERMS = Terms(9_000, 1_000, 16, 5)
COSTS = Costs(
    zookeeper_reads=40, zookeeper_reads_failed=3, bookie_requests=60, bookie_bytes=9000, retries=2,
    confirming_reads=5, unanswered=7, bookies_named=4,
)  # fmt: skip


def verdict(ledger_id: int, standing: str = "sound", **cells: Any) -> dict[str, Any]:
    """Return a row of VERDICTS; fields that are not given are null."""
    row = {
        "ledger_id": ledger_id, "standing": standing, "exempt": None, "unknowns": [],
        "findings": [],
        "listing_false_negatives": 0, "mark_age_ms": None, "looks": 1, "todo": "nothing",
        "detail": "", "assurance": None, "probes": None, "random_probes": None,
        "copies_expected": None, "copies_listed": None, "copies_read": None, "copies_assumed": None,
    }  # fmt: skip
    assert set(cells) <= set(row), cells
    return row | cells


def verdicts(*rows: dict[str, Any]) -> TableScan:
    return scan_rows(pa.Table.from_pylist(list(rows), schema=VERDICTS))


def facts(**changes: Any) -> RunFacts:
    """Return the facts of a run; `changes` replace fields of it or of its `About`."""
    about = {
        "run_id": "r", "facts": FACTS, "started_at": "2026-01-01T00:00:00Z", "terms": TERMS,
        "fail_on": "warning", "allow_empty": False, "partial": False, "resumed_at": (),
    }  # fmt: skip
    values = {
        "finished_at": "2026-01-01T00:01:00Z", "duration_s": {"load": 1.23456},
        "nobody_answered": False, "not_there": 0, "withheld": (),
    }  # fmt: skip
    chosen = {name: changes.pop(name, value) for name, value in about.items()}
    return RunFacts(About(**chosen), **(values | changes))


def summary(
    *rows: dict[str, Any],
    findings: tuple[FindingRecord, ...] = (),
    previous: Previous = NO_PREVIOUS,
    **changes: Any,
) -> dict[str, Any]:
    return encode(summarise(facts(**changes), verdicts(*rows), [], COSTS, findings, previous, 0.0))


MIXED = (
    verdict(1),
    verdict(2, "exempt", exempt="open"),
    verdict(3, "exempt", exempt="marked_underreplicated", mark_age_ms=5_500),
    verdict(4, "indeterminate", unknowns=["bookie_silent", "answer_timeout"]),
    verdict(
        5, "violated", unknowns=["bookie_silent"], listing_false_negatives=2, mark_age_ms=1_000
    ),
    verdict(6),
)


def test_the_standings_add_up_to_the_ledgers_listed():
    """listed = sound + exempt + indeterminate + violated."""
    assert {"listed": 6, "sound": 2, "exempt": 2, "indeterminate": 1, "violated": 1} == summary(
        *MIXED
    )["ledgers"]


def test_each_reason_kind_and_stage_is_counted_zero_included():
    """A reason that no ledger has is a zero, not a missing field."""
    said = summary(*MIXED)
    assert {
        r.value: {"open": 1, "marked_underreplicated": 1}.get(r.value, 0) for r in Exempt
    } == said["exempt"]
    assert {
        r.value: {"bookie_silent": 2, "answer_timeout": 1}.get(r.value, 0) for r in Unknown
    } == said["indeterminate"]
    assert {k.value: {"ledgers": 0, "bookies": 0, "findings": 0} for k in Kind} == said["findings"]
    assert {"load": 1.235, "ask": 0.0, "judge": 0.0, "second_look": 0.0, "report": 0.0} == said[
        "duration_s"
    ]


def test_reasons_count_whatever_the_standing():
    """A violated ledger with a silent bookie makes the run incomplete and is not covered."""
    said = summary(verdict(1), verdict(2, "violated", unknowns=["bookie_silent"]))
    assert (False, 0.5, 1) == (
        said["complete"],
        said["coverage"],
        said["indeterminate"]["bookie_silent"],
    )


def test_a_reason_beside_an_exemption_leaves_the_run_incomplete():
    """A registered bookie did not answer for a marked ledger. The ledger stays exempt, and its
    reason is counted.
    """
    said = summary(
        verdict(1),
        verdict(2, "exempt", exempt="marked_underreplicated", unknowns=["bookie_silent"]),
    )
    assert (1, 0) == (said["ledgers"]["exempt"], said["ledgers"]["indeterminate"])
    assert (1, 1) == (
        said["exempt"]["marked_underreplicated"],
        said["indeterminate"]["bookie_silent"],
    )
    assert (False, 0.5, "INCOMPLETE", 3) == (
        said["complete"],
        said["coverage"],
        said["outcome"],
        said["exit_code"],
    )


@pytest.mark.parametrize(
    ("expected", "row"),
    [
        (1.0, verdict(1)),
        (1.0, verdict(1, "exempt", exempt="open")),
        (1.0, verdict(1, "exempt", exempt="in_recovery")),
        (1.0, verdict(1, "exempt", exempt="empty")),
        (1.0, verdict(1, "exempt", exempt="deleted")),
        (0.0, verdict(1, "exempt", exempt="marked_underreplicated")),
        (1.0, verdict(1, "violated", exempt="marked_underreplicated")),
        (1.0, verdict(1, "violated")),
        (0.0, verdict(1, "indeterminate", unknowns=["poison"])),
        (0.0, verdict(1, "exempt", exempt="open", unknowns=["metadata_unreadable"])),
    ],
)
def test_coverage_counts_what_could_be_judged(expected: float, row: dict[str, Any]):
    """A ledger is covered if it has no reason to be unknown and is not merely excused by a mark."""
    assert expected == summary(row)["coverage"]


def test_an_exemption_that_was_overruled_is_not_counted():
    """A violated ledger with an exempt reason counts only as violated."""
    said = summary(verdict(1, "violated", exempt="marked_underreplicated"))
    assert 0 == sum(said["exempt"].values())


def test_the_oldest_mark_is_reported_in_seconds():
    """Marked ledgers of each standing count."""
    assert 5.5 == summary(*MIXED)["oldest_underreplicated_s"]
    assert 0.0 == summary(verdict(1))["oldest_underreplicated_s"]


def test_an_empty_cluster_is_incomplete_unless_allow_empty_is_set():
    """A wrong root lists no ledger either."""
    assert ("INCOMPLETE", 3, 1.0) == tuple(
        summary()[key] for key in ("outcome", "exit_code", "coverage")
    )
    accepted = summary(allow_empty=True)
    assert ("SOUND", 0, True) == tuple(
        accepted[key] for key in ("outcome", "exit_code", "complete")
    )


def test_when_nobody_answered_nothing_is_complete():
    """This holds even if all ledgers are exempt."""
    said = summary(verdict(1, "exempt", exempt="open"), nobody_answered=True)
    assert ("INCOMPLETE", 3, False) == tuple(
        said[key] for key in ("outcome", "exit_code", "complete")
    )


CRITICAL, WARNING = (
    report_stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 5),
    report_stories.finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 6),
)


@pytest.mark.parametrize(
    ("expected", "findings", "fail_on", "incomplete"),
    [
        (0, (), "warning", False),
        (3, (), "warning", True),
        (1, (WARNING,), "warning", False),
        (1, (WARNING,), "warning", True),
        (0, (WARNING,), "critical", False),
        (3, (WARNING,), "critical", True),
        (1, (CRITICAL,), "critical", True),
        (0, (CRITICAL,), "never", False),
        (3, (CRITICAL,), "never", True),
    ],
)
def test_a_finding_decides_the_code_before_an_incomplete_run(
    expected: int, findings: tuple[dict[str, Any], ...], fail_on: str, incomplete: bool
):
    """Code 1 comes before 3, and 3 before 0. --fail-on sets the lowest severity that gives code
    1.
    """
    if_clean = exit_code_if_clean(is_complete=not incomplete)
    assert expected == exit_code(worst_of(findings), fail_on, if_clean)


@pytest.mark.parametrize(
    ("expected", "findings", "complete"),
    [
        ("SOUND", (), True),
        ("INCOMPLETE", (), False),
        ("VIOLATED", (WARNING,), True),
        ("VIOLATED", (CRITICAL,), False),
    ],
)
def test_the_outcome_ignores_fail_on(
    expected: str, findings: tuple[dict[str, Any], ...], complete: bool
):
    """The outcome says what was found; the exit code says whether to alert."""
    assert expected == outcome_of(worst_of(findings), is_complete=complete)


@pytest.mark.parametrize("findings", [(), (WARNING,), (CRITICAL,)])
@pytest.mark.parametrize("complete", [True, False])
def test_a_fault_of_the_auditor_decides_before_all_else(
    findings: tuple[dict[str, Any], ...], complete: bool
):
    """A faulty auditor cannot vouch for any finding or verdict."""
    worst, if_clean = worst_of(findings), exit_code_if_clean(is_complete=complete, is_fault=True)
    assert "AUDITOR_FAULT" == outcome_of(worst, is_complete=complete, is_fault=True)
    assert {4} == {exit_code(worst, fail_on, if_clean) for fail_on in ("warning", "never")}


def test_findings_come_worst_first_then_by_kind_and_ledger():
    """They are sorted by severity, by kind in the order of the catalogue, by ledger, then by
    segment, whatever their order in the tables.
    """
    late = report_stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 900)
    early = report_stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 100)
    second = replace(late, segment=replace(late.segment, first_entry_id=50))
    bookie = report_stories.finding(Kind.BOOKIE_LOST_UNNOTICED, "b7:3181")
    silent = report_stories.finding(Kind.BOOKIE_SILENT_YET_REGISTERED, "b1:3181")
    rows = verdicts(
        verdict(900, "violated", findings=[one.line() for one in (WARNING, second, late)]),
        verdict(100, "violated", findings=[early.line()]),
    )
    found = findings_of(rows, [silent, bookie])
    assert [early, late, second, bookie, WARNING, silent] == found


def test_a_kind_counts_its_subjects_and_its_findings():
    """Two segments of one ledger are two findings on one ledger."""
    twice = report_stories.finding(Kind.ENSEMBLE_DUPLICATE_BOOKIE, 5)
    counts = encode(
        findings_by_kind(
            [twice, twice, report_stories.finding(Kind.BOOKIE_LOST_UNNOTICED, "b7:3181")]
        )
    )
    assert {"ledgers": 1, "bookies": 0, "findings": 2} == counts["ENSEMBLE_DUPLICATE_BOOKIE"]
    assert {"ledgers": 0, "bookies": 1, "findings": 1} == counts["BOOKIE_LOST_UNNOTICED"]
    assert set(counts) == {kind.value for kind in Kind}


@pytest.mark.parametrize("reason", ["poison", "checkers_disagree"])
def test_ledgers_that_are_our_fault_are_named_with_what_happened(reason: str):
    """The first ten by id are named. A ledger with a detail and another reason is not."""
    rows = [
        verdict(n, "indeterminate", unknowns=[reason], detail=f"so was {n}")
        for n in range(20, 0, -1)
    ]
    said = summary(
        *rows,
        verdict(30, "indeterminate", unknowns=["metadata_unreadable"], detail="no permission"),
    )
    assert [{"ledger_id": n, "detail": f"so was {n}"} for n in range(1, 11)] == said[reason]
    assert [] == said["poison" if reason == "checkers_disagree" else "checkers_disagree"]


def test_findings_count_what_they_are_on():
    """They count ledgers or bookies. A finding on the cluster counts only itself."""
    lost, dropped = (
        report_stories.finding(Kind.BOOKIE_LOST_UNNOTICED, "b1"),
        report_stories.finding(Kind.LEDGER_POPULATION_DROPPED, "cluster"),
    )
    counted = encode(findings_by_kind([CRITICAL, lost, dropped]))
    assert {"ledgers": 1, "bookies": 0, "findings": 1} == counted[CRITICAL.kind.value]
    assert {"ledgers": 0, "bookies": 1, "findings": 1} == counted[lost.kind.value]
    assert {"ledgers": 0, "bookies": 0, "findings": 1} == counted[dropped.kind.value]


def test_a_listing_that_was_short_leaves_the_run_incomplete():
    """Ledgers that came back after it were not judged."""
    said = summary(verdict(1), listing_was_short=True)
    assert ("INCOMPLETE", 3) == (said["outcome"], said["exit_code"])


def test_bookies_count_as_of_the_last_look():
    """A bookie that answered at any look counts as answered. Each other bookie counts by its last
    look.
    """

    def record(
        bookie: str, look: int, registration: Registration, greeting: Greeting | None
    ) -> BookieRecord:
        return BookieRecord(bookie, look, 0, registration, "h", 1, True, "", greeting)

    writable, readonly, none = Registration.WRITABLE, Registration.READONLY, Registration.NONE
    records = [
        record("b1", 1, writable, Greeting.ANSWERED), record("b1", 2, writable, Greeting.SILENT),
        record("b2", 1, writable, Greeting.SILENT), record("b2", 2, readonly, Greeting.REFUSED),
        record("b3", 1, writable, Greeting.SILENT), record("b3", 2, none, Greeting.UNREGISTERED),
        record("b4", 1, writable, Greeting.UNSUPPORTED), record("b5", 1, writable, Greeting.SILENT),
    ]  # fmt: skip
    said = encode(summarise(facts(), verdicts(verdict(1)), records, COSTS, [], NO_PREVIOUS, 0.0))[
        "bookies"
    ]
    expected = {
        "registered": 4, "readonly": 1, "named_by_ledgers": 4, "answered": 1, "silent": 1,
        "refused": 1, "unsupported": 1,
        "away": 1, "gone": 0, "listed_by_lister": 0,
    }  # fmt: skip
    assert expected == said


def test_the_requests_of_the_contract_are_all_reported():
    """They are reads, requests, bytes, retries, confirming reads, and entries that lists left
    out.
    """
    expected = {
        "zookeeper_reads": 40, "bookie_requests": 60, "bookie_bytes": 9000, "retries": 2,
        "confirming_reads": 5,
        "spot_reads": 0,
        "doubt_reads": 0,
        "scrub_reads": 0,
        "listing_false_negatives": 2,
    }  # fmt: skip
    assert expected == summary(*MIXED)["requests"]


def test_a_summary_counts_over_all_parts_of_the_verdicts():
    """A table may come in a batch for each ledger, and an exempt ledger promises no copy."""
    copies = {"copies_listed": 15, "copies_read": 3, "copies_assumed": 2, "copies_expected": 20}
    rows = (
        *MIXED,
        verdict(7, **copies),
        verdict(8, "violated", **copies),
        verdict(9, "exempt", **copies),
    )
    parts = [pa.Table.from_pylist([row], schema=VERDICTS) for row in rows]
    apart = encode(
        summarise(facts(), scan_rows(pa.concat_tables(parts)), [], COSTS, [], NO_PREVIOUS, 0.0)
    )
    assert summary(*rows) == apart
    assert {"expected": 40, "listed": 30, "read": 6, "assumed": 4} == apart["copies"]
    assert 2 == apart["requests"]["listing_false_negatives"]


def test_bookies_that_were_asked_less_are_reported():
    """They are those of the costs."""
    assert encode(COSTS.paces) == summary(*MIXED)["paces"]


@pytest.mark.parametrize("partial", [False, True])
def test_how_sure_a_sample_is_continues_the_series_of_the_last_run(partial: bool):
    """A run of the whole cluster with a probed ledger is counted in the series."""
    series = Series(7, 3, 12.5, (Span(4, 0, 2, 3, "2026-01-01T03:00:00Z"),))
    terms = replace(TERMS, sweep=Sweep(budget=9, seed=7, turn=3, step=4))
    probed = verdict(1, assurance="probed", probes=3, random_probes=3)
    run = facts(terms=terms, partial=partial)
    said = encode(
        summarise(run, verdicts(probed), [], COSTS, [], replace(NO_PREVIOUS, series=series), 7.5)
    )
    swept = SweptRun(terms.sweep, run.about.started_at, partial, 1, 7.5)
    assert encode(sampling_of(swept, series)) == said["sampling"]
    assert partial == (said["sampling"]["series"]["next_turn"] == 3)


@pytest.mark.parametrize(
    ("row", "code"),
    [
        (verdict(6, "violated"), 0),
        (verdict(6, "violated", unknowns=["bookie_silent"]), 3),
        (verdict(6, "violated", unknowns=["checkers_disagree"]), 4),
    ],
)
def test_the_code_without_any_finding_is_reported_too(row: dict[str, Any], code: int):
    """It holds if every finding is muted: what could not be judged and a fault still count."""
    assert code == summary(row, findings=(CRITICAL,))["exit_code_if_clean"]


def test_each_standing_and_severity_has_its_word():
    """The tables have the words of the model."""
    assert {"sound", "exempt", "indeterminate", "violated"} == {
        standing.word for standing in Standing
    }
    assert {"info", "warning", "critical"} == {severity.word for severity in Severity}


def test_ledgers_that_were_named_and_are_not_there_leave_the_run_incomplete():
    """A wrong id in a list of ledgers must not look like a sound cluster."""
    done = summary(
        verdict(7, "exempt", exempt="deleted"),
        partial=True,
        not_there=1,
        withheld=("1 of the ledgers ...",),
    )
    assert ("INCOMPLETE", 3, True, ["1 of the ledgers ..."]) == (
        done["outcome"], done["exit_code"], done["partial"], done["withheld"],
    )  # fmt: skip


def test_findings_of_one_ledger_come_by_their_segment():
    """A finding without a segment comes first. Findings on bookies are sorted by bookie."""
    first = report_stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 5)
    whole = report_stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 5, segment=None)
    b1, b2 = (report_stories.finding(Kind.BOOKIE_LOST_UNNOTICED, bookie) for bookie in ("b1", "b2"))
    clusters = [report_stories.finding(Kind.MARK_WITHOUT_LEDGER, "cluster")] * 2
    found = findings_of(verdicts(verdict(1)), [b2, first, *clusters, b1, whole])
    assert [whole, first] == [one for one in found if one.ledger_id]
    assert [b1, b2] == [one for one in found if one.bookie_id]


def test_a_summary_says_which_run_of_which_cluster_it_is():
    """The fields have the names of the contract and the given values."""
    given = {
        "run_id": "r7",
        "started_at": "then",
        "finished_at": "later",
        "resumed_at": ("between",),
        "nobody_answered": True,
    }
    said = summary(verdict(1), **given)
    assert given | {"resumed_at": ["between"]} == {name: said[name] for name in given}
    assert (__version__, False) == (said["auditor_version"], said["replication_disabled"])
    assert {
        "metadata_service_uri": FACTS.metadata_service_uri, "instance_id": "inst",
        "root": "/ledgers", "hosts": ["zk1:2181"],
    } == said["cluster"]  # fmt: skip


def test_what_was_found_decides_the_outcome_and_the_code():
    """--fail-on sets the lowest severity that gives code 1. A run of one sound ledger is sound."""
    assert ("SOUND", 0) == tuple(summary(verdict(1))[name] for name in ("outcome", "exit_code"))
    for fail_on, code in (("warning", 1), ("critical", 0)):
        said = summary(verdict(6, "violated"), findings=(WARNING,), fail_on=fail_on)
        assert ("VIOLATED", code, 1) == (
            said["outcome"],
            said["exit_code"],
            said["findings"][WARNING.kind.value]["findings"],
        )
    said = summary(verdict(1, "indeterminate", unknowns=["checkers_disagree"]), fail_on="never")
    assert ("AUDITOR_FAULT", 4) == (said["outcome"], said["exit_code"])


def test_totals_continue_from_the_last_run():
    """Findings and requests both have totals."""
    previous = Previous(
        {CRITICAL.kind.value: 4},
        RequestTotals(zookeeper_reads=RequestOutcomes(100, 1)),
        frozenset(),
    )
    said = summary(verdict(5, "violated"), findings=(CRITICAL,), previous=previous)
    assert (5, {"answered": 137, "failed": 4}) == (
        said["totals"][CRITICAL.kind.value],
        said["request_totals"]["zookeeper_reads"],
    )


def test_the_next_run_is_compared_with_this_one():
    """If this run keeps an older baseline, the next run is compared with that. A partial run gives
    no number.
    """
    names = ("baseline_run", "baseline_finished_at", "baseline_listed", "low_listed", "low_runs")
    said = summary(*MIXED, run_id="r7", finished_at="later")["population"]
    assert dict(zip(names, ("r7", "later", 6, [], 0), strict=True)) == said
    kept = LastPopulation("r1", "before", 900, 50, (6, 7), 2)
    said = summary(*MIXED, baseline=kept)["population"]
    assert dict(zip(names, ("r1", "before", 900, [6, 7], 2), strict=True)) == said
    assert None is summary(*MIXED, partial=True)["population"]


def test_coverage_has_six_digits():
    """Two of three ledgers are covered. Without ledgers lists have left nothing out."""
    said = summary(verdict(1), verdict(2), verdict(3, "indeterminate", unknowns=["bookie_silent"]))
    assert 0.666667 == said["coverage"]
    assert 0 == summary(allow_empty=True)["requests"]["listing_false_negatives"]
