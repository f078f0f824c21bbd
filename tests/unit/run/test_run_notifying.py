"""--notify: what the command is sent, and that nothing it does changes how the run ends."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog
from support import report_stories

from auditor.after.history import ANNOUNCED
from auditor.config import Layers, parse
from auditor.context import Context
from auditor.evidence.run_directory import place
from auditor.model.finding import Kind
from auditor.model.finding_record import FindingHistory, FindingRecord, Muted
from auditor.run import notifying
from auditor.run.publishing import Results
from auditor.stop import StopRequest
from auditor.telemetry.progress import Silent

LOSS = report_stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 7, id="a")
LESS = report_stories.finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 8, id="b")


def with_change(finding: FindingRecord, change: str | None, **more: Any) -> FindingRecord:
    since = "r" if change in ("new", "worse") else None
    history = FindingHistory("2026-01-01T03:00:00Z", 1, change=change, news_since=since)
    return replace(finding, history=replace(history, **more))


NEWS = [with_change(LOSS, "new"), with_change(LESS, "worse")]
OLD = with_change(LESS, "still")


def results(home: Path, findings: list[FindingRecord], **changes: Any) -> Results:
    """Return the results of a published run below `home`."""
    summary = report_stories.summary(outcome="VIOLATED", exit_code=1, **changes)
    return Results(place(str(home)), summary, findings, "", "")


def notify(
    command: str | None,
    published: Results,
    monkeypatch: pytest.MonkeyPatch,
    stop: StopRequest | None = None,
    wait_s: float = 20.0,
) -> list[dict[str, Any]]:
    """Run the command and return what was logged."""
    monkeypatch.setattr(notifying, "NOTIFY_TIME_MAX_S", wait_s)
    settings = parse(Layers(flags={"notify": command}), command=None)
    with structlog.testing.capture_logs() as logged:
        context = Context(
            settings, io.StringIO(), structlog.get_logger(), Silent(), stop or StopRequest()
        )
        notifying.notify(context, published, "prod")
    return list(map(dict, logged))


def record_end(command: str | None, published: Results) -> None:
    """Record that the run ends by itself."""
    settings = parse(Layers(flags={"notify": command}), command=None)
    logger = structlog.get_logger()
    notifying.record_end(
        Context(settings, io.StringIO(), logger, Silent(), StopRequest()), published
    )


def script(home: Path, body: str) -> str:
    """Return the command that runs this Python."""
    file = home / "command.py"
    file.write_text(body)
    return f"{sys.executable} {file}"


def test_the_command_gets_the_news_as_one_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With the lines of findings.jsonl; neither what is as before nor what is muted is in it."""
    to = tmp_path / "sent.json"
    muted = with_change(LOSS, "new", muted=Muted("2026-02-01", "known"))
    published = results(tmp_path, [*NEWS, OLD, muted])
    code = (
        f"import sys, pathlib; pathlib.Path({str(to)!r}).write_text(sys.stdin.read()); print('ok')"
    )
    (said,) = notify(script(tmp_path, code), published, monkeypatch)
    assert ("notified", 2, "ok") == tuple(said[name] for name in ("event", "findings", "output"))
    sent = json.loads(to.read_text())
    assert [one.as_json() for one in NEWS] == sent["findings"]
    assert (2, 1, "VIOLATED", 1, "prod", None) == tuple(
        sent[name]
        for name in ("findings_total", "critical", "outcome", "exit_code", "cluster", "since")
    )
    assert (str(tmp_path), published.summary.run_id) == (sent["directory"], sent["run_id"])


def test_the_document_is_bounded(tmp_path: Path):
    """The worst are in it, and all are counted."""
    many = NEWS * notifying.NOTIFIED_FINDINGS_MAX
    sent = notifying.document_of(results(tmp_path, many), "prod", many)
    assert notifying.NOTIFIED_FINDINGS_MAX == len(sent["findings"])
    assert len(many) == sent["findings_total"] and len(NEWS * 100) // 2 == sent["critical"]


@pytest.mark.parametrize(
    ("findings", "changes"), [([OLD], {}), ([], {}), (NEWS, {"partial": True})]
)
def test_without_news_nothing_is_started(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    findings: list[FindingRecord],
    changes: dict[str, Any],
):
    """Neither for what is as before, nor for a run of named ledgers."""
    command = script(tmp_path, f"open({str(tmp_path / 'started')!r}, 'w')")
    notify(command, results(tmp_path, findings, **changes), monkeypatch)
    notify(None, results(tmp_path, NEWS), monkeypatch)
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(
    ("body", "problem", "output"),
    [
        (
            "import sys; print('no server', file=sys.stderr); sys.exit(3)",
            "exited with 3",
            "no server",
        ),
        ("print('x' * 10_000_000); raise SystemExit(1)", "exited with 1", "x" * 100),
        ("import time; print('begun', flush=True); time.sleep(60)", "took longer than", "begun"),
        ("while True: print('x' * 1000)", "took longer than", "x" * 100),
        ("import os, time; os.close(1); os.close(2); time.sleep(60)", "took longer than", ""),
    ],
    ids=["fails", "prints much and fails", "hangs", "prints without end", "hangs silently"],
)
def test_a_command_that_fails_is_only_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, problem: str, output: str
):
    """In bounded time, with a bounded part of what it printed."""
    began = time.monotonic()
    waits = 1.5 if "longer" in problem else 20.0
    command = script(tmp_path, body)
    (said,) = notify(command, results(tmp_path, NEWS), monkeypatch, wait_s=waits)
    assert "notify_failed" == said["event"] and problem in said["problem"]
    assert said["output"].startswith(output)
    assert notifying.NOTIFY_OUTPUT_BYTES_MAX >= len(said["output"])
    assert 15 > time.monotonic() - began


@pytest.mark.parametrize("command", ["/nothing/here", "'unclosed"])
def test_a_command_that_cannot_be_run_is_only_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
):
    """The sentence says why."""
    (said,) = notify(command, results(tmp_path, NEWS), monkeypatch)
    assert said["problem"].startswith("cannot be run: ")


def test_a_command_need_not_read_its_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A document larger than a pipe holds nobody up."""
    many = NEWS * 50
    (said,) = notify("true", results(tmp_path, many), monkeypatch)
    assert ("notified", "") == (said["event"], said["output"])


def test_a_child_that_stays_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It has the pipe open after the command ended."""
    body = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(30)'])\n"
        "print(child.pid)\n"
    )
    began = time.monotonic()
    (said,) = notify(script(tmp_path, body), results(tmp_path, NEWS), monkeypatch)
    assert "notified" == said["event"] and 15 > time.monotonic() - began
    os.kill(int(said["output"]), signal.SIGKILL)


def test_a_signal_ends_the_command_and_not_the_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The run is published: its exit code stays."""
    stop = StopRequest()
    stop._remember(signal.SIGTERM, None)
    (said,) = notify("sleep 30", results(tmp_path, NEWS), monkeypatch, stop)
    assert "was killed, because SIGTERM came" == said["problem"]


@pytest.mark.parametrize(
    ("command", "by"),
    [("true", "notify"), ("false", None), ("/nothing/here", None), (None, "exit_code")],
)
def test_that_news_were_announced_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str | None, by: str | None
):
    """By the command if it succeeded; without one, by the exit code of a run that ends."""
    published = results(tmp_path, NEWS)
    notify(command, published, monkeypatch)
    file = tmp_path / ANNOUNCED
    assert ("notify" == by) == file.exists()
    record_end(command, published)
    assert by == (json.loads(file.read_text())["by"] if file.exists() else None)


@pytest.mark.parametrize(("findings", "partial"), [([OLD], False), (NEWS, True)])
def test_without_news_nothing_is_recorded(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    findings: list[FindingRecord],
    partial: bool,
):
    """And nothing is of a run of named ledgers, which is not published."""
    published = results(tmp_path, findings, partial=partial)
    notify("true", published, monkeypatch)
    record_end(None, published)
    assert [] == [*tmp_path.iterdir()]


def test_a_record_that_cannot_be_written_is_only_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The next run tells the same news."""
    said = notify("true", results(tmp_path / "nothing", NEWS), monkeypatch)
    assert ["notified", "announcement_not_recorded"] == [one["event"] for one in said]


def test_no_variable_of_the_auditor_reaches_the_command():
    """These may hold passwords. All others stay, as cron gives them."""
    own = {
        "PATH": "/bin",
        "AUDITOR_BOOKIE_SASL_PASSWORD": "x",
        "AUDITOR_PUSHGATEWAY": "http://u:p@h",
    }
    assert {"PATH": "/bin"} == notifying.environment(own)
