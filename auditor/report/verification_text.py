"""Sentences on how old the newest reads of all copies are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from auditor.model.summary import Summary, Verification
from auditor.report.layout import count, duration, moment, of, share


def verification_sentences(summary: Summary) -> Iterator[str]:
    """Yield how many copies were read within a day, a week and the period, and what is overdue.

    Yields nothing if no copy was counted, or if nothing is to be read within a period.
    """
    verified = summary.verification
    counts = verified.counts if verified else None
    if verified is None or counts is None or not counts.copies or not verified.period_ms:
        return
    period = duration(verified.period_ms / 1000)
    read = (
        f"{share(number / counts.copies)} within {word}"
        for number, word in (
            (counts.within_day, "a day"),
            (counts.within_week, "a week"),
            (counts.within_period, period),
        )
    )
    yield f"Of {of(counts.copies, 'copy', 'copies')}, {', '.join(read)} were read."
    if counts.overdue:
        yield f"{of(counts.overdue, 'copy is', 'copies are')} overdue."
    elif counts.never:
        yield (
            f"{of(counts.never, 'copy was', 'copies were')} not read yet, and none is overdue"
            f"{_before(verified, summary.started_at)}."
        )


def overdue_words(summary: Summary) -> str:
    """Return how many copies are overdue; "" if none is."""
    verified = summary.verification
    counts = verified.counts if verified else None
    if verified is None or counts is None or not counts.overdue:
        return ""
    return (
        f"{count(counts.overdue)} of {of(counts.copies, 'copy', 'copies')} were not read within"
        f" {duration(verified.period_ms / 1000)}"
    )


def _before(verified: Verification, started_at: str | None) -> str:
    """Return until when nothing can be overdue: " before DATE"; "" if that was before the run."""
    since = [known for one in verified.bookies if (known := moment(one.since)) is not None]
    began = moment(started_at)
    if not since or began is None:
        return ""
    first = min(since) + timedelta(milliseconds=verified.period_ms)
    return f" before {first:%Y-%m-%d}" if first > began else ""
