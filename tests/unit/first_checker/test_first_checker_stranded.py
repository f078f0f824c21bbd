"""Where entries without a copy are looked for, and the result of the search."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.stories import groups

from auditor.first_checker.confirmation import Wanted
from auditor.first_checker.coverage import Reads, coverage
from auditor.first_checker.entry_set import EntrySet
from auditor.first_checker.stranded import Outside, ensemble_bookies
from auditor.model.availability import Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.cluster import Surroundings
from auditor.model.facts import Search
from auditor.model.identity import BookieId, EntryId
from auditor.sandbox.cluster import ledger

AROUND = Surroundings(writable=frozenset({"b1", "b2", "x2"}), readonly=frozenset({"x1"}))
LOST = EntrySet.span(10, 19)
E2 = "e2 w2 a2 0:[b1 b2] closed 19"


def outside(
    lost: EntrySet = LOST,
    text: str = E2,
    around: Surroundings = AROUND,
    lists: dict[str, set[int]] | None = None,
) -> Outside:
    """Return the search for a ledger in which each bookie of `lists` listed these entries, and no
    other gave a list.
    """
    answers = {
        b: Answer(b, 7, 1, 0, AnswerStatus.HELD, groups(held)) for b, held in (lists or {}).items()
    }
    return Outside.of(lost, coverage(ledger(text), answers, {}), around)


def reads(**said: dict[EntryId, ReadStatus]) -> Reads:
    """Return reads by bookie, entry by entry."""
    found: dict[tuple[BookieId, EntryId], EntryRead] = {}
    for bookie, by_entry in said.items():
        for entry, status in by_entry.items():
            found[bookie, entry] = EntryRead(bookie, 7, entry, 1, 0, status)
    return found


def wanted(
    made: Reads, entries_max: int = 16, lost: EntrySet = LOST, only: str = "x1 x2"
) -> Wanted:
    return outside(lost, around=Surroundings(frozenset(only.split()))).wanted_reads(
        made, entries_max
    )


def result(
    made: Reads, lost: EntrySet = LOST, text: str = E2, lists: dict[str, set[int]] | None = None
) -> Search:
    found = outside(lost, text, lists=lists).result(made, ensemble_bookies(ledger(text)))
    assert found is not None
    return found


def test_who_does_not_know_the_ledger_is_not_read_again() -> None:
    """ENOLEDGER is about all entries of the ledger; ENOENTRY about one."""
    first = reads(x1={10: ReadStatus.NO_ENTRY}, x2={10: ReadStatus.NO_LEDGER})
    assert tuple(("x1", entry) for entry in range(11, 20)) == wanted(first)


@pytest.mark.parametrize(
    ("entries_max", "more"), [(0, 0), (1, 0), (2, 1), (3, 2), (10, 9), (50, 9)]
)
def test_no_more_entries_are_read_than_allowed(entries_max: int, more: int) -> None:
    """The first entry counts towards the limit."""
    assert more == len(wanted(reads(x1={10: ReadStatus.PRESENT}), entries_max, only="x1"))


PRESENT, NO_ENTRY, NO_LEDGER = ReadStatus.PRESENT, ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER


def test_an_entry_is_found_where_some_bookie_holds_it() -> None:
    """Entries that no bookie was read for are left; holders and bookies that lack everything are
    distinguished.
    """
    made = reads(x1={10: PRESENT, 19: NO_ENTRY}, x2={10: PRESENT, 19: PRESENT})
    assert Search(
        2, 2, 2, 8, ("x1", "x2"), ("x1", "x2"), ("x1", "x2"), found_first=(10, 10)
    ) == result(made)
    made = reads(x1={10: PRESENT, 19: NO_ENTRY}, x2={10: NO_LEDGER})
    assert Search(2, 1, 1, 8, ("x1", "x2"), ("x1",), ("x1",), found_first=(10,)) == result(made)


def test_a_list_speaks_for_its_bookie_while_another_is_unheard() -> None:
    """x1 lists entry 10 and not entry 19. x2 did not answer, or said of entry 19 only that it lacks
    it.
    """
    lists = {"x1": {10}}
    expected = Search(1, 1, 1, 9, ("x1",), ("x1",), ("x1",), (), ("x2",), found_first=(10,))
    assert expected == result({}, lists=lists)
    made = reads(x2={19: NO_ENTRY})
    assert replace(expected, entries=2, entries_left=8) == result(made, lists=lists)


def test_an_entry_that_two_bookies_list_is_one_entry() -> None:
    """Each other bookie gave a list, and two of them name entry 0: one of the two entries is
    found.
    """
    text = "e4 w1 a1 0:[b1 b2 x1 x2] closed 3"
    lists = {"b1": {1}, "b2": {0, 2}, "x1": {0, 3}, "x2": set[int]()}
    found = result({}, EntrySet.span(0, 1), text, lists)
    assert (2, 2, 0, 0) == (
        found.entries,
        found.entries_found,
        found.entries_unnamed,
        found.entries_left,
    )
    assert ("b1", "b2", "x1") == found.found_on


CONCLUSIVE = {PRESENT, NO_ENTRY, NO_LEDGER, ReadStatus.CORRUPT, ReadStatus.INVALID}


@pytest.mark.parametrize("status", sorted(set(ReadStatus) - CONCLUSIVE - {ReadStatus.NOT_ASKED}))
def test_a_bookie_that_gave_no_conclusive_answer_is_unheard(status: ReadStatus) -> None:
    """Silence does not prove absence."""
    assert Search(1, 0, 0, 9, ("x2",), unheard=("x1",)) == result(
        reads(x1={10: status}, x2={10: NO_LEDGER})
    )


def test_a_bookie_that_was_not_asked_because_of_its_bound_is_distinguished() -> None:
    """Such a bookie was not silent."""
    made = reads(x1={10: ReadStatus.NOT_ASKED}, x2={10: NO_LEDGER})
    assert Search(1, 0, 0, 9, ("x2",), not_asked=("x1",)) == result(made)


@pytest.mark.parametrize("status", [ReadStatus.CORRUPT, ReadStatus.INVALID])
def test_a_copy_with_a_wrong_digest_or_wrong_ids_is_distinguished(status: ReadStatus) -> None:
    """Such a copy is neither a copy nor nothing."""
    assert Search(1, 0, 0, 9, ("x1", "x2"), corrupt_on=("x1",)) == result(
        reads(x1={10: status}, x2={10: NO_LEDGER})
    )
