"""One Spark partition for each bookie, a lane: the whole job keeps one bounded conversation with
it.

A hash of the bookie's id would put two bookies into one partition and serialise them. Each lane
therefore has a key of its own (`auditor.spark.lane_keys`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from auditor.bookie.listers import Listers
from auditor.evidence.rows import Row, table
from auditor.evidence.schemas import ANSWERS, READS, with_pace, with_read_counts
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import DigestType
from auditor.spark.lane_keys import lane_keys

QUESTIONS = pa.schema(
    [
        ("bookie_id", pa.string()),
        ("ledger_id", pa.int64()),
        ("expected_bytes", pa.int64()),
        ("expected_groups", pa.binary()),
    ]
)
"""A bookie to ask about a ledger. Key: (bookie_id, ledger_id). A row without ledger_id only greets
the bookie. `expected_groups` is null if no lister is asked.
"""

WANTED = pa.schema(
    [
        ("bookie_id", pa.string()),
        ("ledger_id", pa.int64()),
        ("entry_id", pa.int64()),
        ("digest_type", pa.int32()),
        ("is_search", pa.bool_()),
        ("is_spot", pa.bool_()),
        ("is_denser", pa.bool_()),
    ]
)
"""A read to make. Key: (bookie_id, ledger_id, entry_id)."""

COUNTED_READS = with_pace(with_read_counts(READS))
PACED_ANSWERS = with_pace(ANSWERS)
"""What the run writes."""


@dataclass(frozen=True, slots=True)
class Directory:
    """Where the registered bookies are at one look. An address is None if the registration could
    not be read.
    """

    addresses: Mapping[BookieId, tuple[str, int] | None]
    unsupported: frozenset[BookieId]
    """Bookies that cannot list, as earlier requests of the run showed. They are not asked for
    lists, which saves the time-outs, but read like all others.
    """
    cookies: frozenset[BookieId] | None = None
    """Bookies with a cookie; None where the cookies are not known."""
    listed: frozenset[BookieId] = frozenset()
    """Bookies that gave a list earlier in the run: they can list."""
    searches_left: Mapping[BookieId, int] | None = None
    """How often each bookie may still be read for entries that it should not hold; 0 for one that
    is not named. None: no limit.
    """
    listers: Listers | None = None
    """Where the bookies' listers are; None if no lister is asked."""

    def lanes(self) -> list[BookieId]:
        """Return the bookies with a lane of their own. All others share one lane, in which nobody
        is dialled.
        """
        return sorted(self.addresses)

    def greetings(self) -> pa.RecordBatch:
        """Return a QUESTIONS row for each registered bookie, even if no ledger names it."""
        nothing = [None] * (len(QUESTIONS) - 1)
        return table(QUESTIONS, [(bookie, *nothing) for bookie in self.lanes()])


def by_lane(rows: DataFrame, directory: Directory) -> DataFrame:
    """Return the rows with one partition a registered bookie, and one for all bookies not
    registered.
    """
    bookies = directory.lanes()
    keys = lane_keys(len(bookies) + 1)
    key = f.lit(keys[0])
    if bookies:
        pairs = chain.from_iterable(zip(bookies, keys[1:], strict=True))
        lane_of = f.create_map(*(f.lit(part) for part in pairs))
        key = f.coalesce(lane_of[f.col("bookie_id")], key)
    return rows.withColumn("lane", key).repartition(len(keys), f.col("lane"))


def wanted_rows(
    reads: Iterable[tuple[BookieId, EntryId]],
    ledger_id: LedgerId,
    digest: DigestType | None,
    *,
    are_searches: bool,
) -> Iterator[Row]:
    """Yield WANTED rows of one ledger, none of them a spot read."""
    kind = None if digest is None else int(digest)
    for bookie, entry in reads:
        yield bookie, ledger_id, entry, kind, are_searches, False, False
