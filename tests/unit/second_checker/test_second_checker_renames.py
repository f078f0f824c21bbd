"""The new name of a gone bookie, found entry by entry."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditor.model.availability import Answer, AnswerStatus, SequenceGroup
from auditor.model.ledger import LedgerMetadata
from auditor.sandbox.notation import ledger
from auditor.second_checker.blocks import ENUMERATED_ENTRIES_MAX
from auditor.second_checker.renames import Asked, new_name
from auditor.wire.entry_availability import canonical

WRITTEN = ledger("e3 w2 a2 0:[a g c] closed 9")
"""Bookie g is second, and entry e lies on positions e and e + 1, so g should hold all but 2, 5 and
8.
"""
DUE = (0, 1, 3, 4, 6, 7, 9)


HUGE = 2**53
SPLIT = ledger(f"e3 w2 a2 0:[a g c] 10:[a c d] {HUGE}:[d c g] closed {HUGE + 5}")
"""After the first ten entries g has only some of the last ones. As floats their ids equal their
neighbours'.
"""
SPLIT_DUE = tuple(HUGE + e for e in (0, 2, 3, 5))


def asked(
    bookie: str,
    *held: int,
    ledger_id: int = 1,
    read: dict[int, str] | None = None,
    lists: bool = True,
) -> Asked:
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
    """It must hold every compared ledger, be the only such bookie, and not be named by these
    ledgers. Its list may lack three entries if they were read."""
    assert (name, False) == new_name("g", said, {1: WRITTEN, 2: WRITTEN})


def test_a_share_in_too_many_entries_is_left_open() -> None:
    """A million entries are not examined."""
    vast: LedgerMetadata = ledger("e3 w2 a2 0:[a g c] closed 1000000")
    assert (None, True) == new_name("g", [asked("new", *DUE)], {1: vast})


def test_other_gone_bookies_and_other_ledgers_do_not_count() -> None:
    """No bookie was asked about them."""
    assert (
        (None, False)
        == new_name("h", [asked("new", *DUE)], {1: WRITTEN})
        == new_name("g", [asked("new", *DUE)], {})
    )


def test_a_share_in_as_many_entries_as_are_examined_is_not_left_open() -> None:
    """The limit itself is allowed."""
    longest: LedgerMetadata = ledger(f"e3 w2 a2 0:[a g c] closed {ENUMERATED_ENTRIES_MAX - 1}")
    assert (None, False) == new_name("g", [asked("new", *DUE)], {1: longest})


@pytest.mark.parametrize(
    ("said", "name"),
    [
        (asked("new", *DUE, *SPLIT_DUE), "new"),
        (asked("new", *DUE[1:], *SPLIT_DUE), None),
        (asked("new", *DUE, *SPLIT_DUE[:-1]), None),
        (asked("new", *DUE, *SPLIT_DUE[:-1], read={HUGE + 5: "present"}), "new"),
        (asked("new", lists=False, read=dict.fromkeys((0, 7, HUGE + 5), "present")), "new"),
    ],
)
def test_every_segment_that_names_the_gone_bookie_counts(said: Asked, name: str | None) -> None:
    """What a list lacks in any of them must have been read, whatever the size of the entry id."""
    assert (name, False) == new_name("g", [said], {1: SPLIT})


def test_a_bookie_that_can_only_be_read_was_read_at_both_ends_of_what_is_due() -> None:
    """This includes a gone bookie that held nothing of the ledger's beginning."""
    late = ledger("e3 w2 a2 0:[a b c] 10:[a g c] closed 19")
    said = asked("new", lists=False, read=dict.fromkeys((10, 15, 19), "present"))
    assert ("new", False) == new_name("g", [said], {1: late})


def test_reads_replace_a_list_only_on_a_bookie_that_cannot_list() -> None:
    """A bookie whose list failed may hold anything."""
    said = asked("new", lists=False, read=dict.fromkeys(DUE, "present"))
    silent = said._replace(answer=replace(said.answer, status=AnswerStatus.SILENT))
    assert (None, False) == new_name("g", [silent], {1: WRITTEN})
