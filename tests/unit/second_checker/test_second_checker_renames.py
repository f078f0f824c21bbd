"""Under which name a gone bookie is there: entry by entry."""

from __future__ import annotations

import pytest

from auditor.model.availability import Answer, AnswerStatus, SequenceGroup
from auditor.model.ledger import LedgerMetadata
from auditor.sandbox.notation import ledger
from auditor.second_checker.renames import Asked, new_name
from auditor.wire.entry_availability import canonical

WRITTEN = ledger("e3 w2 a2 0:[a g c] closed 9")
"""Entry e on positions e and e + 1: g, the second, has all but 2, 5 and 8."""
DUE = (0, 1, 3, 4, 6, 7, 9)


def asked(bookie: str, *held: int, ledger_id: int = 1, read: dict[int, str] | None = None, lists: bool = True) -> Asked:
    groups = canonical([SequenceGroup(entry, entry, 1, 0) for entry in held]) if lists else b""
    status = AnswerStatus.HELD if lists else AnswerStatus.UNSUPPORTED
    return Asked(frozenset({"g"}), Answer(bookie, ledger_id, 0, 0, status, groups), read or {})


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ([asked("new", *DUE)], "new"),
        ([asked("new", *DUE, 2, 5)], "new"),
        ([asked("new", *DUE[1:])], None),
        ([asked("new", *DUE[1:], read={0: "present"})], "new"),
        ([asked("new", *DUE[1:], read={0: "no_entry"})], None),
        ([asked("new", *DUE[4:], read=dict.fromkeys(DUE, "present"))], None),
        ([asked("new", lists=False, read={0: "present", 4: "present", 9: "present"})], "new"),
        ([asked("new", lists=False, read={0: "present", 9: "present"})], None),
        ([asked("new", *DUE), asked("other", *DUE)], None),
        ([asked("new", *DUE), asked("other", 0)], "new"),
        ([asked("a", *DUE)], None),
        ([asked("new", *DUE), asked("other", *DUE, ledger_id=2)], None),
        ([asked("new", *DUE), asked("new", *DUE, ledger_id=2)], "new"),
    ],
)
def test_the_one_bookie_that_holds_all_is_the_new_name(said: list[Asked], name: str | None) -> None:
    """Of every ledger compared; not where two do, nor one that these ledgers name; a list may lack
    three if they were read."""
    assert (name, False) == new_name("g", said, {1: WRITTEN, 2: WRITTEN})


def test_a_share_in_too_many_entries_is_left_open() -> None:
    """Nobody goes through a million of them."""
    vast: LedgerMetadata = ledger("e3 w2 a2 0:[a g c] closed 1000000")
    assert (None, True) == new_name("g", [asked("new", *DUE)], {1: vast})


def test_other_gone_bookies_and_other_ledgers_do_not_count() -> None:
    """Nobody was asked about it."""
    assert (None, False) == new_name("h", [asked("new", *DUE)], {1: WRITTEN}) == new_name("g", [asked("new", *DUE)], {})
