"""What every command receives: settings, output, log, progress and the request to stop.

It also has the exit codes, and the run id and terms of judgement of an audit that starts now.
"""

from __future__ import annotations

import hashlib
import secrets
import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TextIO

from structlog.stdlib import BoundLogger

from auditor.clock import now_ms
from auditor.config import Settings
from auditor.model.cluster import Surroundings
from auditor.model.evidence import Sweep, Terms
from auditor.report.layout import PLAIN, Screen
from auditor.stop import StopRequest
from auditor.telemetry.progress import LedgersDone, Progress

EXIT_SOUND, EXIT_FINDINGS, EXIT_USAGE, EXIT_UNKNOWN, EXIT_FAULT, EXIT_UNREACHABLE = range(6)
SIGNAL_EXIT_BASE = 128
"""An interrupted command exits with this plus the signal number, as in a shell."""


@dataclass(frozen=True, slots=True)
class Context:
    """One call of a command."""

    settings: Settings
    out: TextIO
    logger: BoundLogger
    progress: Progress
    stop: StopRequest
    screen: Screen = PLAIN
    output_by_default: str | None = None
    """The OUTPUT in which later commands look for runs if they are called without flags."""

    def say(self, words: str) -> None:
        """Write `words` to stdout and flush. A progress bar is removed first: stdout and stderr may
        be one terminal.

        `auditor.console` handles characters that stdout cannot encode, and closed pipes.
        """
        self.progress.close()
        self.out.write(words)
        self.out.flush()

    def note(self, sentence: str) -> None:
        """Write a sentence to stderr, for commands whose stdout carries only data."""
        print(sentence, file=sys.stderr)  # noqa: T201


def new_run_id(now: datetime) -> str:
    """Return `<UTC timestamp>-<6 hex>`: ids sort by time, and two runs in one second differ."""
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def probe_seed(run_id: str) -> int:
    """Return the seed that chooses which entries are probed: 48 bits, exact in JSON.

    It depends only on the run id: a resumed or replayed run probes the same entries.
    """
    return int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:6], "big")


def terms_of(context: Context, run_id: str, around: Surroundings, clock_lag_ms: int = 0) -> Terms:
    """Return the terms of judgement, dated now.

    If this host's clock lies `clock_lag_ms` behind, they are dated at the newest proven time.
    """
    settings = context.settings
    return Terms(
        judged_at_ms=now_ms() + clock_lag_ms,
        clock_lag_ms=clock_lag_ms,
        underreplication_grace_ms=settings.underreplication_grace_ms,
        confirming_reads_max=settings.confirming_reads_max,
        looks_max=settings.looks_max,
        stranded_entries_max=settings.stranded_entries_max,
        probe_entries=settings.probe_entries,
        probe_seed=probe_seed(run_id),
        sweep=Sweep(probe_seed(run_id), budget=settings.probe_budget),
        spot_reads=settings.spot_reads,
        doubt_reads=settings.doubt_reads,
        sound_sample=settings.sound_sample / 100,
        stuck_after_ms=settings.stuck_after_ms,
        orphan_age_ms=settings.orphan_age_ms,
        placement=settings.placement_rule(),
        around=around,
    )


@dataclass(slots=True)
class Watch:
    """A `Progress` that also logs each stage, and measures its seconds (monotonic clock)."""

    progress: Progress
    logger: BoundLogger
    seconds: dict[str, float] = field(default_factory=dict)
    _stage: str = ""
    _since: float = 0.0
    _done: int = 0

    def stage(
        self, name: str, total: int | None = None, ledgers: LedgersDone | None = None
    ) -> None:
        self._stop()
        self._stage, self._since, self._done = name.replace(" ", "_"), time.monotonic(), 0
        self.logger.debug("stage_begins", stage=self._stage, units=total)
        self.progress.stage(name, total, ledgers)

    def advance(self, n: int = 1) -> None:
        self.progress.advance(n)

    def done(self, count: int) -> None:
        """Advance the stage to `count` units done in total.

        A lower count than before means that the stage's next job has started.
        """
        if count > self._done:
            self.progress.advance(count - self._done)
        self._done = count

    def pause(self, seconds: float) -> None:
        self.progress.pause(seconds)

    def silent(self, bookies: Collection[str]) -> None:
        self.progress.silent(bookies)

    def close(self) -> None:
        self._stop()
        self.progress.close()

    def durations(self) -> Mapping[str, float]:
        """Return the seconds of each stage that has ended."""
        return self.seconds

    def seconds_by_stage(self) -> Mapping[str, float]:
        """Return the seconds of each stage, with the current stage measured up to now."""
        now = (
            {self._stage: self.seconds.get(self._stage, 0.0) + time.monotonic() - self._since}
            if self._stage
            else {}
        )
        return {**self.seconds, **now}

    def add_prior_durations(self, seconds: Mapping[str, float]) -> None:
        """Add the seconds per stage that the run took before it was interrupted."""
        for stage, before in seconds.items():
            self.seconds[stage] = self.seconds.get(stage, 0.0) + before

    def _stop(self) -> None:
        self.seconds, self._stage = dict(self.seconds_by_stage()), ""
