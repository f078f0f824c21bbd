"""Where entries without a copy are looked for, and the result of the search."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.stories import groups

from auditor.first_checker.confirmation import Wanted
from auditor.first_checker.coverage import Reads, coverage
from auditor.first_checker.entry_set import EMPTY, EntrySet
from auditor.first_checker.ledger import gone_bookies
from auditor.first_checker.stranded import Outside, ensemble_bookies
from auditor.model.availability import NO_COOKIE, Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.cluster import Surroundings
from auditor.model.facts import Search
from auditor.model.identity import BookieId, EntryId
from auditor.sandbox.notation import ledger

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


def test_each_entry_is_looked_for_on_every_registered_bookie_outside_its_own_write_set() -> None:
    """This includes writable, read-only and named bookies: b3 should hold 10 to 19, so it is asked
    for 0 to 9.
    """
    around = Surroundings(writable=frozenset({"b1", "b2", "x2"}), readonly=frozenset({"b3", "x1"}))
    scopes = outside(EntrySet.span(8, 11), "e2 w2 a2 0:[b1 b2] 10:[b1 b3] closed 19", around).scopes
    ranges = {bookie: scope.ranges(9) for bookie, scope in scopes.items()}
    assert {"b2": ((10, 11),), "b3": ((8, 9),), "x1": ((8, 11),), "x2": ((8, 11),)} == ranges


def test_a_bookie_that_is_gone_is_not_looked_at() -> None:
    """It was registered when the run began, and now has neither registration nor cookie."""
    text = "e2 w1 a1 0:[b1 b2] closed 3"
    answers = {
        b: Answer(b, 7, 1, 0, AnswerStatus.UNREGISTERED, detail=NO_COOKIE) for b in ("b1", "b2")
    }
    seen = coverage(ledger(text), answers, {}, gone=gone_bookies(answers))
    found = Outside.of(EntrySet.span(0, 3), seen, AROUND)
    assert (("x1", 0), ("x2", 0)) == found.wanted_reads({}, 16)
    made = reads(x1={0: NO_LEDGER}, x2={0: NO_LEDGER})
    assert Search(4, 0, 0, 0, ("x1", "x2")) == found.result(made, ensemble_bookies(ledger(text)))


def test_a_bookie_that_registered_since_the_run_began_is_looked_at_by_its_list() -> None:
    """Its list names an entry that belongs on another bookie."""
    text, lists = "e2 w1 a1 0:[b1 b2] closed 3", {"b1": {1}, "b2": set[int]()}
    found = outside(EntrySet.span(0, 3), text, Surroundings(frozenset({"b2"})), lists)
    search = Search(4, 1, 0, 0, ("b1", "b2"), ("b1",), found_first=(1,))
    assert search == found.result({}, ensemble_bookies(ledger(text)))


@pytest.mark.parametrize(
    "text", ["e2 w2 a2 0:[b1 b2] 20:[b1 x1] closed 19", "e3 w1 a1 0:[b1 b2 x1] closed 1"]
)
def test_a_bookie_that_is_named_and_should_hold_nothing_is_looked_at(text: str) -> None:
    """It is named by a segment without entries, or one too short to reach it. No list was requested
    from it, and it may hold what others lack.
    """
    assert "x1" in outside(EntrySet.span(0, 1), text).scopes
    assert "x1" in ensemble_bookies(ledger(text))


def test_a_bookie_that_gave_a_list_is_not_read() -> None:
    """Its list covers the whole ledger; a bookie that another segment names and that cannot list is
    read.
    """
    text = "e2 w2 a2 0:[b1 b2] 10:[b3 b4] closed 19"
    around = Surroundings(writable=frozenset({"b1", "b2", "b3", "b4"}))
    asked = outside(
        EntrySet.span(0, 1), text, around, lists={"b3": set(range(10, 20))}
    ).wanted_reads({}, 16)
    assert (("b4", 0),) == asked


def test_first_the_lowest_lost_entry_is_read_everywhere() -> None:
    """One read for each bookie shows which may hold anything of the ledger."""
    assert (("x1", 10), ("x2", 10)) == wanted({}) == wanted({}, 1)


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


def test_the_ends_are_among_the_entries_read() -> None:
    """Of a million lost entries the first and the last are read, and others spread evenly
    between.
    """
    made = reads(x1={0: ReadStatus.PRESENT})
    chosen = [entry for _, entry in wanted(made, 5, EntrySet.span(0, 999_999), "x1")]
    assert [200_000, 400_000, 600_000, 999_999] == chosen


def test_entries_that_cannot_be_spread_evenly_are_entries_all_the_same() -> None:
    """Ten lost entries in quarters: the lower neighbour is taken, never a fraction."""
    assert (("x1", 12), ("x1", 15), ("x1", 19)) == wanted(
        reads(x1={10: ReadStatus.PRESENT}), 4, only="x1"
    )


def test_nothing_is_wanted_once_everything_was_read() -> None:
    """With all its own reads answered it wants no more, whatever the answers were."""
    for status in ReadStatus:
        made = reads(x1={10: status}, x2={10: status})
        more = {key: EntryRead(key[0], 7, key[1], 1, 0, status) for key in wanted(made, 4)}
        assert () == wanted({**made, **more}, 4)


def test_nobody_is_read_where_nothing_is_lost_or_nobody_is_left() -> None:
    """Nothing is read either if the search is switched off."""
    assert Outside(EMPTY, {}, {}) == outside(EMPTY)
    assert () == wanted({}, lost=EMPTY)
    assert () == wanted({}, only="")
    assert () == wanted({}, 0)
    assert outside(around=Surroundings()).result({}, frozenset()) is None


def test_what_the_ledgers_own_bookies_were_read_for_is_no_first_round() -> None:
    """That the ledger's own bookies lack the entries is why these are looked for."""
    assert (("x1", 10), ("x2", 10)) == wanted(reads(b1={10: ReadStatus.NO_ENTRY}))


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


def test_where_every_other_bookie_spoke_for_the_whole_ledger_every_entry_was_looked_for() -> None:
    """It spoke by ENOLEDGER, or by a list, which may name some of them."""
    assert Search(10, 0, 0, 0, ("x1", "x2")) == result(
        reads(x1={10: NO_LEDGER}, x2={10: NO_LEDGER})
    )
    text = "e2 w2 a2 0:[b1 b2] 20:[b1 x1] closed 29"
    made = reads(x2={10: NO_LEDGER})
    named = {"x1": {12, 13, *range(20, 30)}}
    assert Search(10, 2, 0, 0, ("x1", "x2"), ("x1",), found_first=(12,)) == result(
        made, text=text, lists=named
    )


def test_a_list_speaks_for_its_bookie_while_another_is_unheard() -> None:
    """x1 lists entry 10 and not entry 19. x2 did not answer, or said of entry 19 only that it lacks
    it.
    """
    lists = {"x1": {10}}
    expected = Search(1, 1, 1, 9, ("x1",), ("x1",), ("x1",), (), ("x2",), found_first=(10,))
    assert expected == result({}, lists=lists)
    made = reads(x2={19: NO_ENTRY})
    assert replace(expected, entries=2, entries_left=8) == result(made, lists=lists)


def test_a_bookie_that_should_hold_each_entry_searched_for_is_passed_over() -> None:
    """Only entry 0 is searched for. It belongs on b1; what the bookies behind b1 said counts."""
    found = result(
        reads(x1={0: NO_ENTRY}, x2={0: PRESENT}), EntrySet.span(0, 3), "e2 w1 a1 0:[b1 b2] closed 3"
    )
    assert (
        Search(1, 1, 1, 3, ("x1", "x2"), ("x2",), ("x2",), (), ("b2",), found_first=(0,)) == found
    )


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


def test_only_lost_entries_on_other_bookies_count() -> None:
    """Reads on the ledger's own bookies, and of entries that are not lost, prove nothing about
    copies elsewhere.
    """
    made = reads(b1={10: PRESENT}, x1={99: PRESENT})
    assert Search(1, 0, 0, 9, unheard=("x1", "x2")) == result(made)


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


@pytest.mark.parametrize(
    ("holders", "read_at", "gone_at"),
    [
        (("x1",), 2, ()),
        (("x1",), 2, (1,)),
        (("x1",), 2, (2,)),
        ((), 2, (3,)),
        ((), 2, (1, 3)),
        ((), 2, (3, 1)),
    ],
)
def test_a_copy_is_gone_when_its_bookie_said_later_that_it_knows_no_such_ledger(
    holders: tuple[str, ...], read_at: int, gone_at: tuple[int, ...]
) -> None:
    """Its newest such word counts, whatever entry it was asked for. Another bookie's word does not
    matter.
    """
    made = {("x1", 10): EntryRead("x1", 7, 10, read_at, 0, PRESENT)}
    for entry, look in enumerate(gone_at, 11):
        made["x1", entry] = EntryRead("x1", 7, entry, look, 0, NO_LEDGER)
    made["x2", 10] = EntryRead("x2", 7, 10, 9, 0, NO_LEDGER)
    assert holders == result(made).found_on
