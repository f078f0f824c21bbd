"""Find what lies above a closed ledger's lastEntryId, for the second checker.

It is derived from the starts and ends of listed runs, and from entries that were read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from auditor.model.availability import AnswerStatus, EntryRead, ReadStatus
from auditor.model.evidence import Terms
from auditor.model.facts import BeyondEndFacts, EndHeader, HeldBeyondEnd
from auditor.model.finding import RANGES_MAX
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerMetadata, LedgerState
from auditor.model.verdict import Unknown
from auditor.second_checker.copies import Entries
from auditor.second_checker.holdings import NOT_THERE, Group, Lists, why_no_list, why_no_read
from auditor.second_checker.looks import Statements

RUNS_MAX = 100_000
"""Runs above the end of one bookie's list that are compared. A few bytes can claim more."""

AT_THE_END = -1
"""The entry id in a read request that asks a bookie for the highest entry that it stores."""

Run = tuple[EntryId, EntryId]


@dataclass(frozen=True, slots=True)
class Beyond:
    """What lies above the end: the facts, and the entries that any bookie holds there.

    If `is_open`, there are too many runs to count, and the other fields mean nothing.
    """

    entries: Entries = field(default_factory=Entries)
    facts: BeyondEndFacts | None = None
    is_open: bool = False

    @property
    def cut_off(self) -> Entries | None:
        """The entries above the end, up to the highest that a header says was acknowledged.

        None if no header says so.
        """
        if self.facts is None or self.facts.header is None:
            return None
        low, high = max(self.facts.last_entry_id, -1) + 1, self.facts.header.last_confirmed
        return Entries(((low, high),), high - low + 1) if low <= high else None


NOTHING = Beyond()


def beyond_end(statements: Statements, lists: Lists, metadata: LedgerMetadata) -> Beyond:
    """Return what lists and reads show above the end of a closed ledger."""
    last = metadata.last_entry_id
    if metadata.state is not LedgerState.CLOSED or last is None or not metadata.segments:
        return NOTHING
    sent, denied = _read_above(statements, last)
    if not sent and all(not groups or groups[-1].end <= last for groups in lists.values()):
        return NOTHING
    runs: dict[BookieId, list[Run]] = {}
    for bookie in lists.keys() | sent.keys():
        groups = lists.get(bookie, ())
        if bookie not in sent and (not groups or groups[-1].end <= last):
            continue  # the groups ascend
        above = _runs_above(groups, last)
        mine = list(islice(above, RUNS_MAX))
        if any(above):
            return Beyond(is_open=True)
        mine += [
            (entry, entry)
            for entry, read in sent.get(bookie, {}).items()
            if not _has_newer_list(statements, lists, read)
        ]
        kept = list(_without(_ranges_covered(mine), denied.get(bookie, set())))
        answer = statements.answers.get(bookie)
        if kept and not (answer is not None and answer.is_gone):
            runs[bookie] = kept
    header = _highest_header(
        (read, _has_newer_list(statements, lists, read))
        for of_bookie in sent.values()
        for read in of_bookie.values()
    )
    if not runs and (header is None or header.last_confirmed < max(last + 1, 0)):
        return NOTHING
    held = tuple(
        HeldBeyondEnd(b, tuple(runs[b][:RANGES_MAX]), _count(runs[b]), b in lists)
        for b in sorted(runs)
    )
    every = tuple(_ranges_covered([run for of_bookie in runs.values() for run in of_bookie]))
    facts = BeyondEndFacts(last, metadata.ack_quorum, held, header)
    return Beyond(Entries(every, _count(every)), facts)


def _read_above(
    statements: Statements, last: EntryId
) -> tuple[dict[BookieId, dict[EntryId, EntryRead]], dict[BookieId, set[EntryId]]]:
    """Return the entries above the end that each bookie sent, and those that it said it lacks."""
    sent: dict[BookieId, dict[EntryId, EntryRead]] = {}
    denied: dict[BookieId, set[EntryId]] = {}
    for (bookie, asked), read in statements.reads.items():
        if read.status is ReadStatus.PRESENT:
            entry = asked if read.stored_entry_id is None else read.stored_entry_id
            if entry > last:
                known = sent.setdefault(bookie, {}).get(entry)
                if known is None or known.last_confirmed is None:
                    sent[bookie][entry] = read
        elif read.status in NOT_THERE and asked > last:
            denied.setdefault(bookie, set()).add(asked)
    return sent, denied


def _has_newer_list(statements: Statements, lists: Lists, read: EntryRead) -> bool:
    """Return whether a later look than the read's has a list of the bookie: it says what is there
    since.
    """
    answer = statements.answers.get(read.bookie_id)
    return read.bookie_id in lists and answer is not None and answer.look > read.look


def _highest_header(reads: Iterable[tuple[EntryRead, bool]]) -> EndHeader | None:
    """Return the header that proves the highest entry acknowledged; None if there is none.

    Each read comes with whether its bookie has a newer list. Of equal headers, return one without;
    of these the first by bookie, then by the entry that was asked for.
    """
    proven = [
        (-read.last_confirmed, has_newer_list, read.bookie_id, read.entry_id, read)
        for read, has_newer_list in reads
        if read.last_confirmed is not None
    ]
    if not proven:
        return None
    confirmed, _, bookie, asked, read = min(proven, key=lambda header: header[:4])
    entry = asked if read.stored_entry_id is None else read.stored_entry_id
    return EndHeader(bookie, entry, -confirmed, read.length_bytes or 0)


@dataclass(frozen=True, slots=True)
class Unheard:
    """The bookies of the last ensemble that said nothing of a ledger closed without entries.

    `why` has a reason for each of them. Bookies that are gone count: nobody knows what they held.
    """

    why: Mapping[BookieId, Unknown]

    def may_hide_an_entry(self, ack_quorum: int) -> bool:
        """Return whether the silent bookies are enough to hold an acknowledged entry."""
        return 0 < len(self.why) >= ack_quorum


NOBODY = Unheard({})


def find_unheard(
    statements: Statements, metadata: LedgerMetadata, lists: Lists, terms: Terms
) -> Unheard:
    """Return the bookies that said nothing of a ledger that is closed without entries."""
    why: dict[BookieId, Unknown] = {}
    is_clear = 1 <= metadata.write_quorum <= metadata.ensemble_size and metadata.segments
    for bookie in set(metadata.segments[-1].ensemble if is_clear else ()):
        answer, read = statements.answers.get(bookie), statements.reads.get((bookie, AT_THE_END))
        if bookie in lists:
            continue
        if answer is None or answer.status is not AnswerStatus.UNSUPPORTED:
            why[bookie] = why_no_list(answer)
        elif terms.probe_entries < 1 or read is None:
            why[bookie] = Unknown.BOOKIE_UNSUPPORTED
        elif read.status not in (*NOT_THERE, ReadStatus.PRESENT, ReadStatus.CORRUPT):
            why[bookie] = why_no_read(read.status)
    return Unheard(why)


def _runs_above(groups: tuple[Group, ...], last: EntryId) -> Iterator[Run]:
    """Yield the runs that reach above `last`, cut to the part above; the groups ascend."""
    for group in groups[bisect_right(groups, last, key=lambda group: group.end) :]:
        step = max(1, group.period)
        lowest = last + 2 - group.size  # a run that begins here ends directly above
        skipped = max(0, -((group.first - lowest) // step))
        for start in range(group.first + skipped * step, group.last + 1, step):
            yield max(start, last + 1), start + group.size - 1


def _ranges_covered(runs: Iterable[Run]) -> Iterator[Run]:
    """Yield the maximal ranges that the runs cover, ascending."""
    steps: dict[EntryId, int] = {}
    for low, high in runs:
        steps[low] = steps.get(low, 0) + 1
        steps[high + 1] = steps.get(high + 1, 0) - 1
    depth, begins = 0, None
    for at in sorted(steps):
        depth += steps[at]
        if depth > 0 and begins is None:
            begins = at
        elif depth == 0 and begins is not None:
            yield begins, at - 1
            begins = None


def _without(ranges: Iterable[Run], entries: set[EntryId]) -> Iterator[Run]:
    """Yield the ranges without `entries`, which are few."""
    for low, high in ranges:
        for entry in sorted(entries):
            if low <= entry <= high:
                if low < entry:
                    yield low, entry - 1
                low = entry + 1
        if low <= high:
            yield low, high


def _count(ranges: Iterable[Run]) -> int:
    return sum(high - low + 1 for low, high in ranges)
