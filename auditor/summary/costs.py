"""What a run cost, or would cost: its requests to ZooKeeper and to bookies.

Also which bookies were asked less than the limits allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc

from auditor.model.identity import BookieId
from auditor.model.summary import Pace, Paces, SlowBookie

BOOKIES_NAMED_MAX = 10
"""At most this many bookies are named, the slowest first. A screen has little room; the table of
answers has all of them."""


class _Low(NamedTuple):
    """A pace of a bookie that was asked less. They sort by the lowest pace, latest first."""

    lowest_inflight: int
    lowest_rate: float
    minus_look: int
    minus_at_ms: int
    inflight: int
    rate: float

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        pace = row["pace"]
        return cls(
            pace["lowest_inflight"],
            pace["lowest_requests_per_second"],
            -row["look"],
            -row["asked_at_ms"],
            pace["inflight"],
            pace["requests_per_second"],
        )


PACE_COLUMNS = ["bookie_id", "look", "asked_at_ms", "pace"]
"""The columns of ANSWERS and READS that say how fast a bookie was asked."""


@dataclass(slots=True)
class LowPaces:
    """Collects which bookies were asked less than the limits allow."""

    _lows: dict[BookieId, _Low] = field(default_factory=dict)

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows with the PACE_COLUMNS."""
        if rows["pace"].null_count == len(rows):
            return
        columns = rows.select(PACE_COLUMNS)
        for row in columns.filter(pc.struct_field(rows["pace"], "was_low")).to_pylist():
            low = _Low.of(row)
            self._lows[row["bookie_id"]] = min(self._lows.get(row["bookie_id"], low), low)

    def result(self) -> Paces:
        """Return how many bookies these are, with their paces.

        Each bookie has its lowest pace, and the pace at the end of the conversation in which it was
        lowest.
        """
        slowest = sorted(self._lows.items(), key=lambda item: (item[1][:2], item[0]))
        named = (
            SlowBookie(
                bookie,
                low.lowest_inflight,
                round(low.lowest_rate, 1),
                Pace(low.inflight, round(low.rate, 1)),
            )
            for bookie, low in slowest[:BOOKIES_NAMED_MAX]
        )
        return Paces(len(self._lows), tuple(named))


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
    """Number of bookies that had to be asked about some ledger, or that a carried one names."""
    paces: Paces = field(default_factory=Paces)
    """The bookies that were asked less than the limits allow."""
    spot_reads: int = 0
    """Reads that tested lists. They are not among the confirming reads."""
    doubt_reads: int = 0
    """The spot reads that were made because a bookie was in doubt."""
    scrub_reads: int = 0
    """Reads of entries that scrubs named. They are among neither the spot reads nor the confirming
    reads."""


class BookieCost(NamedTuple):
    """The lists that a run would request from a bookie, and their bytes if no entry is missing."""

    bookie_id: str
    requests: int
    expected_bytes: int
