"""Progress for a person at a terminal."""

import io
import re
import sys

import pytest
from rich.console import Console
from support.command_line import as_it_was
from support.terminal import rows_of

from auditor.config import parse
from auditor.context import Context
from auditor.stop import StopRequest
from auditor.telemetry import log
from auditor.telemetry.progress import (
    Bar,
    LedgersDone,
    Progress,
    RunLines,
    Silent,
    progress_for,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run(progress: Progress) -> None:
    for name, total in (("load", None), ("ask", 4), ("second look", 2)):
        progress.stage(name, total)
        for _ in range(3):
            progress.advance(2)
    progress.close()
    progress.close()


def test_nothing_is_drawn_into_a_pipe():
    """Not a single byte is written."""
    out = io.StringIO()
    progress = progress_for(out)
    run(progress)
    assert isinstance(progress, Silent) and out.getvalue() == ""


def test_quiet_draws_nothing_on_a_terminal():
    """--quiet has precedence over the terminal."""
    out = Terminal()
    run(progress_for(out, quiet=True))
    assert out.getvalue() == ""


def test_a_terminal_sees_the_stages(monkeypatch):
    """The bar shows the stage and its share. A task that was repeated may exceed the total, and
    closing twice is harmless.
    """
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    progress = progress_for(out)
    assert isinstance(progress, Bar)
    run(progress)
    assert "second look" in out.getvalue() and "6/2" in out.getvalue()


def test_a_stage_begins_before_it_advances():
    """Advancing without a stage is an error of the caller."""
    with pytest.raises(AssertionError):
        progress_for(Terminal()).advance()


def lines_after(*shards: tuple[float, int], now: float, total: int = 1_000) -> list[str]:
    """Return the lines at `now`; each shard's stages began at a time, with this many ledgers
    done.
    """
    lines = RunLines()
    for began, done in shards:
        lines.start_stage(LedgersDone(done, total), began)
        lines.start_stage(LedgersDone(done, total), began + 1)
    return list(lines.at(now))


def test_the_first_shard_has_a_share_and_no_guess():
    """No rate is measured yet, and no time left is shown."""
    assert ["first look: 0 of 1,000 ledgers done (0 %)"] == lines_after((5, 0), now=60)


def test_the_rate_is_that_of_the_shards_that_are_done():
    """250 ledgers took 100 s. The other 750 take 300 s, of which 20 s have passed."""
    (line,) = lines_after((10, 0), (110, 250), now=130)
    assert "250 of 1,000 ledgers done (25 %), 2.5 ledgers/s, about 4 min 40 s left of it" in line


def test_what_a_resumed_run_found_written_does_not_make_it_faster():
    """The rate begins with the first shard of this process; the share counts all ledgers."""
    (line,) = lines_after((0, 800), (100, 900), now=100)
    assert "(90 %), 1 ledgers/s, about 1 min 40 s left" in line


def test_a_shard_that_is_slower_than_those_before_has_no_time_left():
    """The estimated time has passed, and a negative one would be wrong."""
    (line,) = lines_after((0, 0), (10, 500), now=30)
    assert line.endswith("50 ledgers/s")


def test_the_share_is_never_rounded_up():
    """Only all ledgers are 100 %."""
    (line, *_) = lines_after((0, 999_999), now=1, total=1_000_000)
    assert "(99 %)" in line


def test_a_cluster_without_ledgers_has_no_share():
    """Nothing is divided by zero."""
    assert [] == lines_after((0, 0), now=1, total=0)


def test_a_pause_is_counted_down():
    """Its line is shown until the pause is over or the next stage begins."""
    lines = RunLines(pause_until=300.0)
    assert ["looks again in 5 min"] == list(lines.at(0))
    assert [] == list(lines.at(300))
    lines.start_stage(None, 10)
    assert [] == list(lines.at(20))


def test_silent_bookies_are_named_up_to_a_bound():
    """A bookie chooses its own name: control characters are removed."""
    silent = ["b1", "b2\x1b[2J", "b3", "b4", "b5"]
    (line,) = RunLines(silent=silent).at(0)
    assert "\x1b" not in line and line.startswith("silent or refusing so far: b1, b2")
    assert line.endswith("b3 and 2 more")


def test_a_terminal_sees_the_lines_below_the_bar(monkeypatch):
    """They are made for the time of the clock that the bar was given."""
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    times = iter(range(1_000_000))
    bar = Bar(Console(file=out, width=100), clock=lambda: float(next(times)))
    bar.stage("ask", 3, LedgersDone(250, 1_000))
    bar.silent(["b9:3181", "b3:3181"])
    bar.stage("second look")
    bar.pause(1e9)
    bar.close()
    seen = out.getvalue()
    assert "250 of 1,000 ledgers done (25 %)" in seen
    assert "silent or refusing so far: b3:3181, b9:3181" in seen
    assert "looks again in" in seen


def test_neither_the_log_nor_what_is_printed_is_glued_to_the_bar(monkeypatch: pytest.MonkeyPatch):
    """All three go to one terminal: lines of the log stand above the bar, and the bar is gone
    before something is printed. The next stage draws a new one, which ends without a trace.
    """
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "stderr", terminal)
    with as_it_was():
        logger = log.setup()
        progress = progress_for()
        context = Context(parse(), terminal, logger, progress, StopRequest())
        for stage in ("load", "ask"):
            progress.stage(stage)
            logger.warning("bookie_slow", stage=stage)
            context.say(f"{stage} is said\n")
        progress.close()
    rows = [
        re.sub(r"^\S+Z \[warning +\] (\w+) +", r"\1 ", row) for row in rows_of(terminal.getvalue())
    ]
    expected = [
        "bookie_slow stage=load",
        "load is said",
        "bookie_slow stage=ask",
        "ask is said",
        "",
    ]
    assert expected == rows
