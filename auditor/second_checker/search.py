"""How far entries without a copy were searched for, as the evidence shows the second checker.

The search covers each registered bookie outside the write set of such an entry. What counts is its
list or, without a list, the reads of those entries there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from auditor.model.availability import AnswerStatus, EntryRead, ReadStatus
from auditor.model.evidence import Terms
from auditor.model.facts import Search
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerMetadata
from auditor.second_checker.copies import Mask, Tally, write_sets
from auditor.second_checker.holdings import (
    HELD,
    Group,
    claims_too_much,
    groups_of,
    names,
    only_listed,
)
from auditor.second_checker.newest_words import Words

_ABSENT = (ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER)
_WRONG = (ReadStatus.CORRUPT, ReadStatus.INVALID)
_SPOKEN = (*_ABSENT, *_WRONG, ReadStatus.PRESENT)


@dataclass(slots=True)
class _Other:
    """A bookie outside the write set of some entry without a copy.

    `held`, `lacking` and `wrong` are the entries that it sent, lacks, or sent wrongly. For those in
    `hidden`, no read was conclusive.
    """

    has_list: bool
    knows_nothing: bool
    """Its newest conclusive word on the ledger is that it does not have it."""
    held: set[EntryId] = field(default_factory=set)
    lacking: set[EntryId] = field(default_factory=set)
    wrong: set[EntryId] = field(default_factory=set)
    hidden: set[EntryId] = field(default_factory=set)
    was_refused_by_bound: bool = False
    lists_some: int = 0
    """The number of entries without a copy that its list names."""
    first_listed: EntryId | None = None
    """The lowest of them."""


def listing_bookies(heard: Words, metadata: LedgerMetadata) -> dict[BookieId, tuple[Group, ...]]:
    """Return the groups of each bookie that gave a usable list."""
    found: dict[BookieId, tuple[Group, ...]] = {}
    for bookie, answer in heard.answers.items():
        if answer.status in (AnswerStatus.HELD, AnswerStatus.NO_SUCH_LEDGER):
            groups = groups_of(answer)
            if not claims_too_much(answer, groups, metadata.ensemble_size):
                found[bookie] = groups
    return found


def search_facts(
    heard: Words, metadata: LedgerMetadata, tally: Tally, terms: Terms
) -> Search | None:
    """Return how far the search went.

    Return None if nothing is searched for, or if no other bookie is registered. `entries`,
    `entries_found` and `entries_left` are meaningful only if all entries were examined. Costs
    entries for each registered bookie.
    """
    lost = {place: one.possible == 0 for place, one in enumerate(tally.counted)}
    total = sum(int(np.count_nonzero(mask)) for mask in lost.values())
    if not total or terms.stranded_entries_max < 1:
        return None
    lists = listing_bookies(heard, metadata)
    others: dict[BookieId, _Other] = {}
    found_by_list: dict[int, Mask] = {
        place: np.zeros(len(mask), np.bool_) for place, mask in lost.items()
    }
    for bookie in _registered_bookies(heard, terms, lists):
        outside = {
            place: mask & ~_written_mask(tally, place, bookie) for place, mask in lost.items()
        }
        if not any(mask.any() for mask in outside.values()):
            continue
        reads = [
            read
            for (reader, _), read in heard.reads.items()
            if reader == bookie and bookie not in lists
        ]
        mine = [read for read in reads if _is_in(tally, outside, read.entry_id)]
        other = others[bookie] = _Other(bookie in lists, _knows_nothing(mine))
        for place, mask in outside.items() if bookie in lists else ():
            block = tally.counted[place].block
            named = mask & (only_listed(lists[bookie], block.low, block.high) == HELD)
            other.lists_some += int(np.count_nonzero(named))
            lowest = block.low + int(np.argmax(named)) if named.any() else other.first_listed
            other.first_listed = min(
                (e for e in (lowest, other.first_listed) if e is not None), default=None
            )
            found_by_list[place] |= named
        _sort(other, mine)
    if not others:
        return None
    named_by_metadata = {bookie for segment in metadata.segments for bookie in segment.ensemble}
    if all(one.has_list or one.knows_nothing for one in others.values()):
        return _all_spoke(
            others,
            total,
            sum(int(np.count_nonzero(one)) for one in found_by_list.values()),
            named_by_metadata,
        )
    first = min(
        tally.counted[p].block.low + int(np.argmax(mask)) for p, mask in lost.items() if mask.any()
    )
    return _some_spoke(tally, others, lists, first, total, named_by_metadata)


def _registered_bookies(heard: Words, terms: Terms, lists: Iterable[BookieId]) -> list[BookieId]:
    """Return the bookies that were registered when the run began or listed since, and are not
    gone.
    """
    gone = {bookie for bookie, answer in heard.answers.items() if answer.is_gone}
    return sorted({*terms.around.writable, *terms.around.readonly, *lists} - gone)


def _written_mask(tally: Tally, place: int, bookie: BookieId) -> Mask:
    """Return which entries of a block were written to the bookie."""
    block = tally.counted[place].block
    found = np.zeros(block.high - block.low + 1, np.bool_)
    if bookie in block.stretch.ensemble:
        for at, bookies in write_sets(block):
            found[at] = bookie in bookies
    return found


def _is_in(tally: Tally, masks: Mapping[int, Mask], entry: EntryId) -> bool:
    for place, mask in masks.items():
        low = tally.counted[place].block.low
        if low <= entry < low + len(mask):
            return bool(mask[entry - low])
    return False


def _knows_nothing(reads: Iterable[EntryRead]) -> bool:
    spoken = [read for read in reads if read.status in _SPOKEN]
    if not spoken:
        return False
    newest = max(read.look for read in spoken)
    last_words = {read.status for read in spoken if read.look == newest}
    return ReadStatus.NO_LEDGER in last_words and not last_words & {ReadStatus.PRESENT, *_WRONG}


def _sort(other: _Other, reads: Iterable[EntryRead]) -> None:
    """Sort the entries read into the sets of `other`.

    An entry seen before the bookie forgot the ledger counts as lacking.
    """
    reads = list(reads)
    forgot = max((read.look for read in reads if read.status is ReadStatus.NO_LEDGER), default=0)
    for read in reads:
        other.was_refused_by_bound |= read.status is ReadStatus.NOT_ASKED
        if read.status not in _SPOKEN:
            (other.lacking if other.knows_nothing else other.hidden).add(read.entry_id)
        elif other.knows_nothing or read.status in _ABSENT or read.look < forgot:
            other.lacking.add(read.entry_id)
        else:
            (other.held if read.status is ReadStatus.PRESENT else other.wrong).add(read.entry_id)


def _all_spoke(
    others: Mapping[BookieId, _Other], total: int, found: int, named: set[BookieId]
) -> Search:
    """Return the search if every other bookie spoke for the whole ledger: no entry is left."""
    holders = [bookie for bookie, one in others.items() if one.lists_some]
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
    lists: Mapping[BookieId, tuple[Group, ...]],
    first: EntryId,
    total: int,
    named: set[BookieId],
) -> Search:
    """Return the search for the lowest entry without a copy, and for all read elsewhere."""
    entries = {first}.union(
        *(one.held | one.lacking | one.wrong | one.hidden for one in others.values())
    )
    answered, unheard, refused, wrong = (
        set[BookieId](),
        set[BookieId](),
        set[BookieId](),
        set[BookieId](),
    )
    holders: dict[EntryId, set[BookieId]] = {entry: set() for entry in entries}
    for bookie, one in others.items():
        scope = {entry for entry in entries if bookie not in _bookies_of(tally, entry)}
        if one.has_list:
            held, silent_on = (
                {entry for entry in scope if names(lists[bookie], entry)},
                set[EntryId](),
            )
        else:
            held = one.held & scope
            silent_on = set() if one.knows_nothing else scope - one.held - one.lacking - one.wrong
        for entry in held:
            holders[entry].add(bookie)
        if scope:
            (answered if not silent_on else refused if one.was_refused_by_bound else unheard).add(
                bookie
            )
        if one.wrong & scope and not one.knows_nothing:
            wrong.add(bookie)
    found_on = set().union(*holders.values())
    return Search(
        len(entries),
        sum(bool(held_by) for held_by in holders.values()),
        sum(bool(held_by - named) for held_by in holders.values()),
        total - len(entries),
        searched=tuple(sorted(answered)),
        found_on=tuple(sorted(found_on)),
        found_unnamed=tuple(sorted(found_on - named)),
        corrupt_on=tuple(sorted(wrong)),
        unheard=tuple(sorted(unheard)),
        not_asked=tuple(sorted(refused)),
        found_first=tuple(
            min(entry for entry, on in holders.items() if bookie in on)
            for bookie in sorted(found_on)
        ),
    )


def _bookies_of(tally: Tally, entry: EntryId) -> tuple[BookieId, ...]:
    counted = tally.block_of(entry)
    return () if counted is None else counted.block.stretch.bookies_of(entry)
