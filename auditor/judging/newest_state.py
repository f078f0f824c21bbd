"""Merge what was seen of the newest state of one ledger: the looks that saw the same metadata.

Pure. A bookie may say something else at each look. This module decides which statement counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from auditor.first_checker.coverage import Answers, Copy, Coverage, Denials, Reads, coverage
from auditor.first_checker.entries import Unserved
from auditor.first_checker.entry_set import EntrySet
from auditor.first_checker.ledger import gone_bookies
from auditor.first_checker.metadata import unknown_bookies
from auditor.first_checker.probing import ProbePlan
from auditor.first_checker.recheck import newest_state_start, same_state
from auditor.first_checker.schedule import held_entries
from auditor.model.availability import (
    ABSENT_READS,
    ANSWERED_READS,
    VALID_ANSWERS,
    Answer,
    AnswerStatus,
    EntryRead,
    ReadStatus,
)
from auditor.model.evidence import Look, Terms
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerState

READABLE_ANSWERS = VALID_ANSWERS | {AnswerStatus.UNSUPPORTED}
"""Answers after which a read on that bookie may add something."""

CORRUPT_READS_MIN = 2
"""A copy is reported only if this many looks read a wrong digest. Until then it is unknown."""


Lists = dict[tuple[int, BookieId], EntrySet]
"""Decoded lists by look and bookie."""


@dataclass(frozen=True, slots=True)
class NewestState:
    """Everything that was seen of one ledger, derived from its looks once.

    `looks` are oldest first. `answers` and `reads` have the newest conclusive statement of each
    bookie among the looks that saw the newest metadata (`_merge_looks`). `doubted` are the copies
    that too few of these looks read with a wrong digest. `unserved` has what bookies could not
    serve at any of them. `denials`: entries that bookies list and denied. `unknown`: the bookies
    from which the recovery of a ledger has no answer.
    """

    looks: Sequence[Look]
    terms: Terms
    answers: Answers
    reads: Reads
    doubted: frozenset[Copy]
    unserved: Unserved
    denials: Denials
    unknown: frozenset[BookieId]

    @classmethod
    def of(cls, looks: Sequence[Look], terms: Terms) -> NewestState:
        chain = looks[newest_state_start(looks) :]
        answers, reads = _merge_looks(chain, terms)
        away, newest = terms.around.maintenance, chain[-1].record.metadata
        is_in_recovery = newest is not None and newest.state is LedgerState.IN_RECOVERY
        return cls(
            looks,
            terms,
            answers,
            reads,
            _doubted_copies(chain, reads),
            Unserved.of(chain, away),
            _denials(chain, reads),
            unknown_bookies(chain, away) if is_in_recovery else frozenset(),
        )

    @property
    def newest(self) -> Look:
        return self.looks[-1]

    @property
    def plan(self) -> ProbePlan | None:
        """How bookies that cannot list are probed, None if they are not."""
        return ProbePlan.of(self.terms, self.newest.record.ledger_id)

    def coverage(self) -> Coverage:
        """Judge every copy of a ledger that has metadata. Costs most of a verdict."""
        metadata = self.newest.record.metadata
        assert metadata is not None, "only decoded ledgers have copies"
        return coverage(
            metadata,
            self.answers,
            self.reads,
            gone=gone_bookies(self.answers),
            probing=self.plan,
            denials=self.denials,
        )

    @property
    def is_stable(self) -> bool:
        """Whether the two newest looks saw the same metadata."""
        return len(self.looks) > 1 and same_state(self.looks[-2].record, self.newest.record)


def _merge_looks(chain: Sequence[Look], terms: Terms) -> tuple[Answers, Reads]:
    """Return the newest conclusive statement of each bookie in looks that saw the same metadata.

    "Cannot list" is conclusive if the bookie is probed instead. "Gone" cancels what the bookie
    listed before, and holds until the bookie is back. A wrong digest is conclusive too: neither a
    later failure to read nor a list makes the copy good. A failure that the bookie reports counts
    more than no answer.
    """
    if len(chain) == 1:
        return chain[0].answers, chain[0].reads
    conclusive = READABLE_ANSWERS if terms.probe_entries else VALID_ANSWERS
    answers: dict[BookieId, Answer] = {}
    reads: dict[Copy, EntryRead] = {}
    for look in chain:
        for bookie, answer in look.answers.items():
            says_something = answer.status in conclusive or answer.is_gone
            if (
                says_something
                or answers.get(bookie) is None
                or answers[bookie].status not in conclusive
            ):
                answers[bookie] = answer
        for key, read in look.reads.items():
            if key not in reads or _weight(read) >= _weight(reads[key]):
                reads[key] = read
    return answers, reads


def _doubted_copies(chain: Sequence[Look], reads: Reads) -> frozenset[Copy]:
    """Return the copies that were read with a wrong digest at too few looks to be reported."""
    wrong = (key for key, read in reads.items() if read.status is ReadStatus.CORRUPT)
    return frozenset(key for key in wrong if _times_wrong(chain, key) < CORRUPT_READS_MIN)


def _times_wrong(chain: Sequence[Look], key: Copy) -> int:
    """Return how many looks read a wrong digest since the last other conclusive read.

    Such a read brought a good copy or found none.
    """
    times = 0
    for look in chain:
        if _is_corrupt(look, key):
            times += 1
        elif key in look.reads and _conclusive(look.reads[key]):
            times = 0
    return times


def _is_corrupt(look: Look, key: Copy) -> bool:
    return key in look.reads and look.reads[key].status is ReadStatus.CORRUPT


def _denials(chain: Sequence[Look], reads: Reads) -> Denials:
    """Return, by bookie, the entries that it lists, and denied when they were last read
    conclusively.
    """
    times: dict[BookieId, dict[EntryId, int]] = {}
    lists: Lists = {}
    for copy in (key for key, read in reads.items() if read.status in ABSENT_READS):
        denied = _times_denied(chain, copy, lists)
        if denied:
            times.setdefault(copy[0], {})[copy[1]] = denied
    return times


def _times_denied(chain: Sequence[Look], key: Copy, lists: Lists) -> int:
    """Return how many looks listed the copy and read that it does not exist.

    Only looks since the last one that did not are counted. `lists` caches decoded lists.
    """
    times = 0
    for look in chain:
        read = look.reads.get(key)
        if read is None or not _conclusive(read):
            continue
        times = times + 1 if read.status in ABSENT_READS and _is_listed(look, key, lists) else 0
    return times


def _is_listed(look: Look, key: Copy, lists: Lists) -> bool:
    bookie, entry = key
    answer = look.answers.get(bookie)
    if answer is None or answer.status is not AnswerStatus.HELD:
        return False
    at = (look.record.look, bookie)
    if at not in lists:
        lists[at] = held_entries(answer.groups)
    return entry in lists[at]


def _weight(read: EntryRead) -> int:
    """Return how much a read says of its copy: a conclusive one most, an unanswered one least.

    A failure of the bookie is in between.
    """
    return 2 if _conclusive(read) else int(read.status is ReadStatus.FAILED)


def _conclusive(read: EntryRead) -> bool:
    return read.status in ANSWERED_READS
