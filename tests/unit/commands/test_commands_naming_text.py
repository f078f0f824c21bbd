"""Sentences on the ledgers that name a bookie claim nothing of a ledger that was not read."""

from __future__ import annotations

import pytest

from auditor.commands.naming import naming_sentences
from auditor.model.cluster import BookieRecord, Naming, NamingLedger, Registration
from auditor.model.ledger import LedgerState

REGISTERED = BookieRecord("b1", 1, 0, Registration.WRITABLE)


def said(*entries: int | None, unread: int, bookie: BookieRecord | None = REGISTERED) -> str:
    """Return the sentences on 100 ledgers, of which one for each of `entries` names b1."""
    naming = Naming(
        "b1",
        bookie,
        listed=100,
        unread=unread,
        unread_shown=((7, "NOAUTH"),) if unread else (),
        ledgers=tuple(
            NamingLedger(n, LedgerState.CLOSED, 1, 1, one, False) for n, one in enumerate(entries)
        ),
    )
    return " ".join(naming_sentences(naming, None, ""))


@pytest.mark.parametrize(
    ("unread", "expected"),
    [
        (0, "None of 100 ledgers names bookie b1."),
        (30, "None of the 70 ledgers that could be read names bookie b1; 30 could not be read."),
    ],
)
def test_a_bookie_is_unnamed_by_the_ledgers_that_were_read(unread: int, expected: str):
    """The others may name it."""
    assert said(unread=unread).startswith(expected)


def test_an_id_that_nothing_knows_is_unnamed_by_the_ledgers_that_were_read():
    """It is probably misspelt."""
    assert said(unread=30, bookie=None).startswith(
        "None of the 70 ledgers that could be read names bookie b1, and the bookie has neither a"
        " registration nor a cookie: check the id."
    )


@pytest.mark.parametrize(
    ("unread", "expected"),
    [
        (0, "none of these blocks a decommission. "),
        (1, "none of these blocks a decommission; the 1 unread ledger may. "),
        (30, "none of these blocks a decommission; the 30 unread ledgers may. "),
    ],
)
def test_an_unread_ledger_may_block_a_decommission(unread: int, expected: str):
    """The ledgers that name the bookie should have no entry on it."""
    assert f"It should hold no entry of any of them: {expected}" in said(0, 0, unread=unread)


def test_ledgers_are_at_least_so_many_where_some_are_unread():
    """Those that name the bookie, those that are marked, and those that block a decommission."""
    whole, part = said(0, 5, unread=0), said(0, 5, unread=30)
    assert whole.startswith(
        "2 ledgers name bookie b1: 0 open, 0 in recovery, 2 closed; 0 marked under-replicated."
        " What blocks a decommission: 1 ledger of which it may hold entries,"
    )
    assert part.startswith(
        "At least 2 ledgers name bookie b1: 0 open, 0 in recovery, 2 closed; at least 0 marked"
        " under-replicated. What blocks a decommission: at least 1 ledger of which it may hold"
        " entries,"
    )
