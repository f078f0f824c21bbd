"""`replay` and `report` on directories that are not what they should be."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from support import report_stories

from auditor.commands.replay import replay
from auditor.commands.report import report
from auditor.config import Layers, parse
from auditor.context import Context
from auditor.errors import ConfigError
from auditor.evidence import findings_file
from auditor.evidence.rows import named_row, table
from auditor.evidence.run_directory import place
from auditor.evidence.schemas import CARRIED, CARRIED_TABLE, LEDGERS, LISTING, VERDICTS
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import Terms
from auditor.model.finding import Kind
from auditor.model.finding_record import FIELDS
from auditor.stop import StopRequest
from auditor.summary.about import About
from auditor.telemetry import log
from auditor.telemetry.progress import Silent


def context(out: io.StringIO, format: str = "text") -> Context:
    settings = parse(Layers(flags={"format": format}), command="replay")
    return Context(settings, out, log.setup(stream=io.StringIO()), Silent(), StopRequest())


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """Return the directory of a finished run with one finding and no evidence."""
    directory = tmp_path / "run-20260101T030000Z-000001"
    directory.mkdir()
    finding = report_stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 7)
    assert set(FIELDS) <= set(finding.as_json())
    summary = report_stories.summary(
        outcome="VIOLATED", exit_code=1, findings=report_stories.counted([finding]),
        ledgers={"listed": 9, "sound": 8, "exempt": 0, "indeterminate": 0, "violated": 1},
    )  # fmt: skip
    (directory / "run.json").write_text("{}")
    (directory / "summary.json").write_text(json.dumps(summary.as_json()))
    (directory / "findings.jsonl").write_text(findings_file.text([finding]))
    return directory


def test_a_stored_run_is_rendered_with_its_exit_code(run_dir: Path):
    """It is text with the machine line last, or one JSON document."""
    out = io.StringIO()
    assert 1 == report(context(out), str(run_dir))
    assert out.getvalue().splitlines()[-1].startswith("auditor: VIOLATED run=")
    out = io.StringIO()
    assert 1 == report(context(out, "json"), str(run_dir))
    assert ["ENTRY_WITHOUT_REPLICA"] == [
        found["kind"] for found in json.loads(out.getvalue())["findings"]
    ]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("run.json", None, "is not a run directory: it has no run.json"),
        ("summary.json", None, "did not finish"),
        ("summary.json", "{", "damaged"),
        ("findings.jsonl", '{"kind": ', "is not JSON"),
    ],
)
def test_a_damaged_run_is_refused(run_dir: Path, name: str, text: str | None, says: str):
    """The error says what is wrong, and nothing is printed."""
    (run_dir / name).unlink() if text is None else (run_dir / name).write_text(text)
    out = io.StringIO()
    with pytest.raises(ConfigError, match=says):
        report(context(out), str(run_dir))
    assert "" == out.getvalue()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "run.json is not JSON"),
        ("{}", "not written by this version"),
        ("[]", "not written by this version"),
    ],
)
def test_a_run_json_of_somebody_else_is_refused(run_dir: Path, text: str, says: str):
    """A replay needs the terms of judgement, and does not guess them."""
    (run_dir / "run.json").write_text(text)
    with pytest.raises(ConfigError, match=says):
        replay(context(io.StringIO()), str(run_dir))


@pytest.fixture
def dead_run(run_dir: Path) -> Path:
    """Return the directory of a run that died, and has terms of judgement."""
    facts = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "flat", None, False, None)
    terms = Terms(1, 2, 3, 4)
    began = ("20260101T030000Z-000001", "2026-01-01T03:00:00Z")
    about = About(*began, facts, terms, "warning", False)
    (run_dir / "run.json").write_text(json.dumps(about.as_json()))
    (run_dir / "summary.json").unlink()
    return run_dir


def test_a_run_that_died_before_it_listed_anything_is_refused(dead_run: Path):
    """Missing evidence does not mean an empty cluster."""
    with pytest.raises(ConfigError, match=r"died before .* \(0 of 0 listed\).*run the audit again"):
        replay(context(io.StringIO()), str(dead_run))


def test_a_run_that_died_while_it_carried_verdicts_over_is_refused(dead_run: Path):
    """Some of their files are there, and others not."""
    run, ids = place(str(dead_run)), [(one,) for one in range(4)]
    run.write_table("evidence/listing", table(LISTING, ids), "all")
    ledgers = [named_row(LEDGERS, ledger_id=one, look=1) for (one,) in ids]
    run.write_table("evidence/ledgers", table(LEDGERS, ledgers), "carried-0000")
    carried = [(one, "before", 0) for (one,) in ids]
    run.write_table(CARRIED_TABLE, table(CARRIED, carried), "all")
    verdicts = [named_row(VERDICTS, ledger_id=one) for (one,) in ids]
    run.write_table("verdicts", table(VERDICTS, verdicts[:3]), "carried-0000")
    run.write_table("verdicts", table(VERDICTS, verdicts[3:]), "kept")
    with pytest.raises(ConfigError, match="died before it had carried over the verdicts"):
        replay(context(io.StringIO()), str(dead_run))
