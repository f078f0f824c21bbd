"""Names from the cluster in each output that is made of a summary and its findings: none reaches a
terminal unescaped.
"""

from __future__ import annotations

import io
import json
import re
import shlex
from dataclasses import replace
from typing import Any

import pytest
from support import report_stories
from support.hostile_names import HOSTILE, unprintable, with_hostile_strings

from auditor.model.finding import Kind
from auditor.model.finding_record import FindingRecord
from auditor.report.findings_text import commands_of, render_finding
from auditor.report.layout import PLAIN, Screen
from auditor.report.text import render, render_fault, render_unreachable
from auditor.telemetry import log
from auditor.telemetry.metrics import exposition
from auditor.witness.next_commands import CHANGES

KEPT = frozenset(
    {
        "kind",
        "family",
        "severity",
        "outcome",
        "at",
        "started_at",
        "finished_at",
        "first_seen",
        "assurance",
        "policy",
        "kinds",
        "runbook",
        "next",
    }
)
"""Fields whose values are our own words or times. Commands have a test of their own."""


@pytest.fixture(scope="module")
def story() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a run in which everything is wrong, and every name is hostile."""
    summary, findings = report_stories.everything_wrong(3)
    return with_hostile_strings(summary, KEPT), [
        with_hostile_strings(one, KEPT) for one in findings
    ]


@pytest.mark.parametrize("width", [80, 200])
def test_the_report_is_printable_and_its_last_line_is_its_own(story, width: int):
    """It has only ASCII and line breaks, and no name forges a line for machines."""
    text = render(*story, run_dir="/audits/x", screen=Screen(width))
    assert [] == unprintable(text) and text.isascii()
    assert 1 == len(re.findall(r"^auditor: ", text, re.MULTILINE))
    for said in (
        render_unreachable("r" + HOSTILE, HOSTILE),
        render_fault("r", HOSTILE, run_dir=HOSTILE),
    ):
        assert [] == unprintable(said) and 1 == len(re.findall(r"^auditor: ", said, re.MULTILINE))


def test_a_finding_in_full_is_printable(story):
    """This is the text that `auditor explain` shows."""
    for finding in story[1]:
        text = render_finding(finding, PLAIN)
        assert [] == unprintable(text) and "\nauditor: SOUND" not in text


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_an_event_of_the_log_is_one_printable_line(story, log_format: str):
    """This includes values in lists and objects."""
    for finding in story[1]:
        out = io.StringIO()
        log.violation(
            log.setup(stream=out, log_format=log_format, verbose=True), finding, finding.as_json()
        )
        assert [] == unprintable(out.getvalue()) and 1 == out.getvalue().count("\n")


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_a_traceback_in_the_log_is_printable_and_forges_no_line(log_format: str):
    """An error may quote what a bookie sent. Lines of a traceback are indented, so that none looks
    like an event.
    """
    out = io.StringIO()
    logger = log.setup(stream=out, log_format=log_format)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logger.exception("odd", of=HOSTILE)
    assert [] == unprintable(out.getvalue())
    first, *rest = out.getvalue().splitlines()
    assert "odd" in first and all(line.startswith(" ") for line in rest)


def test_files_for_machines_are_ascii(story):
    """A finding is one line, and a summary is JSON."""
    for finding in story[1]:
        written = finding.line()
        assert written.isascii() and "\n" not in written
        assert finding == FindingRecord.from_line(written)
    assert json.dumps(story[0].as_json()).isascii()


def test_the_metrics_keep_their_lines(story):
    """The value of a label comes from the cluster. It neither ends its line nor adds a sample."""
    plain = exposition(report_stories.everything_wrong(3)[0], cluster="c")
    hostile = exposition(story[0], cluster="c" + HOSTILE)
    names = [re.split(r"[ {]", text)[0] for text in plain.splitlines()]
    assert names == [re.split(r"[ {]", text)[0] for text in hostile.split("\n")[:-1]]
    assert [] == unprintable(hostile)


@pytest.mark.parametrize(
    "command",
    [
        "bookkeeper shell recover " + shlex.quote(HOSTILE),
        "auditor topic " + "x" * 2_000,
    ],
)
def test_a_command_is_shown_as_it_is_or_not_at_all(command: str):
    """An escaped or cut command would be another command: an open quote takes in whatever is pasted
    after it.
    """
    finding = report_stories.finding(
        Kind.ENTRY_CORRUPT, 7, next=["auditor ledger 7", command, f"{CHANGES}harm"]
    )
    shown = "\n".join(commands_of(finding, PLAIN))
    assert "auditor ledger 7" in shown and "bookkeeper" not in shown and "topic" not in shown
    assert (
        "and 1 more in its field `next`, before anything is changed" in shown
        and "harm" not in shown
    )
    shown = "\n".join(
        commands_of(
            replace(finding, next=("auditor ledger 7", CHANGES + command, f"{CHANGES}harm")), PLAIN
        )
    )
    assert "    harm" in shown and shown.endswith("and 1 more in its field `next`")
