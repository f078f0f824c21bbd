"""The log on stderr."""

import io
import json
import logging

import pytest
import structlog
from support import report_stories as stories

from auditor.model.finding import Kind
from auditor.telemetry import log


@pytest.fixture(autouse=True)
def logging_as_it_was():
    """Restore the logging of the process after each test."""
    names = ["", log.LOGGER, "kazoo", "py4j", "pyspark", "urllib3"]
    before = {
        name: (logging.getLogger(name).level, logging.getLogger(name).handlers[:]) for name in names
    }
    yield
    for name, (level, handlers) in before.items():
        logging.getLogger(name).setLevel(level)
        logging.getLogger(name).handlers[:] = handlers
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def events(out: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_json_is_one_object_a_line():
    """Each line has the level, the time, the event and the run."""
    out = io.StringIO()
    logger = log.setup(log_format="json", stream=out)
    log.bind_run("run-1")
    logger.info("listed", ledgers=7, owner="two\nlines 语")
    assert out.getvalue().isascii()
    (event,) = events(out)
    assert event.pop("timestamp").endswith("Z")
    assert event == {
        "event": "listed",
        "level": "info",
        "run": "run-1",
        "ledgers": 7,
        "owner": "two\nlines 语",
    }


def test_each_violation_is_one_complete_event():
    """In JSON each finding is an event with all its fields; the counts by kind come last. An info
    finding is not an event.
    """
    out = io.StringIO()
    logger = log.setup(log_format="json", stream=out)
    _, findings = stories.wiped_bookie(30)
    counts = log.violations(logger, findings, log_format="json")
    said = events(out)
    first = said[0]
    assert (
        findings[0].as_json().items() <= first.items()
        and first["event"] == "violation"
        and first["level"] == "warning"
    )
    assert sum(e["event"] == "violation" for e in said) == 31
    assert [(e["kind"], e["findings"]) for e in said[-2:]] == [
        ("BOOKIE_LOST_UNNOTICED", 1),
        ("ENTRY_BELOW_WRITE_QUORUM", 30),
    ]
    assert counts == {"BOOKIE_LOST_UNNOTICED": 1, "ENTRY_BELOW_WRITE_QUORUM": 30}


def test_the_console_is_bounded():
    """Thousands of findings must not fill a mail with lines. The counts are of all of them."""
    out = io.StringIO()
    logger = log.setup(stream=out)
    counts = log.violations(logger, stories.wiped_bookie(3_000)[1], log_format="console")
    assert len(out.getvalue().splitlines()) == log.CONSOLE_VIOLATIONS_MAX + 1 + 2
    assert counts["ENTRY_BELOW_WRITE_QUORUM"] == 3_000 and "\x1b" not in out.getvalue()


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_the_log_on_a_terminal_does_not_repeat_a_report_on_a_terminal():
    """A person there reads the report. If the log is not on a terminal, it has the violations."""
    findings = stories.wiped_bookie(3)[1]
    out = Terminal()
    log.violations(log.setup(stream=out), findings, log_format="console", is_shown=True)
    assert "" == out.getvalue()
    kept = io.StringIO()
    log.violations(log.setup(stream=kept), findings, log_format="console", is_shown=True)
    assert len(kept.getvalue().splitlines()) == len(findings) + 2


def test_a_terminal_gets_the_counts_alone():
    """If the report goes to a file, the console log on a terminal counts what is in it. A log in
    JSON has all violations.
    """
    findings = stories.wiped_bookie(3)[1]
    out = Terminal()
    log.violations(log.setup(stream=out), findings, log_format="console")
    assert len(out.getvalue().splitlines()) == 2 and "BOOKIE_LOST_UNNOTICED" in out.getvalue()
    out = Terminal()
    log.violations(log.setup(log_format="json", stream=out), findings, log_format="json")
    assert len(out.getvalue().splitlines()) == len(findings) + 2


def test_a_critical_violation_is_an_error():
    """The level of an event follows the severity."""
    out = io.StringIO()
    lost = stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 1)
    log.violation(log.setup(log_format="json", stream=out), lost, lost.as_json())
    assert events(out)[0]["level"] == "error"


def test_a_muted_violation_is_not_a_warning():
    """An alert on warnings in the log must not page for it. The event has the mute."""
    out = io.StringIO()
    muted = stories.finding(
        Kind.ENTRY_WITHOUT_REPLICA, 1, muted={"until": "2027-01-31", "why": "known"}
    )
    log.violation(log.setup(log_format="json", stream=out), muted, muted.as_json())
    (event,) = events(out)
    assert ("info", {"until": "2027-01-31", "why": "known"}) == (event["level"], event["muted"])


@pytest.mark.parametrize(
    ("expected", "options"),
    [
        ([], {"quiet": True}),
        (["auditor info"], {}),
        (["auditor debug", "auditor info", "kazoo info"], {"verbose": True}),
    ],
)
def test_the_levels_follow_quiet_and_verbose(expected, options):
    """By default our steps are logged, with `verbose` also our details and the libraries' steps.
    Warnings are always logged.
    """
    out = io.StringIO()
    logger = log.setup(log_format="json", stream=out, **options)
    logger.debug("auditor debug")
    logger.info("auditor info")
    logging.getLogger("kazoo.client").info("kazoo %s", "info")
    logging.getLogger("kazoo.client").warning("kazoo warning")
    assert [*expected, "kazoo warning"] == [e["event"] for e in events(out)]


def test_warnings_of_py4j_are_not_logged():
    """It warns about each connection that closes."""
    out = io.StringIO()
    log.setup(log_format="json", stream=out)
    logging.getLogger("py4j.clientserver").warning("closing down clientserver connection")
    assert out.getvalue() == ""


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_no_password_reaches_the_log(log_format):
    """Our events, events of a library and exceptions are masked."""
    out = io.StringIO()
    logger = log.setup(log_format=log_format, stream=out)
    secret = "http://joe:s3cr3t@gateway:9091"
    logger.info(f"push to {secret}", url=secret)
    logging.getLogger("urllib3").warning("retrying %s", secret)
    try:
        raise ValueError(secret)
    except ValueError:
        logger.exception("failed")
    assert "s3cr3t" not in out.getvalue() and out.getvalue().count("***@gateway") >= 4


def test_foreign_text_starts_no_line_on_the_console():
    """A name with a line break and an escape sequence stays on one line."""
    out = io.StringIO()
    log.setup(stream=out).info("owner", name="a\n2026-01-01 [info] all is sound\x1b[2J")
    assert len(out.getvalue().splitlines()) == 1 and "\x1b" not in out.getvalue()


def test_a_second_setup_replaces_the_first():
    """Otherwise each event would be logged twice."""
    out = io.StringIO()
    log.setup(log_format="json", stream=out)
    log.setup(log_format="json", stream=out).info("once")
    assert [e["event"] for e in events(out)] == ["once"]
