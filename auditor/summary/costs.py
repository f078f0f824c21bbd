"""What a run cost, or would cost: its requests to ZooKeeper and to bookies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from auditor.summary.paces import NO_PACES


@dataclass(frozen=True, slots=True)
class Costs:
    """The requests of a run, counted from the evidence.

    Each request for one znode's data or children is one ZooKeeper read.
    """

    zookeeper_reads: int
    zookeeper_reads_failed: int
    bookie_requests: int
    bookie_bytes: int
    retries: int
    confirming_reads: int
    unanswered: int
    """Requests to bookies without a valid response, including those that were sent again."""
    bookies_named: int
    """Number of bookies that had to be asked about some ledger."""
    paces: Mapping[str, Any] = field(default_factory=lambda: dict(NO_PACES))
    """The summary field on bookies that were asked less than the limits allow."""
    spot_reads: int = 0
    """Reads that tested lists. They are not among the confirming reads."""
    doubt_reads: int = 0
    """The spot reads that were made because a bookie was in doubt."""


class BookieCost(NamedTuple):
    """The lists that a run would request from a bookie, and their bytes if no entry is missing."""

    bookie_id: str
    requests: int
    expected_bytes: int
