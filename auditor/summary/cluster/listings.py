"""The listings of a run, to compare their number of ledgers with the last run's."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from auditor.evidence.rows import Row
from auditor.first_checker.population import GONE_NAMED_MAX, Listing
from auditor.model.identity import LedgerId

FIRST, AGAIN = 1, 2
"""The listing that is audited, and a second one, made at the end if the first was too short."""
WHERE = {FIRST: "evidence/listing", AGAIN: "evidence/listing_again"}
"""The table of ids of each listing."""


def listing_row(listing: int, began_at_ms: int, gone: list[LedgerId]) -> Row:
    """Return one row of LISTINGS."""
    return (listing, began_at_ms, gone)


def some_gone(before: pa.ChunkedArray, now: pa.ChunkedArray) -> list[LedgerId]:
    """Return the lowest ids of `before` that `now` lacks, at most GONE_NAMED_MAX.

    Costs a sort of both: 8 bytes a ledger.
    """
    gone = np.setdiff1d(before.to_numpy(), now.to_numpy())
    return [int(ledger_id) for ledger_id in gone[:GONE_NAMED_MAX]]


def listings_of(rows: pa.Table, counts: dict[int, int]) -> tuple[list[Listing], list[LedgerId]]:
    """Return the listings, oldest first, and the ids that are gone according to the newest one.

    `rows` are those of LISTINGS. `counts` has the number of ids by listing.
    """
    in_order = sorted(rows.to_pylist(), key=lambda row: row["listing"])
    listings = [Listing(row["began_at_ms"], counts[row["listing"]]) for row in in_order]
    return listings, list(in_order[-1]["gone"]) if in_order else []
