"""Choose which findings the page lists, and which of them it holds in full."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.model.finding_record import FindingRecord
from auditor.report.findings_text import by_kind, worst

LISTED_MAX = 100_000
"""At most this many findings are in the page's table. A row takes some 100 bytes, and a browser
filters this many at once."""
IN_FULL_MAX = 1_000
"""At most this many findings have their witness, answers and commands. Each takes some 3 kB; nobody
reads more."""


def share_fairly(wanted: Sequence[int], limit: int) -> list[int]:
    """Return how many of each group to take, at most `limit` together.

    Small groups are taken whole; large ones get equal shares of the rest.
    """
    taken, left = [0] * len(wanted), limit
    order = sorted(range(len(wanted)), key=lambda group: wanted[group])
    for place, group in enumerate(order):
        taken[group] = min(wanted[group], left // (len(order) - place))
        left -= taken[group]
    return taken


def choose_listed(
    findings: Sequence[FindingRecord], limit: int = LISTED_MAX
) -> list[FindingRecord]:
    """Return the findings of the table, the worst kind first, every kind with some.

    If they are at most `limit`, all of them in their order; else the worst of each kind.
    """
    groups = by_kind(findings)
    shares = share_fairly([len(group) for group in groups.values()], limit)
    return [
        finding
        for group, share in zip(groups.values(), shares, strict=True)
        for finding in (group if share == len(group) else worst(group, share))
    ]


def choose_in_full(listed: Sequence[FindingRecord], limit: int = IN_FULL_MAX) -> list[int]:
    """Return the positions in `listed` of the findings to hold in full: the worst of each kind.

    The most important ones come first.
    """
    at = {id(finding): place for place, finding in enumerate(listed)}
    groups = by_kind(listed)
    shares = share_fairly([len(group) for group in groups.values()], limit)
    return [
        at[id(f)]
        for group, share in zip(groups.values(), shares, strict=True)
        for f in worst(group, share)
    ]
