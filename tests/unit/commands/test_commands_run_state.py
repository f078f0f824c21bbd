"""When the end of a run advises to resume it."""

from __future__ import annotations

import io
from datetime import timedelta
from pathlib import Path

import pytest
import structlog

from auditor.clock import rfc3339, utc_now
from auditor.config import Layers, parse
from auditor.context import Context
from auditor.evidence.journal import LISTED, Journal
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import place
from auditor.run.run import Run
from auditor.stop import StopRequest
from auditor.telemetry.progress import Silent

RUN_ID = "20260301T020000Z-1a2b3c"


def listed_run(tmp_path: Path, **flags: str) -> Run:
    """Return a run whose listing of ledgers is written. It began an hour ago."""
    settings = parse(
        Layers(flags={"metadata_service_uri": "zk://h:2181/ledgers", **flags}), command="run"
    )
    context = Context(settings, io.StringIO(), structlog.get_logger(), Silent(), StopRequest())
    output = Output(place(str(tmp_path)))
    journal = Journal.reopen(output.start(RUN_ID))
    journal.run_once(LISTED, dict)
    began = rfc3339(utc_now() - timedelta(hours=1))
    return Run(context, output, RUN_ID, began, journal=journal)


def test_a_run_with_a_listing_can_be_resumed(tmp_path: Path) -> None:
    """The advice names the command and the run."""
    advice = listed_run(tmp_path).resume_advice()
    assert f"; auditor run --resume {RUN_ID} continues where it stopped" == advice


def test_a_run_of_several_nights_needs_a_longer_age_to_be_resumed(tmp_path: Path) -> None:
    """--resume would refuse it as it is: the advice says so, and when it began."""
    run = listed_run(tmp_path, resume_age_max="59m")
    assert (
        f"; auditor run --resume {RUN_ID} continues where it stopped, if --resume-age-max is"
        f" raised: the run began at {run.started_at}"
    ) == run.resume_advice()


def test_a_run_without_a_listing_cannot_be_resumed(tmp_path: Path) -> None:
    """Neither before its journal is open nor while it is empty."""
    run = listed_run(tmp_path / "listed")
    run.journal = None
    assert run.resume_advice() == ""
    run.journal = Journal.reopen(Output(place(str(tmp_path / "empty"))).start(RUN_ID))
    assert run.resume_advice() == ""


@pytest.mark.parametrize(("name", "value"), [("is_over", True), ("lasting", False)])
def test_a_run_that_is_over_or_whose_cluster_ends_is_not_resumed(
    tmp_path: Path, name: str, value: bool
) -> None:
    """A published run is complete. The demo's cluster does not outlive its run."""
    run = listed_run(tmp_path)
    setattr(run, name, value)
    assert run.resume_advice() == ""


def test_a_plan_is_not_resumed(tmp_path: Path) -> None:
    """With --dry-run the directory is removed at the end."""
    assert listed_run(tmp_path, dry_run="true").resume_advice() == ""
