"""How far entries without a copy were searched for, as the evidence shows the second checker.

The search covers each registered bookie outside the write set of such an entry. What counts is its
list or, without a list, the reads of those entries there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from auditor.model.availability import EntryRead, ReadStatus
from auditor.model.evidence import Terms
from auditor.model.facts import Search
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerMetadata
from auditor.second_checker.blocks import Bits, lowest_of
from auditor.second_checker.copies import Counted, LedgerCount, Tally, is_written
from auditor.second_checker.holdings import Group, listed_bits, names
from auditor.second_checker.looks import Words

_ABSENT = (ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER)
_WRONG = (ReadStatus.CORRUPT, ReadStatus.INVALID)
_SPOKEN = (*_ABSENT, *_WRONG, ReadStatus.PRESENT)


@dataclass(slots=True)
class _Other:
    """A bookie outside the write set of some entry without a copy.

    `held`, `lacking` and `wrong` are the entries that it sent, lacks, or sent wrongly. For those in
    `hidden`, no read was conclusive.
    """

    groups: tuple[Group, ...] | None = None
    """Those of its list; None if it gave no usable one."""
    knows_nothing: bool = False
    """Its newest conclusive word on the ledger is that it does not have it."""
    held: set[EntryId] = field(default_factory=set)
    lacking: set[EntryId] = field(default_factory=set)
    wrong: set[EntryId] = field(default_factory=set)
    hidden: set[EntryId] = field(default_factory=set)
    was_refused_by_bound: bool = False
    first_listed: EntryId | None = None
    """The lowest entry without a copy that its list names."""


def search_facts(
    heard: Words, metadata: LedgerMetadata, count: LedgerCount, terms: Terms
) -> Search | None:
    """Return how far the search went.

    Return None if nothing is searched for, or if no other bookie is registered. `entries`,
    `entries_found` and `entries_left` are meaningful only if all entries were examined. Costs a
    few operations on sets of entries for each registered bookie.
    """
    tally, lists = count.tally, count.lists
    lost = {
        place: bits for place, one in enumerate(tally.counted) if (bits := one.possible.at_most(0))
    }
    total = sum(bits.bit_count() for bits in lost.values())
    if not total or terms.stranded_entries_max < 1:
        return None
    found_by_list = dict.fromkeys(lost, 0)
    others: dict[BookieId, _Other] = {}
    for bookie in _registered_bookies(heard, terms, lists):
        outside = {
            place: _outside(bits, tally.counted[place], bookie) for place, bits in lost.items()
        }
        if not any(outside.values()):
            continue
        if bookie in lists:
            others[bookie] = _ask_list(tally, outside, lists[bookie], found_by_list)
        else:
            others[bookie] = _ask_reads(heard, tally, outside, bookie)
    if not others:
        return None
    named = {bookie for segment in metadata.segments for bookie in segment.ensemble}
    if all(one.groups is not None or one.knows_nothing for one in others.values()):
        found = sum(bits.bit_count() for bits in found_by_list.values())
        return _all_spoke(others, total, found, named)
    first = min(tally.counted[place].block.low + lowest_of(bits) for place, bits in lost.items())
    return _some_spoke(tally, others, first, total, named)


def _ask_list(
    tally: Tally,
    outside: Mapping[int, Bits],
    groups: tuple[Group, ...],
    found_by_list: dict[int, Bits],
) -> _Other:
    """Return what a list says of the entries outside the bookie's write sets.

    The entries that it names are added to `found_by_list`.
    """
    other = _Other(groups)
    for place, bits in outside.items():
        block = tally.counted[place].block
        named = bits & listed_bits(groups, block.low, block.high)
        found_by_list[place] |= named
        if named and other.first_listed is None:
            other.first_listed = block.low + lowest_of(named)
    return other


def _ask_reads(heard: Words, tally: Tally, outside: Mapping[int, Bits], bookie: BookieId) -> _Other:
    """Return what the reads on a bookie without a list say of the entries outside its write sets.

    An entry seen before the bookie forgot the ledger counts as lacking.
    """
    reads = [
        read
        for (reader, entry), read in heard.reads.items()
        if reader == bookie and _is_in(tally, outside, entry)
    ]
    other = _Other(knows_nothing=_knows_nothing(reads))
    forgot = max((read.look for read in reads if read.status is ReadStatus.NO_LEDGER), default=0)
    for read in reads:
        other.was_refused_by_bound |= read.status is ReadStatus.NOT_ASKED
        if read.status not in _SPOKEN:
            other.hidden.add(read.entry_id)
        elif other.knows_nothing or read.status in _ABSENT or read.look < forgot:
            other.lacking.add(read.entry_id)
        else:
            (other.held if read.status is ReadStatus.PRESENT else other.wrong).add(read.entry_id)
    return other


def _registered_bookies(heard: Words, terms: Terms, lists: Iterable[BookieId]) -> list[BookieId]:
    """Return the bookies that were registered when the run began or listed since, and are not
    gone.
    """
    gone = {bookie for bookie, answer in heard.answers.items() if answer.is_gone}
    return sorted({*terms.around.writable, *terms.around.readonly, *lists} - gone)


def _outside(lost: Bits, among: Counted, bookie: BookieId) -> Bits:
    """Return those of some entries of a block that were not written to the bookie."""
    mine = among.written.get(bookie)
    return lost if mine is None else lost ^ (lost & mine.bits)


def _is_in(tally: Tally, sets: Mapping[int, Bits], entry: EntryId) -> bool:
    for place, bits in sets.items():
        block = tally.counted[place].block
        if block.low <= entry <= block.high:
            return bool(bits >> (entry - block.low) & 1)
    return False


def _knows_nothing(reads: Iterable[EntryRead]) -> bool:
    spoken = [read for read in reads if read.status in _SPOKEN]
    if not spoken:
        return False
    newest = max(read.look for read in spoken)
    last_words = {read.status for read in spoken if read.look == newest}
    return ReadStatus.NO_LEDGER in last_words and not last_words & {ReadStatus.PRESENT, *_WRONG}


def _all_spoke(
    others: Mapping[BookieId, _Other], total: int, found: int, named: set[BookieId]
) -> Search:
    """Return the search if every other bookie spoke for the whole ledger: no entry is left."""
    holders = [bookie for bookie, one in others.items() if one.first_listed is not None]
    unnamed = [bookie for bookie in holders if bookie not in named]
    lowest = tuple(
        entry for bookie in holders if (entry := others[bookie].first_listed) is not None
    )
    return Search(
        total, found, 0, 0, tuple(others), tuple(holders), tuple(unnamed), found_first=lowest
    )


def _some_spoke(
    tally: Tally,
    others: Mapping[BookieId, _Other],
    first: EntryId,
    total: int,
    named: set[BookieId],
) -> Search:
    """Return the search for the lowest entry without a copy, and for all read elsewhere."""
    entries = {first}.union(
        *(one.held | one.lacking | one.wrong | one.hidden for one in others.values())
    )
    parts = [one.block.stretch for one in tally.counted]
    said = {
        bookie: _Said.of(one, scope)
        for bookie, one in others.items()
        if (scope := {entry for entry in entries if not is_written(parts, bookie, entry)})
    }
    holders = {entry: {b for b, one in said.items() if entry in one.held} for entry in entries}
    found_on = sorted(bookie for bookie, one in said.items() if one.held)
    return Search(
        len(entries),
        sum(bool(held_by) for held_by in holders.values()),
        sum(bool(held_by - named) for held_by in holders.values()),
        total - len(entries),
        searched=_bookies_where(said, lambda one: not one.is_silent),
        found_on=tuple(found_on),
        found_unnamed=tuple(bookie for bookie in found_on if bookie not in named),
        corrupt_on=_bookies_where(said, lambda one: one.is_wrong),
        unheard=_bookies_where(said, lambda one: one.is_silent and not one.was_refused_by_bound),
        not_asked=_bookies_where(said, lambda one: one.is_silent and one.was_refused_by_bound),
        found_first=tuple(min(said[bookie].held) for bookie in found_on),
    )


class _Said(NamedTuple):
    """What a bookie said of some entries: those it holds, and what is missing of its word.

    `is_silent`: it said nothing of some entry. `is_wrong`: it sent some entry wrongly.
    """

    held: set[EntryId]
    is_silent: bool
    is_wrong: bool
    was_refused_by_bound: bool

    @classmethod
    def of(cls, one: _Other, scope: set[EntryId]) -> _Said:
        if one.groups is not None:
            return cls({entry for entry in scope if names(one.groups, entry)}, False, False, False)
        is_silent = not one.knows_nothing and not scope <= one.held | one.lacking | one.wrong
        is_wrong = not one.knows_nothing and bool(one.wrong & scope)
        return cls(one.held & scope, is_silent, is_wrong, one.was_refused_by_bound)


def _bookies_where(
    said: Mapping[BookieId, _Said], is_one: Callable[[_Said], bool]
) -> tuple[BookieId, ...]:
    return tuple(sorted(bookie for bookie, one in said.items() if is_one(one)))
