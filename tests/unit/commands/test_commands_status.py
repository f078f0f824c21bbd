"""`auditor status`: the runs of an output, from their summaries alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support import report_stories

from auditor.after import stored_runs_text
from auditor.after.stored_runs import StoredRuns
from auditor.commands import status as command
from auditor.config import Layers, parse
from auditor.context import Context
from auditor.errors import ConfigError
from auditor.report.layout import Screen
from auditor.report.outcome_text import HUES
from auditor.stop import StopRequest
from auditor.telemetry import log
from auditor.telemetry.progress import Silent

NOW = datetime(2026, 1, 9, 6, 0, tzinfo=UTC)
CHANGES = {"since": {"run_id": "r", "started_at": "2026-01-01T03:00:00Z"}, "new": 2, "worse": 1}


def store(output: Path, day: int, **changes: Any) -> str:
    """Write the summary of a run that began on this day of January at three, and return its id."""
    run_id = f"2026010{day}T030000Z-00000{day}"
    times = {"started_at": f"2026-01-0{day}T03:00:00Z", "finished_at": f"2026-01-0{day}T03:20:00Z"}
    run = output / f"run-{run_id}"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    summary = report_stories.summary(run_id=run_id, **times, **({"changes": None} | changes))
    (run / "summary.json").write_text(json.dumps(summary.as_json()))
    return run_id


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Return an OUTPUT with a run of each state, and one of named ledgers."""
    root = tmp_path / "audits"
    store(root, 1)
    store(root, 2, partial=True)
    latest = store(
        root, 3, changes=CHANGES, outcome="VIOLATED", exit_code=1, verified_ratio=0.99987
    )
    (root / f"run-{store(root, 4)}" / "journal").mkdir()
    (root / f"run-{store(root, 5)}" / "summary.json").unlink()
    (root / f"run-{store(root, 6)}" / "summary.json").write_text("{}")
    (root / "run-20260104T030000Z-000004" / "journal" / "1.json").write_text("{}")
    (root / "latest.json").write_text(json.dumps({"run": f"run-{latest}"}))
    return root


@pytest.fixture
def status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Return a function that runs the command at NOW, and returns its exit code and stdout."""
    monkeypatch.setattr(command, "utc_now", lambda: NOW)

    def call(
        directory: Path | None, limit: int = 10, screen: Screen | None = None, **flags: str
    ) -> tuple[int, str]:
        settings = parse(Layers(flags=flags), command="status")
        context = Context(
            settings, sys.stdout, log.setup(), Silent(), StopRequest(), screen or Screen(80)
        )
        code = command.status(context, None if directory is None else str(directory), limit)
        return code, capsys.readouterr().out

    return call


def test_a_line_a_run_the_newest_first(output: Path, status: Callable[..., tuple[int, str]]):
    """With outcome, age, what is new, the verified share and how long it took."""
    code, text = status(output)
    lines = text.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("RUN "))
    rows = [" ".join(line.split()) for line in lines[start : start + 7]]
    assert rows == [
        "RUN AGE OUTCOME EXIT NEW WORSE VERIFIED TOOK",
        "20260106T030000Z-000006 3 d damaged - - - - -",
        "20260105T030000Z-000005 4 d unfinished - - - - -",
        "20260104T030000Z-000004 5 d unpublished 0 first - 100 % 14 min",
        "20260103T030000Z-000003 6 d VIOLATED 1 2 1 99.98 % 14 min",
        "20260102T030000Z-000002 7 d SOUND (part) 0 first - 100 % 14 min",
        "20260101T030000Z-000001 8 d SOUND 0 first - 100 % 14 min",
    ]
    assert f"{output} has 6 runs." in " ".join(lines[:2])
    assert "The newest finished one ended 6 d ago: VIOLATED, exit code 1." in lines
    assert "unfinished: the run is at work" in text and "summary.json lacks" in text
    assert "unless it had a period (--within). Start a new run" in " ".join(text.split())
    last = "auditor: STATUS runs=6 newest=20260103T030000Z-000003 outcome=VIOLATED exit=1"
    assert (1, last) == (code, lines[-1])
    assert 80 >= max(map(len, (line for line in lines if str(output) not in line)))


def test_the_same_as_json(output: Path, status: Callable[..., tuple[int, str]]):
    """One object; what is not known of a run is null."""
    code, text = status(None, 4, output=str(output), format="json")
    found = json.loads(text)
    assert 1 == code == found["exit_code"]
    assert (6, "20260103T030000Z-000003") == (found["runs_total"], found["latest"])
    damaged, unfinished, unpublished, latest = found["runs"]
    assert ["damaged", "unfinished", "unpublished", "finished"] == [
        run["state"] for run in (damaged, unfinished, unpublished, latest)
    ]
    assert damaged["problem"] and unfinished["outcome"] is unfinished["took_s"] is None
    assert (2, 1, True, 886.3) == tuple(
        latest[name] for name in ("new", "worse", "is_latest", "took_s")
    )
    assert str(output / "run-20260103T030000Z-000003") == latest["directory"]


@pytest.mark.parametrize("outcome", ["SOUND", "VIOLATED", "INCOMPLETE", "AUDITOR_FAULT"])
def test_an_outcome_has_its_colour_of_the_first_screen(
    tmp_path: Path, status: Callable[..., tuple[int, str]], outcome: str
):
    """A fault of the auditor is not red, as a loss is."""
    root = tmp_path / "audits"
    latest = store(root, 1, outcome=outcome)
    (root / "latest.json").write_text(json.dumps({"run": f"run-{latest}"}))
    screen = Screen(80, color=True)
    assert f" ago: {screen.paint(outcome, HUES[outcome])}," in status(root, screen=screen)[1]


def test_the_number_of_runs_is_limited(output: Path, status: Callable[..., tuple[int, str]]):
    """The text says how many are left out, and how to see them."""
    _, text = status(output, 2)
    assert 2 == sum(line.startswith("2026010") for line in text.splitlines())
    assert "4 older runs: --limit 6 lists all." in text


def test_without_a_finished_run_the_code_is_3(
    output: Path, status: Callable[..., tuple[int, str]], tmp_path: Path
):
    """A latest run that cannot be read is 2, and so is an output without any run."""
    (output / "run-20260103T030000Z-000003" / "summary.json").write_text("{}")
    assert 2 == status(output)[0]
    (output / "latest.json").unlink()
    code, text = status(output)
    assert 3 == code and "No run of the whole cluster is finished." in text
    with pytest.raises(ConfigError, match="holds no run"):
        status(tmp_path / "nothing")


@pytest.mark.parametrize("text", ['{"ru', "[]", '{"run": "elsewhere"}'])
def test_a_damaged_latest_json_is_not_the_lack_of_a_finished_run(
    output: Path, status: Callable[..., tuple[int, str]], text: str
):
    """Runs that are finished stand below the sentence."""
    (output / "latest.json").write_text(text)
    code, said = status(output)
    assert 2 == code and "latest.json is damaged" in said
    assert "No run of the whole cluster is finished" not in said and "VIOLATED" in said
    with pytest.raises(ConfigError, match="is damaged and names no run"):
        StoredRuns.at(str(output)).find("latest")


def test_neither_spark_nor_pandas_is_loaded(output: Path):
    """A morning's look takes a second, on a machine without them too."""
    script = (
        "import sys\n"
        "from auditor.cli import cli\n"
        "try:\n"
        f"    cli.main(['status', {str(output)!r}], standalone_mode=False)\n"
        "except SystemExit as end:\n"
        "    assert end.code == 1, end.code\n"
        "assert not {'pyspark', 'pandas'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert 0 == done.returncode, done.stderr


def test_a_negative_age_is_shown_as_nothing():
    """The clock of another host may be ahead."""
    assert ("0 s", "59 min", "23 h", "2 d") == tuple(
        map(stored_runs_text._short, (-5, 3_599, 86_399, 2 * 86_400))
    )
