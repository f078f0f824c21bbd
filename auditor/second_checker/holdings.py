"""Derive what one bookie holds of the entries of a block, as the second checker sees it.

Each entry is HELD, ABSENT or UNKNOWN. The groups of the bookie's list decide first. Reads override
them. Blocks are bounded (`auditor.second_checker.blocks`), but lists may name any number of
entries: only those within the block are gone through.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from struct import iter_unpack
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import numpy as np

from auditor.model.availability import Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.identity import BookieId, EntryId
from auditor.model.verdict import Unknown
from auditor.second_checker.blocks import (
    FEW,
    Bits,
    Marks,
    all_bits,
    bits_at,
    pack_marks,
    repeat_bits,
)

STRANGE_RUNS_MAX = 10_000
STRANGE_FROM_RUNS = 17
KNOWN_STRIDES = 16
"""Bounds on what a list may claim, the same as the first checker's.

A group is strange if it has STRANGE_FROM_RUNS runs or more, and a period that is not one of the
first KNOWN_STRIDES multiples of the ensemble size. The strange groups of a list may together have
STRANGE_RUNS_MAX runs, or as many runs as the received bytes could carry one by one."""

_LISTED = (AnswerStatus.HELD, AnswerStatus.NO_SUCH_LEDGER)


class Group(NamedTuple):
    """Runs of `size` entries, `period` apart: the first begins at `first`, the last at `last`."""

    first: EntryId
    last: EntryId
    size: int
    period: int

    @property
    def end(self) -> EntryId:
        return self.last + self.size - 1


def groups_of(answer: Answer) -> tuple[Group, ...]:
    """Return the groups of a list, ascending."""
    if not answer.groups:
        return ()
    return tuple(map(Group._make, iter_unpack(">qqii", answer.groups)))


Lists: TypeAlias = Mapping[BookieId, tuple[Group, ...]]
"""The groups of each bookie that gave a usable list."""


def usable_lists(answers: Mapping[BookieId, Answer], ensemble_size: int) -> Lists:
    """Return the groups of each bookie whose list does not claim too much.

    The list of a bookie that has no such ledger is empty.
    """
    found: dict[BookieId, tuple[Group, ...]] = {}
    for bookie, answer in answers.items():
        if answer.status in _LISTED:
            groups = groups_of(answer)
            if not claims_too_much(answer, groups, ensemble_size):
                found[bookie] = groups
    return found


def edges_of(answer: Answer) -> Iterator[EntryId]:
    """Yield the first and last entries of each group's first run and of its last run."""
    for first, last, size, _ in iter_unpack(">qqii", answer.groups):
        yield from (first, first + size - 1, last, last + size - 1)


def is_listed(groups: tuple[Group, ...], entry: EntryId) -> bool:
    """Return whether a run of the groups contains the entry; the groups ascend."""
    at = bisect_left(groups, (entry + 1,)) - 1
    if at < 0:
        return False
    first, last, size, period = groups[at]
    return entry < last + size and (period == 0 or (entry - first) % period < size)


def claims_too_much(answer: Answer, groups: tuple[Group, ...], ensemble_size: int) -> bool:
    """Return whether the strange groups of a list have more runs than are judged."""
    strange = 0
    for first, last, size, period in groups:
        is_known = period % ensemble_size == 0 and period // ensemble_size <= KNOWN_STRIDES
        if is_known or period == size:  # a single run has period 0, which is known
            continue
        runs = (last - first) // period + 1
        strange += runs if runs >= STRANGE_FROM_RUNS else 0
    return strange > max(STRANGE_RUNS_MAX, answer.received_bytes // 24)


def ends_of(groups: tuple[Group, ...]) -> list[EntryId]:
    """Return the last entry of each group."""
    return [last + size - 1 for _, last, size, _ in groups]


def listed_bits(
    groups: tuple[Group, ...], low: EntryId, high: EntryId, ends: Sequence[EntryId] = ()
) -> Bits:
    """Return which entries of [low, high] the groups name; the groups ascend.

    `ends` are those of the groups, if they are known.
    """
    if len(groups) > FEW:
        begin = bisect_left(ends or ends_of(groups), low)
        groups = groups[begin : bisect_left(groups, (high + 1,))]
    if len(groups) > FEW:
        marks = np.zeros(high - low + 1, np.bool_)
        for group in groups:
            _mark(marks, low, high, group)
        return pack_marks(marks)
    found = 0
    for group in groups:
        first, last, size, _ = group
        if first <= high and last + size > low:
            bits = _group_bits(group, low, high)
            found = found | bits if found else bits
    return found


def _group_bits(group: Group, low: EntryId, high: EntryId) -> Bits:
    """Return which entries of [low, high] a group names; it ends at `low` or above."""
    if group.period == 0:
        first = max(group.first, low)
        return all_bits(min(group.end, high) - first + 1) << (first - low)
    start, step = _first_run(group, low)
    if step > high - low:  # two runs at most, each of which may be far longer than the block
        runs = range(start, min(group.last, high) + 1, step)
        bits = 0
        for run in runs:
            begin, end = max(run, low), min(run + group.size - 1, high)
            bits |= all_bits(end - begin + 1) << (begin - low)
        return bits
    run_bits, skipped = all_bits(group.size), start - low
    if skipped >= 0:
        reach = high if group.last + step > high else group.end
        return repeat_bits(run_bits << skipped, step, reach - low + 1)
    bits = repeat_bits(run_bits, step, min(group.end, high) - start + 1)
    return bits >> -skipped


def _first_run(group: Group, low: EntryId) -> tuple[EntryId, int]:
    """Return the start of the first run that ends at `low` or above, and the distance of runs."""
    if group.period == 0:
        return group.first, group.size
    skipped = max(0, -((group.first + group.size - 1 - low) // group.period))
    return group.first + skipped * group.period, group.period


def _mark(marks: Marks, low: EntryId, high: EntryId, group: Group) -> None:
    """Mark the group's entries within the block.

    Marks run by run or, if runs are short and many, offset by offset within the run.
    """
    start, step = _first_run(group, low)
    starts = range(start, min(group.last, high) + 1, step)
    if len(starts) <= group.size:
        for run in starts:
            marks[max(run, low) - low : min(run + group.size - 1, high) - low + 1] = True
        return
    for place in range(group.size):
        begin, end = starts[0] + place, min(starts[-1] + place, high)
        if begin < low:
            begin += step
        marks[begin - low : end - low + 1 : step] = True


HELD, ABSENT, UNKNOWN = 0, 1, 2

PAGE = 8192 // 8
"""Entries of an index page. A list may lack the last entry if it is the first of its page."""

_WHY_NO_LIST = {
    AnswerStatus.SILENT: Unknown.BOOKIE_SILENT,
    AnswerStatus.UNREGISTERED: Unknown.BOOKIE_SILENT,
    AnswerStatus.TIMED_OUT: Unknown.ANSWER_TIMEOUT,
    AnswerStatus.REFUSED: Unknown.BOOKIE_REFUSED,
    AnswerStatus.FAILED: Unknown.BOOKIE_REFUSED,
    AnswerStatus.TOO_LARGE: Unknown.ANSWER_TOO_LARGE,
    AnswerStatus.UNSUPPORTED: Unknown.BOOKIE_UNSUPPORTED,
    AnswerStatus.ADDRESS_UNKNOWN: Unknown.ADDRESS_UNKNOWN,
    AnswerStatus.AUDITOR_LIMITED: Unknown.AUDITOR_LIMITED,
}
_WHY_NO_READ = {
    ReadStatus.SILENT: Unknown.BOOKIE_SILENT,
    ReadStatus.UNREGISTERED: Unknown.BOOKIE_SILENT,
    ReadStatus.TIMED_OUT: Unknown.ANSWER_TIMEOUT,
    ReadStatus.REFUSED: Unknown.BOOKIE_REFUSED,
    ReadStatus.FAILED: Unknown.BOOKIE_REFUSED,
    ReadStatus.TOO_LARGE: Unknown.ANSWER_TOO_LARGE,
    ReadStatus.ADDRESS_UNKNOWN: Unknown.ADDRESS_UNKNOWN,
    ReadStatus.AUDITOR_LIMITED: Unknown.AUDITOR_LIMITED,
    ReadStatus.NOT_ASKED: Unknown.BOOKIE_SILENT,
}
_NOT_READ = frozenset({Unknown.ANSWER_TIMEOUT})
LOOKS_OF_DENIAL = 2
"""A list is not believed if a listed entry was read as not being there at this many looks."""
NEVER_DENIED: Mapping[EntryId, int] = MappingProxyType({})
NOT_THERE = (ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER)


class Holding(NamedTuple):
    """The entries of a block that a bookie holds, may hold, and lacks."""

    held: Bits
    unknown: Bits
    absent: Bits


@dataclass(slots=True)
class Testimony:
    """What is known of the entries of one bookie.

    `by_entry` has the entries that were read there. Any other is HELD if `listed` names it, else it
    is what `rest` says. `why`: the reasons for unknown entries. `present_unlisted`: how many
    entries were read that the list left out.
    """

    rest: int
    listed: tuple[Group, ...] = ()
    by_entry: Mapping[EntryId, int] = field(default_factory=dict)
    why: frozenset[Unknown] = frozenset()
    present_unlisted: int = 0
    answered: frozenset[EntryId] = frozenset()
    """If the bookie cannot list: the entries whose read was conclusive."""
    is_away: bool = False
    """The bookie is silent or not registered."""
    is_out: bool = False
    """The bookie was not registered at any look, and is not in maintenance."""
    failed: tuple[EntryId, ...] = ()
    """Entries that the bookie failed to read at each look, ascending; empty if it is in
    maintenance."""
    entries_in_order: tuple[EntryId, ...] = field(init=False, default=())
    """The entries of `by_entry`, ascending. A sweep may read thousands of them."""

    ends: Sequence[EntryId] = field(init=False, default=())
    """The last entry of each group of `listed`, if there are more than FEW."""

    def __post_init__(self) -> None:
        if len(self.listed) > FEW:
            self.ends = ends_of(self.listed)
        if self.by_entry:
            self.entries_in_order = tuple(sorted(self.by_entry))

    def holding(self, mine: Bits, low: EntryId, high: EntryId) -> Holding:
        """Return what the bookie holds of `mine`, a set of the entries [low, high]."""
        listed = listed_bits(self.listed, low, high, self.ends) if self.listed else 0
        listed = mine if listed == mine else mine & listed
        held = mine if self.rest == HELD else listed
        others = 0 if held is mine else mine ^ held
        unknown, absent = (others, 0) if self.rest == UNKNOWN else (0, others)
        known = self.entries_in_order
        at = bisect_left(known, low)
        if at == len(known) or known[at] > high:
            return Holding(held, unknown, absent)
        read = known[at : bisect_right(known, high)]
        if not listed:
            read = tuple([entry for entry in read if self.by_entry[entry] != self.rest])
        if not read:  # all others change nothing
            return Holding(held, unknown, absent)
        now_held, now_unknown, now_absent = (
            mine & bits_at([e - low for e in read if self.by_entry[e] == word], high - low + 1)
            for word in (HELD, UNKNOWN, ABSENT)
        )
        if changed := now_held | now_unknown | now_absent:
            held = held ^ (held & changed) | now_held
            unknown = unknown ^ (unknown & changed) | now_unknown
            absent = mine ^ held ^ unknown
        return Holding(held, unknown, absent)


def gone_testimony() -> Testimony:
    """Return the testimony of a bookie that will not come back: it holds nothing."""
    return Testimony(ABSENT)


def why_no_list(answer: Answer | None) -> Unknown:
    """Return why the answer of a bookie, or its absence, says nothing about entries."""
    if answer is None:
        return Unknown.BOOKIE_SILENT
    return _WHY_NO_LIST.get(answer.status, Unknown.ANSWER_INVALID)


def why_no_read(status: ReadStatus) -> Unknown:
    """Return why a read that is not conclusive says nothing about the entry."""
    return _WHY_NO_READ.get(status, Unknown.ANSWER_INVALID)


def unheard_testimony(answer: Answer | None) -> Testimony:
    """Return the testimony of a bookie without a usable answer: every entry is unknown."""
    why = why_no_list(answer)
    return Testimony(UNKNOWN, why=frozenset({why}), is_away=why is Unknown.BOOKIE_SILENT)


def failed_list_testimony(reads: Mapping[EntryId, EntryRead]) -> Testimony:
    """Return the testimony of a bookie that failed to list: only its reads say anything."""
    by_entry, why = dict[EntryId, int](), {Unknown.BOOKIE_REFUSED}
    for entry, read in reads.items():
        if read.status is ReadStatus.PRESENT or read.status in NOT_THERE:
            by_entry[entry] = HELD if read.status is ReadStatus.PRESENT else ABSENT
        else:
            why.add(_WHY_NO_READ.get(read.status, Unknown.ANSWER_INVALID))
    return Testimony(UNKNOWN, (), by_entry, frozenset(why))


def list_testimony(
    groups: tuple[Group, ...] | None,
    has_ledger: bool,
    highest: EntryId,
    reads: Mapping[EntryId, EntryRead],
    denied: Mapping[EntryId, int] = NEVER_DENIED,
) -> Testimony:
    """Return the testimony of a bookie that listed entries or said that it has no such ledger.

    `groups` is None if its list claims too much. `reads` are the reads there. `highest` is the
    highest entry written to it.

    - An unlisted entry is absent if its own read found nothing. If it was not read, it is absent if
      other unlisted entries were read and none was found. Finding the entry that an honest list may
      lack (see PAGE) does not count.
    - A copy is unknown, listed or not, if it was read with a wrong digest or its read failed.
    - `denied` has the listed entries that were read as not being there, with the number of looks.
      After LOOKS_OF_DENIAL looks of one of them, they all are absent. Everything is absent if,
      besides, the newest reads know no such ledger and no read returned an entry. Otherwise the
      denied entries are unknown.
    """
    if groups is None:
        return Testimony(UNKNOWN, why=frozenset({Unknown.ANSWER_INVALID}))
    if not reads:
        return Testimony(UNKNOWN, groups, why=_NOT_READ)
    refuted = {entry: times for entry, times in denied.items() if is_listed(groups, entry)}
    is_confirmed = bool(refuted) and max(refuted.values()) >= LOOKS_OF_DENIAL
    if is_confirmed and knows_no_ledger(reads) and not _was_sent(reads):
        return Testimony(ABSENT)
    by_entry, why = dict[EntryId, int](), set[Unknown]()
    is_honest, present_unlisted = True, 0
    was_absent = was_corrupt = failed_though_listed = False
    for entry, read in reads.items():
        status = read.status
        if status is ReadStatus.CORRUPT:
            was_corrupt = True
        if groups and is_listed(groups, entry):
            if entry in refuted:
                by_entry[entry] = ABSENT if is_confirmed else UNKNOWN
            elif status is ReadStatus.PRESENT:
                by_entry[entry] = HELD
            elif status is ReadStatus.FAILED:
                by_entry[entry] = UNKNOWN
                failed_though_listed = True
            elif status is ReadStatus.CORRUPT:
                by_entry[entry] = UNKNOWN
        elif status in NOT_THERE:
            by_entry[entry] = ABSENT
            was_absent = True
        elif status is ReadStatus.PRESENT:
            by_entry[entry] = HELD
            present_unlisted += 1
            is_honest &= entry == highest and entry % PAGE == 0 and has_ledger
        else:
            by_entry[entry] = UNKNOWN
            why.add(_WHY_NO_READ.get(status, Unknown.ANSWER_INVALID))
    lacks_all = is_honest and was_absent and not why
    if failed_though_listed:
        why.add(Unknown.BOOKIE_REFUSED)
    if was_corrupt or not is_honest or (refuted and not is_confirmed):
        why.add(Unknown.ANSWER_INVALID)
    return Testimony(
        ABSENT if lacks_all else UNKNOWN,
        groups,
        by_entry,
        frozenset(why) or _NOT_READ,
        present_unlisted=present_unlisted,
    )


def _was_sent(reads: Mapping[EntryId, EntryRead]) -> bool:
    """Return whether the bookie sent any entry, with a right digest or a wrong one."""
    return any(read.status in (ReadStatus.PRESENT, ReadStatus.CORRUPT) for read in reads.values())


def conclusive_reads(reads: Mapping[EntryId, EntryRead]) -> dict[EntryId, EntryRead]:
    """Return the reads that say whether the bookie has the entry."""
    return {
        entry: read
        for entry, read in reads.items()
        if read.status in (*NOT_THERE, ReadStatus.PRESENT, ReadStatus.CORRUPT)
    }


def knows_no_ledger(reads: Mapping[EntryId, EntryRead]) -> bool:
    """Return whether the newest look with conclusive reads has ENOLEDGER, and no entry was sent."""
    spoken = conclusive_reads(reads).values()
    latest = max((read.look for read in spoken), default=None)
    at_latest = {read.status for read in spoken if read.look == latest}
    return ReadStatus.NO_LEDGER in at_latest and not at_latest & {
        ReadStatus.PRESENT,
        ReadStatus.CORRUPT,
    }


def reads_testimony(reads: Mapping[EntryId, EntryRead], *, all_due_were_made: bool) -> Testimony:
    """Return the testimony of a bookie that cannot list, from the reads of entries written to it.

    ENOLEDGER at the newest look with a conclusive read makes every entry absent, unless another
    read at that look returned an entry. An entry that was not read counts as held if all due reads
    were made and one of them found an entry present or absent.
    """
    spoken = conclusive_reads(reads)
    if knows_no_ledger(reads):
        return Testimony(ABSENT, answered=frozenset(spoken))
    by_entry, why, is_conclusive = dict[EntryId, int](), set[Unknown](), False
    for entry, read in reads.items():
        if read.status is ReadStatus.PRESENT or read.status in NOT_THERE:
            by_entry[entry] = HELD if read.status is ReadStatus.PRESENT else ABSENT
            is_conclusive = True
        else:
            by_entry[entry] = UNKNOWN
            why.add(_WHY_NO_READ.get(read.status, Unknown.ANSWER_INVALID))
    if not all_due_were_made:
        why.add(Unknown.BOOKIE_UNSUPPORTED)
    rest = HELD if all_due_were_made and is_conclusive else UNKNOWN
    return Testimony(rest, (), by_entry, frozenset(why), answered=frozenset(spoken))
