"""Words of a report on the copies that were verified, and on those assumed from a sample."""

from __future__ import annotations

from auditor.model.summary import DoubtCounts, Summary
from auditor.model.verdict import CopyCounts
from auditor.report.layout import count, of, printable, share


def verified_words(copies: CopyCounts) -> str:
    """Return how many copies were verified: "600 of 40,000 copies that were read"."""
    expected = of(copies.expected, "copy", "copies")
    return f"{_verified_count(copies)} of {expected} that were {_how(copies)}"


def sampled_words(summary: Summary) -> str:
    """Return how few copies were verified if some were assumed from a sample; "" if none was."""
    copies = summary.copies
    if copies is None or not copies.assumed:
        return ""
    how = "verified" if doubt_words(summary) else _how(copies)
    return (
        f"Only {_verified_count(copies)} of {_expected_count(summary, copies)} were {how};"
        f" {count(copies.assumed)} are assumed from a sample."
    )


def verified_share_words(summary: Summary) -> str:
    """Return which share of the copies was verified; "" if there was no copy to verify."""
    copies = summary.copies
    if copies is None or not copies.expected:
        return ""
    assumed = f", {count(copies.assumed)} assumed from a sample" if copies.assumed else ""
    ratio = share(summary.verified_ratio or 0.0)
    how = "" if doubt_words(summary) else f" {_how(copies)}"
    return f"{ratio} of {_expected_count(summary, copies)}{how}{_only_listed(copies)}{assumed}"


def verified_share_meaning(summary: Summary, copies: CopyCounts) -> str:
    """Return the whole of which the verified share is a part, for a line that begins with the
    share.
    """
    how = "verified" if doubt_words(summary) else "listed or read"
    return (
        f"of the copies{_where(summary)} were {how}"
        f" ({_verified_count(copies)} of {count(copies.expected)}){_only_listed(copies)}"
    )


def _expected_count(summary: Summary, copies: CopyCounts) -> str:
    return of(copies.expected, "copy", "copies") + _where(summary)


def _where(summary: Summary) -> str:
    """Return in which ledgers copies are counted; "" if those are all ledgers."""
    ledgers = summary.ledgers
    return "" if ledgers.listed == ledgers.sound else " in judged closed ledgers"


def _verified_count(copies: CopyCounts) -> str:
    return count(copies.listed + copies.read)


def doubt_words(summary: Summary) -> str:
    """Return how many copies only bookies in doubt list; "" if none. Stored runs may lack the
    field.
    """
    doubt = summary.doubt
    if not doubt.copies:
        return ""
    some, total = doubt.some_bookies, doubt.bookies
    more = f" and {count(total - len(some))} more" if total > len(some) else ""
    copies = of(doubt.copies, "copy", "copies")
    are = "is" if doubt.copies == 1 else "are"
    return (
        f"{copies} {are} only listed by {', '.join(map(printable, some))}{more}, which failed reads"
        f" or lack entries, and {are} not counted as verified{_read_in_doubt(doubt)}"
    )


def _read_in_doubt(doubt: DoubtCounts) -> str:
    """Return how many copies were read on bookies in doubt; "" if a stored run does not say."""
    if not doubt.due:
        return ""
    were = "was" if doubt.read == 1 else "were"
    return f" ({count(doubt.read)} of {of(doubt.due, 'copy', 'copies')} there {were} read)"


def _only_listed(copies: CopyCounts) -> str:
    """Return how many of the verified copies only a list names; "" if each was read."""
    return f", {count(copies.listed)} only listed" if copies.listed else ""


def _how(copies: CopyCounts) -> str:
    return "listed or read" if copies.listed else "read"
