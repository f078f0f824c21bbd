"""Progress for whoever watches."""

import io

import pytest

from auditor.telemetry.progress import Bar, Progress, Silent, progress_for


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


def test_nothing_is_drawn_where_nobody_watches():
    """A pipe gets not one byte."""
    out = io.StringIO()
    progress = progress_for(out)
    run(progress)
    assert isinstance(progress, Silent) and out.getvalue() == ""


def test_quiet_draws_nothing_on_a_terminal():
    """--quiet beats the terminal."""
    out = Terminal()
    run(progress_for(out, quiet=True))
    assert out.getvalue() == ""


def test_a_terminal_sees_the_stages(monkeypatch):
    """The stage that runs, its share; a task done twice may pass the total; closing twice is
    harmless.
    """
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    progress = progress_for(out)
    assert isinstance(progress, Bar)
    run(progress)
    assert "second look" in out.getvalue() and "6/2" in out.getvalue()


def test_a_stage_begins_before_it_advances():
    """Advancing without a stage is our mistake."""
    with pytest.raises(AssertionError):
        progress_for(Terminal()).advance()
