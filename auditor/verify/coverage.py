"""The durability contract (BP-34): every entry on each bookie of its round-robin write set, closed form.

Verified: for every entry of every clear extent of a closed ledger, how many distinct bookies of its write set hold it, lack
it (the list lacks it and reading it there says so), or gave no valid answer.
Not verified, because nothing short of reading every entry could: that a listed entry can be read (the list is made from the
index), and that copies beyond the write set are of any use (an extra entry is no violation).

An entry that a list lacks is only a suspect: bookies leave readable entries out of the list for hours
(entry-availability.md section 6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from auditor.model.availability import ABSENT_READS, VALID_ANSWERS, Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerMetadata
from auditor.model.verdict import Unknown
from auditor.verify.entry_set import EMPTY, EntrySet
from auditor.verify.schedule import (
    GROUP_BYTES,
    Extent,
    expected,
    expected_groups,
    extents,
    foreign_runs,
    held_entries,
    positions,
)

TAIL_PAGE_ENTRIES = 1024
"""Entries of an index page (pageSize 8192 / 8). A last entry whose id is a multiple of it may be missing from the list until
the page is flushed: the known tail defect (IndexInMemPageMgr; entry-availability.md section 6)."""

FOREIGN_RUNS_MAX = 10_000
"""Runs that one list may tell in long progressions foreign to striping (`schedule.foreign_runs`). Bookies list run by run and
hold stripes; a few bytes can speak of more runs than could ever be judged. Beyond it, and beyond the runs that the bytes
received can have carried one by one, the answer is invalid."""

REASON_OF_ANSWER: dict[AnswerStatus, Unknown] = {
    AnswerStatus.SILENT: Unknown.BOOKIE_SILENT,
    AnswerStatus.UNREGISTERED: Unknown.BOOKIE_SILENT,
    AnswerStatus.TIMED_OUT: Unknown.ANSWER_TIMEOUT,
    AnswerStatus.REFUSED: Unknown.BOOKIE_REFUSED,
    AnswerStatus.INVALID: Unknown.ANSWER_INVALID,
    AnswerStatus.TOO_LARGE: Unknown.ANSWER_TOO_LARGE,
    AnswerStatus.UNSUPPORTED: Unknown.BOOKIE_UNSUPPORTED,
    AnswerStatus.ADDRESS_UNKNOWN: Unknown.ADDRESS_UNKNOWN,
}

REASON_OF_READ: dict[ReadStatus, Unknown] = {
    ReadStatus.SILENT: Unknown.BOOKIE_SILENT,
    ReadStatus.UNREGISTERED: Unknown.BOOKIE_SILENT,
    ReadStatus.TIMED_OUT: Unknown.ANSWER_TIMEOUT,
    ReadStatus.REFUSED: Unknown.BOOKIE_REFUSED,
    ReadStatus.INVALID: Unknown.ANSWER_INVALID,
    ReadStatus.TOO_LARGE: Unknown.ANSWER_TOO_LARGE,
    ReadStatus.ADDRESS_UNKNOWN: Unknown.ADDRESS_UNKNOWN,
}

Answers = Mapping[BookieId, Answer]
Reads = Mapping[tuple[BookieId, EntryId], EntryRead]


def is_healthy(metadata: LedgerMetadata, answers: Answers) -> bool:
    """The healthy path: one segment, distinct bookies, and each answer equal to the canonical form of what is expected.

    True means every entry has its full write quorum. False means nothing but that the ledger needs the closer look of
    `coverage`. Costs one comparison a bookie.
    """
    found = extents(metadata)
    if len(found) != 1 or len(metadata.segments) != 1:
        return False
    extent, size, quorum = found[0], metadata.ensemble_size, metadata.write_quorum
    ensemble = extent.segment.ensemble
    if len(set(ensemble)) != len(ensemble):
        return False
    for position, bookie in enumerate(ensemble):
        groups = expected_groups(extent.first_entry_id, extent.last_entry_id, position, size, quorum)
        if not groups and groups is not None:
            continue
        answer = answers.get(bookie)
        if answer is None or answer.status is not AnswerStatus.HELD or answer.groups != groups:
            return False
    return True


@dataclass(frozen=True, slots=True)
class BookieShare:
    """One bookie's part in one extent: what it should hold, surely lacks, may lack. The rest of `expected` is confirmed."""

    bookie_id: BookieId
    expected: EntrySet
    lacking: EntrySet
    """Said to lack, before any entry was read; empty without a valid answer."""
    absent: EntrySet
    unknown: EntrySet


@dataclass(frozen=True, slots=True)
class ExtentCoverage:
    """One extent with every distinct bookie of its ensemble. `surplus` are the entries for which a duplicate bookie stands in
    the write set once more than it can hold copies: one set for each further time."""

    extent: Extent
    shares: tuple[BookieShare, ...]
    surplus: tuple[EntrySet, ...]


@dataclass(frozen=True, slots=True)
class Coverage:
    """The whole ledger. `unknowns` are the reasons for unknown entries, in the catalogue's order."""

    extents: tuple[ExtentCoverage, ...]
    unknowns: tuple[Unknown, ...]
    false_negatives: int
    held: Mapping[BookieId, EntrySet]
    """What each validly answering bookie holds, beyond its share too."""


def coverage(metadata: LedgerMetadata, answers: Answers, reads: Reads) -> Coverage:
    """Judge every clear extent from what the bookies said. Costs groups and missing runs, never entries."""
    held = {b: held_entries(a.groups) for b, a in answers.items() if _is_usable(a, metadata)}
    wanted = [(extent, _expected_by_bookie(extent, metadata)) for extent in extents(metadata)]
    reasons: set[Unknown] = set()
    sifters = {b: _Sifter.of(b, answers[b], held[b], reads, [w.get(b, EMPTY) for _, w in wanted]) for b in held}
    judged = []
    for extent, shares_of in wanted:
        shares = []
        for bookie, wants in shares_of.items():
            sifter = sifters.get(bookie)
            if sifter is None:
                share = BookieShare(bookie, wants, EMPTY, EMPTY, wants)
                if wants:
                    reasons.add(_reason(answers.get(bookie)))
            else:
                share = sifter.share(wants)
                if share.unknown:
                    reasons.update(sifter.reasons)
            shares.append(share)
        judged.append(ExtentCoverage(extent, tuple(shares), _surplus(extent, metadata)))
    false_negatives = sum(len(sifter.present) for sifter in sifters.values())
    return Coverage(tuple(judged), tuple(r for r in Unknown if r in reasons), false_negatives, held)


def _is_usable(answer: Answer, metadata: LedgerMetadata) -> bool:
    """Runs that were really sent one by one are believed, however many: then the bytes received bound the cost."""
    runs_max = max(FOREIGN_RUNS_MAX, answer.received_bytes // GROUP_BYTES)
    return answer.status in VALID_ANSWERS and foreign_runs(answer.groups, metadata.ensemble_size) <= runs_max


def _reason(answer: Answer | None) -> Unknown:
    """Why nothing is known of what a bookie holds; a valid answer that is not usable says nothing either."""
    return REASON_OF_ANSWER.get(answer.status, Unknown.ANSWER_INVALID) if answer else Unknown.BOOKIE_SILENT


def _expected_by_bookie(extent: Extent, metadata: LedgerMetadata) -> dict[BookieId, EntrySet]:
    at = positions(extent.segment.ensemble)
    return {b: expected(extent, p, metadata.ensemble_size, metadata.write_quorum) for b, p in at.items()}


def _surplus(extent: Extent, metadata: LedgerMetadata) -> tuple[EntrySet, ...]:
    """For a bookie at positions p and q, the entries whose write set contains both: two promised copies are one on disk."""
    found: list[EntrySet] = []
    for at in positions(extent.segment.ensemble).values():
        seen = EMPTY
        for position in at if len(at) > 1 else ():
            window = expected(extent, (position,), metadata.ensemble_size, metadata.write_quorum)
            again = seen & window
            if again:
                found.append(again)
            seen = seen | window
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Sifter:
    """Splits what one bookie's list lacks into absent, present after all, and unknown, by the reads made there."""

    bookie_id: BookieId
    held: EntrySet
    confirmed: EntrySet
    present: frozenset[EntryId]
    failed: EntrySet
    rest_is_absent: bool
    reasons: tuple[Unknown, ...]

    @classmethod
    def of(cls, bookie: BookieId, answer: Answer, held: EntrySet, reads: Reads, wants: list[EntrySet]) -> _Sifter:
        """The unread rest counts as absent only when every read came back so, or was the known tail defect."""
        mine = {entry: read for (b, entry), read in reads.items() if b == bookie and entry not in held}
        confirmed = [e for e, read in mine.items() if read.status in ABSENT_READS]
        present = frozenset(e for e, read in mine.items() if read.status is ReadStatus.PRESENT)
        failed = {e: REASON_OF_READ[read.status] for e, read in mine.items() if read.status in REASON_OF_READ}
        highest = max((w.last() for w in wants if w), default=-1)
        tail = {highest} if answer.status is AnswerStatus.HELD and highest % TAIL_PAGE_ENTRIES == 0 else set()
        honest = present <= tail and not failed
        reasons = set(failed.values()) if present <= tail else {*failed.values(), Unknown.ANSWER_INVALID}
        return cls(
            bookie_id=bookie,
            held=held,
            confirmed=EntrySet.of_entries(confirmed),
            present=present,
            failed=EntrySet.of_entries(failed),
            rest_is_absent=honest and bool(confirmed),
            reasons=tuple(reasons or {Unknown.ANSWER_TIMEOUT}),
        )

    def share(self, wants: EntrySet) -> BookieShare:
        lacking = wants - self.held
        if not lacking:
            return BookieShare(self.bookie_id, wants, EMPTY, EMPTY, EMPTY)
        open_question = lacking - EntrySet.of_entries(self.present)
        absent = open_question if self.rest_is_absent else open_question & self.confirmed
        return BookieShare(self.bookie_id, wants, lacking, absent, open_question - absent)
