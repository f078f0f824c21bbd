"""Progress on stderr when somebody watches; nothing otherwise."""

from __future__ import annotations

import sys
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress


class Progress(Protocol):
    """What the pipeline tells as it goes: never more than this, so that it needs no terminal in tests."""

    def stage(self, name: str, total: int | None = None) -> None:
        """A stage begins (load, place, ask, judge, second look, report); `total` units if known. It ends the one before."""

    def advance(self, n: int = 1) -> None:
        """`n` more units of the stage are done. May exceed the total: a retried task does some again."""

    def close(self) -> None:
        """Nothing follows; the screen is left as it was."""


class Silent:
    """For pipes, cron and --quiet."""

    def stage(self, name: str, total: int | None = None) -> None:
        """Says nothing."""

    def advance(self, n: int = 1) -> None:
        """Says nothing."""

    def close(self) -> None:
        """Says nothing."""


class Bar:
    """One bar for the stage that runs, gone when it is over."""

    def __init__(self, console: Console) -> None:
        self._bars = RichProgress(
            TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            console=console, transient=True,
        )  # fmt: skip
        self._task: TaskID | None = None

    def stage(self, name: str, total: int | None = None) -> None:
        if self._task is None:
            self._bars.start()
        else:
            self._bars.remove_task(self._task)
        self._task = self._bars.add_task(name, total=total)

    def advance(self, n: int = 1) -> None:
        assert self._task is not None, "a stage begins before it advances"
        self._bars.advance(self._task, n)

    def close(self) -> None:
        if self._task is not None:
            self._bars.stop()
            self._task = None


def progress_for(stream: TextIO | None = None, *, quiet: bool = False) -> Progress:
    """A bar where `stream` (stderr) is a terminal and nobody asked for quiet, silence elsewhere."""
    out = stream or sys.stderr
    if quiet or not out.isatty():
        return Silent()
    return Bar(Console(file=out))
