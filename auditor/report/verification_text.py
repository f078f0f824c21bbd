"""Sentences on how old the newest reads of copies are: of all of them, and of a ledger's."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from auditor.model.summary import Summary, Verification, VerifiedBy
from auditor.report.layout import duration, moment, name_some, of, share
from auditor.summary.verification import LedgerAges

_OTHERS = {
    VerifiedBy.SCRUB: "which the scrub of a lister reads",
    VerifiedBy.SAMPLE: "of which runs read a sample",
    VerifiedBy.UNANSWERED: "where this run got no answer, or too few",
    VerifiedBy.NOTHING: "which nothing is known to read",
}
"""What reads the copies of bookies that runs do not read."""


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


def ledger_age_sentences(ages: LedgerAges) -> Iterator[str]:
    """Yield how many copies of a ledger were read within a day, a week, the period and never.

    What reads the copies on other bookies follows.
    """
    counts = ages.counts
    if counts.copies:
        within = [f"{counts.within_day:,} within a day", f"{counts.within_week:,} within a week"]
        if ages.period_ms:
            period = duration(ages.period_ms / 1000)
            within.append(f"{counts.within_period:,} within {period}")
        yield (
            f"Of {of(counts.copies, 'copy', 'copies')} on bookies that runs read, the passes up to"
            f" this run had read {', '.join(within[:-1])} and {within[-1]}."
        )
    if counts.never:
        yield f"No such read counts yet for {of(counts.never, 'copy', 'copies')}."
    if counts.overdue:
        yield f"{of(counts.overdue, 'copy is', 'copies are')} overdue."
    if counts.oldest:
        yield f"The oldest of these reads was by the run of {counts.oldest}."
    for by, words in _OTHERS.items():
        mine = [one for one in ages.others if one.verified_by is by]
        if mine:
            copies = of(sum(one.copies for one in mine), "copy", "copies")
            named = name_some([one.bookie_id for one in mine])
            yield f"Not counted here: {copies} on {named}, {words}."
