"""One bookie's part of a ledger, by what was heard from it: a list and the reads behind it, probes, or nothing at all."""

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
"""Entries of an index page (pageSize 8192 / 8). A last entry whose id is a multiple of it may be missing from the list until
the page is flushed: the known tail defect (IndexInMemPageMgr; entry-availability.md section 6)."""


@dataclass(frozen=True, slots=True)
class BookieShare:
    """One bookie's part in one extent: what it should hold, surely lacks, may lack. The rest of `expected` is confirmed."""

    bookie_id: BookieId
    expected: EntrySet
    lacking: EntrySet
    """Said to lack, before any entry was read; empty without a valid answer."""
    absent: EntrySet
    unknown: EntrySet
    is_probed: bool = False
    """It cannot list, and is judged by entries read there."""


class Source(Protocol):
    """Whence it is known what one bookie holds. `reasons`: why the unknown part is."""

    @property
    def reasons(self) -> tuple[Unknown, ...]: ...

    def share(self, wants: EntrySet) -> BookieShare: ...


@dataclass(frozen=True, slots=True)
class Untold:
    """A bookie of which nothing was heard: it is gone and lacks everything, or nothing is known of it."""

    bookie_id: BookieId
    reasons: tuple[Unknown, ...] = ()
    is_gone: bool = False

    def share(self, wants: EntrySet) -> BookieShare:
        return BookieShare(self.bookie_id, wants, EMPTY, *((wants, EMPTY) if self.is_gone else (EMPTY, wants)))


@dataclass(frozen=True, slots=True)
class Probed:
    """A bookie that cannot list."""

    bookie_id: BookieId
    probed: ProbedBookie

    @property
    def reasons(self) -> tuple[Unknown, ...]:
        return self.probed.reasons

    def share(self, wants: EntrySet) -> BookieShare:
        return BookieShare(self.bookie_id, wants, EMPTY, *self.probed.judged(wants), is_probed=True)


@dataclass(frozen=True, slots=True)
class Sifter:
    """Splits what one bookie's list lacks into absent, present after all, and unknown, by the reads made there."""

    bookie_id: BookieId
    held: EntrySet
    confirmed: EntrySet
    present: frozenset[EntryId]
    rest_is_absent: bool
    corrupt: EntrySet
    reasons: tuple[Unknown, ...]

    @classmethod
    def of(
        cls, bookie: BookieId, answer: Answer, held: EntrySet, reads: Mapping[EntryId, EntryRead], wants: list[EntrySet]
    ) -> Sifter:
        """The unread rest counts as absent only when every read came back so, or was the known tail defect.

        A copy that was read and is corrupt is unknown, listed or not.
        """
        corrupt = [entry for entry, read in reads.items() if read.status is ReadStatus.CORRUPT]
        mine = {entry: read for entry, read in reads.items() if entry not in held}
        confirmed = [e for e, read in mine.items() if read.status in ABSENT_READS]
        present = frozenset(e for e, read in mine.items() if read.status is ReadStatus.PRESENT)
        failed = {e: REASON_OF_READ[read.status] for e, read in mine.items() if read.status in REASON_OF_READ}
        highest = max((w.last() for w in wants if w), default=-1)
        tail = {highest} if answer.status is AnswerStatus.HELD and highest % TAIL_PAGE_ENTRIES == 0 else set()
        honest = present <= tail and not failed
        reasons = {*failed.values()} if present <= tail and not corrupt else {*failed.values(), Unknown.ANSWER_INVALID}
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
        return BookieShare(self.bookie_id, wants, lacking, absent, (open_question - absent) | corrupt)
