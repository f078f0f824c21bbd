"""What `auditor run` says of an unforeseen error, and what no error changes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog
from support import report_stories

from auditor.after.stored_runs import RunState, StoredRuns
from auditor.commands import run as run_command
from auditor.errors import OutputError
from auditor.evidence.journal import JOURNAL
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import Place, place
from auditor.run import run as run_module
from auditor.run.publishing import Results, publish
from auditor.run.run import Run
from auditor.stop import StopRequest
from auditor.telemetry.progress import Silent


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (AssertionError(), "AssertionError"),
        (ValueError("no such look\n  at all"), "ValueError: no such look"),
    ],
)
def test_an_unforeseen_error_is_named_with_its_first_line(error: Exception, expected: str) -> None:
    """An error without words is shown by its type alone: no brackets, no quotes."""
    assert expected == run_command._first_line(error)


def quiet_context() -> Any:
    return SimpleNamespace(
        logger=structlog.stdlib.get_logger("test"),
        settings=None,
        progress=Silent(),
        stop=StopRequest(),
    )


@pytest.mark.parametrize("step", ["send_metrics", "clear_up", "show_report"])
@pytest.mark.parametrize("error", [OSError(28, "full"), KeyError("x"), MemoryError()], ids=repr)
def test_no_step_after_publishing_changes_the_code(
    step: str, error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step is logged, and all others are done. The run is published before each of them."""
    run, done = place(str(tmp_path)), []
    results = Results(run, report_stories.summary(exit_code=1), [], "", "")
    monkeypatch.setattr(run_module, "write_results", lambda *_: results)
    home_of = {
        **dict.fromkeys(("publish", "send_metrics", "clear_up"), run_module),
        **dict.fromkeys(("publish_page", "show_report"), run_command),
    }
    for name, home in home_of.items():
        monkeypatch.setattr(home, name, lambda *_, name=name, **__: done.append(name))

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(home_of[step], step, fail)
    state = Run(quiet_context(), Output(run), "r", "2026-01-01T03:00:00Z")
    run_command._show(state, state.publish(run, cast(Any, None)), lines_above=0)
    assert ("publish", 4) == (done[0], len(done))


def test_a_run_that_latest_json_names_is_published_whatever_failed_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory could not be synchronised after the new latest.json was there."""
    output = Output(place(str(tmp_path)))
    run = output.start("20260101T030000Z-000001")
    results = Results(run, report_stories.summary(), [], "", "")
    monkeypatch.setattr(Place, "_synchronise", refuse_directories)
    publish(quiet_context(), output, results)
    assert output.latest() == run
    monkeypatch.setattr(Place, "write_text", refuse)
    other = replace(run, path=f"{tmp_path}/run-20260102T030000Z-000002")
    with pytest.raises(OutputError, match="full"):
        publish(quiet_context(), output, replace(results, directory=other))


def test_a_published_run_is_never_called_unpublished(tmp_path: Path) -> None:
    """It is killed before it removes its journal: the next one does that before it takes its
    place.
    """
    output = Output(place(str(tmp_path)))
    for day in (1, 2):
        run = output.start(f"2026010{day}T030000Z-00000{day}")
        run.write_text("summary.json", json.dumps(report_stories.summary().as_json()))
        (run / JOURNAL).create()
        (run / JOURNAL).write_text("000000.json", "{}")
        publish(quiet_context(), output, Results(run, report_stories.summary(), [], "", ""))
    assert [RunState.FINISHED] * 2 == [found.state for found in StoredRuns(output).newest(2)]


def refuse_directories(_: Place, path: str) -> None:
    if not path.endswith(".tmp"):
        raise OSError(5, "Input/output error")


def refuse(*_: object) -> None:
    raise OutputError("the disk is full")
