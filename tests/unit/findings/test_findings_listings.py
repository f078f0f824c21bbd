"""The listings of a run, read from their rows: oldest first, with some ids that the newest
lacks.
"""

from __future__ import annotations

import pyarrow as pa

from auditor.evidence.rows import table
from auditor.evidence.schemas import LISTINGS
from auditor.findings.on_cluster import (
    FIRST_LISTING,
    GONE_NAMED_MAX,
    SECOND_LISTING,
    Listing,
    listing_row,
    listings_of,
    some_gone,
)


def ids(*ledgers: int) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(ledgers, pa.int64())])


def test_the_lowest_ids_that_are_gone_are_named() -> None:
    """They are ids that the run before listed and this run lacks. At most GONE_NAMED_MAX are
    named.
    """
    assert [3, 9] == some_gone(ids(9, 1, 3, 5), ids(5, 1, 77))
    assert list(range(GONE_NAMED_MAX)) == some_gone(ids(*range(40, -1, -1)), ids())


def test_listings_come_oldest_first_with_what_the_newest_says_is_gone() -> None:
    """The order of the rows does not matter, and each listing has its own number of ids."""
    rows = pa.Table.from_batches(
        [
            table(
                LISTINGS,
                [listing_row(SECOND_LISTING, 50, [4]), listing_row(FIRST_LISTING, 20, [4, 7])],
            )
        ]
    )
    assert ([Listing(20, 300), Listing(50, 200)], [4]) == listings_of(
        rows, {FIRST_LISTING: 300, SECOND_LISTING: 200}
    )
    assert ([Listing(20, 300)], [4, 7]) == listings_of(rows.slice(1), {FIRST_LISTING: 300})


def test_without_a_listing_nothing_is_gone() -> None:
    """The run has listed nothing yet."""
    assert ([], []) == listings_of(LISTINGS.empty_table(), {})
