"""Laws of whole runs about the number of ledgers: two runs of one cluster, and their replay."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.audits import Outcome, accounted, audit, replay_run

from auditor.evidence.run_directory import place
from auditor.evidence.schemas import LISTING
from auditor.findings.on_cluster import FIRST_LISTING, LISTINGS_AT, SECOND_LISTING
from auditor.model.finding import Kind
from auditor.sandbox.cluster import SandboxCluster

THEN = 120
LINE = THEN // 2
"""Ledgers that suffice at the default drop of 50 %."""


class Ledgers:
    """A cluster of `THEN` empty ledgers, some of which a test removes."""

    def __init__(self, cluster: SandboxCluster) -> None:
        self.cluster, self.metadata_service_uri = cluster, cluster.metadata_service_uri
        self.here: set[int] = set()

    def leave(self, count: int) -> None:
        """Leave the ledgers 0 to `count` - 1, and no others."""
        empty = self.cluster.ledger("e2 w2 a2  0:[b1 b2]  closed -1")
        self.cluster.add_ledgers(dict.fromkeys(set(range(count)) - self.here, empty))
        for ledger_id in self.here - set(range(count)):
            self.cluster.delete_ledger(ledger_id)
        self.here = set(range(count))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledgers]:
    with SandboxCluster(tmp_path_factory.mktemp("cluster"), bookies=2) as made:
        yield Ledgers(made)


@pytest.fixture(scope="module")
def first_run(cluster: Ledgers, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an output directory with one run, which listed all ledgers."""
    home = tmp_path_factory.mktemp("first")
    cluster.leave(THEN)
    first = accounted(audit(cluster, home))
    assert ([], 0) == (first.findings, first.exit_code)
    return home / "audits"


@pytest.fixture
def ledgers(cluster: Ledgers, first_run: Path, tmp_path: Path) -> Ledgers:
    """Restore all ledgers, and copy the output directory of the first run."""
    cluster.leave(THEN)
    shutil.copytree(first_run, tmp_path / "audits")
    return cluster


def listed_again(outcome: Outcome) -> int | None:
    """Return how many ledgers the second listing named; None if there was none."""
    assert outcome.run_dir is not None
    if not (outcome.run_dir / LISTINGS_AT[SECOND_LISTING]).exists():
        return None
    return place(str(outcome.run_dir)).count(LISTINGS_AT[SECOND_LISTING], LISTING)


def test_ledgers_that_vanished_are_found_once_they_were_listed_again(
    ledgers: Ledgers, tmp_path: Path
):
    """Both listings have fewer than half of the last run's ledgers: critical, on the cluster, with
    missing ids.
    """
    ledgers.leave(LINE - 1)
    outcome = accounted(audit(ledgers, tmp_path, second_look_delay="60s"))
    (found,) = outcome.findings
    assert Kind.LEDGER_POPULATION_DROPPED.value == found["kind"]
    assert (None, None, "critical") == (found["ledger_id"], found["bookie_id"], found["severity"])
    answers = [look["answers"] for look in found["looks"]]
    assert [{"listing": f"{LINE - 1} ledgers"}] * 2 == answers
    assert all(
        words in found["witness"]
        for words in (f"{THEN} ledgers", f"{LINE - 1}, {LINE}", ledgers.cluster.instance_id)
    )
    assert ("VIOLATED", 1) == (outcome.summary["outcome"], outcome.exit_code)
    assert {"ledgers": 0, "bookies": 0, "findings": 1} == outcome.summary["findings"][
        "LEDGER_POPULATION_DROPPED"
    ]
    assert (
        LINE - 1 == outcome.summary["ledgers"]["listed"] == outcome.summary["ledgers"]["exempt"]
    ), "no ledger is accused"
    assert len(outcome.pauses_s) == 1 and 30 < outcome.pauses_s[0] <= 60, (
        "the second listing came after the delay"
    )
    assert (
        'kind="LEDGER_POPULATION_DROPPED",severity="critical"} 1.0'
        in (outcome.run_dir / "metrics.prom").read_text()
    )


def test_a_drop_within_the_line_is_none(ledgers: Ledgers, tmp_path: Path):
    """With one ledger more than in the finding nothing is reported, and nothing is listed twice."""
    ledgers.leave(LINE)
    outcome = accounted(audit(ledgers, tmp_path))
    assert ([], 0, None, []) == (
        outcome.findings,
        outcome.exit_code,
        listed_again(outcome),
        outcome.pauses_s,
    )


def test_ledgers_that_are_back_at_the_second_listing_are_no_finding(
    ledgers: Ledgers, tmp_path: Path
):
    """Ledgers missing from the first listing were not judged: no page, and no clean result."""
    ledgers.leave(LINE - 1)
    outcome = accounted(audit(ledgers, tmp_path, between=lambda _: ledgers.leave(THEN)))
    assert ([], THEN, LINE - 1) == (
        outcome.findings,
        listed_again(outcome),
        outcome.summary["ledgers"]["listed"],
    )
    assert ("INCOMPLETE", 3) == (outcome.summary["outcome"], outcome.exit_code)
    (sentence,) = outcome.summary["withheld"]
    assert f"there were {THEN}" in sentence and "run again" in " ".join(outcome.stdout.split())


def test_no_ledger_at_all_is_a_drop(ledgers: Ledgers, tmp_path: Path):
    """An empty cluster that was full is a drop, whatever is allowed for empty ones."""
    ledgers.leave(0)
    outcome = accounted(audit(ledgers, tmp_path, allow_empty="true"))
    assert ([Kind.LEDGER_POPULATION_DROPPED], 1) == (outcome.kinds, outcome.exit_code)


def test_what_is_not_to_be_compared_is_not(ledgers: Ledgers, tmp_path: Path):
    """The settings are a part of the cluster, another share of ledgers, or none at all; and the
    number of a part is not a baseline.
    """
    ledgers.leave(LINE - 1)
    part = audit(ledgers, tmp_path, ledger_ids=[1, 2])
    assert ([], None) == (part.findings, listed_again(part))
    off = accounted(
        audit(ledgers, tmp_path, output=str(copied(tmp_path, "off")), population_drop="0%")
    )
    patient = accounted(
        audit(ledgers, tmp_path, output=str(copied(tmp_path, "patient")), population_drop="60%")
    )
    assert ([], []) == (off.findings, patient.findings)
    assert [Kind.LEDGER_POPULATION_DROPPED] == audit(ledgers, tmp_path).kinds, (
        "the part did not stand in for the last run"
    )


def test_another_clusters_number_is_no_measure(ledgers: Ledgers, tmp_path: Path):
    """The last run in the output directory was of a cluster with another instance id. A summary
    that cannot be read is none either, and the log says so.
    """
    summary = next((tmp_path / "audits").glob("run-*/summary.json"))
    stored = json.loads(summary.read_text())
    summary.write_text(json.dumps(stored | {"ledgers": 7}))
    damaged = copied(tmp_path, "damaged")
    summary.write_text(
        json.dumps(stored | {"cluster": stored["cluster"] | {"instance_id": "other"}})
    )
    ledgers.leave(LINE - 1)
    other = accounted(audit(ledgers, tmp_path))
    unread = accounted(audit(ledgers, tmp_path, output=str(damaged)))
    assert ([], []) == (other.findings, unread.findings)
    assert [False, True] == [
        "newest_run_not_read" in {event["event"] for event in outcome.events}
        for outcome in (other, unread)
    ]


def test_the_finding_outlives_the_evidence_it_was_compared_with(ledgers: Ledgers, tmp_path: Path):
    """The missing ids are in the run's own evidence: the last run may be pruned, and a replay says
    the same.
    """
    ledgers.leave(LINE - 1)
    outcome = audit(ledgers, tmp_path, keep_runs="1")
    assert outcome.run_dir is not None
    assert [outcome.run_dir] == list((tmp_path / "audits").glob("run-*"))
    assert outcome.findings == replay_run(outcome.run_dir).findings
    assert LINE - 1 == place(str(outcome.run_dir)).count(LISTINGS_AT[FIRST_LISTING], LISTING)


def test_a_drop_is_found_until_three_runs_agree_about_it(ledgers: Ledgers, tmp_path: Path):
    """Each run is compared with the one before the drop, also in a replay; then the new number is
    the baseline.
    """
    before = json.loads((tmp_path / "audits" / "latest.json").read_text())["run"].removeprefix(
        "run-"
    )
    ledgers.leave(LINE - 1)
    for number in (1, 2, 3):
        outcome = accounted(audit(ledgers, tmp_path))
        (found,) = outcome.findings
        assert (before, THEN, number) == tuple(
            found["facts"][name] for name in ("previous_run", "previous_ledgers", "runs_in_a_row")
        )
        baseline = outcome.summary["population"]["baseline_run"]
        assert (before if number < 3 else outcome.summary["run_id"]) == baseline
    assert 1 == outcome.summary["totals"]["LEDGER_POPULATION_DROPPED"], (
        "one finding, however often it is repeated"
    )
    assert ([], None) == (
        (last := accounted(audit(ledgers, tmp_path))).findings,
        listed_again(last),
    )


def test_a_number_that_an_operator_accepts_is_the_measure_at_once(ledgers: Ledgers, tmp_path: Path):
    """That run reports nothing, and the next one is compared with it."""
    ledgers.leave(LINE - 1)
    assert [Kind.LEDGER_POPULATION_DROPPED] == accounted(audit(ledgers, tmp_path)).kinds
    accepted = accounted(audit(ledgers, tmp_path, accept_population="true"))
    assert ([], None) == (accepted.findings, listed_again(accepted))
    assert LINE - 1 == accepted.summary["population"]["baseline_listed"]
    assert [] == accounted(audit(ledgers, tmp_path)).findings


def copied(tmp_path: Path, name: str) -> Path:
    """Return an output directory with the runs so far."""
    return Path(shutil.copytree(tmp_path / "audits", tmp_path / name))
