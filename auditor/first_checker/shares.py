"""Judge one bookie's part of a ledger by its list and reads, by probes, or without any answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from auditor.first_checker.entry_set import EMPTY, EntrySet
from auditor.first_checker.probing import ProbedBookie
from auditor.first_checker.reasons import REASON_OF_READ
from auditor.model.availability import ABSENT_READS, Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.identity import BookieId, EntryId
from auditor.model.verdict import Unknown

TAIL_PAGE_ENTRIES = 1024
"""Entries of an index page (pageSize 8192 / 8). The list may lack a last entry whose id is a
multiple of it until the page is flushed. This is the known tail defect (IndexInMemPageMgr;
entry-availability.md section 6)."""


@dataclass(frozen=True, slots=True)
class BookieShare:
    """One bookie's part in one extent: what it should hold, surely lacks, may lack.

    The rest of `expected` is listed, read or, on a probed bookie, assumed.
    """

    bookie_id: BookieId
    expected: EntrySet
    lacking: EntrySet
    """What its list lacks, before any entry was read. Empty without a valid answer."""
    absent: EntrySet
    unknown: EntrySet
    is_probed: bool = False
    """The bookie cannot list, and is judged by entries read there."""


class Source(Protocol):
    """Where our knowledge of one bookie's entries comes from.

    `reasons`: why some of them are unknown.
    """

    @property
    def reasons(self) -> tuple[Unknown, ...]: ...

    def share(self, wants: EntrySet) -> BookieShare: ...


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A bookie without a usable answer or probes.

    All it should hold is absent if it is gone, else unknown.
    """

    bookie_id: BookieId
    reasons: tuple[Unknown, ...] = ()
    is_gone: bool = False

    def share(self, wants: EntrySet) -> BookieShare:
        absent, unknown = (wants, EMPTY) if self.is_gone else (EMPTY, wants)
        return BookieShare(self.bookie_id, wants, EMPTY, absent, unknown)


@dataclass(frozen=True, slots=True)
class ReadOnly:
    """A bookie that failed to list the ledger: known of it is what was read, entry by entry."""

    bookie_id: BookieId
    present: EntrySet
    absent: EntrySet
    reasons: tuple[Unknown, ...]

    @classmethod
    def of(cls, bookie: BookieId, reads: Mapping[EntryId, EntryRead], reason: Unknown) -> ReadOnly:
        """Return what the reads show. `reason`: why every other entry is unknown."""
        present = [e for e, read in reads.items() if read.status is ReadStatus.PRESENT]
        absent = [e for e, read in reads.items() if read.status in ABSENT_READS]
        reasons = {REASON_OF_READ[r.status] for r in reads.values() if r.status in REASON_OF_READ}
        return cls(
            bookie,
            EntrySet.of_entries(sorted(present)),
            EntrySet.of_entries(sorted(absent)),
            tuple({reason, *reasons}),
        )

    def share(self, wants: EntrySet) -> BookieShare:
        absent = wants & self.absent
        return BookieShare(self.bookie_id, wants, EMPTY, absent, wants - self.present - absent)


@dataclass(frozen=True, slots=True)
class Probed:
    """A bookie that cannot list, judged by probes."""

    bookie_id: BookieId
    probed: ProbedBookie

    @property
    def reasons(self) -> tuple[Unknown, ...]:
        return self.probed.reasons

    def share(self, wants: EntrySet) -> BookieShare:
        absent, unknown = self.probed.split_share(wants)
        return BookieShare(self.bookie_id, wants, EMPTY, absent, unknown, is_probed=True)


@dataclass(frozen=True, slots=True)
class Sifter:
    """Splits what one bookie's list lacks into absent, present after all, and unknown, by reads."""

    bookie_id: BookieId
    held: EntrySet
    confirmed: EntrySet
    present: frozenset[EntryId]
    rest_is_absent: bool
    corrupt: EntrySet
    reasons: tuple[Unknown, ...]

    @classmethod
    def of(
        cls,
        bookie: BookieId,
        answer: Answer,
        held: EntrySet,
        reads: Mapping[EntryId, EntryRead],
        wants: list[EntrySet],
    ) -> Sifter:
        """Return a sifter for a bookie's answer and its reads.

        The unread rest counts as absent only if every read found its entry absent, or was the known
        tail defect, and at least one read found its entry absent. A copy that was read and is
        corrupt is unknown, listed or not.
        """
        corrupt = [entry for entry, read in reads.items() if read.status is ReadStatus.CORRUPT]
        mine = {entry: read for entry, read in reads.items() if entry not in held}
        confirmed = [e for e, read in mine.items() if read.status in ABSENT_READS]
        present = frozenset(e for e, read in mine.items() if read.status is ReadStatus.PRESENT)
        failed = {REASON_OF_READ[r.status] for r in mine.values() if r.status in REASON_OF_READ}
        has_only_tail = present <= _hideable_tail(answer, wants)
        honest = has_only_tail and not failed
        reasons = failed if has_only_tail and not corrupt else {*failed, Unknown.ANSWER_INVALID}
        return cls(
            bookie_id=bookie,
            held=held,
            confirmed=EntrySet.of_entries(confirmed),
            present=present,
            rest_is_absent=honest and bool(confirmed),
            corrupt=EntrySet.of_entries(corrupt),
            reasons=tuple(reasons or {Unknown.ANSWER_TIMEOUT}),
        )

    def share(self, wants: EntrySet) -> BookieShare:
        lacking, corrupt = wants - self.held, wants & self.corrupt
        if not lacking:
            return BookieShare(self.bookie_id, wants, EMPTY, EMPTY, corrupt)
        open_question = lacking - EntrySet.of_entries(self.present)
        absent = open_question if self.rest_is_absent else open_question & self.confirmed
        unknown = (open_question - absent) | corrupt
        return BookieShare(self.bookie_id, wants, lacking, absent, unknown)


def _hideable_tail(answer: Answer, wants: list[EntrySet]) -> set[EntryId]:
    """Return the last entry the bookie should hold, if the known tail defect may hide it."""
    highest = max((w.last() for w in wants if w), default=-1)
    is_hideable = answer.status is AnswerStatus.HELD and highest % TAIL_PAGE_ENTRIES == 0
    return {highest} if is_hideable else set()
