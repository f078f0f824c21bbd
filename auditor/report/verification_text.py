"""Sentences on how old the newest reads of all copies are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from auditor.model.summary import Summary, Verification
from auditor.report.layout import duration, moment, of, share


def verification_sentences(summary: Summary) -> Iterator[str]:
    """Yield how many copies were read within a day, a week and the period, and what is overdue.

    Yields nothing if no copy was counted, or if nothing is to be read within a period.
    """
    verified = summary.verification
    counts = verified.counts if verified else None
    if verified is None or counts is None or not counts.copies or not verified.period_ms:
        return
    period = duration(verified.period_ms / 1000)
    day, week, whole = (
        share(number / counts.copies)
        for number in (counts.within_day, counts.within_week, counts.within_period)
    )
    yield (
        f"Of {of(counts.copies, 'copy', 'copies')} the passes over all copies read {day} within a"
        f" day, {week} within a week and {whole} within {period}."
    )
    if counts.overdue:
        yield f"{of(counts.overdue, 'copy is', 'copies are')} overdue."
    elif counts.never:
        yield (
            f"No such read counts yet for {of(counts.never, 'copy', 'copies')}; none is overdue"
            f"{_before(verified, summary.started_at)}."
        )


def _before(verified: Verification, started_at: str | None) -> str:
    """Return until when nothing can be overdue: " before DATE"; "" if that was before the run."""
    since = [known for one in verified.bookies if (known := moment(one.since)) is not None]
    began = moment(started_at)
    if not since or began is None:
        return ""
    first = min(since) + timedelta(milliseconds=verified.period_ms)
    return f" before {first:%Y-%m-%d}" if first > began else ""
