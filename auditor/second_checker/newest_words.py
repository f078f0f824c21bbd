"""The second checker's own reading of the evidence: which looks count, and the newest word of each bookie among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from auditor.model.availability import Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.evidence import Look, Terms
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerRecord

LOOKS_OF_CORRUPTION = 2
"""A wrong digest accuses when so many looks read it."""

_SPOKEN = {AnswerStatus.HELD, AnswerStatus.NO_SUCH_LEDGER}
_READ = {ReadStatus.PRESENT, ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER, ReadStatus.CORRUPT}


@dataclass(frozen=True, slots=True)
class Words:
    """What the looks at the newest state of the metadata heard.

    `answers` and `reads`: the newest word that says something, else the newest word; a wrong digest says something. What a
    bookie listed before it was gone is not looked at.
    `corrupt`: copies read with a wrong digest at two looks, and at none of them or since in any other way.
    """

    record: LedgerRecord
    looks: tuple[Look, ...]
    answers: Mapping[BookieId, Answer]
    reads: Mapping[tuple[BookieId, EntryId], EntryRead]
    corrupt: frozenset[tuple[BookieId, EntryId]]

    @property
    def asked(self) -> int:
        """Looks of them at which bookies were asked."""
        return sum(1 for look in self.looks if look.answers)


def is_same_write(one: LedgerRecord, other: LedgerRecord) -> bool:
    """Whether two readings found the same write of the same znode, or failed in the same way."""
    return (one.status, one.stamp) == (other.status, other.stamp)


def words(looks: Sequence[Look], terms: Terms) -> Words:
    """Read the looks from the newest backwards, as far as they saw the same metadata."""
    newest = looks[-1].record
    spoken = _SPOKEN | {AnswerStatus.UNSUPPORTED} if terms.probe_entries > 0 else _SPOKEN
    chain: list[Look] = []
    answers: dict[BookieId, Answer] = {}
    reads: dict[tuple[BookieId, EntryId], EntryRead] = {}
    wrong: dict[tuple[BookieId, EntryId], int] = {}
    otherwise: set[tuple[BookieId, EntryId]] = set()
    was_gone: set[BookieId] = set()
    for look in reversed(looks):
        if not is_same_write(look.record, newest):
            break
        chain.append(look)
        for bookie, answer in look.answers.items():
            kept = answers.setdefault(bookie, answer)
            if bookie not in was_gone and kept.status not in spoken and answer.status in spoken:
                answers[bookie] = answer
            if answer.is_gone:
                was_gone.add(bookie)
        for key, read in look.reads.items():
            before = reads.get(key)
            if before is None or (before.status not in _READ and read.status in _READ):
                reads[key] = read
            if read.status is ReadStatus.CORRUPT and key not in otherwise:
                wrong[key] = wrong.get(key, 0) + 1
            elif read.status in _READ:
                otherwise.add(key)
    corrupt = frozenset(key for key, times in wrong.items() if times >= LOOKS_OF_CORRUPTION)
    return Words(newest, tuple(reversed(chain)), answers, reads, corrupt)
