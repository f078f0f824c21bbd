"""What every command is given: its settings, where to write, the log, and how to notice that it should stop."""

from __future__ import annotations

import hashlib
import secrets
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TextIO

from structlog.stdlib import BoundLogger

from auditor.clock import now_ms
from auditor.config import Settings
from auditor.model.cluster import Surroundings
from auditor.model.evidence import Terms
from auditor.stop import StopRequest
from auditor.telemetry.progress import Progress

EXIT_SOUND, EXIT_FINDINGS, EXIT_USAGE, EXIT_UNKNOWN, EXIT_FAULT, EXIT_UNREACHABLE = range(6)
SIGNAL_EXIT_BASE = 128
"""An interrupted command exits with this plus the signal's number, as a shell would say it."""


@dataclass(frozen=True, slots=True)
class Context:
    """One call of one command."""

    settings: Settings
    out: TextIO
    logger: BoundLogger
    progress: Progress
    stop: StopRequest
    width: int = 100
    color: bool = False

    def say(self, words: str) -> None:
        """Write `words` to stdout at once. `auditor.console` sees to encodings and to readers that went away."""
        self.out.write(words)
        self.out.flush()

    def note(self, sentence: str) -> None:
        """Write a sentence to stderr, where stdout must carry nothing but data."""
        print(sentence, file=sys.stderr)  # noqa: T201


def new_run_id(now: datetime) -> str:
    """`<UTC timestamp>-<6 hex>`: sorts by time, and two runs in one second differ."""
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def probe_seed(run_id: str) -> int:
    """The seed of the entries that are probed: drawn anew for each run, the same for the same run; 48 bits, exact in JSON."""
    return int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:6], "big")


def terms_of(context: Context, run_id: str, around: Surroundings) -> Terms:
    """The terms of judgement, dated now."""
    settings = context.settings
    return Terms(
        judged_at_ms=now_ms(),
        underreplication_grace_ms=settings.underreplication_grace_ms,
        confirming_reads_max=settings.confirming_reads_max,
        looks_max=settings.looks_max,
        stranded_entries_max=settings.stranded_entries_max,
        probe_entries=settings.probe_entries,
        probe_seed=probe_seed(run_id),
        sound_sample=settings.sound_sample / 100,
        stuck_after_ms=settings.stuck_after_ms,
        placement=settings.placement_rule(),
        around=around,
    )


@dataclass(slots=True)
class Watch:
    """A progress that also measures: seconds a stage, by the monotonic clock."""

    progress: Progress
    seconds: dict[str, float] = field(default_factory=dict)
    _stage: str = ""
    _since: float = 0.0
    _done: int = 0

    def stage(self, name: str, total: int | None = None) -> None:
        self._stop()
        self._stage, self._since, self._done = name.replace(" ", "_"), time.monotonic(), 0
        self.progress.stage(name, total)

    def advance(self, n: int = 1) -> None:
        self.progress.advance(n)

    def done(self, count: int) -> None:
        """So many units of the stage are done in all; fewer than before is the next job of the stage."""
        if count > self._done:
            self.progress.advance(count - self._done)
        self._done = count

    def close(self) -> None:
        self._stop()
        self.progress.close()

    def durations(self) -> Mapping[str, float]:
        """Seconds of every stage that is over."""
        return self.seconds

    def so_far(self) -> Mapping[str, float]:
        """Seconds of every stage, of the present one up to now."""
        now = {self._stage: self.seconds.get(self._stage, 0.0) + time.monotonic() - self._since} if self._stage else {}
        return {**self.seconds, **now}

    def goes_on(self, seconds: Mapping[str, float]) -> None:
        """The run took so long before it was cut down."""
        for stage, before in seconds.items():
            self.seconds[stage] = self.seconds.get(stage, 0.0) + before

    def _stop(self) -> None:
        self.seconds, self._stage = dict(self.so_far()), ""
