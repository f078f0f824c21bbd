"""Copies that were not read within the period. BP-34 does not ask for this.

Verified: when runs of this output, or the scrubs of listers, last read each copy. Not verified:
whether the copies are damaged, and what others read.
"""

from __future__ import annotations

from collections.abc import Collection

from auditor.model.facts import OverdueFacts
from auditor.model.finding import Finding, Kind
from auditor.model.finding_record import FindingRecord
from auditor.model.identity import BookieId
from auditor.model.summary import Verification, VerifiedBookie, VerifiedBy
from auditor.summary.about import About
from auditor.summary.reading_plan import milliseconds
from auditor.witness.finding_lines import ClusterLook, cluster_testimony

BOOKIES_NAMED_MAX = 10
"""At most this many bookies are named in a finding. The others are counted."""


def overdue_findings(
    verified: Verification, about: About, away: Collection[BookieId]
) -> list[FindingRecord]:
    """Return VERIFICATION_OVERDUE if copies are overdue, on other bookies than those `away`."""
    finding, counts = judge_overdue(verified, away), verified.counts
    if finding is None or counts is None:
        return []
    seen = f"{counts.overdue} of {counts.copies} copies overdue"
    look = ClusterLook(about.reading.began_at_ms, "reads of copies", seen)
    return [cluster_testimony(finding, [look], about.facts)]


def judge_overdue(verified: Verification, away: Collection[BookieId]) -> Finding | None:
    """Return the finding, None if no copy is overdue.

    Bookies in `away` are in maintenance or not registered: they do not count.
    """
    counts = verified.counts
    if counts is None or counts.overdue == 0:
        return None
    late = [one for one in verified.bookies if one.bookie_id not in away and _share_overdue(one)]
    late.sort(key=_share_overdue, reverse=True)
    not_read, scrubbed, unanswered = (
        [one.bookie_id for one in late if one.verified_by is by]
        for by in (VerifiedBy.NOTHING, VerifiedBy.SCRUB, VerifiedBy.UNANSWERED)
    )
    read = [one for one in late if one.verified_by is VerifiedBy.READS]
    facts = OverdueFacts(
        period_ms=verified.period_ms,
        copies_due=counts.copies,
        overdue=counts.overdue,
        oldest_read_ms=None if counts.oldest is None else milliseconds(counts.oldest),
        bookies=len(late),
        some_bookies=tuple(one.bookie_id for one in late[:BOOKIES_NAMED_MAX]),
        bytes_per_second=verified.bytes_per_second,
        rate_needed=max((one.rate_needed for one in late if one.rate_needed), default=None),
        not_read=len(not_read),
        some_not_read=tuple(not_read[:BOOKIES_NAMED_MAX]),
        scrubbed=len(scrubbed),
        some_scrubbed=tuple(scrubbed[:BOOKIES_NAMED_MAX]),
        unanswered=len(unanswered),
        some_unanswered=tuple(unanswered[:BOOKIES_NAMED_MAX]),
        reads_unanswered=sum(len(one.unanswered) for one in read),
    )
    return Finding(Kind.VERIFICATION_OVERDUE, facts)


def _share_overdue(bookie: VerifiedBookie) -> float:
    counts = bookie.counts
    return counts.overdue / counts.copies if counts is not None and counts.overdue else 0.0
