"""Count how many of the promised copies were verified."""

from __future__ import annotations

from collections.abc import Iterable

from auditor.model.verdict import CopyCounts, Standing, Verdict

JUDGED = (Standing.SOUND, Standing.VIOLATED)
"""The standings of ledgers whose copies are counted."""
COPIES_MAX = 2**53
"""Each count of one ledger is at most this: its metadata may claim 2^63 entries."""
_RATIO_STEPS = 10**6
"""Ratios are rounded down to a multiple of 1 / _RATIO_STEPS: a ratio below 1 never becomes 1."""


def cap(counts: CopyCounts) -> CopyCounts:
    """Return the counts, each at most COPIES_MAX."""
    values = (counts.expected, counts.listed, counts.read, counts.assumed)
    return CopyCounts(*(min(count, COPIES_MAX) for count in values))


def verified_ratio(counts: CopyCounts) -> float | None:
    """Return the share of the copies that were listed or read; None if no copy is expected."""
    verified = counts.listed + counts.read
    return verified * _RATIO_STEPS // counts.expected / _RATIO_STEPS if counts.expected else None


def copies_of_ledgers(verdicts: Iterable[Verdict]) -> CopyCounts:
    """Return the copies of a few ledgers, counted like those of a run."""
    counted = [
        cap(one.copies) for one in verdicts if one.copies is not None and one.standing in JUDGED
    ]
    return CopyCounts(
        sum(one.expected for one in counted),
        sum(one.listed for one in counted),
        sum(one.read for one in counted),
        sum(one.assumed for one in counted),
    )
