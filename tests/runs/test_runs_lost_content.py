"""A whole run over a bookie that was wiped, beside its twin that lost a single ledger."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.audits import Outcome, accounted, audit, replay_run

from auditor.commands.ledger_ids import read_ledger_ids
from auditor.commands.report import report
from auditor.config import Layers, parse
from auditor.context import Context
from auditor.model.finding import Kind
from auditor.sandbox.cluster import SandboxCluster
from auditor.stop import StopRequest
from auditor.telemetry import log
from auditor.telemetry.progress import Silent

ON_WIPED = range(1, 7)
ON_TWIN = range(11, 17)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    """Yield an audit: b2 holds nothing of six ledgers; b4 holds everything of six others except
    one ledger.
    """
    with SandboxCluster(tmp_path_factory.mktemp("cluster"), bookies=4, named=True) as cluster:
        for ledger_id in ON_WIPED:
            cluster.place(ledger_id, cluster.ledger("e3 w3 a2  0:[b1 b2 b3]  closed 99"))
        for ledger_id in ON_TWIN:
            cluster.place(ledger_id, cluster.ledger("e3 w3 a2  0:[b1 b3 b4]  closed 99"))
        cluster.bookie("b2").wipe()
        cluster.bookie("b4").forget(ON_TWIN[0])
        yield accounted(audit(cluster, tmp_path_factory.mktemp("audit")))


def test_the_wiped_bookie_is_found_and_its_twin_is_not(outcome: Outcome):
    """There is one critical finding on a bookie; each ledger keeps its own; the replay is the same,
    byte for byte (`accounted`).
    """
    found = outcome.one("b2")
    assert (Kind.BOOKIE_LOST_CONTENT.value, "critical") == (found["kind"], found["severity"])
    said = (
        "answered for 6 ledgers. Of 6 of them (1, 2, 3, 4, 5, 6) it lacked, at two looks, more than"
        " half of the entries"
    )
    assert said in found["witness"]
    assert ["answered", "answered"] == [look["answers"]["b2"] for look in found["looks"]]
    assert [[], []] == [outcome.of(bookie) for bookie in ("b1", "b4")]
    assert Kind.ENTRY_BELOW_WRITE_QUORUM.value == outcome.one(ON_TWIN[0])["kind"]
    assert {"ledgers": 0, "bookies": 1, "findings": 1} == outcome.summary["findings"][
        Kind.BOOKIE_LOST_CONTENT.value
    ]


def test_the_report_leads_with_the_bookie(outcome: Outcome):
    """The cause comes before every count, and the summary says the same."""
    (cause,) = outcome.summary["causes"]
    assert (
        "bookie b2 lost content and lacks entries of 6 ledgers (100 % of its 6 ledgers, 3 % on the"
        " rest)" == cause["says"]
    )
    assert outcome.stdout.index(f"  1. {cause['says']}") < outcome.stdout.index("\nLedgers\n")
    assert 1 == outcome.summary["ledgers_without_cause"], "the twin's ledger is a ledger's loss"


def test_a_cause_has_its_ledgers_in_a_file(outcome: Outcome):
    """As --ledgers-from reads them."""
    assert outcome.run_dir is not None
    (cause,) = outcome.summary["causes"]
    assert list(ON_WIPED) == read_ledger_ids(outcome.run_dir / cause["file"])


def test_a_stored_run_tells_the_same_causes(outcome: Outcome):
    """This holds for one rendered again from its summary, and for one judged again from its
    evidence.
    """
    assert outcome.run_dir is not None
    out = io.StringIO()
    context = Context(
        parse(Layers(flags={"full": "true"}), command="replay"),
        out,
        log.setup(stream=io.StringIO()),
        Silent(),
        StopRequest(),
    )
    assert 1 == report(context, str(outcome.run_dir))
    assert (outcome.run_dir / "report.txt").read_text() == out.getvalue()
    again = replay_run(Path(outcome.run_dir))
    assert json.dumps(outcome.summary["causes"]) == json.dumps(again.summary["causes"])


def test_a_replay_needs_no_stored_findings(outcome: Outcome, tmp_path: Path):
    """Without them there is no history of the findings, but the evidence is judged."""
    assert outcome.run_dir is not None
    copy = tmp_path / Path(outcome.run_dir).name
    shutil.copytree(outcome.run_dir, copy)
    stored = (copy / "findings.jsonl").read_text()
    (copy / "findings.jsonl").write_text(stored[:-40])
    again = replay_run(copy)
    assert outcome.summary["findings"] == again.summary["findings"]
    assert {None} == {found["first_seen"] for found in again.findings}
