"""The end of a run: what is published when, and what no longer changes its outcome."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from faults.carried import breaches_of_carried, summary_of
from faults.nights import Night, Nights

from auditor.config import Layers, parse
from auditor.context import Context
from auditor.errors import OutputError
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import Place, place
from auditor.model.finding import Kind
from auditor.run.publishing import publish_failure
from auditor.stop import StopRequest
from auditor.telemetry import log
from auditor.telemetry.progress import Silent

LOST = Night({1: Kind.ENTRY_WITHOUT_REPLICA})


def test_sums_go_on_from_run_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A finding is counted by the first run that has it, and a request by the run that sent it."""
    nights = Nights(tmp_path, monkeypatch)
    for night in (LOST, LOST, Night({2: Kind.ENTRY_WITHOUT_REPLICA})):
        nights.run(night)
    assert [] == breaches_of_carried(nights.chain, nights.samples)
    summaries = [summary_of(run.directory) for run in nights.chain]
    assert [1, 1, 2] == [summary["totals"]["ENTRY_WITHOUT_REPLICA"] for summary in summaries]
    asked = [summary["request_totals"]["bookie_requests"] for summary in summaries]
    assert [(6, 1), (12, 2), (18, 3)] == [(by["answered"], by["failed"]) for by in asked]


def test_metrics_leave_when_latest_json_names_their_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Otherwise a run killed between the two would have sent metrics that no later run
    continues.
    """
    nights = Nights(tmp_path, monkeypatch)
    effects = nights.run(LOST)
    assert "write_text latest.json" == effects[effects.index("metrics sent") - 1]
    assert "write_text summary.json" == effects[effects.index("write_text latest.json") - 1]


def test_old_files_that_cannot_be_removed_change_no_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The run is published by then, and its outcome stays."""
    nights = Nights(tmp_path, monkeypatch)

    def refused(_: Place, name: str) -> None:
        raise OutputError(f"cannot remove {name}")

    monkeypatch.setattr(Place, "remove", refused)
    nights.run(LOST)
    assert 1 == len(nights.chain) == len(nights.samples)


@pytest.mark.parametrize("pushes", [False, True])
def test_a_failed_run_sends_the_values_of_the_newest_finished_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pushes: bool
):
    """This includes a run that was killed before its own metrics were sent."""
    nights = Nights(tmp_path, monkeypatch, pushes=pushes)
    effects = nights.run(LOST)
    nights.run(Night({2: Kind.ENTRY_WITHOUT_REPLICA}), cut_at=effects.index("metrics sent"))
    nights.fail()
    before, failed = nights.samples
    counter = 'violations_total{cluster="test",kind="ENTRY_WITHOUT_REPLICA"}'
    assert (f"{counter} 1.0" in before, f"{counter} 2.0" in failed) == (True, True)
    assert 'last_run_outcome{cluster="test",outcome="UNREACHABLE"} 1.0' in failed


@pytest.mark.parametrize(
    ("flags", "is_sent"), [({}, True), ({"dry_run": "true"}, False), ({"ledgers_from": "x"}, False)]
)
def test_a_failed_trial_or_part_changes_no_metrics(
    tmp_path: Path, flags: dict[str, str], is_sent: bool
):
    """As if it had succeeded: neither raises an alert on the nightly runs of the cluster."""
    file = tmp_path / "auditor.prom"
    uri = "zk://h:1/ledgers"
    given = {"metadata_service_uri": uri, "metrics_textfile": str(file)} | flags
    settings = parse(Layers(flags=given), command="run")
    context = Context(settings, io.StringIO(), log.setup(), Silent(), StopRequest())
    publish_failure(context, Output(place(str(tmp_path))), "UNREACHABLE", "", 1.0, "0")
    assert is_sent is file.exists()
