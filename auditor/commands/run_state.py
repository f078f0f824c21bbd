"""The state of one `auditor run`: what its end needs, whether it succeeds or fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from auditor.clock import utc_now
from auditor.commands.context import Context
from auditor.errors import OutputError
from auditor.evidence.journal import LISTED, Journal
from auditor.evidence.output_directory import Output
from auditor.evidence.output_lock import HeldLock
from auditor.evidence.run_directory import Place
from auditor.report.first_screen import SCREEN_LINES_MAX
from auditor.summary.about import About
from auditor.topology.sources import Source


@dataclass(slots=True)
class Run:
    """The state of one run that is needed to end it, whether it succeeds or fails."""

    context: Context
    output: Output
    run_id: str
    started_at: str
    sources: Sequence[Source] = ()
    """Where the locations of bookies come from."""
    begun: About | None = None
    """The `About` of the run that is resumed; None for a new run."""
    directory: Place | None = None
    journal: Journal | None = None
    lock: HeldLock | None = None
    """The lock of OUTPUT. Processes that write for this run inherit its descriptor, if any."""
    cluster: str = ""
    spark_version: str = ""
    lasting: bool = True
    """Whether the cluster outlives the run; the demo's does not."""
    lines_max: int = SCREEN_LINES_MAX
    """Lines that the first screen may take."""
    is_over: bool = False
    """Whether everything is published."""
    has_lost_evidence: bool = False
    """Whether a part of what the run stored is gone: it cannot be resumed."""

    def require_whole(self) -> None:
        """Raise OutputError if a part of what the stages of this run stored is gone or changed."""
        if self.journal is None or self.is_over:
            return
        if lost := self.journal.lost():
            self.has_lost_evidence = True
            raise OutputError(lost)

    def resume_advice(self) -> str:
        """Return advice on how to resume the run, as the end of a sentence.

        Returns "" if nothing is written that could be resumed, or if the cluster will be gone. If
        the run is older than --resume-age-max, as one of several nights may be, it says so.
        """
        written = self.begun is not None or (self.journal is not None and self.journal.has(LISTED))
        if not written or self.is_over or self.has_lost_evidence:
            return ""
        if not self.lasting or self.context.settings.dry_run:
            return ""
        age = utc_now() - datetime.fromisoformat(self.started_at)
        advice = f"; auditor run --resume {self.run_id} continues where it stopped"
        if age <= timedelta(milliseconds=self.context.settings.resume_age_max_ms):
            return advice
        return f"{advice}, if --resume-age-max is raised: the run began at {self.started_at}"
