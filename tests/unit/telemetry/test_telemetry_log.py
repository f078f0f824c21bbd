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
    """Setting up a process's log must not outlive the test."""
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
    """Level, time, event and the run on each."""
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
    """JSON: every finding with every field, then the counts by kind; an info finding is none."""
    out = io.StringIO()
    logger = log.setup(log_format="json", stream=out)
    _, findings = stories.wiped_bookie(30)
    counts = log.violations(logger, findings, log_format="json")
    said = events(out)
    first = said[0]
    assert (
        findings[0].items() <= first.items()
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
    """Forty thousand findings are not forty thousand lines in a mail; the counts are whole."""
    out = io.StringIO()
    logger = log.setup(stream=out)
    counts = log.violations(logger, stories.wiped_bookie(3_000)[1], log_format="console")
    assert len(out.getvalue().splitlines()) == log.CONSOLE_VIOLATIONS_MAX + 1 + 2
    assert counts["ENTRY_BELOW_WRITE_QUORUM"] == 3_000 and "\x1b" not in out.getvalue()


class Terminal(io.StringIO):
    """A stream that a person watches."""

    def isatty(self) -> bool:
        return True


def test_the_log_on_a_terminal_does_not_repeat_a_report_on_a_terminal():
    """A person there reads the report; if only one of the two is a terminal, the log has the
    violations.
    """
    findings = stories.wiped_bookie(3)[1]
    out = Terminal()
    log.violations(log.setup(stream=out), findings, log_format="console", is_shown=True)
    assert "" == out.getvalue()
    kept = io.StringIO()
    log.violations(log.setup(stream=kept), findings, log_format="console", is_shown=True)
    assert len(kept.getvalue().splitlines()) == len(findings) + 2


def test_a_terminal_gets_the_counts_alone():
    """Where the report goes to a file, the log on a terminal says how much is in it."""
    findings = stories.wiped_bookie(3)[1]
    out = Terminal()
    log.violations(log.setup(stream=out), findings, log_format="console")
    assert len(out.getvalue().splitlines()) == 2 and "BOOKIE_LOST_UNNOTICED" in out.getvalue()
    out = Terminal()
    log.violations(log.setup(log_format="json", stream=out), findings, log_format="json")
    assert len(out.getvalue().splitlines()) == len(findings) + 2


def test_a_critical_violation_is_an_error():
    """Levels follow severity."""
    out = io.StringIO()
    log.violation(
        log.setup(log_format="json", stream=out), stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 1)
    )
    assert events(out)[0]["level"] == "error"


def test_a_muted_violation_is_no_warning():
    """An alert on warnings in the log must not page for what is known; the event says until
    when.
    """
    out = io.StringIO()
    muted = stories.finding(
        Kind.ENTRY_WITHOUT_REPLICA, 1, muted={"until": "2027-01-31", "why": "known"}
    )
    log.violation(log.setup(log_format="json", stream=out), muted)
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
def test_how_much_is_said(expected, options):
    """quiet: warnings; default: our steps; verbose: our details and the libraries' steps. Warnings
    always.
    """
    out = io.StringIO()
    logger = log.setup(log_format="json", stream=out, **options)
    logger.debug("auditor debug")
    logger.info("auditor info")
    logging.getLogger("kazoo.client").info("kazoo %s", "info")
    logging.getLogger("kazoo.client").warning("kazoo warning")
    assert [*expected, "kazoo warning"] == [e["event"] for e in events(out)]


def test_the_chatter_of_py4j_is_silenced():
    """The end of a gateway is not worth a line."""
    out = io.StringIO()
    log.setup(log_format="json", stream=out)
    logging.getLogger("py4j.clientserver").warning("closing down clientserver connection")
    assert out.getvalue() == ""


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_no_password_reaches_the_log(log_format):
    """Neither ours nor a library's, not in the exception either."""
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
    """An owner with a new line and an escape stays one line."""
    out = io.StringIO()
    log.setup(stream=out).info("owner", name="a\n2026-01-01 [info] all is sound\x1b[2J")
    assert len(out.getvalue().splitlines()) == 1 and "\x1b" not in out.getvalue()


def test_setting_up_again_replaces():
    """Twice set up, once said."""
    out = io.StringIO()
    log.setup(log_format="json", stream=out)
    log.setup(log_format="json", stream=out).info("once")
    assert [e["event"] for e in events(out)] == ["once"]
