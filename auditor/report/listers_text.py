"""Sentences of a report on listers that did not list or are not believed, and on lost indexes."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.model.summary import Summary
from auditor.report.layout import of, printable

LISTER_DETAIL_MAX = 400
"""At most this many characters are shown of what a lister said, which may be anything."""
UNINDEXED_SHOWN_MAX = 3
"""At most this many bookies whose index lost entries get a sentence; summary.json has more."""
REBUILD = "bookkeeper shell rebuild-db-ledger-locations-index"


def lister_sentences(summary: Summary) -> Iterator[str]:
    """Yield which listers did not list, and which are not believed. Stored runs may lack the
    field.
    """
    listers = summary.listers
    for one in listers.not_believed:
        why = printable(one.says, LISTER_DETAIL_MAX)
        yield (
            f"The lister of bookie {printable(one.bookie_id)} is not believed: {why}."
            " No list of it counts from then on."
        )
    silent = listers.silent
    if silent:
        first = silent[0]
        why = printable(first.says, LISTER_DETAIL_MAX)
        more = f", and {len(silent) - 1} more" if len(silent) > 1 else ""
        yield (
            f"No list came from the lister of bookie {printable(first.bookie_id)} ({why}){more}:"
            " the bookie was asked as without one."
        )
    for odd in listers.unindexed[:UNINDEXED_SHOWN_MAX]:
        ledger, entry = odd.some[0]
        others = odd.ledgers - 1
        more = f" (and entries of {of(others, 'ledger')} more)" if others > 0 else ""
        yield unindexed_sentence(odd.bookie_id, f"entry {entry} of ledger {ledger}{more}")


def unindexed_sentence(bookie: str, entries: str) -> str:
    """Return what is known of entries that a bookie's index lost, and how to index them again."""
    return (
        f"Bookie {printable(bookie)} sends {entries} although its index does not have it, long"
        " after it was written: the index lost it, the bytes exist. While the bookie is STOPPED,"
        f" {REBUILD} indexes it again. Never run that while the bookie is up: it says Done, and"
        " from its next start the bookie finds none of its entries."
    )
