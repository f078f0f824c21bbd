"""The plan of `--dry-run`: what a run would ask of the bookies, and how long that takes."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.report.layout import of, printable
from auditor.summary.costs import BookieCost

ASSUMED_ROUND_TRIP_S = 0.005
"""Assumed time of one list: that of a busy bookie on another host."""
BOOKIES_SHOWN_MAX = 20
OPEN_FILES_OF_ANY_PROCESS = 1_024
"""The lowest default limit on open files of common systems. Fewer lists need no warning."""


OPEN_FILES = (
    "A bookie on SortedLedgerStorage or InterleavedLedgerStorage keeps the index file of each",
    "ledger that it lists open until it restarts, whatever its openFileLimit is. Before you run",
    "this, see that its limit on open files (ulimit -n) is well above its number of lists.",
)
"""BookKeeper 4.14 to 4.17: `LedgerCacheImpl.getEntriesIterator` never closes what it opens."""


def seconds_needed(requests: int, requests_per_second: float, inflight: int) -> float:
    """Return how many seconds one bookie's lane needs for `requests` lists at these limits."""
    by_window = requests * ASSUMED_ROUND_TRIP_S / inflight
    return by_window if requests_per_second == 0 else max(by_window, requests / requests_per_second)


def plan_json(
    costs: Sequence[BookieCost], requests_per_second: float, inflight: int
) -> dict[str, object]:
    """Return the plan as data: what each bookie would be asked, and the seconds of its lane."""
    return {
        "bookies": [
            {
                "bookie_id": cost.bookie_id,
                "lists": cost.requests,
                "expected_bytes": cost.expected_bytes,
                "seconds": seconds_needed(cost.requests, requests_per_second, inflight),
            }
            for cost in sorted(costs, key=lambda cost: -cost.requests)
        ],
        "lists": sum(cost.requests for cost in costs),
        "expected_bytes": sum(cost.expected_bytes for cost in costs),
        "seconds": max(
            (seconds_needed(c.requests, requests_per_second, inflight) for c in costs),
            default=0.0,
        ),
    }


def plan_text(costs: Sequence[BookieCost], requests_per_second: float, inflight: int) -> str:
    """Return the plan for a person.

    Bookies are asked at the same time: the slowest decides the duration.
    """
    total = sum(cost.requests for cost in costs)
    size = sum(cost.expected_bytes for cost in costs) / 2**20
    longest = max(
        (seconds_needed(c.requests, requests_per_second, inflight) for c in costs), default=0.0
    )
    rate = (
        "without a rate limit"
        if requests_per_second == 0
        else f"at {requests_per_second:g} requests a second each"
    )
    lines = [
        (
            f"This run would ask {of(len(costs), 'bookie')} for {of(total, 'list')}, some"
            f" {size:.1f} MiB of answers, {rate}:"
        ),
        (
            f"about {longest / 60:.1f} minutes for the first look. Suspects are asked once more."
            " Nothing was asked now."
        ),
        "",
        f"{'bookie':<40} {'lists':>12} {'MiB':>10} {'minutes':>8}",
    ]
    for cost in sorted(costs, key=lambda cost: -cost.requests)[:BOOKIES_SHOWN_MAX]:
        minutes = seconds_needed(cost.requests, requests_per_second, inflight) / 60
        size = cost.expected_bytes / 2**20
        lines.append(
            f"{printable(cost.bookie_id):<40} {cost.requests:>12,} {size:>10.1f} {minutes:>8.1f}"
        )
    if len(costs) > BOOKIES_SHOWN_MAX:
        lines.append(f"and {len(costs) - BOOKIES_SHOWN_MAX} more bookies")
    if max((cost.requests for cost in costs), default=0) > OPEN_FILES_OF_ANY_PROCESS:
        lines += ["", *OPEN_FILES]
    return "\n".join(lines) + "\n"
