"""What a run reads of the newest finished run: counters, findings, and the number of ledgers to
compare with.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from support import report_stories

from auditor.errors import OutputError
from auditor.evidence import findings_file
from auditor.evidence.newest_run import LATEST
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import Place, place, write_json
from auditor.model.cluster import ClusterFacts
from auditor.model.codec import encode
from auditor.model.evidence import LastPopulation
from auditor.model.finding import CATALOGUE, Kind
from auditor.model.summary import RequestOutcomes, RequestTotals
from auditor.summary.costs import Costs
from auditor.summary.previous_run import (
    BEGINS_ANEW,
    NO_PREVIOUS,
    Previous,
    are_as_counted,
    longest_unregistered,
    read_findings,
    read_previous,
    read_summary,
)
from auditor.summary.sweeps import Series, Span

RUN_ID = "20260101T030000Z-000001"
CLUSTER = {"metadata_service_uri": "zk://h:2181/ledgers", "instance_id": "inst"}
FACTS = ClusterFacts(
    "zk://h:2181/ledgers", ("h:2181",), "/ledgers", "hierarchical", "inst", False, None
)
ENDED = "2026-01-01T03:00:00Z"
COUNTS = {"sound": 0, "exempt": 0, "indeterminate": 0, "violated": 0}
WHOLE = {
    "run_id": "r1",
    "finished_at": ENDED,
    "ledgers": {"listed": 812, **COUNTS},
    "totals": {"LEDGER_STUCK": 1},
}
"""What the summary of a run of the whole cluster says."""
CRITICAL = report_stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 5)
WARNING = report_stories.finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 6)


@pytest.fixture
def root(tmp_path: Path) -> Place:
    """Return an OUTPUT that can be written to."""
    found = place(str(tmp_path / "audits"))
    found.create()
    return found


def publish_run(root: Place, **summary: object) -> Place:
    """Publish a run with this summary as the newest finished one."""
    run = Output(root).start(RUN_ID)
    stored = report_stories.summary_without("totals", "started_at", "finished_at").as_json()
    write_json(run, "summary.json", {**stored, "cluster": CLUSTER, **summary})
    Output(root).publish(run)
    return run


def read_last(root: Place, facts: ClusterFacts = FACTS) -> Previous:
    return read_previous(Output(root), facts)


def test_counters_continue_from_the_last_finished_run(root: Place) -> None:
    """The totals, the request totals and the ids of its findings are read. A run of another cluster
    gives nothing.
    """
    totals = {"METADATA_MALFORMED": 7}
    requests = RequestTotals(RequestOutcomes(9, 1), RequestOutcomes(4, 0))
    run = publish_run(root, totals=totals, request_totals=encode(requests))
    found = [report_stories.finding(Kind.METADATA_MALFORMED, ledger_id) for ledger_id in (7, 8)]
    run.write_text("findings.jsonl", findings_file.text(found))
    ids = {(one.id, Kind.METADATA_MALFORMED) for one in found}
    assert Previous(totals, requests, frozenset(ids)) == read_last(root)
    other = read_last(root, replace(FACTS, instance_id="another cluster"))
    assert (NO_PREVIOUS, "") == (other, other.problem)


def test_a_run_that_counted_nothing_lets_counters_start_at_nothing(root: Place) -> None:
    """An earlier version wrote no totals: they are empty."""
    publish_run(root)
    assert ({}, RequestTotals(), NO_PREVIOUS) == (
        read_last(root).totals,
        read_last(root).request_totals,
        read_last(root),
    )


def test_without_a_finished_run_there_is_nothing_to_continue_from(root: Place) -> None:
    """OUTPUT may be new, or latest.json may name a run that was removed or did not finish."""
    assert NO_PREVIOUS == read_last(root)
    root.write_text(LATEST, json.dumps({"run": f"run-{RUN_ID}"}))
    assert NO_PREVIOUS == read_last(root)
    Output(root).start(RUN_ID)
    assert NO_PREVIOUS == read_last(root)


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        (LastPopulation("r1", ENDED, 812, 50), {}),
        (LastPopulation("r1", ENDED, 0, 50), {"ledgers": {"listed": 0, **COUNTS}}),
        (LastPopulation("r1", ENDED, 812, 50), {"partial": False, "population": None}),
        (None, {"partial": True}),
        (None, {"finished_at": None}),
    ],
)
def test_the_last_runs_number_of_ledgers_is_known(
    root: Place, expected: LastPopulation | None, changes: dict[str, object]
) -> None:
    """Only a run of the whole cluster that says when it ended has a number. Its totals count in
    any case.
    """
    publish_run(root, **(WHOLE | changes))
    assert (expected, 1) == (read_last(root).population(50), read_last(root).totals["LEDGER_STUCK"])


BASELINE = {
    "baseline_run": "r0",
    "baseline_finished_at": "2025-12-31T03:00:00Z",
    "baseline_listed": 2_000,
}


@pytest.mark.parametrize(
    ("expected", "named"),
    [
        (
            LastPopulation("r0", "2025-12-31T03:00:00Z", 2_000, 50, (812, 810), 3),
            {"low_listed": [812, 810], "low_runs": 3},
        ),
        (LastPopulation("r0", "2025-12-31T03:00:00Z", 2_000, 50), {}),
    ],
)
def test_a_run_after_a_drop_names_the_run_to_compare_with(
    root: Place, expected: LastPopulation, named: dict[str, object]
) -> None:
    """It gives the older baseline instead of its own number, and what the runs since then
    listed.
    """
    publish_run(root, **WHOLE, population={**BASELINE, **named})
    assert (expected, replace(expected, drop_percent=0)) == (
        read_last(root).population(50),
        read_last(root).baseline,
    )


def test_bookies_are_unregistered_since_an_earlier_run_saw_it(root: Place) -> None:
    """The times are exact to the millisecond."""
    since = {"b1": 1_767_000_000_123, "b2": 7}
    publish_run(root, **WHOLE, bookies_unregistered=encode(longest_unregistered(since)))
    assert since == read_last(root).unregistered_since_ms


def test_sweeps_continue_from_the_series_of_the_last_run(root: Place) -> None:
    """A run without one begins a new series."""
    span = {"step": 4, "first_turn": 0, "last_turn": 2, "runs": 3, "since": ENDED}
    series = {"seed": 7, "next_turn": 3, "copies": 12.5, "spans": [span]}
    publish_run(root, **WHOLE, sampling={"budget": 1, "series": series})
    assert Series(7, 3, 12.5, (Span(4, 0, 2, 3, ENDED),)) == read_last(root).series
    publish_run(root, **WHOLE)
    assert read_last(root).series is None


@pytest.mark.parametrize(
    ("is_same", "theirs"),
    [
        (True, {"root": "/ledgers", "hosts": ["h2:2181", "h:2181"]}),
        (False, {"root": "/other", "hosts": ["h2:2181", "h:2181"]}),
        (False, {"root": "/ledgers", "hosts": ["h:2181"]}),
        (False, {"root": "/ledgers"}),
        (False, {}),
    ],
)
def test_a_cluster_without_an_id_is_recognised_by_its_root_and_hosts(
    root: Place, is_same: bool, theirs: dict[str, object]
) -> None:
    """Two clusters are not the same only because neither has an instance id."""
    uri = "zk://h:2181,h2:2181/ledgers"
    publish_run(
        root,
        cluster={"metadata_service_uri": uri, "instance_id": None, **theirs},
        totals={"LEDGER_STUCK": 7},
    )
    previous = read_last(root, replace(FACTS, instance_id=None, hosts=("h:2181", "h2:2181")))
    assert is_same == (previous != NO_PREVIOUS)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("summary.json", "{"),
        ("summary.json", "[]"),
        ("summary.json", '{"totals": {}}'),
        ("summary.json", json.dumps(report_stories.summary().as_json() | {"ledgers": 7})),
        ("summary.json", json.dumps(report_stories.summary().as_json() | {"run_id": None})),
        ("findings.jsonl", '{"id": "a"}\n{'),
    ],
)
def test_a_damaged_last_run_does_not_cost_this_one(root: Place, name: str, text: str) -> None:
    """If the last run is damaged, counters start at 0, and a sentence says so."""
    run = publish_run(root, totals={"METADATA_MALFORMED": 7})
    run.write_text(name, text)
    last = read_last(root)
    assert NO_PREVIOUS == last
    assert last.problem.endswith(BEGINS_ANEW)
    assert run.address in last.problem or name in last.problem


@pytest.mark.parametrize("text", ["", "{", "[]", '{"run": "../../etc"}', '{"run": "run-x"}'])
def test_a_latest_that_cannot_be_read_lets_counters_start_at_nothing(
    root: Place, text: str
) -> None:
    """It raises no error."""
    publish_run(root, totals={"METADATA_MALFORMED": 7})
    root.write_text(LATEST, text)
    assert NO_PREVIOUS == read_last(root)


@pytest.mark.parametrize(("text", "says"), [("{", "is not JSON"), ("[]", "is not a JSON object")])
def test_a_damaged_summary_is_an_error_in_words(root: Place, text: str, says: str) -> None:
    """It names the file and says that the directory is damaged."""
    run = publish_run(root)
    run.write_text("summary.json", text)
    with pytest.raises(OutputError, match=f"summary.json {says}.*damaged"):
        read_summary(run)


def test_a_run_that_did_not_finish_has_no_summary_and_no_findings(root: Place) -> None:
    """Neither is an error. What a finished run wrote is read."""
    run = Output(root).start(RUN_ID)
    assert (None, []) == (read_summary(run), read_findings(run))
    found = [report_stories.finding(Kind.METADATA_MALFORMED, ledger_id) for ledger_id in (7, 8)]
    run.write_text("findings.jsonl", findings_file.text(found))
    summary = report_stories.summary()
    write_json(run, "summary.json", summary.as_json())
    assert (summary, found) == (read_summary(run), read_findings(run))


def test_totals_grow_by_the_findings_that_are_new():
    """A finding of the last run is not counted again, and a kind without findings keeps its
    total.
    """
    before = Previous(
        {"ENTRY_WITHOUT_REPLICA": 4, "METADATA_MALFORMED": 2},
        RequestTotals(),
        frozenset({(CRITICAL.id, CRITICAL.kind)}),
    )
    fresh = report_stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 77)
    totals = before.totals_after([CRITICAL, fresh, WARNING])
    assert (
        Counter(ENTRY_WITHOUT_REPLICA=5, METADATA_MALFORMED=2, ENTRY_BELOW_WRITE_QUORUM=1)
        == Counter(totals) + Counter()
    )
    assert set(totals) == {kind.value for kind in CATALOGUE}


def test_requests_add_up_over_runs_by_outcome():
    """A request without a valid answer counts as failed and not as answered."""
    before = Previous({}, RequestTotals(RequestOutcomes(100, 1)), frozenset())
    costs = Costs(
        zookeeper_reads=40,
        zookeeper_reads_failed=3,
        bookie_requests=60,
        bookie_bytes=9000,
        retries=2,
        confirming_reads=5,
        unanswered=7,
        bookies_named=4,
    )
    after = before.request_totals_after(costs)
    assert RequestOutcomes(100 + 60 - 7, 1 + 7) == after.bookie_requests
    assert RequestOutcomes(37, 3) == after.zookeeper_reads


def test_a_finding_that_got_worse_is_new():
    """The same segment had too few copies and has none now: the counter of the worse kind grows."""
    before = Previous(
        {}, RequestTotals(), frozenset({(CRITICAL.id, Kind.ENTRY_BELOW_WRITE_QUORUM)})
    )
    assert 1 == before.totals_after([CRITICAL])[CRITICAL.kind.value]


def test_requests_that_all_failed_were_not_answered():
    """The number of answered requests is 0, not negative."""
    costs = Costs(0, 0, 7, 0, 0, 0, 7, 0)
    after = NO_PREVIOUS.request_totals_after(costs)
    assert RequestOutcomes(0, 7) == after.bookie_requests


def test_a_drop_is_judged_by_the_setting_of_this_run():
    """The setting of the last run does not matter. Before the first run there is no number."""
    kept = LastPopulation("r1", "before", 900, 50, (6, 7), 2)
    allowed = Previous({}, RequestTotals(), frozenset(), kept).population(30)
    assert LastPopulation("r1", "before", 900, 30, (6, 7), 2) == allowed
    assert None is NO_PREVIOUS.population(30)


@pytest.mark.parametrize(
    ("counts", "is_whole"),
    [
        ({"LEDGER_STUCK": 2, "ENTRY_CORRUPT": 1, "LEDGER_ORPHANED": 0}, True),
        ({"LEDGER_STUCK": 1, "ENTRY_CORRUPT": 1}, False),
        ({"LEDGER_STUCK": 3, "ENTRY_CORRUPT": 1}, False),
        ({"LEDGER_STUCK": 1, "ENTRY_CORRUPT": 2}, False),
        ({"LEDGER_STUCK": 3}, False),
        ({"LEDGER_STUCK": 2, "ENTRY_CORRUPT": 1, "LEDGER_ORPHANED": 1}, False),
        ({}, False),
    ],
)
def test_findings_are_whole_if_the_summary_counts_as_many_of_each_kind(
    counts: dict[str, int], is_whole: bool
) -> None:
    """As many findings of other kinds belong to another run."""
    kinds = (Kind.LEDGER_STUCK, Kind.ENTRY_CORRUPT, Kind.LEDGER_STUCK)
    findings = [report_stories.finding(kind, 7) for kind in kinds]
    field = {kind: {"findings": number, "ledgers": 9} for kind, number in counts.items()}
    assert is_whole is are_as_counted(findings, report_stories.summary(findings=field))
