"""What one bookie holds, as the second checker sees it: a word for each entry of a block.

The words HELD, ABSENT and UNKNOWN are written into an array: first the list, then what was read,
which overrides it. Blocks are bounded (`auditor.second_checker.blocks`), but lists may name any
number of entries. Only entries within the block are written.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from struct import iter_unpack
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from auditor.model.availability import Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.identity import EntryId
from auditor.model.verdict import Unknown

HELD, ABSENT, UNKNOWN = 0, 1, 2
Marks: TypeAlias = NDArray[np.int8]

PAGE = 8192 // 8
"""Entries of an index page. A list may lack the last entry if it is the first of its page."""

STRANGE_RUNS_MAX = 10_000
STRANGE_FROM_RUNS = 17
KNOWN_STRIDES = 16
"""Bounds on what a list may claim, the same as the first checker's.

A progression is strange if it has STRANGE_FROM_RUNS runs or more, and a period that is not one of
the first KNOWN_STRIDES multiples of the ensemble size. All strange progressions of a list may have
STRANGE_RUNS_MAX runs, or as many as the received bytes can carry one by one.
"""

_WHY_NO_LIST = {
    AnswerStatus.SILENT: Unknown.BOOKIE_SILENT,
    AnswerStatus.UNREGISTERED: Unknown.BOOKIE_SILENT,
    AnswerStatus.TIMED_OUT: Unknown.ANSWER_TIMEOUT,
    AnswerStatus.REFUSED: Unknown.BOOKIE_REFUSED,
    AnswerStatus.TOO_LARGE: Unknown.ANSWER_TOO_LARGE,
    AnswerStatus.UNSUPPORTED: Unknown.BOOKIE_UNSUPPORTED,
    AnswerStatus.ADDRESS_UNKNOWN: Unknown.ADDRESS_UNKNOWN,
}
_WHY_NO_READ = {
    ReadStatus.SILENT: Unknown.BOOKIE_SILENT,
    ReadStatus.UNREGISTERED: Unknown.BOOKIE_SILENT,
    ReadStatus.TIMED_OUT: Unknown.ANSWER_TIMEOUT,
    ReadStatus.REFUSED: Unknown.BOOKIE_REFUSED,
    ReadStatus.TOO_LARGE: Unknown.ANSWER_TOO_LARGE,
    ReadStatus.ADDRESS_UNKNOWN: Unknown.ADDRESS_UNKNOWN,
    ReadStatus.NOT_ASKED: Unknown.BOOKIE_SILENT,
}
NOT_THERE = (ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER)


class Group(NamedTuple):
    """Runs of `size` entries, `period` apart: the first begins at `first`, the last at `last`."""

    first: EntryId
    last: EntryId
    size: int
    period: int

    @property
    def end(self) -> EntryId:
        return self.last + self.size - 1


@dataclass(frozen=True, slots=True)
class Testimony:
    """What is known of the entries of one bookie.

    An entry in `by_entry` was read there. Any other is HELD if `listed` names it, else `rest`.
    `why`: the reasons for what is unknown. `present_unlisted`: how many entries a list left out and
    a read found.
    """

    rest: int
    listed: tuple[Group, ...] = ()
    by_entry: Mapping[EntryId, int] = field(default_factory=dict)
    why: frozenset[Unknown] = frozenset()
    present_unlisted: int = 0
    answered: frozenset[EntryId] = frozenset()
    """Of a bookie that cannot list: the entries whose read was conclusive."""
    is_away: bool = False
    """The bookie is silent or not registered."""
    entries_in_order: tuple[EntryId, ...] = field(init=False)
    """The entries of `by_entry`, ascending: a sweep reads thousands, around which as many blocks
    lie.
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "entries_in_order", tuple(sorted(self.by_entry)))

    def words(self, low: EntryId, high: EntryId) -> Marks:
        """Return HELD, ABSENT or UNKNOWN for each entry of [low, high].

        All of them are treated as if they had been written to this bookie.
        """
        found = np.full(high - low + 1, self.rest, np.int8)
        at = bisect_left(self.listed, low, key=lambda group: group.end)
        while at < len(self.listed) and self.listed[at].first <= high:
            _write(found, low, high, self.listed[at])
            at += 1
        known = self.entries_in_order
        for entry in known[bisect_left(known, low) : bisect_right(known, high)]:
            found[entry - low] = self.by_entry[entry]
        return found


def _write(found: Marks, low: EntryId, high: EntryId, group: Group) -> None:
    """Mark the group's entries within the block as HELD.

    This goes run by run or, if runs are short and many, place by place within the run.
    """
    step = group.period or 1
    skipped = max(0, -((group.first + group.size - 1 - low) // step))  # 0 for a single run
    starts = range(group.first + skipped * step, min(group.last, high) + 1, step)
    if len(starts) <= group.size:
        for run in starts:
            found[max(run, low) - low : min(run + group.size - 1, high) - low + 1] = HELD
        return
    for place in range(group.size):
        begin, end = starts[0] + place, min(starts[-1] + place, high)
        if begin < low:
            begin += step
        found[begin - low : end - low + 1 : step] = HELD


def gone_testimony() -> Testimony:
    """Return the testimony of a bookie that will not come back: it holds nothing."""
    return Testimony(ABSENT)


def unheard_testimony(answer: Answer | None) -> Testimony:
    """Return the testimony of a bookie without a usable answer: all is unknown."""
    why = (
        Unknown.BOOKIE_SILENT
        if answer is None
        else _WHY_NO_LIST.get(answer.status, Unknown.ANSWER_INVALID)
    )
    return Testimony(UNKNOWN, why=frozenset({why}), is_away=why is Unknown.BOOKIE_SILENT)


def list_testimony(
    answer: Answer, ensemble_size: int, highest: EntryId, reads: Mapping[EntryId, EntryRead]
) -> Testimony:
    """Return the testimony of a bookie that listed entries or said that it has no such ledger.

    `reads` are the reads there, `highest` is the highest entry written to it. An unlisted entry is
    absent if its own read found nothing. If it was not read, it is absent if other unlisted entries
    were read and none was found; only the entry that an honest list may lack (see PAGE) may be. A
    copy read with a wrong digest is unknown, listed or not.
    """
    groups = groups_of(answer)
    if claims_too_much(answer, groups, ensemble_size):
        return Testimony(UNKNOWN, why=frozenset({Unknown.ANSWER_INVALID}))
    unlisted = {entry: read for entry, read in reads.items() if not names(groups, entry)}
    corrupt = [entry for entry, read in reads.items() if read.status is ReadStatus.CORRUPT]
    by_entry, why, is_honest = dict.fromkeys(corrupt, UNKNOWN), set[Unknown](), True
    for entry, read in unlisted.items():
        if read.status is ReadStatus.PRESENT:
            by_entry[entry] = HELD
            is_honest &= (
                entry == highest and entry % PAGE == 0 and answer.status is AnswerStatus.HELD
            )
        elif read.status in NOT_THERE:
            by_entry[entry] = ABSENT
        else:
            by_entry[entry] = UNKNOWN
            why.add(_WHY_NO_READ.get(read.status, Unknown.ANSWER_INVALID))
    failed = bool(why)
    if corrupt or not is_honest:
        why.add(Unknown.ANSWER_INVALID)
    absent_somewhere = ABSENT in (by_entry[entry] for entry in unlisted)
    return Testimony(
        ABSENT if absent_somewhere and is_honest and not failed else UNKNOWN,
        groups,
        by_entry,
        frozenset(why or {Unknown.ANSWER_TIMEOUT}),
        present_unlisted=sum(read.status is ReadStatus.PRESENT for read in unlisted.values()),
    )


def reads_testimony(reads: Mapping[EntryId, EntryRead], *, all_due_were_made: bool) -> Testimony:
    """Return the testimony of a bookie that cannot list, from the reads of entries written to it.

    ENOLEDGER at the newest look with a conclusive read makes every entry absent, unless another
    read at that look returned an entry. An entry that was not read counts as held if all due reads
    were made and one of them found an entry present or absent.
    """
    spoken = {
        e: read
        for e, read in reads.items()
        if read.status in (*NOT_THERE, ReadStatus.PRESENT, ReadStatus.CORRUPT)
    }
    latest = max((read.look for read in spoken.values()), default=None)
    at_latest = {read.status for read in spoken.values() if read.look == latest}
    if ReadStatus.NO_LEDGER in at_latest and not at_latest & {
        ReadStatus.PRESENT,
        ReadStatus.CORRUPT,
    }:
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


def groups_of(answer: Answer) -> tuple[Group, ...]:
    """Return the groups of a list, ascending."""
    return tuple(Group(*group) for group in iter_unpack(">qqii", answer.groups))


def only_listed(groups: tuple[Group, ...], low: EntryId, high: EntryId) -> Marks:
    """Return HELD for each entry of [low, high] that the groups name, ABSENT for the others."""
    return Testimony(ABSENT, groups).words(low, high)


def edges_of(answer: Answer) -> Iterator[EntryId]:
    """Yield the first and last entry of each group's first run, then of its last run."""
    for first, last, size, _ in iter_unpack(">qqii", answer.groups):
        yield from (first, first + size - 1, last, last + size - 1)


def names(groups: tuple[Group, ...], entry: EntryId) -> bool:
    """Return whether a run of the groups contains the entry; the groups ascend."""
    at = bisect_left(groups, entry, key=lambda group: group.end)
    if at == len(groups) or entry < groups[at].first:
        return False
    group = groups[at]
    return group.period == 0 or (entry - group.first) % group.period < group.size


def claims_too_much(answer: Answer, groups: tuple[Group, ...], ensemble_size: int) -> bool:
    """Return whether a list claims more strange runs than can be judged (see STRANGE_RUNS_MAX)."""
    strange = 0
    for group in groups:
        is_known = (
            group.period % ensemble_size == 0 and group.period // ensemble_size <= KNOWN_STRIDES
        )
        if group.period == group.size or is_known:  # a single run has period 0, which is known
            continue
        runs = (group.last - group.first) // group.period + 1
        strange += runs if runs >= STRANGE_FROM_RUNS else 0
    return strange > max(STRANGE_RUNS_MAX, answer.received_bytes // 24)
