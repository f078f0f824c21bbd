"""Shows progress on stderr if it is a terminal, and nothing otherwise."""

from __future__ import annotations

import sys
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress


class Progress(Protocol):
    """Where commands and the pipeline report progress. Tests need no terminal for it."""

    def stage(self, name: str, total: int | None = None) -> None:
        """Start a stage of `total` units, if known, and end the one before.

        A run has the stages load, ask, judge, second look and report.
        """

    def advance(self, n: int = 1) -> None:
        """Count `n` more units of the stage as done.

        The sum may exceed the total, because a retried task repeats some units.
        """

    def close(self) -> None:
        """End the last stage and restore the screen."""


class Silent:
    """A `Progress` that shows nothing, for pipes, cron and --quiet."""

    def stage(self, name: str, total: int | None = None) -> None:
        """Do nothing."""

    def advance(self, n: int = 1) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class Bar:
    """A `Progress` that shows one bar for the current stage and removes it when the stage ends."""

    def __init__(self, console: Console) -> None:
        self._bars = RichProgress(
            TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn(),
            TimeElapsedColumn(),
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
    """Return a `Bar` if `stream` (default stderr) is a terminal, else or if `quiet` a `Silent`."""
    out = stream or sys.stderr
    if quiet or not out.isatty():
        return Silent()
    return Bar(Console(file=out))
