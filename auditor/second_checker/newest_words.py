"""Which looks count for the second checker, and the newest word of each bookie among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from auditor.model.availability import Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.evidence import Look, Terms
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerRecord
from auditor.second_checker.listed_groups import Group, groups_of, names

LOOKS_OF_CORRUPTION = 2
"""Looks that must read a wrong digest before a copy is reported as corrupt."""

_SPOKEN = {AnswerStatus.HELD, AnswerStatus.NO_SUCH_LEDGER}
_DENIED = {ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER}
_READ = {ReadStatus.PRESENT, ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER, ReadStatus.CORRUPT}


@dataclass(frozen=True, slots=True)
class Words:
    """What bookies said at the looks that saw the newest state of the metadata.

    `answers` and `reads` have the newest conclusive word, else the newest word. A wrong digest is
    conclusive. A list that a bookie gave before it was gone is ignored.

    `corrupt`: copies read with a wrong digest at LOOKS_OF_CORRUPTION looks, and not conclusively in
    any other way since the first of these. `out`: bookies not in maintenance that every look that
    asked found unregistered. `failed`: copies on the others that some look failed to read and no
    look read: at each the bookie failed, lacked the entry or was not registered.

    `denied`: copies that were last read as not being there, at a look at which their bookie listed
    them, with the number of such looks since any other conclusive read.
    """

    record: LedgerRecord
    looks: tuple[Look, ...]
    answers: Mapping[BookieId, Answer]
    reads: Mapping[tuple[BookieId, EntryId], EntryRead]
    corrupt: frozenset[tuple[BookieId, EntryId]]
    out: frozenset[BookieId] = frozenset()
    failed: frozenset[tuple[BookieId, EntryId]] = frozenset()
    denied: Mapping[tuple[BookieId, EntryId], int] = field(default_factory=dict)


def is_same_write(one: LedgerRecord, other: LedgerRecord) -> bool:
    """Return whether two readings found the same write of a znode, or failed in the same way."""
    return (one.status, one.stamp) == (other.status, other.stamp)


def asked_looks(looks: Sequence[Look]) -> int:
    """Return at how many looks bookies were asked, as far back as they saw the newest metadata."""
    newest = looks[-1].record
    saw_it = takewhile(lambda look: is_same_write(look.record, newest), reversed(looks))
    return sum(bool(look.answers) for look in saw_it)


def words(looks: Sequence[Look], terms: Terms) -> Words:
    """Return what bookies said at the newest looks, as far back as they saw the same metadata."""
    newest = looks[-1].record
    spoken = _SPOKEN | {AnswerStatus.UNSUPPORTED} if terms.probe_entries > 0 else _SPOKEN
    chain: list[Look] = []
    answers: dict[BookieId, Answer] = {}
    reads: dict[tuple[BookieId, EntryId], EntryRead] = {}
    wrong: dict[tuple[BookieId, EntryId], int] = {}
    denied: dict[tuple[BookieId, EntryId], int] = {}
    undenied: set[tuple[BookieId, EntryId]] = set()
    otherwise: set[tuple[BookieId, EntryId]] = set()
    was_gone: set[BookieId] = set()
    for look in reversed(looks):
        if not is_same_write(look.record, newest):
            break
        chain.append(look)
        lists: dict[BookieId, tuple[Group, ...]] = {}
        for bookie, answer in look.answers.items():
            kept = answers.setdefault(bookie, answer)
            if bookie not in was_gone and kept.status not in spoken and answer.status in spoken:
                answers[bookie] = answer
            if answer.is_gone:
                was_gone.add(bookie)
        for key, read in look.reads.items():
            before = reads.get(key)
            if before is None or _says_more(read, before):
                reads[key] = read
            if read.status in _DENIED and key not in undenied and _is_named(look, key, lists):
                denied[key] = denied.get(key, 0) + 1
            elif read.status in _READ:
                undenied.add(key)
            if read.status is ReadStatus.CORRUPT and key not in otherwise:
                wrong[key] = wrong.get(key, 0) + 1
            elif read.status in _READ:
                otherwise.add(key)
    corrupt = frozenset(key for key, times in wrong.items() if times >= LOOKS_OF_CORRUPTION)
    away = terms.around.maintenance
    out, failed = _out_of_service([look for look in chain if look.answers])
    return Words(
        newest,
        tuple(reversed(chain)),
        answers,
        reads,
        corrupt,
        frozenset(out - away),
        frozenset(copy for copy in failed if copy[0] not in away),
        denied,
    )


def _out_of_service(
    asked: Sequence[Look],
) -> tuple[set[BookieId], set[tuple[BookieId, EntryId]]]:
    """Return the bookies that no look found registered, and the copies that none could read.

    A look that did not read a copy on a registered bookie leaves it open.
    """
    unseen: dict[BookieId, int] = {}
    unread: dict[tuple[BookieId, EntryId], int] = {}
    tried = {key for look in asked for key, read in look.reads.items() if read.status == "failed"}
    for look in asked:
        missing = {b for b, one in look.answers.items() if one.status is AnswerStatus.UNREGISTERED}
        for bookie in missing:
            unseen[bookie] = unseen.get(bookie, 0) + 1
        for bookie, entry in tried:
            read = look.reads.get((bookie, entry))
            is_bad = read is not None and read.status in ("failed", "no_entry", "no_ledger")
            if is_bad or bookie in missing:
                unread[bookie, entry] = unread.get((bookie, entry), 0) + 1
    looks = len(asked)
    return (
        {bookie for bookie, times in unseen.items() if times == looks},
        {key for key, times in unread.items() if times == looks},
    )


def _says_more(older: EntryRead, newer: EntryRead) -> bool:
    """Return whether an older read counts although there is a newer one.

    A conclusive read counts before any other, and a failure of the bookie before no answer.
    """
    if newer.status in _READ:
        return False
    return older.status in _READ or (
        older.status is ReadStatus.FAILED and newer.status is not ReadStatus.FAILED
    )


def _is_named(
    look: Look, copy: tuple[BookieId, EntryId], lists: dict[BookieId, tuple[Group, ...]]
) -> bool:
    """Return whether the bookie listed the entry at this look. `lists` keeps decoded lists."""
    bookie, entry = copy
    if bookie not in look.answers or look.answers[bookie].status is not AnswerStatus.HELD:
        return False
    if bookie not in lists:
        lists[bookie] = groups_of(look.answers[bookie])
    return names(lists[bookie], entry)
