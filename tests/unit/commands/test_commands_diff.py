"""`auditor diff` on the directories of two runs."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support import report_stories

from auditor.commands.context import Context
from auditor.commands.diff import diff
from auditor.config import Layers, parse
from auditor.errors import ConfigError
from auditor.evidence.run_directory import place
from auditor.evidence.schemas import VERDICTS
from auditor.model.finding import Kind
from auditor.stop import StopRequest
from auditor.telemetry import log
from auditor.telemetry.progress import Silent

CLUSTER = {"metadata_service_uri": "zk://h:1/ledgers", "instance_id": "inst", "root": "/ledgers", "hosts": ["h:1"]}


def stored(home: Path, name: str, findings: list[Any], unknowns: dict[int, list[str]] | None = None, **changes: Any) -> str:
    """The directory of a run that judged ledgers 1 to 9; `unknowns` are why it could not judge some."""
    directory = home / name
    directory.mkdir()
    summary = report_stories.summary() | {"run_id": name, "partial": False, "withheld": [], "cluster": CLUSTER} | changes
    (directory / "summary.json").write_text(json.dumps(summary))
    (directory / "findings.jsonl").write_text("".join(json.dumps(found) + "\n" for found in findings))
    columns = {field.name: pa.nulls(9, field.type) for field in VERDICTS}
    columns["ledger_id"] = pa.array(range(1, 10), pa.int64())
    columns["unknowns"] = pa.array([(unknowns or {}).get(n, []) for n in range(1, 10)], pa.list_(pa.string()))
    place(str(directory)).write_table("verdicts", pa.table(columns, schema=VERDICTS), "all")
    return str(directory)


def said(earlier: str, later: str, form: str = "text") -> tuple[int, str]:
    out = io.StringIO()
    settings = parse(Layers(flags={"format": form}), command="diff")
    return diff(
        Context(settings, out, log.setup(stream=io.StringIO()), Silent(), StopRequest()), earlier, later
    ), out.getvalue()


@pytest.fixture
def loss() -> list[Any]:
    return [report_stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 7)]


def test_a_new_loss_is_exit_code_1(tmp_path: Path, loss: list[Any]):
    """So that cron tells what the night brought from what was there."""
    code, text = said(stored(tmp_path, "run-a", []), stored(tmp_path, "run-b", loss))
    assert 1 == code and text.startswith("1 new, 0 worse"), text


def test_an_old_loss_is_exit_code_0_and_so_is_a_new_hint(tmp_path: Path, loss: list[Any]):
    """Info never changes an exit code."""
    hint = report_stories.finding(Kind.LEDGER_STUCK, 3)
    code, text = said(stored(tmp_path, "run-a", loss), stored(tmp_path, "run-b", [*loss, hint]))
    assert 0 == code and text.startswith("1 new, 0 worse, 1 still"), text


def test_a_loss_that_was_not_checked_again_is_exit_code_3(tmp_path: Path, loss: list[Any]):
    """Its bookie is silent now: nothing is resolved."""
    later = stored(tmp_path, "run-b", [], {7: ["bookie_silent"]}, complete=False)
    code, text = said(stored(tmp_path, "run-a", loss), later)
    assert 3 == code
    assert "the later run could not judge it (bookie_silent)" in " ".join(text.split())
    assert "there may be new findings that it does not have" in " ".join(text.split())


def test_a_later_run_that_could_not_judge_everything_is_never_exit_code_0(tmp_path: Path):
    """What is new may be where it could not look."""
    code, _ = said(stored(tmp_path, "run-a", []), stored(tmp_path, "run-b", [], {3: ["poison"]}, complete=False))
    assert 3 == code


def test_the_json_form_is_one_document(tmp_path: Path, loss: list[Any]):
    """With both runs and every finding."""
    code, text = said(stored(tmp_path, "run-a", loss), stored(tmp_path, "run-b", []), "json")
    document = json.loads(text)
    assert (0, 1, "run-a") == (code, document["counts"]["resolved"], document["earlier"]["run_id"])


def test_runs_in_the_wrong_order_and_of_two_versions_are_said(tmp_path: Path):
    """The words new and resolved would be the wrong way round."""
    late = stored(tmp_path, "run-b", [], finished_at="2026-01-02T00:00:00Z", auditor_version="0.2.0")
    _, text = said(late, stored(tmp_path, "run-a", []))
    words = " ".join(text.split())
    assert "give the earlier run first" in words and "different versions of the auditor" in words


def test_runs_of_two_clusters_are_refused(tmp_path: Path):
    """Ledger ids mean something else there."""
    other = stored(tmp_path, "run-b", [], cluster=CLUSTER | {"instance_id": "other"})
    with pytest.raises(ConfigError) as refused:
        said(stored(tmp_path, "run-a", []), other)
    assert "different clusters (inst and other)" in str(refused.value)


def test_what_is_not_a_finished_run_is_a_sentence(tmp_path: Path):
    """No directory, no summary, or one of another program."""
    run = stored(tmp_path, "run-a", [])
    with pytest.raises(ConfigError, match="not the directory of a finished run"):
        said(run, str(tmp_path / "nothing"))
    (Path(run) / "summary.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"lacks run_id, finished_at, .*not written by this version"):
        said(run, run)
