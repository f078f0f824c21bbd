"""Judge one bookie's part of a ledger by its list and reads, by probes, or without any answer.

The source is chosen first. Verified of a list: it is a valid answer, and it does not have too many
runs to judge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from auditor.first_checker.entry_set import EMPTY, EntrySet
from auditor.first_checker.probing import (
    REASON_OF_ANSWER,
    REASON_OF_READ,
    ProbedBookie,
    ProbePlan,
    lacks_ledger,
    plan_probes,
)
from auditor.first_checker.schedule import GROUP_BYTES, foreign_runs
from auditor.model.availability import (
    ABSENT_READS,
    UNREADABLE_READS,
    VALID_ANSWERS,
    Answer,
    AnswerStatus,
    EntryRead,
    ReadStatus,
)
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerMetadata
from auditor.model.verdict import Unknown

TAIL_PAGE_ENTRIES = 1024
"""Entries of an index page (pageSize 8192 / 8).

Until the page is flushed, a list may lack a last entry whose id is a multiple of this. This is the
known tail defect (BookKeeper's IndexInMemPageMgr)."""


_SENT = frozenset({ReadStatus.PRESENT, ReadStatus.CORRUPT})
"""Results of a read that brought the entry."""


@dataclass(frozen=True, slots=True)
class BookieShare:
    """One bookie's part in one extent: what it should hold, surely lacks, may lack.

    The rest of `expected` is listed, read or, on a probed bookie, assumed. A listed entry is absent
    or unknown if reads of it say so.
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
    """A source of what is known about one bookie's entries.

    `reasons`: why some of them are unknown.
    """

    @property
    def reasons(self) -> tuple[Unknown, ...]: ...

    def share(self, wants: EntrySet) -> BookieShare: ...


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A bookie without a usable answer or probes.

    Everything that it should hold is absent if it is gone, else unknown.
    """

    bookie_id: BookieId
    reasons: tuple[Unknown, ...] = ()
    is_gone: bool = False

    def share(self, wants: EntrySet) -> BookieShare:
        absent, unknown = (wants, EMPTY) if self.is_gone else (EMPTY, wants)
        return BookieShare(self.bookie_id, wants, EMPTY, absent, unknown)


@dataclass(frozen=True, slots=True)
class ReadOnly:
    """A bookie that failed to list the ledger. Only entries that were read are known."""

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


Denied = Mapping[EntryId, int]
"""Entries that a bookie listed and denied when they were last read, each with a number of looks:
those that did so since any other conclusive read."""
NONE_DENIED: Denied = MappingProxyType({})
DENYING_LOOKS_MIN = 2
"""A listed entry counts as absent only if this many looks were told that there is no such entry."""


@dataclass(frozen=True, slots=True)
class Sifter:
    """Splits what one bookie should hold into listed, absent, present although unlisted, and
    unknown.

    It goes by the bookie's list and the reads made there. `lacks_ledger`: all of the share is
    absent, whatever the list says. The bookie denied a listed entry at two looks, its newest reads
    know no such ledger, and no read brought an entry.
    """

    bookie_id: BookieId
    held: EntrySet
    confirmed: EntrySet
    present: frozenset[EntryId]
    rest_is_absent: bool
    lacks_ledger: bool
    denied: EntrySet
    unknown: EntrySet
    reasons: tuple[Unknown, ...]

    @classmethod
    def of(
        cls,
        bookie: BookieId,
        answer: Answer,
        held: EntrySet,
        reads: Mapping[EntryId, EntryRead],
        wants: list[EntrySet],
        denied: Denied = NONE_DENIED,
    ) -> Sifter:
        """Return a sifter for a bookie's answer and its reads.

        The unread entries that the list lacks count as absent only if at least one read of such an
        entry found it absent, and all others did too or were the known tail defect. A copy that was
        read and is corrupt, or whose read failed, is unknown, listed or not. A listed entry that
        was denied is absent if the bookie denied some such entry at DENYING_LOOKS_MIN looks, else
        unknown.
        """
        corrupt = [entry for entry, read in reads.items() if read.status is ReadStatus.CORRUPT]
        unreadable = [e for e, read in reads.items() if read.status in UNREADABLE_READS]
        times = {e: looks for e, looks in denied.items() if e in reads and e in held}
        refuted = EntrySet.of_entries(times)
        is_sure = max(times.values(), default=0) >= DENYING_LOOKS_MIN
        mine = {entry: read for entry, read in reads.items() if entry not in held}
        confirmed = [e for e, read in mine.items() if read.status in ABSENT_READS]
        present = frozenset(e for e, read in mine.items() if read.status is ReadStatus.PRESENT)
        failed = {REASON_OF_READ[r.status] for r in mine.values() if r.status in REASON_OF_READ}
        has_only_tail = present <= _hideable_tail(answer, wants)
        honest = has_only_tail and not failed
        is_believed = has_only_tail and not corrupt and (is_sure or not refuted)
        reasons = failed | {REASON_OF_READ[reads[entry].status] for entry in unreadable}
        reasons |= set() if is_believed else {Unknown.ANSWER_INVALID}
        unknown = EntrySet.of_entries(unreadable)
        return cls(
            bookie_id=bookie,
            held=held,
            confirmed=EntrySet.of_entries(confirmed),
            present=present,
            rest_is_absent=honest and bool(confirmed),
            lacks_ledger=is_sure
            and lacks_ledger(reads.values())
            and not any(read.status in _SENT for read in reads.values()),
            denied=refuted if is_sure else EMPTY,
            unknown=unknown if is_sure else unknown | refuted,
            reasons=tuple(reasons or {Unknown.ANSWER_TIMEOUT}),
        )

    def share(self, wants: EntrySet) -> BookieShare:
        lacking = wants - self.held
        if self.lacks_ledger:
            return BookieShare(self.bookie_id, wants, lacking, wants, EMPTY)
        absent, unknown = wants & self.denied, wants & self.unknown
        if not lacking:
            return BookieShare(self.bookie_id, wants, EMPTY, absent, unknown)
        open_question = lacking - EntrySet.of_entries(self.present)
        unlisted = open_question if self.rest_is_absent else open_question & self.confirmed
        unknown = (open_question - unlisted) | unknown
        return BookieShare(self.bookie_id, wants, lacking, absent | unlisted, unknown)


def _hideable_tail(answer: Answer, wants: list[EntrySet]) -> set[EntryId]:
    """Return the last entry the bookie should hold, if the known tail defect may hide it."""
    highest = max((w.last() for w in wants if w), default=-1)
    is_hideable = answer.status is AnswerStatus.HELD and highest % TAIL_PAGE_ENTRIES == 0
    return {highest} if is_hideable else set()


FOREIGN_RUNS_MAX = 10_000
"""A list may hold at most this many runs in long progressions that striping does not make
(`schedule.foreign_runs`). A few bytes can describe more runs than could ever be judged. Above this
limit an answer is invalid, unless its bytes could have carried its runs one by one."""


@dataclass(frozen=True, slots=True)
class BookieEvidence:
    """What one bookie should hold, extent by extent, and what it said about that.

    `held` is what its answer lists, None if the answer is not usable. `reads` are those of entries
    that it should hold, `denied` those of them that it lists and denied.
    """

    bookie_id: BookieId
    wants: list[EntrySet]
    answer: Answer | None
    held: EntrySet | None
    reads: Mapping[EntryId, EntryRead]
    denied: Denied


def choose_source(seen: BookieEvidence, is_gone: bool, probing: ProbePlan | None) -> Source:
    """Return the source of what is known about this bookie's entries."""
    bookie, answer, wants = seen.bookie_id, seen.answer, seen.wants
    if is_gone:
        return Unanswered(bookie, is_gone=True)
    if answer is not None and seen.held is not None:
        return Sifter.of(bookie, answer, seen.held, seen.reads, wants, seen.denied)
    cannot_list = answer is not None and answer.status is AnswerStatus.UNSUPPORTED
    if probing is not None and cannot_list and any(wants):
        plan = plan_probes(probing, bookie, wants)
        return Probed(bookie, ProbedBookie.of(plan, wants, seen.reads))
    if answer is not None and answer.status is AnswerStatus.FAILED and seen.reads:
        return ReadOnly.of(bookie, seen.reads, _reason(answer))
    return Unanswered(bookie, reasons=(_reason(answer),))


def is_usable(answer: Answer, metadata: LedgerMetadata) -> bool:
    """Return whether the answer is valid and its runs are not too many to judge.

    Runs that were really sent one by one are believed, however many: the received bytes limit the
    cost.
    """
    runs_max = max(FOREIGN_RUNS_MAX, answer.received_bytes // GROUP_BYTES)
    return (
        answer.status in VALID_ANSWERS
        and foreign_runs(answer.groups, metadata.ensemble_size) <= runs_max
    )


def _reason(answer: Answer | None) -> Unknown:
    """Return why nothing is known of what a bookie holds.

    A valid answer that is not usable counts as ANSWER_INVALID, no answer as BOOKIE_SILENT.
    """
    if answer is None:
        return Unknown.BOOKIE_SILENT
    return REASON_OF_ANSWER.get(answer.status, Unknown.ANSWER_INVALID)
