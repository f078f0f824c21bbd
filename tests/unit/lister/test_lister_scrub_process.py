"""The scrub process: its state, its priority, and its end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import structlog
from support.entry_logs import flip_bit, write_log

from auditor.errors import ConfigError
from auditor.lister.bookie_configuration import BookieConfiguration
from auditor.lister.scrub import Scrub, ScrubTerms, check_directory
from auditor.lister.scrub_process import (
    STATE_FILE,
    Scrubber,
    ScrubState,
    open_scrubber,
    read_report,
    take_idle_priority,
)
from auditor.model.scrub import Suspicion
from auditor.telemetry.lister_metrics import ListerMetrics

WAIT_S = 60.0
B1 = {"bookie": "b1"}


@pytest.fixture
def terms(tmp_path: Path) -> ScrubTerms:
    """Return the terms of a bookie with one log, in which entry 7/3 is damaged."""
    ledgers, own = tmp_path / "ledgers", tmp_path / "own"
    log = ledgers / "current" / "0.log"
    places = write_log(log, [(7, entry) for entry in range(10)])
    flip_bit(log, places[7, 3] + 40)
    own.mkdir()
    configured = BookieConfiguration((ledgers,), (ledgers,))
    return ScrubTerms("b1", configured, False, own, tmp_path / "links", 0, 3_600)


def opened(terms: ScrubTerms, problems: list[str] | None = None) -> Scrubber:
    words: dict[str, Any] = json.loads(terms.encode()[4:])
    found = open_scrubber(words, [].append if problems is None else problems.append)
    found.pace._sleep = lambda _: None
    return found


def test_a_pass_leaves_a_report_and_is_not_repeated_at_once(terms: ScrubTerms) -> None:
    """A new process knows when the last pass began."""
    first = opened(terms)
    assert 0 == first.due_in_s() and first.run_pass()
    report = read_report(terms.directory, terms.key)
    assert report is not None and report.finished is not None and report.current is None
    assert [(7, 3, Suspicion.DIGEST)] == list(report.candidates)
    assert (10, 9, 1) == (
        report.finished.entries,
        report.finished.verified,
        report.finished.suspected,
    )
    again = opened(terms)
    assert report == again.state.report(report.written_at_ms)
    assert 3_500 < again.due_in_s() <= 3_600


def test_a_pass_that_was_cut_off_goes_on_in_a_new_process(terms: ScrubTerms) -> None:
    """Its candidates and counts are kept, and the finished pass's until it ends."""
    first = opened(terms)
    first.run_pass()
    first.state.current, first.state.position.log = first.state.finished, 1
    first.state.candidates.named = {c[:2]: c for c in first.state.finished_candidates}
    first.save()
    second = opened(terms)
    assert (0, 1) == (second.due_in_s(), second.state.position.log)
    assert second.run_pass() and second.state.finished is not None
    assert (10, [(7, 3)]) == (
        second.state.finished.entries,
        [c[:2] for c in second.state.finished_candidates],
    )


def test_candidates_of_the_last_pass_end_with_the_next_one(terms: ScrubTerms) -> None:
    """What was repaired is no longer named."""
    scrubber = opened(terms)
    scrubber.run_pass()
    write_log(terms.configured.ledger_directories[0] / "current" / "0.log", [(7, 3)])
    assert [(7, 3)] == [c[:2] for c in scrubber.state.report(0).candidates]
    scrubber.run_pass()
    assert () == scrubber.state.report(0).candidates


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"version": 2}', b"null", b"7"])
def test_a_state_that_is_none_begins_anew(terms: ScrubTerms, data: bytes) -> None:
    (terms.directory / STATE_FILE).write_bytes(data)
    assert read_report(terms.directory, terms.key) is None
    assert ScrubState(["b1", *_directories(terms)]) == opened(terms).state


def test_the_state_of_another_bookie_begins_anew(terms: ScrubTerms) -> None:
    scrubber = opened(terms)
    scrubber.run_pass()
    data = (terms.directory / STATE_FILE).read_bytes()
    assert ScrubState(["b2"]) == ScrubState.decode(data, ["b2"])
    assert read_report(terms.directory, ["b2"]) is None
    assert read_report(terms.directory, terms.key) is not None
    assert scrubber.state == ScrubState.decode(data, ["b1", *_directories(terms)])


def _directories(terms: ScrubTerms) -> list[str]:
    return [str(path) for path in terms.configured.ledger_directories * 2]


def test_a_state_that_cannot_be_written_does_not_end_the_pass(terms: ScrubTerms) -> None:
    """No log is called damaged for it."""
    problems: list[str] = []
    scrubber = opened(terms, problems)
    terms.directory.rmdir()
    scrubber.run_pass()
    assert scrubber.state.finished is not None
    assert (10, 0) == (scrubber.state.finished.entries, scrubber.state.finished.damaged_logs)
    assert problems and "cannot be written" in problems[0]


def test_a_scrub_never_writes_among_the_bookies_files(tmp_path: Path) -> None:
    configured = BookieConfiguration((tmp_path / "ledgers",), (tmp_path / "index",))
    for inside in ("ledgers", "ledgers/current/x", "index/x"):
        with pytest.raises(ConfigError, match="in the bookie's directory"):
            check_directory(tmp_path / inside, configured)
    (tmp_path / "ledgers").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "ledgers")
    for way in ("link/x", "own/../ledgers/x"):
        with pytest.raises(ConfigError, match="in the bookie's directory"):
            check_directory(tmp_path / way, configured)
    assert [] == list((tmp_path / "ledgers").iterdir())
    check_directory(tmp_path / "own" / "scrub", configured)
    assert (tmp_path / "own" / "scrub").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be created"):
        check_directory(tmp_path / "file" / "x", configured)


def test_it_runs_at_idle_priority() -> None:
    """Processors and disks serve it last."""
    code = (
        "import ctypes, os\n"
        "from auditor.lister.scrub_process import take_idle_priority, _IOPRIO_SET\n"
        "import platform\n"
        "print(repr(take_idle_priority()), os.nice(0),"
        " ctypes.CDLL(None).syscall(_IOPRIO_SET[platform.machine()] + 1, 1, 0) >> 13)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "'' 19 3" == done.stdout.strip()
    assert callable(take_idle_priority)


def test_the_process_scrubs_and_ends_with_its_lister(terms: ScrubTerms) -> None:
    """It writes its report, and nothing into the bookie's directories."""
    ledgers = terms.configured.ledger_directories[0]
    before = sorted(ledgers.rglob("*"))
    scrub = Scrub(terms, structlog.get_logger("auditor"))
    scrub.start()
    try:
        deadline = time.monotonic() + WAIT_S
        while (report := scrub.report()) is None or report.finished is None:
            assert time.monotonic() < deadline, "no pass ended"
            time.sleep(0.1)
        process = scrub._process
        assert process is not None and process.poll() is None
    finally:
        scrub.stop()
    assert process.returncode is not None
    assert [(7, 3)] == [c[:2] for c in report.candidates]
    assert before == sorted(ledgers.rglob("*"))
    assert [STATE_FILE] == os.listdir(terms.directory)


def test_the_metrics_of_a_scrub_are_those_of_the_finished_pass(terms: ScrubTerms) -> None:
    """-1 before there is one, and if the report cannot be read."""
    metrics = ListerMetrics("b1", "1")
    metrics.follow_scrub(lambda: read_report(terms.directory, terms.key))

    def value(name: str) -> float | None:
        return metrics._registry.get_sample_value(f"bookkeeper_lister_scrub_{name}", B1)

    assert (-1, -1) == (value("entries"), value("read_bytes"))
    opened(terms).run_pass()
    assert (10, 9, 1, 0, 0) == (
        value("entries"), value("entries_verified"), value("entries_failed"),
        value("entries_unchecked"), value("logs_damaged"),
    )  # fmt: skip
    report = read_report(terms.directory, terms.key)
    assert report is not None and report.finished is not None
    assert report.finished.began_at_ms / 1_000 == value("began_timestamp_seconds")
    assert (1, -1) == (value("entries_suspected"), value("read_bytes"))
    (terms.directory / STATE_FILE).unlink()
    (terms.directory / STATE_FILE).mkdir()
    assert -1 == value("entries")
