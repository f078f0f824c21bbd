"""The hours in which a run works (`--window`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from structlog.stdlib import BoundLogger

from auditor.clock import utc_now
from auditor.config.units import DailyWindow
from auditor.context import Context
from auditor.stop import StopRequest
from auditor.telemetry.progress import PAUSE, Progress

NAP_S = 60.0
"""Longest single sleep. The clock is read again after it: it may have been set, or a laptop
suspended."""


@dataclass(slots=True)
class OpenHours:
    """Waits for the window to open. Without a window it is always open."""

    window: DailyWindow | None
    stop: StopRequest
    progress: Progress
    logger: BoundLogger
    now: Callable[[], datetime] = utc_now

    @classmethod
    def of(cls, context: Context, progress: Progress) -> OpenHours:
        """Return the hours that the settings of a command allow."""
        return cls(context.settings.daily_window(), context.stop, progress, context.logger)

    def next_open(self) -> datetime:
        """Return when the window is open next: now, if it is open or there is none."""
        now = self.now()
        wait_s = self.window.seconds_until_open(now) if self.window else 0.0
        return now + timedelta(seconds=wait_s)

    def is_open(self) -> bool:
        """Return whether the run may work now."""
        return self.window is None or not self.window.seconds_until_open(self.now())

    def await_open(self, then: str) -> None:
        """Return at once within the window, otherwise when it opens. Raises Interrupted.

        Called between shards: a shard that has begun is finished, even outside the window. No stage
        of the run counts the wait. `then` is the stage that follows it.
        """
        if self.window is None or not (seconds := self.window.seconds_until_open(self.now())):
            return
        self.logger.info("run_pauses", window=str(self.window), opens_in_s=round(seconds))
        self.progress.stage(PAUSE)
        while seconds:
            self.stop.wait(min(seconds, NAP_S))
            seconds = self.window.seconds_until_open(self.now())
        self.logger.info("run_goes_on", window=str(self.window))
        self.progress.stage(then)
