"""What a run reads of the newest finished one: counters, findings, and what it is compared with."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import report_stories

from auditor.errors import OutputError
from auditor.evidence.newest_run import LATEST
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import Place, place, write_json
from auditor.first_checker.population import LastPopulation
from auditor.model.cluster import ClusterFacts
from auditor.model.finding import CATALOGUE, Kind
from auditor.summary.absences import unregistered_json
from auditor.summary.costs import Costs
from auditor.summary.previous_run import (
    NO_PREVIOUS,
    Previous,
    are_as_counted,
    read_findings,
    read_previous,
    read_summary,
)

RUN_ID = "20260101T030000Z-000001"
CLUSTER = {"metadata_service_uri": "zk://h:2181/ledgers", "instance_id": "inst"}
FACTS = ClusterFacts(
    "zk://h:2181/ledgers", ("h:2181",), "/ledgers", "hierarchical", "inst", False, None
)
ENDED = "2026-01-01T03:00:00Z"
WHOLE = {
    "run_id": "r1",
    "finished_at": ENDED,
    "ledgers": {"listed": 812},
    "totals": {"LEDGER_STUCK": 1},
}
"""What the summary of a run of the whole cluster says."""
CRITICAL = report_stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 5)
WARNING = report_stories.finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 6)


@pytest.fixture
def root(tmp_path: Path) -> Place:
    """An OUTPUT that can be written to."""
    found = place(str(tmp_path / "audits"))
    found.create()
    return found


def finished(root: Place, **summary: object) -> Place:
    """The newest finished run, with this summary."""
    run = Output(root).start(RUN_ID)
    write_json(run, "summary.json", {"cluster": CLUSTER, **summary})
    Output(root).publish(run)
    return run


def known(root: Place, facts: ClusterFacts = FACTS) -> Previous:
    return read_previous(Output(root), facts)


def test_counters_continue_from_the_last_finished_run(root: Place) -> None:
    """Totals, request totals, and the ids of its findings."""
    totals, requests = {"METADATA_MALFORMED": 7}, {"bookie_requests": {"answered": 9, "failed": 1}}
    run = finished(root, totals=totals, request_totals=requests)
    found = [report_stories.finding(Kind.METADATA_MALFORMED, ledger_id) for ledger_id in (7, 8)]
    run.write_text("findings.jsonl", "".join(json.dumps(one) + "\n" for one in found))
    ids = {(one["id"], "METADATA_MALFORMED") for one in found}
    assert Previous(totals, requests, frozenset(ids)) == known(root)
    assert NO_PREVIOUS == known(root, replace(FACTS, instance_id="another cluster"))


def test_a_run_that_counted_nothing_lets_counters_start_at_nothing(root: Place) -> None:
    """An earlier version wrote no totals: they are empty and can be counted on."""
    finished(root)
    assert ({}, {}, NO_PREVIOUS) == (known(root).totals, known(root).request_totals, known(root))


def test_without_a_finished_run_there_is_nothing_to_continue_from(root: Place) -> None:
    """Neither in a new OUTPUT, nor where latest.json names a run that was removed or did not
    finish.
    """
    assert NO_PREVIOUS == known(root)
    root.write_text(LATEST, json.dumps({"run": f"run-{RUN_ID}"}))
    assert NO_PREVIOUS == known(root)
    Output(root).start(RUN_ID)
    assert NO_PREVIOUS == known(root)


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        (LastPopulation("r1", ENDED, 812, 50), {}),
        (LastPopulation("r1", ENDED, 0, 50), {"ledgers": {"listed": 0}}),
        (LastPopulation("r1", ENDED, 812, 50), {"partial": False, "population": None}),
        (None, {"partial": True}),
        (None, {"ledgers": {}}),
        (None, {"ledgers": {"listed": "812"}}),
        (None, {"run_id": None}),
        (None, {"finished_at": None}),
    ],
)
def test_the_last_runs_number_of_ledgers_is_known(
    root: Place, expected: LastPopulation | None, changes: dict[str, object]
) -> None:
    """Only if it looked at the whole cluster and says how many there were; its totals count all the
    same.
    """
    finished(root, **(WHOLE | changes))
    assert (expected, 1) == (known(root).population(50), known(root).totals["LEDGER_STUCK"])


def test_a_summary_without_its_ledgers_has_no_number_to_compare_with(root: Place) -> None:
    """Its counters are kept."""
    finished(root, run_id="r1", finished_at=ENDED, totals={"LEDGER_STUCK": 1})
    assert (None, {"LEDGER_STUCK": 1}) == (known(root).baseline, known(root).totals)


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
    """Not its own number, and with what the runs since then listed."""
    finished(root, **WHOLE, population={**BASELINE, **named})
    assert (expected, replace(expected, drop_percent=0)) == (
        known(root).population(50),
        known(root).baseline,
    )


def test_bookies_are_unregistered_since_an_earlier_run_saw_it(root: Place) -> None:
    """Whether or not a number of ledgers is known."""
    since = {"b1": 1_767_000_000_123, "b2": 7}
    for summary in (WHOLE, {}):
        finished(root, **summary, bookies_unregistered=unregistered_json(since))
        assert since == known(root).unregistered_since_ms


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
    """Two old clusters without an instance id are not one."""
    uri = "zk://h:2181,h2:2181/ledgers"
    finished(
        root,
        cluster={"metadata_service_uri": uri, "instance_id": None, **theirs},
        totals={"LEDGER_STUCK": 7},
    )
    previous = known(root, replace(FACTS, instance_id=None, hosts=("h:2181", "h2:2181")))
    assert is_same == (previous != NO_PREVIOUS)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("summary.json", "{"),
        ("summary.json", "[]"),
        ("summary.json", '{"totals": {}}'),
        ("summary.json", '{"cluster": {"instance_id": "inst"}, "ledgers": 7}'),
        ("findings.jsonl", '{"id": "a"}\n{'),
    ],
)
def test_a_damaged_last_run_does_not_cost_this_one(root: Place, name: str, text: str) -> None:
    """It is read at the end of a run: counters start at 0, and the run is published."""
    run = finished(root, totals={"METADATA_MALFORMED": 7})
    run.write_text(name, text)
    assert NO_PREVIOUS == known(root)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"run": "../../etc"}', '{"run": "run-x"}'])
def test_a_latest_that_cannot_be_read_lets_counters_start_at_nothing(
    root: Place, text: str
) -> None:
    """A run is not lost over it."""
    finished(root, totals={"METADATA_MALFORMED": 7})
    root.write_text(LATEST, text)
    assert NO_PREVIOUS == known(root)


@pytest.mark.parametrize(("text", "says"), [("{", "is not JSON"), ("[]", "is not a JSON object")])
def test_a_damaged_summary_is_a_sentence(root: Place, text: str, says: str) -> None:
    """Which file, and that the directory is damaged."""
    run = finished(root)
    run.write_text("summary.json", text)
    with pytest.raises(OutputError, match=f"summary.json {says}.*damaged"):
        read_summary(run)


def test_a_run_that_did_not_finish_has_no_summary_and_no_findings(root: Place) -> None:
    """Neither is an error; a finished run has what it wrote."""
    run = Output(root).start(RUN_ID)
    assert (None, []) == (read_summary(run), read_findings(run))
    found: list[dict[str, Any]] = [
        report_stories.finding(Kind.METADATA_MALFORMED, ledger_id) for ledger_id in (7, 8)
    ]
    run.write_text("findings.jsonl", "".join(json.dumps(one) + "\n" for one in found))
    write_json(run, "summary.json", {"a": 1})
    assert ({"a": 1}, found) == (read_summary(run), read_findings(run))


def test_totals_grow_by_the_findings_that_are_new():
    """A finding that was there at the last run is not counted again; other kinds keep their
    totals.
    """
    before = Previous(
        {"ENTRY_WITHOUT_REPLICA": 4, "METADATA_MALFORMED": 2},
        {},
        frozenset({(CRITICAL["id"], CRITICAL["kind"])}),
    )
    fresh = report_stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 77)
    totals = before.totals_after([CRITICAL, fresh, WARNING])
    assert (
        Counter(ENTRY_WITHOUT_REPLICA=5, METADATA_MALFORMED=2, ENTRY_BELOW_WRITE_QUORUM=1)
        == Counter(totals) + Counter()
    )
    assert set(totals) == {kind.value for kind in CATALOGUE}


def test_requests_add_up_over_runs_by_outcome():
    """What brought no valid answer is failed; nothing is counted twice."""
    before = Previous({}, {"bookie_requests": {"answered": 100, "failed": 1}}, frozenset())
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
    assert {"answered": 100 + 60 - 7, "failed": 1 + 7} == after["bookie_requests"]
    assert {"answered": 37, "failed": 3} == after["zookeeper_reads"]


def test_a_finding_that_got_worse_is_new():
    """The same segment, from too few copies to none: the counter of the worse kind moves."""
    before = Previous({}, {}, frozenset({(CRITICAL["id"], "ENTRY_BELOW_WRITE_QUORUM")}))
    assert 1 == before.totals_after([CRITICAL])[CRITICAL["kind"]]


def test_requests_that_all_failed_were_not_answered():
    """Nothing is counted below zero, and nothing appears."""
    costs = Costs(0, 0, 7, 0, 0, 0, 7, 0)
    after = NO_PREVIOUS.request_totals_after(costs)
    assert {"answered": 0, "failed": 7} == after["bookie_requests"]


def test_how_many_ledgers_a_run_may_lose_is_its_own_setting():
    """Whatever the last run was held to; before the first run there is nothing."""
    kept = LastPopulation("r1", "before", 900, 50, (6, 7), 2)
    allowed = Previous({}, {}, frozenset(), kept).population(30)
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
    """The same number of other kinds is another run's."""
    findings = [{"kind": kind} for kind in ("LEDGER_STUCK", "ENTRY_CORRUPT", "LEDGER_STUCK")]
    field = {kind: {"findings": number, "ledgers": 9} for kind, number in counts.items()}
    assert is_whole is are_as_counted(findings, field)
