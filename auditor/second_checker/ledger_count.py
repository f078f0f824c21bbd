"""Count what every bookie of one ledger said of every examined entry."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

from auditor.model.availability import AnswerStatus, EntryRead
from auditor.model.evidence import Terms
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerMetadata
from auditor.second_checker.blocks import Block, blocks
from auditor.second_checker.copies import Tally, Worst, tally
from auditor.second_checker.holdings import (
    Testimony,
    failed_list_testimony,
    gone_testimony,
    list_testimony,
    reads_testimony,
    unheard_testimony,
)
from auditor.second_checker.listed_groups import Lists, edges_of, usable_lists
from auditor.second_checker.newest_words import Words
from auditor.second_checker.probes import Due, reads_due
from auditor.second_checker.schedule import Stretch, last_of

Reads = Mapping[EntryId, EntryRead]
T = TypeVar("T")


@dataclass(slots=True)
class LedgerCount:
    """The counts of a ledger, with what its bookies said.

    `blocks`: the entries that were examined; `is_whole`: they are all. `dues`: what must be read on
    each bookie that cannot list. `corrupt`: each entry with a corrupt copy on a bookie of its write
    set.
    """

    tally: Tally
    blocks: tuple[Block, ...]
    is_whole: bool
    testimonies: Mapping[BookieId, Testimony]
    dues: Mapping[BookieId, Due]
    corrupt: Mapping[EntryId, Worst] = field(default_factory=dict)
    lists: Lists = field(default_factory=dict)
    """Of all bookies, also of those that the metadata does not name."""

    @property
    def probes(self) -> tuple[int, int | None] | None:
        """How many reads bookies that cannot list answered, and how many of them were drawn.

        None if no bookie was probed; the second number is None if it is not known.
        """
        if not self.dues:
            return None
        answered = sum(len(self.testimonies[bookie].answered) for bookie in self.dues)
        drawn = 0
        for bookie, due in self.dues.items():
            if due.drawn is None:
                return answered, None
            drawn += len(due.drawn & self.testimonies[bookie].answered)
        return answered, drawn


def count_entries(
    heard: Words,
    metadata: LedgerMetadata,
    parts: tuple[Stretch, ...],
    terms: Terms,
    claimed: Iterable[EntryId],
) -> LedgerCount:
    """Count what every bookie said of every examined entry.

    `claimed`: entries that are examined however long the ledger is.
    """
    edges = {bookie: edges_of(answer) for bookie, answer in heard.answers.items()}
    certain = chain(claimed, (entry for _, entry in heard.reads))
    chosen, is_whole = blocks(heard.record.ledger_id, parts, edges, certain, terms)
    testimonies, dues = dict[BookieId, Testimony](), dict[BookieId, Due]()
    parts_of = _by_bookie((part, part) for part in parts)
    probed = {bookie for bookie in parts_of if _is_probed(heard, bookie, parts_of[bookie], terms)}
    blocks_of = _by_bookie((one.stretch, one) for one in chosen) if probed else {}
    lists, reads_of = usable_lists(heard.answers, metadata.ensemble_size), _reads_by_bookie(heard)
    for bookie, its_parts in parts_of.items():
        reads = {
            entry: read
            for entry, read in reads_of.get(bookie, {}).items()
            if is_written(its_parts, bookie, entry)
        }
        if bookie in probed:
            due = reads_due(heard.record.ledger_id, bookie, its_parts, blocks_of[bookie], terms)
            dues[bookie] = due
            testimonies[bookie] = reads_testimony(reads, all_due_were_made=due.was_read(reads))
        else:
            testimonies[bookie] = _testimony(heard, bookie, lists, its_parts, reads)
        testimonies[bookie].is_out = bookie in heard.out
        testimonies[bookie].failed = tuple(
            sorted(e for where, e in heard.failed if where == bookie and e in reads)
        )
    counted = tally(chosen, testimonies, is_whole=is_whole)
    return LedgerCount(
        counted, chosen, is_whole, testimonies, dues, _corrupt_entries(heard, counted), lists
    )


def _is_probed(heard: Words, bookie: BookieId, parts: Sequence[Stretch], terms: Terms) -> bool:
    """Return whether the bookie cannot list, and its entries are read instead."""
    answer = heard.answers.get(bookie)
    return (
        answer is not None
        and answer.status is AnswerStatus.UNSUPPORTED
        and not answer.is_gone
        and terms.probe_entries > 0
        and _highest_of(parts, bookie) >= 0
    )


def _testimony(
    heard: Words,
    bookie: BookieId,
    lists: Lists,
    parts: Sequence[Stretch],
    reads: Reads,
) -> Testimony:
    """Return the testimony of a bookie that is not probed."""
    answer = heard.answers.get(bookie)
    if answer is None:
        return unheard_testimony(None)
    if answer.is_gone:
        return gone_testimony()
    has_ledger = answer.status is AnswerStatus.HELD
    if has_ledger or answer.status is AnswerStatus.NO_SUCH_LEDGER:
        highest = _highest_of(parts, bookie) if reads else -1
        denied = {entry: heard.denied.get((bookie, entry), 0) for entry in reads}
        denied = {entry: times for entry, times in denied.items() if times}
        return list_testimony(lists.get(bookie), has_ledger, highest, reads, denied)
    if answer.status is AnswerStatus.FAILED:
        return failed_list_testimony(reads)
    return unheard_testimony(answer)


def _highest_of(parts: Sequence[Stretch], bookie: BookieId) -> EntryId:
    """Return the highest entry written to the bookie, -1 if there is none."""
    highest = (last_of(part, bookie) for part in parts)
    return max((last for last in highest if last is not None), default=-1)


def _reads_by_bookie(heard: Words) -> dict[BookieId, dict[EntryId, EntryRead]]:
    found: dict[BookieId, dict[EntryId, EntryRead]] = {}
    for (reader, entry), read in heard.reads.items():
        found.setdefault(reader, {})[entry] = read
    return found


def _corrupt_entries(heard: Words, counted: Tally) -> dict[EntryId, Worst]:
    """Return each entry with a corrupt copy on a bookie of its write set, with its copies."""
    found = {}
    for bookie, entry in heard.corrupt:
        among = counted.block_of(entry)
        if among is not None and bookie in among.block.stretch.bookies_of(entry):
            at = entry - among.block.low
            found[entry] = Worst(
                among.possible.at(at), among.confirmed.at(at), entry, among.block.stretch
            )
    return found


def _by_bookie(placed: Iterable[tuple[Stretch, T]]) -> dict[BookieId, list[T]]:
    """Group values that belong to stretches by the bookies of their ensembles.

    No bookie then walks through the stretches of all others.
    """
    found: dict[BookieId, list[T]] = {}
    for stretch, one in placed:
        for bookie in stretch.bookies:
            found.setdefault(bookie, []).append(one)
    return found


def is_written(parts: Sequence[Stretch], bookie: BookieId, entry: EntryId) -> bool:
    """Return whether the entry was written to the bookie; `parts` ascend."""
    at = bisect_left(parts, entry, key=lambda part: part.last)
    return at < len(parts) and parts[at].first <= entry and bookie in parts[at].bookies_of(entry)
