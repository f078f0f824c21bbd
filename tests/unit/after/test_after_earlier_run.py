"""What a run reads of the newest finished run to follow its findings, and when there is nothing to
read.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import report_stories

from auditor.after.compared_finding import ComparedFinding
from auditor.after.history import (
    ANNOUNCED,
    UNCHECKED,
    EarlierRun,
    Sighting,
    UnreadableRun,
    read_earlier_run,
)
from auditor.after.rechecks import Judged, Row
from auditor.evidence.newest_run import LATEST
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import Place, place, write_json
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import Terms
from auditor.model.finding import Kind
from auditor.model.finding_record import FindingHistory, Muted
from auditor.summary.about import About

RUN_ID = "20260101T030000Z-000001"
FACTS = ClusterFacts(
    "zk://h:2181/ledgers", ("h:2181",), "/ledgers", "hierarchical", "inst", False, None
)
STUCK = report_stories.finding(
    Kind.LEDGER_STUCK, 7, first_seen="2025-12-01T00:00:00.000Z", runs_seen=9
)
UNHEARD = Sighting(
    ComparedFinding.of(report_stories.finding(Kind.ENTRY_CORRUPT, 8)),
    "2025-11-01T00:00:00.000Z",
    4,
    2,
    False,
    "silent",
)


@pytest.fixture
def run(tmp_path: Path) -> Place:
    """Return a finished run with a finding, and with an older finding that it could not check."""
    output = Output(place(str(tmp_path)))
    directory = output.start(RUN_ID)
    cluster = {"metadata_service_uri": FACTS.metadata_service_uri, "instance_id": "inst"}
    write_json(
        directory,
        "run.json",
        About(RUN_ID, "s", FACTS, Terms(1, 2, 3, 4), "warning", False).as_json(),
    )
    directory.write_text("findings.jsonl", STUCK.line() + "\n")
    directory.write_text(UNCHECKED, json.dumps(UNHEARD.as_json()) + "\n")
    write_json(
        directory,
        "summary.json",
        {
            **report_stories.summary(findings=report_stories.counted([STUCK])).as_json(),
            "cluster": cluster,
        },
    )
    output.publish(directory)
    return directory


def read_earlier(tmp_path: Path, facts: ClusterFacts = FACTS) -> EarlierRun | UnreadableRun | None:
    return read_earlier_run(Output(place(str(tmp_path))), facts)


def test_its_findings_and_what_it_handed_on_are_known(run: Place, tmp_path: Path):
    """Each finding has when it was first seen, the number of its runs, and the setting on which its
    kind depends.
    """
    earlier = read_earlier(tmp_path)
    assert isinstance(earlier, EarlierRun)
    (stuck,) = earlier.found
    stuck_after = Terms(1, 2, 3, 4).stuck_after_ms
    assert ("2025-12-01T00:00:00.000Z", 9, stuck_after) == (
        stuck.first_seen,
        stuck.runs_seen,
        stuck.setting,
    )
    assert [UNHEARD] == list(earlier.carried)
    assert {(UNHEARD.finding.id, Kind.ENTRY_CORRUPT)} == earlier.known()


KNOWN = Muted("2026-02-01", "known")


@pytest.mark.parametrize(
    ("kind", "history", "is_announced", "unannounced"),
    [
        (Kind.ENTRY_CORRUPT, FindingHistory(news_since="r1"), False, "r1"),
        (Kind.ENTRY_CORRUPT, FindingHistory(news_since="r1"), True, None),
        (Kind.ENTRY_CORRUPT, FindingHistory(change="still"), False, None),
        (Kind.ENTRY_CORRUPT, FindingHistory(muted=KNOWN, news_since="r1"), False, None),
        (Kind.LEDGER_STUCK, FindingHistory(news_since="r1"), False, None),
    ],
    ids=["killed", "announced", "no news", "muted", "info"],
)
def test_news_of_a_run_without_a_record_are_unannounced(
    run: Place,
    tmp_path: Path,
    kind: Kind,
    history: FindingHistory,
    is_announced: bool,
    unannounced: str | None,
):
    """The record is written last: a run that was killed before has none."""
    loss = replace(report_stories.finding(kind, 7), history=history)
    run.write_text("findings.jsonl", loss.line() + "\n")
    counted = report_stories.summary(findings=report_stories.counted([loss])).as_json()
    stored = json.loads(run.read_text("summary.json") or "")
    write_json(run, "summary.json", stored | {"findings": counted["findings"]})
    if is_announced:
        run.write_text(ANNOUNCED, "{}")
    earlier = read_earlier(tmp_path)
    assert isinstance(earlier, EarlierRun)
    (found,) = earlier.found
    assert (unannounced, history.muted == KNOWN) == (found.unannounced_since, found.was_muted)


def test_a_finding_that_was_written_without_a_history_has_none(run: Place, tmp_path: Path):
    """An earlier version wrote neither first_seen nor runs_seen, and nothing is made up."""
    plain = {
        name: value
        for name, value in STUCK.as_json().items()
        if name not in ("first_seen", "runs_seen", "muted")
    }
    run.write_text("findings.jsonl", json.dumps(plain) + "\n")
    earlier = read_earlier(tmp_path)
    assert isinstance(earlier, EarlierRun) and (None, None) == (
        earlier.found[0].first_seen,
        earlier.found[0].runs_seen,
    )


def test_no_run_and_the_run_of_another_cluster_are_no_earlier_run(run: Place, tmp_path: Path):
    """The history of each finding begins with this run."""
    assert None is read_earlier(tmp_path / "elsewhere")
    assert None is read_earlier(tmp_path, replace(FACTS, instance_id="another"))


DAMAGE: list[tuple[str, str | None]] = [
    ("findings.jsonl", ""),
    ("findings.jsonl", "{"),
    ("summary.json", None),
    ("summary.json", "{"),
    ("run.json", "{}"),
    ("run.json", None),
    (UNCHECKED, "{}\n"),
    (UNCHECKED, json.dumps(UNHEARD.as_json() | {"kind": "NO_SUCH_KIND"}) + "\n"),
    (f"../{LATEST}", "{"),
]


@pytest.mark.parametrize(("name", "text"), DAMAGE)
def test_what_is_damaged_is_unreadable_and_not_empty(
    run: Place, tmp_path: Path, name: str, text: str | None
):
    """If it passed for empty, findings of the damaged run would pass for new."""
    file = Path(run.path) / name
    file.unlink() if text is None else file.write_text(text)
    earlier: Any = read_earlier(tmp_path)
    assert isinstance(earlier, UnreadableRun) and earlier.problem


def test_what_is_handed_on_is_read_as_it_was_written():
    """This holds even if first_seen is unknown, the ledger is gone, or the kind depends on a
    setting.
    """
    for one in (
        UNHEARD,
        replace(UNHEARD, first_seen=None, runs_seen=None),
        replace(UNHEARD, is_gone=True, setting={"policy": "rack"}),
    ):
        assert one == Sighting.from_json(json.loads(json.dumps(one.as_json())))


def test_a_run_that_handed_nothing_on_may_lack_the_file(run: Place, tmp_path: Path):
    """Its id, its start, its terms and its own findings are known nevertheless."""
    (Path(run.path) / UNCHECKED).unlink()
    earlier = read_earlier(tmp_path)
    assert isinstance(earlier, EarlierRun)
    summary = json.loads(run.read_text("summary.json") or "")
    assert (summary["run_id"], summary["started_at"], []) == (
        earlier.run_id,
        earlier.started_at,
        list(earlier.carried),
    )
    assert 3 == earlier.terms["confirming_reads_max"]


def test_a_finding_is_kept_as_far_as_it_is_compared(run: Place, tmp_path: Path):
    """The witness is dropped. There is no setting if the kind depends on none."""
    loss = report_stories.finding(Kind.ENTRY_BELOW_ACK_QUORUM, 7)
    run.write_text("findings.jsonl", loss.line() + "\n")
    write_json(
        run,
        "summary.json",
        json.loads(run.read_text("summary.json") or "")
        | {
            "findings": report_stories.summary(findings=report_stories.counted([loss])).as_json()[
                "findings"
            ]
        },
    )
    earlier = read_earlier(tmp_path)
    assert isinstance(earlier, EarlierRun)
    (one,) = earlier.found
    assert ComparedFinding.of(loss) == one.finding
    assert one.setting is None
    assert "witness" not in one.finding.as_json()


def test_only_facts_that_are_compared_are_kept():
    """Those on the cluster count ledgers or marks, and those of ENTRY_CORRUPT name its copies. An
    earlier version handed on ENTRY_CORRUPT without them.
    """
    corrupt = report_stories.finding(Kind.ENTRY_CORRUPT, 8)
    assert corrupt.facts.values and corrupt.facts == ComparedFinding.of(corrupt).facts
    handed_on = ComparedFinding.of(corrupt).as_json()
    del handed_on["facts"]
    assert None is ComparedFinding.from_json(handed_on).facts
    dropped = report_stories.finding(Kind.LEDGER_POPULATION_DROPPED, "cluster")
    assert dropped.facts.values and dropped.facts == ComparedFinding.of(dropped).facts
    for other in (
        report_stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 8),
        report_stories.finding(Kind.BOOKIE_LOST_CONTENT, "b1"),
    ):
        assert "facts" not in ComparedFinding.of(other).as_json()


def test_the_findings_of_an_earlier_run_say_which_ledgers_it_sampled():
    """Of other ledgers the earlier run is taken to know nothing."""
    terms = {"stuck_after_ms": 1}
    found = [
        Sighting(ComparedFinding.of(one), None, None)
        for one in (
            report_stories.finding(Kind.ENTRY_CORRUPT, 8, assurance="probed"),
            report_stories.finding(Kind.LEDGER_STUCK, 9, assurance="probed"),
            report_stories.finding(Kind.BOOKIE_LOST_CONTENT, "b1"),
        )
    ]
    assert (
        Judged(False, False, True, {8: Row(None, (), "probed")}, {}, terms=terms)
        == EarlierRun("r", "2026-01-01T00:00:00Z", terms, found).as_judged()
    )


def test_without_an_instance_the_root_and_the_hosts_say_whose_run_it_is(run: Place, tmp_path: Path):
    """A summary that lacks the root or the hosts is taken for that of another cluster."""
    summary = json.loads(run.read_text("summary.json") or "")
    here = {"instance_id": None, "root": "/ledgers", "hosts": ["h:2181"]}
    nameless = replace(FACTS, instance_id=None)
    for cluster, is_known in (
        (here, True),
        (here | {"root": "/other"}, False),
        (here | {"hosts": ["other:2181"]}, False),
        ({"instance_id": None, "root": "/ledgers"}, False),
        ({"instance_id": None, "hosts": ["h:2181"]}, False),
    ):
        write_json(run, "summary.json", summary | {"cluster": cluster})
        earlier = read_earlier(tmp_path, nameless)
        assert isinstance(earlier, EarlierRun) if is_known else earlier is None


def test_a_lost_file_of_a_run_is_named(run: Place, tmp_path: Path):
    """A reader of the problem learns which file to look for."""
    (Path(run.path) / "run.json").unlink()
    earlier = read_earlier(tmp_path)
    assert isinstance(earlier, UnreadableRun) and "run.json" in earlier.problem
