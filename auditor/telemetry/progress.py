"""Show progress on stderr if it is a terminal, and nothing otherwise."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TextIO

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress
from rich.text import Text

from auditor.report.layout import duration, printable

SILENT_SHOWN_MAX = 3
"""At most this many silent bookies are named on the screen. The others are counted."""

_WHOLE_FROM = 10
"""A rate of at least this many ledgers per second is shown without decimals."""


@dataclass(frozen=True, slots=True)
class LedgersDone:
    """The progress of the first look: `done` of `total` ledgers have gone through all its stages.

    It grows shard by shard. The driver does not know what is done of the shard at work.
    """

    done: int
    total: int


PAUSE = "pause"
"""The stage in which a run waits for its window."""


class Progress(Protocol):
    """Where commands and the pipeline report progress. Tests need no terminal for it."""

    def stage(
        self, name: str, total: int | None = None, ledgers: LedgersDone | None = None
    ) -> None:
        """Start a stage of `total` units, if known, and end the one before.

        A run has the stages load, ask, judge, second look and report. `ledgers` gives the rate. It
        is passed by stages that do work, not by those that a resumed run finds written.
        """

    def advance(self, n: int = 1) -> None:
        """Count `n` more units of the stage as done.

        The sum may exceed the total, because a retried task repeats some units.
        """

    def pause(self, seconds: float) -> None:
        """Show that the stage waits for this long before it continues."""

    def silent(self, bookies: Collection[str]) -> None:
        """Show the bookies that were silent or refused when they were last asked."""

    def close(self) -> None:
        """End the last stage and restore the screen."""


class Silent:
    """A `Progress` that shows nothing, for pipes, cron and --quiet."""

    def stage(
        self, name: str, total: int | None = None, ledgers: LedgersDone | None = None
    ) -> None:
        """Do nothing."""

    def advance(self, n: int = 1) -> None:
        """Do nothing."""

    def pause(self, seconds: float) -> None:
        """Do nothing."""

    def silent(self, bookies: Collection[str]) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


@dataclass(slots=True)
class RunLines:
    """The lines below the bar: the progress of the first look, a pause, and silent bookies.

    `now` and all other times are seconds of a monotonic clock.
    """

    ledgers: LedgersDone | None = None
    silent: list[str] = field(default_factory=list)
    pause_until: float | None = None
    _first: tuple[float, LedgersDone] | None = None
    _latest: float = 0.0

    def start_stage(self, ledgers: LedgersDone | None, now: float, *, pauses: bool = False) -> None:
        """Record the start of a stage.

        The rate is measured from the first stage with `ledgers`. A stage that `pauses` the run
        restarts it.
        """
        self.pause_until = None
        if pauses:
            self._first = None
        if ledgers is not None and ledgers != self.ledgers:
            self._first = self._first or (now, ledgers)
            self._latest = now
        self.ledgers = ledgers

    def at(self, now: float) -> Iterator[str]:
        """Yield the lines as they are at this moment."""
        # Another thread may begin a stage meanwhile: read each value once.
        ledgers, until = self.ledgers, self.pause_until
        if ledgers is not None and ledgers.total:
            yield ", ".join(self._first_look(ledgers, now))
        if until is not None and until > now:
            yield f"looks again in {duration(until - now)}"
        if self.silent:
            named = ", ".join(printable(bookie) for bookie in self.silent[:SILENT_SHOWN_MAX])
            more = len(self.silent) - SILENT_SHOWN_MAX
            yield f"silent or refusing so far: {named}{f' and {more:,} more' if more > 0 else ''}"

    def _first_look(self, ledgers: LedgersDone, now: float) -> Iterator[str]:
        """Yield the share, then the rate and the time left if a shard was measured."""
        done, total = ledgers.done, ledgers.total
        yield f"first look: {done:,} of {total:,} ledgers done ({100 * done // total} %)"
        if (start := self._first) is None:  # another thread starts a pause
            return
        began, first = start
        rate = (done - first.done) / (self._latest - began) if self._latest > began else 0.0
        if rate <= 0:
            return
        yield f"{rate:,.0f} ledgers/s" if rate >= _WHOLE_FROM else f"{rate:.2g} ledgers/s"
        left = (total - done) / rate - (now - self._latest)
        if left > 0:  # else this shard takes longer than earlier ones
            yield f"about {duration(left)} left of it"


class _Screen(RichProgress):
    """Rich's progress with lines of text below its bar."""

    def __init__(self, lines: Callable[[], Iterable[str]], console: Console) -> None:
        self._more = lines
        super().__init__(
            TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console, transient=True,
        )  # fmt: skip

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield the bar, and each line cut to the width of the screen."""
        yield from super().get_renderables()
        for line in self._more():
            yield Text(line, no_wrap=True, overflow="ellipsis")


class Bar:
    """A `Progress` that shows one bar for the current stage and removes it when the stage ends."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lines = RunLines()
        self._bars = _Screen(lambda: list(self._lines.at(self._clock())), console)
        self._task: TaskID | None = None

    def stage(
        self, name: str, total: int | None = None, ledgers: LedgersDone | None = None
    ) -> None:
        self._lines.start_stage(ledgers, self._clock(), pauses=name == PAUSE)
        before, self._task = self._task, self._bars.add_task(name, total=total)
        if before is None:
            self._bars.start()
        else:
            self._bars.remove_task(before)

    def advance(self, n: int = 1) -> None:
        assert self._task is not None, "a stage begins before it advances"
        self._bars.advance(self._task, n)

    def pause(self, seconds: float) -> None:
        self._lines.pause_until = self._clock() + seconds

    def silent(self, bookies: Collection[str]) -> None:
        self._lines.silent = sorted(bookies)

    def close(self) -> None:
        if self._task is not None:
            self._bars.stop()
            self._bars.remove_task(self._task)
            self._task = None


def progress_for(stream: TextIO | None = None, *, quiet: bool = False) -> Progress:
    """Return a `Bar` if `stream` (default stderr) is a terminal, else or if `quiet` a `Silent`."""
    out = stream or sys.stderr
    if quiet or not out.isatty():
        return Silent()
    return Bar(Console(file=out))
