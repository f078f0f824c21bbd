"""The log on stderr, and run.log."""

import io
import json
import logging
from pathlib import Path

import pytest
import structlog
from pyarrow import fs
from support import report_stories as stories

from auditor.evidence.run_directory import Place, place
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
    """Thousands of findings must not fill a screen with lines. The counts are of all of them."""
    out = io.StringIO()
    logger = log.setup(stream=out, verbose=True)
    counts = log.violations(logger, stories.wiped_bookie(3_000)[1], log_format="console")
    assert len(out.getvalue().splitlines()) == log.CONSOLE_VIOLATIONS_MAX + 1 + 2
    assert counts["ENTRY_BELOW_WRITE_QUORUM"] == 3_000 and "\x1b" not in out.getvalue()


@pytest.mark.parametrize("options", [{}, {"quiet": True}])
def test_stderr_does_not_repeat_the_report(options, tmp_path: Path):
    """A mail of cron is the first screen, and what it does not say. run.log has everything."""
    findings = stories.wiped_bookie(3)[1]
    out = io.StringIO()
    logger = log.setup(stream=out, **options)
    with log.ending_run_log():
        log.keep_run_log(place(str(tmp_path)))
        log.violations(logger, findings, log_format="console")
        logger.info("page_written", file="report.html")
        logger.debug("stage_begins", stage="ask")
        logger.warning("output_not_locked", problem="no locks")
    (line,) = out.getvalue().splitlines()
    assert "output_not_locked" in line
    kept = (tmp_path / log.RUN_LOG).read_text().splitlines()
    assert len(kept) == len(findings) + 2 + 3
    assert "ENTRY_BELOW_WRITE_QUORUM" in kept[0] and "stage_begins" in kept[-2]


def test_the_run_log_begins_before_the_run_has_a_directory(tmp_path: Path):
    """It begins with the last EARLY_LINES_MAX lines. A process that resumes the run appends."""
    for process in ("first", "second"):
        logger = log.setup(stream=io.StringIO(), log_format="json")
        for number in range(log.EARLY_LINES_MAX + 1):
            logger.warning("early", number=number)
        with log.ending_run_log():
            log.keep_run_log(place(str(tmp_path)))
            logger.info("late", process=process)
        logger.info("behind its end")
    kept = [json.loads(line) for line in (tmp_path / log.RUN_LOG).read_text().splitlines()]
    assert 2 * (log.EARLY_LINES_MAX + 1) == len(kept)
    assert [1, "first"] == [kept[0]["number"], kept[log.EARLY_LINES_MAX]["process"]]
    assert "second" == kept[-1]["process"]


def test_in_a_store_the_run_log_is_written_at_its_end(tmp_path: Path):
    """No store appends. The lines of an earlier process stay."""
    files = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / log.RUN_LOG).write_text("earlier\n")
    logger = log.setup(stream=io.StringIO())
    with log.ending_run_log():
        log.keep_run_log(Place(files, "run", "store://run"))
        logger.info("later")
        assert "earlier\n" == (tmp_path / "run" / log.RUN_LOG).read_text()
    earlier, later = (tmp_path / "run" / log.RUN_LOG).read_text().splitlines()
    assert "earlier" == earlier and "later" in later


def test_the_run_log_is_bounded_and_a_full_disk_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """The last line says that it is full. A file that cannot be written is left."""
    monkeypatch.setattr(log, "RUN_LOG_BYTES_MAX", 1_000)
    logger = log.setup(stream=io.StringIO())
    with log.ending_run_log():
        log.keep_run_log(place(str(tmp_path)))
        for _ in range(1_000):
            logger.info("again")
    kept = (tmp_path / log.RUN_LOG).read_text()
    assert len(kept) < 1_100 and "run.log is full" in kept.splitlines()[-1]
    logger = log.setup(stream=io.StringIO())
    with log.ending_run_log():
        log.keep_run_log(place("/dev/full"))
        logger.info("nowhere")
    full = tmp_path / "full"
    full.mkdir()
    (full / log.RUN_LOG).symlink_to("/dev/full")
    logger = log.setup(stream=io.StringIO())
    with log.ending_run_log():
        log.keep_run_log(place(str(full)))
        logger.info("nowhere")


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
