"""Derive how far entries without a copy were searched for, for the second checker.

The search covers, for each such entry, every registered bookie outside its write set. A bookie
answers by its list or, without a list, by reads of those entries.
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
from auditor.second_checker.copies import BlockCount, LedgerCount, Tally, is_written
from auditor.second_checker.holdings import Group, is_listed, listed_bits
from auditor.second_checker.looks import Statements

_ABSENT = (ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER)
_WRONG = (ReadStatus.CORRUPT, ReadStatus.INVALID)
_SPOKEN = (*_ABSENT, *_WRONG, ReadStatus.PRESENT)


@dataclass(slots=True)
class _Other:
    """A bookie outside the write set of some entry without a copy.

    It sent the entries in `held`, lacks those in `lacking`, and sent those in `wrong` with a wrong
    digest or as an invalid response. For those in `hidden`, no read was conclusive.
    """

    groups: tuple[Group, ...] | None = None
    """The groups of its list. None if it gave no usable list."""
    knows_nothing: bool = False
    """Its newest conclusive statement is that it does not have the ledger."""
    held: set[EntryId] = field(default_factory=set)
    lacking: set[EntryId] = field(default_factory=set)
    wrong: set[EntryId] = field(default_factory=set)
    hidden: set[EntryId] = field(default_factory=set)
    was_refused_by_bound: bool = False
    first_listed: EntryId | None = None
    """The lowest entry without a copy that it lists."""


def search_facts(
    statements: Statements, metadata: LedgerMetadata, count: LedgerCount, terms: Terms
) -> Search | None:
    """Return how far the search went.

    Return None if nothing is searched for, or if no other bookie is registered. `entries`,
    `entries_found` and `entries_left` are right only if all entries were examined. Costs a few
    operations on sets of entries for each registered bookie.
    """
    tally, lists = count.tally, count.lists
    lost = {
        place: bits
        for place, counts in enumerate(tally.block_counts)
        if (bits := counts.possible.at_most(0))
    }
    total = sum(bits.bit_count() for bits in lost.values())
    if not total or terms.stranded_entries_max < 1:
        return None
    found_by_list = dict.fromkeys(lost, 0)
    others: dict[BookieId, _Other] = {}
    for bookie in _registered_bookies(statements, terms, lists):
        outside = {
            place: _outside(bits, tally.block_counts[place], bookie) for place, bits in lost.items()
        }
        if not any(outside.values()):
            continue
        if bookie in lists:
            others[bookie] = _ask_list(tally, outside, lists[bookie], found_by_list)
        else:
            others[bookie] = _ask_reads(statements, tally, outside, bookie)
    if not others:
        return None
    named = {bookie for segment in metadata.segments for bookie in segment.ensemble}
    if all(other.groups is not None or other.knows_nothing for other in others.values()):
        found = sum(bits.bit_count() for bits in found_by_list.values())
        return _all_spoke(others, total, found, named)
    first = min(
        tally.block_counts[place].block.low + lowest_of(bits) for place, bits in lost.items()
    )
    return _some_spoke(tally, others, first, total, named)


def _ask_list(
    tally: Tally,
    outside: Mapping[int, Bits],
    groups: tuple[Group, ...],
    found_by_list: dict[int, Bits],
) -> _Other:
    """Return what a list says of the entries outside the bookie's write sets.

    Adds the entries that it names to `found_by_list`.
    """
    other = _Other(groups)
    for place, bits in outside.items():
        block = tally.block_counts[place].block
        named = bits & listed_bits(groups, block.low, block.high)
        found_by_list[place] |= named
        if named and other.first_listed is None:
            other.first_listed = block.low + lowest_of(named)
    return other


def _ask_reads(
    statements: Statements, tally: Tally, outside: Mapping[int, Bits], bookie: BookieId
) -> _Other:
    """Return what reads on a bookie without a list say of the entries outside its write sets.

    An entry that was read before the bookie said ENOLEDGER counts as lacking.
    """
    reads = [
        read
        for (reader, entry), read in statements.reads.items()
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


def _registered_bookies(
    statements: Statements, terms: Terms, lists: Iterable[BookieId]
) -> list[BookieId]:
    """Return the bookies that were registered at the start or listed since, and are not gone."""
    gone = {bookie for bookie, answer in statements.answers.items() if answer.is_gone}
    return sorted({*terms.around.writable, *terms.around.readonly, *lists} - gone)


def _outside(lost: Bits, among: BlockCount, bookie: BookieId) -> Bits:
    """Return the entries of a set that were not written to the bookie."""
    mine = among.written.get(bookie)
    return lost if mine is None else lost ^ (lost & mine.bits)


def _is_in(tally: Tally, sets: Mapping[int, Bits], entry: EntryId) -> bool:
    for place, bits in sets.items():
        block = tally.block_counts[place].block
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
    others: Mapping[BookieId, _Other], total: int, entries_found: int, named: set[BookieId]
) -> Search:
    """Return the result if every other bookie spoke for the whole ledger: no entry is left."""
    holders = [bookie for bookie, other in others.items() if other.first_listed is not None]
    unnamed = [bookie for bookie in holders if bookie not in named]
    lowest = tuple(
        entry for bookie in holders if (entry := others[bookie].first_listed) is not None
    )
    return Search(
        total,
        entries_found,
        0,
        0,
        tuple(others),
        tuple(holders),
        tuple(unnamed),
        found_first=lowest,
    )


def _some_spoke(
    tally: Tally,
    others: Mapping[BookieId, _Other],
    first: EntryId,
    total: int,
    named: set[BookieId],
) -> Search:
    """Return the result for the lowest entry without a copy, and all that were read elsewhere."""
    entries = {first}.union(
        *(other.held | other.lacking | other.wrong | other.hidden for other in others.values())
    )
    parts = [counts.block.stretch for counts in tally.block_counts]
    said = {
        bookie: _Said.of(other, scope)
        for bookie, other in others.items()
        if (scope := {entry for entry in entries if not is_written(parts, bookie, entry)})
    }
    holders = {
        entry: {b for b, statement in said.items() if entry in statement.held} for entry in entries
    }
    found_on = sorted(bookie for bookie, statement in said.items() if statement.held)
    return Search(
        len(entries),
        sum(bool(held_by) for held_by in holders.values()),
        sum(bool(held_by - named) for held_by in holders.values()),
        total - len(entries),
        searched=_bookies_where(said, lambda statement: not statement.is_silent),
        found_on=tuple(found_on),
        found_unnamed=tuple(bookie for bookie in found_on if bookie not in named),
        corrupt_on=_bookies_where(said, lambda statement: statement.is_wrong),
        unheard=_bookies_where(
            said, lambda statement: statement.is_silent and not statement.was_refused_by_bound
        ),
        not_asked=_bookies_where(
            said, lambda statement: statement.is_silent and statement.was_refused_by_bound
        ),
        found_first=tuple(min(said[bookie].held) for bookie in found_on),
    )


class _Said(NamedTuple):
    """What a bookie said of some entries.

    `held`: those that it holds. `is_silent`: it said nothing of one or more. `is_wrong`: it sent a
    wrong response for one or more.
    """

    held: set[EntryId]
    is_silent: bool
    is_wrong: bool
    was_refused_by_bound: bool

    @classmethod
    def of(cls, other: _Other, scope: set[EntryId]) -> _Said:
        if other.groups is not None:
            listed = {entry for entry in scope if is_listed(other.groups, entry)}
            return cls(listed, False, False, False)
        is_silent = (
            not other.knows_nothing and not scope <= other.held | other.lacking | other.wrong
        )
        is_wrong = not other.knows_nothing and bool(other.wrong & scope)
        return cls(other.held & scope, is_silent, is_wrong, other.was_refused_by_bound)


def _bookies_where(
    said: Mapping[BookieId, _Said], is_wanted: Callable[[_Said], bool]
) -> tuple[BookieId, ...]:
    return tuple(sorted(bookie for bookie, statement in said.items() if is_wanted(statement)))
