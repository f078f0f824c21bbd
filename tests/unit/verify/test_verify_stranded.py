"""Where entries without a copy are looked for, and what came of it."""

from __future__ import annotations

import pytest

from auditor.model.availability import EntryRead, ReadStatus
from auditor.model.cluster import Surroundings
from auditor.model.identity import BookieId, EntryId
from auditor.sandbox.notation import ledger
from auditor.verify.coverage import Reads
from auditor.verify.entry_set import EMPTY, EntrySet
from auditor.verify.stranded import found_elsewhere, named_by, others, wanted_elsewhere

WHERE = ("x1", "x2")
LOST = EntrySet.span(10, 19)


def reads(**said: dict[EntryId, ReadStatus]) -> Reads:
    """By bookie, entry by entry."""
    found: dict[tuple[BookieId, EntryId], EntryRead] = {}
    for bookie, by_entry in said.items():
        for entry, status in by_entry.items():
            found[bookie, entry] = EntryRead(bookie, 7, entry, 1, 0, status)
    return found


def test_others_are_registered_and_should_hold_nothing() -> None:
    """Writable or read-only; a bookie of an older segment should, and nobody who is away is asked."""
    metadata = ledger("e2 w2 a2 0:[b1 b2] 10:[b1 b3] closed 19")
    around = Surroundings(writable=frozenset({"b1", "b2", "x2"}), readonly=frozenset({"b3", "x1"}))
    assert WHERE == others(metadata, around)


@pytest.mark.parametrize("text", ["e2 w2 a2 0:[b1 b2] 20:[b1 x1] closed 19", "e3 w1 a1 0:[b1 b2 x1] closed 1"])
def test_a_bookie_that_is_named_and_should_hold_nothing_is_among_the_others(text: str) -> None:
    """Of a segment without entries, or too short to reach it: nobody asks it for a list, and it may hold what others lack."""
    metadata = ledger(text)
    assert WHERE == others(metadata, Surroundings(writable=frozenset({"b1", "b2", "x2"}), readonly=frozenset({"x1"})))
    assert "x1" in named_by(metadata)


def test_first_the_lowest_lost_entry_is_read_everywhere() -> None:
    """One read a bookie tells who may hold anything of the ledger."""
    assert (("x1", 10), ("x2", 10)) == wanted_elsewhere(LOST, WHERE, {}, 16)


def test_who_does_not_know_the_ledger_is_not_read_again() -> None:
    """ENOLEDGER speaks for all of its entries; ENOENTRY for one."""
    first = reads(x1={10: ReadStatus.NO_ENTRY}, x2={10: ReadStatus.NO_LEDGER})
    assert tuple(("x1", entry) for entry in range(11, 20)) == wanted_elsewhere(LOST, WHERE, first, 16)


@pytest.mark.parametrize(("entries_max", "wanted"), [(0, 0), (1, 0), (3, 2), (10, 9), (50, 9)])
def test_no_more_entries_are_read_than_allowed(entries_max: int, wanted: int) -> None:
    """The first one counts."""
    first = reads(x1={10: ReadStatus.PRESENT})
    assert wanted == len(wanted_elsewhere(LOST, ("x1",), first, entries_max))


def test_the_ends_are_among_the_entries_read() -> None:
    """Of a million lost entries the first and the last, and others spread evenly between."""
    lost = EntrySet.span(0, 999_999)
    chosen = [entry for _, entry in wanted_elsewhere(lost, ("x1",), reads(x1={0: ReadStatus.PRESENT}), 5)]
    assert [200_000, 400_000, 600_000, 999_999] == chosen


def test_nothing_is_wanted_once_everything_was_read() -> None:
    """Asked again with its own answers it asks for no more, whatever they were."""
    for status in ReadStatus:
        made = reads(x1={10: status}, x2={10: status})
        more = {key: EntryRead(key[0], 7, key[1], 1, 0, status) for key in wanted_elsewhere(LOST, WHERE, made, 4)}
        assert () == wanted_elsewhere(LOST, WHERE, {**made, **more}, 4)


def test_nobody_is_read_where_nothing_is_lost_or_nobody_is_left() -> None:
    """And none where it is switched off."""
    assert () == wanted_elsewhere(EMPTY, WHERE, {}, 16)
    assert () == wanted_elsewhere(LOST, (), {}, 16)
    assert () == wanted_elsewhere(LOST, WHERE, {}, 0)


def test_all_found_means_each_entry_read_is_alive_on_some_bookie() -> None:
    """Holders are told entry by entry; an entry that nobody has spoils it; reading nothing finds nothing."""
    told = reads(x1={10: ReadStatus.PRESENT, 19: ReadStatus.NO_ENTRY}, x2={10: ReadStatus.PRESENT, 19: ReadStatus.PRESENT})
    found = found_elsewhere(LOST, WHERE, told)
    assert (True, (10, 19)) == (found.all_found, found.looked_for)
    assert {10: ("x1", "x2"), 19: ("x2",)} == found.holders
    assert not found_elsewhere(LOST, WHERE, reads(x1={10: ReadStatus.PRESENT, 19: ReadStatus.NO_ENTRY})).all_found
    assert not found_elsewhere(LOST, WHERE, {}).all_found


def test_only_lost_entries_on_other_bookies_count() -> None:
    """What the ledger's own bookies were read for, and what is not lost, says nothing of stranded copies."""
    told = reads(b1={10: ReadStatus.PRESENT}, x1={99: ReadStatus.PRESENT})
    assert ((), {}) == (found_elsewhere(LOST, WHERE, told).looked_for, dict(found_elsewhere(LOST, WHERE, told).holders))


@pytest.mark.parametrize("status", sorted(set(ReadStatus) - {ReadStatus.PRESENT, ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER}))
def test_a_bookie_that_gave_no_conclusive_answer_is_named(status: ReadStatus) -> None:
    """A copy with a wrong digest is none; silence is no absence."""
    found = found_elsewhere(LOST, WHERE, reads(x1={10: status}, x2={10: ReadStatus.NO_LEDGER}))
    assert (("x1",), False) == (found.unheard, found.all_found)


def test_one_entry_is_looked_for_where_one_is_allowed() -> None:
    """The least that may be allowed is enough for the first round."""
    assert (("x1", 10), ("x2", 10)) == wanted_elsewhere(LOST, WHERE, {}, 1)


def test_what_the_ledgers_own_bookies_were_read_for_is_no_first_round() -> None:
    """That they lack the entries is why these are looked for."""
    assert (("x1", 10), ("x2", 10)) == wanted_elsewhere(LOST, WHERE, reads(b1={10: ReadStatus.NO_ENTRY}), 16)


@pytest.mark.parametrize(
    ("holders", "read_at", "gone_at"),
    [(("x1",), 2, ()), (("x1",), 2, (1,)), (("x1",), 2, (2,)), ((), 2, (3,)), ((), 2, (1, 3)), ((), 2, (3, 1))],
)
def test_a_copy_is_gone_when_its_bookie_said_later_that_it_knows_no_such_ledger(
    holders: tuple[str, ...], read_at: int, gone_at: tuple[int, ...]
) -> None:
    """The look of its newest such word counts, whatever it was asked for; what another bookie says does not."""
    told = {("x1", 10): EntryRead("x1", 7, 10, read_at, 0, ReadStatus.PRESENT)}
    for entry, look in enumerate(gone_at, 11):
        told["x1", entry] = EntryRead("x1", 7, entry, look, 0, ReadStatus.NO_LEDGER)
    told["x2", 10] = EntryRead("x2", 7, 10, 9, 0, ReadStatus.NO_LEDGER)
    assert holders == found_elsewhere(LOST, WHERE, told).holders.get(10, ())


def test_entries_that_cannot_be_spread_evenly_are_entries_all_the_same() -> None:
    """Ten lost entries in quarters: the lower neighbour, never a fraction."""
    first = reads(x1={10: ReadStatus.PRESENT})
    assert (("x1", 12), ("x1", 15), ("x1", 19)) == wanted_elsewhere(LOST, ("x1",), first, 4)
