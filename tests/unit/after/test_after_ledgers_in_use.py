"""Ledgers in use: whether their writers and readers can go on without some bookies."""

from __future__ import annotations

import pytest

from auditor.after.ledgers_in_use import Loss, harm_in_use
from auditor.model.ledger import LedgerMetadata
from auditor.sandbox.cluster import ledger

FIVE = frozenset({"b1", "b2", "b3", "b4", "b5"})
NAMES = ("no_copy", "not_writable", "may_have_no_copy", "may_not_be_writable")


def harms(
    text: str,
    asked: str,
    missing: str = "",
    writable: frozenset[str] | None = None,
    doubted: str = "",
) -> list[str]:
    """Return the harm to one ledger, in a cluster of five bookies."""
    away = frozenset(missing.split())
    left = FIVE - away if writable is None else writable
    loss = Loss(frozenset(asked.split()), away, left)
    found = harm_in_use({7: ledger(text)}, loss, {7: frozenset(doubted.split())})
    return [name for name in NAMES if getattr(found, name).ids == (7,)]


@pytest.mark.parametrize(
    ("text", "asked", "missing", "expected"),
    [
        ("e3 w3 a2 0:[b1 b2 b3] open", "b1", "", []),
        ("e3 w3 a2 0:[b1 b2 b3] open", "b4 b5", "", []),
        ("e3 w3 a2 0:[b1 b2 b3] open", "b1", "b4 b5", ["may_not_be_writable"]),
        ("e3 w3 a2 0:[b1 b2 b3] open", "b4", "b1 b5", ["may_not_be_writable"]),
        ("e3 w3 a3 0:[b1 b2 b3] open", "b1", "b4 b5", ["not_writable"]),
        ("e3 w3 a2 0:[b1 b2 b3] open", "b4", "b5", []),
        ("e5 w3 a2 0:[b1 b2 b3 b4 b5] open", "b1", "", ["may_not_be_writable"]),
        ("e5 w2 a2 0:[b1 b2 b3 b4 b5] open", "b1", "", ["not_writable"]),
        ("e3 w3 a2 0:[b1 b2 b3] in_recovery", "b1 b2", "", ["may_have_no_copy"]),
        ("e3 w3 a3 0:[b1 b2 b3] open", "b1 b2", "", []),
        ("e2 w2 a1 0:[b1 b2] open", "b1", "", ["may_have_no_copy"]),
        ("e2 w2 a2 0:[b1 b2] open", "b1", "b2", ["may_have_no_copy"]),
        ("e2 w2 a2 0:[b1 b2] 5:[b3 b4] open", "b1", "b2", ["no_copy"]),
        ("e2 w2 a2 0:[b1 b2] 5:[b3 b4] open", "b5", "b1 b2", []),
        ("e3 w2 a2 0:[b1 b2 b3] 1:[b3 b4 b5] open", "b3", "b2", []),
        ("e3 w2 a2 0:[b1 b2 b3] 2:[b5 b4 b1] open", "b3", "b2", ["no_copy"]),
    ],
)
def test_what_a_loss_does_to_a_ledger_in_use(
    text: str, asked: str, missing: str, expected: list[str]
):
    """A writer replaces a lost bookie by one outside of the ensemble. An acknowledged entry has as
    many copies as the ack quorum, on any bookies of its write set. The first segment of the last
    two uses one, and two, of its write sets.
    """
    assert expected == harms(text, asked, missing)


@pytest.mark.parametrize(
    ("text", "asked", "expected"),
    [
        ("e2 w2 a2 0:[b1 b2] 5:[b3 b2] open", "b2", ["may_have_no_copy"]),
        ("e2 w2 a2 0:[b1 b2] 5:[b3 b2] open", "b3", []),
        ("e2 w2 a2 0:[b1 b2] 5:[b3 b2] open", "b1", []),
        ("e3 w3 a3 0:[b1 b2 b3] open", "b2", []),
        ("e3 w3 a2 0:[b1 b2 b3] open", "b2", ["may_have_no_copy"]),
    ],
)
def test_a_copy_that_is_not_sure_may_be_missing(text: str, asked: str, expected: list[str]):
    """The copy on b1 is not sure. It counts with the lost ones, and is no harm of its own."""
    assert expected == harms(text, asked, doubted="b1")


def test_a_read_only_bookie_takes_no_entries_and_serves_reads():
    """b2 is read-only: only b4 is left to replace both it and b1."""
    writable = frozenset({"b1", "b3", "b4"})
    text = "e3 w3 a2 0:[b1 b2 b3] open"
    assert ["not_writable"] == harms(text, "b1", writable=writable)
    assert [] == harms("e2 w2 a2 0:[b1 b2] 5:[b3 b4] open", "b1", writable=writable)


def test_a_writer_that_lacks_bookies_already_is_not_harmed_by_others():
    """b1 cannot be replaced with b4 and b5 gone, and b5 is asked about in vain."""
    writable = frozenset({"b2", "b3", "b5"})
    text = "e4 w4 a1 0:[b1 b2 b3 b4] open"
    assert [] == harms(text, "b5", "b1 b4", writable)
    assert [] == harms("e3 w3 a2 0:[b1 b2 b3] open", "b9", "b1 b4 b5", frozenset({"b2", "b3"}))


def test_metadata_without_a_segment_or_a_quorum_harms_nobody():
    """Nothing can be said of it; the audit reports it."""
    nothing = LedgerMetadata(3, ledger("e1 w1 0:[b1] open").state, 0, 0, 0, None, 0, ())
    loss = Loss(frozenset({"b1"}), frozenset(), FIVE)
    assert not harm_in_use({1: nothing}, loss, {}).is_sure
    assert not harm_in_use({1: nothing}, loss, {}).is_possible
