"""`auditor mute`: the file it writes, and what it refuses."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from support import report_stories

from auditor.after.mutes import parse_mutes
from auditor.commands import mute as command
from auditor.config import Layers, parse
from auditor.context import Context
from auditor.errors import ConfigError
from auditor.evidence import findings_file
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import place
from auditor.model.finding import Kind
from auditor.run.mutes_file import read_mutes
from auditor.stop import StopRequest
from auditor.summary.outcome import findings_by_kind
from auditor.telemetry import log
from auditor.telemetry.progress import Silent

RUN, ID, UNTIL = "run-20260101T030000Z-000001", "abcd000000000001", "2999-12-31"
FINDINGS = [
    report_stories.finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 7, id=ID),
    report_stories.finding(Kind.PLACEMENT_FAILED, 7, id="abcd000000000002"),
]


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Return an OUTPUT with one finished run."""
    run = tmp_path / RUN
    run.mkdir()
    (run / "summary.json").write_text(
        json.dumps(report_stories.summary(findings=findings_by_kind(FINDINGS)).as_json())
    )
    (run / "findings.jsonl").write_text(findings_file.text(FINDINGS))
    (tmp_path / "latest.json").write_text(json.dumps({"run": RUN}))
    return tmp_path


def context(output: Path, **flags: str) -> Context:
    settings = parse(Layers(flags={"output": str(output), **flags}), command="mute")
    return Context(
        settings, io.StringIO(), log.setup(stream=io.StringIO()), Silent(), StopRequest()
    )


def said(here: Context) -> str:
    assert isinstance(here.out, io.StringIO)
    return here.out.getvalue()


def test_a_mute_is_a_line_with_its_reason(output: Path):
    """The finding is one of the newest run. A second mute of it replaces the line."""
    here = context(output)
    assert 0 == command.mute(here, ID, "2998-01-01", "old reason", None)
    assert 0 == command.mute(here, ID, UNTIL, "  drained,\n OPS-1 ", None)
    (one,) = parse_mutes((output / "mutes.jsonl").read_text())
    assert (ID, UNTIL, "drained, OPS-1", "ledger 7") == (
        one.id,
        one.until.isoformat(),
        one.why,
        one.on,
    )
    assert f"ENTRY_BELOW_WRITE_QUORUM on ledger 7 ({ID}) is muted until {UNTIL} (UTC)" in said(here)


def test_mutes_are_listed_and_taken_back(output: Path):
    """The list is text or JSON, and says which mutes are over. The beginning of an id is enough to
    remove a mute; one that does not exist cannot be removed.
    """
    here = context(output)
    command.mute(here, ID, UNTIL, "known", None)
    line = json.loads((output / "mutes.jsonl").read_text())
    (output / "mutes.jsonl").write_text(
        f"{json.dumps(line)}\n{json.dumps(line | {'id': 'old', 'until': '2001-01-01'})}\n"
    )
    command.list_mutes(here)
    assert f"{ID}  until {UNTIL}  ENTRY_BELOW_WRITE_QUORUM  ledger 7  known\n" in said(here)
    assert "old  over 2001-01-01" in said(here)
    as_json = context(output, format="json")
    command.list_mutes(as_json)
    assert [False, True] == [one["is_over"] for one in json.loads(said(as_json))]
    with pytest.raises(ConfigError, match="has no mute of 7"):
        command.remove_mute(here, "7")
    command.remove_mute(here, ID[:6])
    assert f"{ID} is not muted any more" in said(here)
    assert ["old"] == [one.id for one in parse_mutes((output / "mutes.jsonl").read_text())]
    with pytest.raises(ConfigError, match="has no mute of"):
        command.remove_mute(here, ID)


@pytest.mark.parametrize(
    ("name", "until", "why", "says"),
    [
        (ID, None, "known", "--until DATE is missing"),
        (ID, "tomorrow", "known", "is not a date"),
        (ID, "2001-01-01", "known", "is over"),
        (ID, UNTIL, None, "--why TEXT is missing"),
        (ID, UNTIL, "  ", "--why TEXT is missing"),
        (ID, UNTIL, "x" * 501, "longer than"),
        ("none", UNTIL, "known", "has no finding none"),
        ("7", UNTIL, "known", f"7 has 2 findings .*{ID} ENTRY_BELOW_WRITE_QUORUM"),
    ],
)
def test_what_is_not_one_finding_with_a_day_and_a_reason_is_refused(
    output: Path, name: str, until: str | None, why: str | None, says: str
):
    """Nothing is written."""
    with pytest.raises(ConfigError, match=says):
        command.mute(context(output), name, until, why, None)
    assert not (output / "mutes.jsonl").exists()


def test_a_bad_file_is_not_overwritten(output: Path):
    """Somebody wrote it by hand: the mistake is theirs to mend."""
    (output / "mutes.jsonl").write_text("{\n")
    for call in (
        lambda: command.mute(context(output), ID, UNTIL, "known", None),
        lambda: command.list_mutes(context(output)),
        lambda: command.remove_mute(context(output), ID),
    ):
        with pytest.raises(ConfigError, match=r"mutes.jsonl is not changed: line 1"):
            call()
    assert "{\n" == (output / "mutes.jsonl").read_text()


def test_the_file_may_lie_elsewhere(output: Path, tmp_path: Path):
    """It may be kept in a repository, where changes are reviewed."""
    file = tmp_path / "reviewed" / "known.jsonl"
    here = context(output, mutes=str(file))
    command.mute(here, ID, UNTIL, "known", None)
    assert [ID] == [one.id for one in parse_mutes(file.read_text())]
    assert [ID] == [one.id for one in read_mutes(here, Output(place(str(output)))).mutes]


@pytest.mark.parametrize(
    ("text", "says"),
    [("{", "line 1 is not a mute"), (None, "there is no such file"), (b"\xff", "not UTF-8")],
)
def test_a_run_goes_on_without_a_file_that_cannot_be_read(output: Path, text: Any, says: str):
    """The problem is reported, and nothing is muted."""
    file = output / "known.jsonl"
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    found = read_mutes(context(output, mutes=str(file)), Output(place(str(output))))
    assert () == tuple(found.mutes) and found.problem is not None and says in found.problem
    assert None is read_mutes(context(output), Output(place(str(output)))).problem, (
        "a file in OUTPUT need not exist"
    )
