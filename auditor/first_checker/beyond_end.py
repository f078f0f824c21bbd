"""What lies above the end of a closed ledger, and whether acknowledged entries were cut off.

Each bookie of the ledger is asked for a list, even if the metadata promises it no entry. The
highest entry above lastEntryId that a bookie lists is read. A bookie that cannot list is asked for
the highest entry that it stores.

Verified: which entries above the end each bookie lists or sent. An entry's header names the last
entry that the writer knew to be acknowledged (lastAddConfirmed), and its digest covers this. A
header that names an entry above the end proves that the end cut off acknowledged entries.

Not verified: whether an entry was acknowledged that no header names; entries that are on none of
the bookies that answered; the headers of a ledger whose digest type is DUMMY or unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from auditor.first_checker.confirmation import Wanted
from auditor.first_checker.coverage import Answers, Coverage, Reads
from auditor.first_checker.entry_set import EMPTY, EntrySet
from auditor.first_checker.metadata import is_longer_than_its_end
from auditor.first_checker.probing import REASON_OF_ANSWER, REASON_OF_READ
from auditor.first_checker.schedule import questions
from auditor.model.availability import (
    ABSENT_READS,
    ANSWERED_READS,
    HIGHEST_STORED,
    AnswerStatus,
    EntryRead,
    ReadStatus,
)
from auditor.model.facts import BeyondEndFacts, EndHeader, HeldBeyondEnd
from auditor.model.finding import RANGES_MAX, Finding, Kind
from auditor.model.identity import ENTRY_ID_MAX, BookieId, EntryId, LedgerId
from auditor.model.ledger import LedgerMetadata, LedgerState
from auditor.model.verdict import Unknown

END_READS_MAX = 3
"""At most this many entries above the end are read on one bookie at one look: if the highest one
cannot be read, the next lower one is."""

ORDER_READS_MAX = 4
"""At most this many entries below the last one are read if the ledger's length exceeds that of its
last entry."""


@dataclass(frozen=True, slots=True)
class BeyondEnd:
    """What lies above the end of a closed ledger, according to lists and reads."""

    ledger_id: LedgerId
    facts: BeyondEndFacts
    entries: EntrySet
    """The entries that at least one bookie holds."""

    @classmethod
    def of(
        cls,
        ledger_id: LedgerId,
        metadata: LedgerMetadata,
        answers: Answers,
        seen: Coverage,
        reads: Reads,
    ) -> BeyondEnd | None:
        """Return what lies above the end. None if nothing does, or the ledger has no end.

        Entries count if a list names them or a read found them, unless the newest read found them
        absent, or the bookie's list of a later look lacks them. A header proves what it says even
        then. Costs the pieces that bookies list above the end.
        """
        last = metadata.last_entry_id
        if not _has_end(metadata) or last is None:
            return None
        held = {
            bookie: above
            for bookie, entries in seen.held.items()
            if (above := _above(entries, last))
        }
        standing: list[EntryRead] = []
        overtaken: list[EntryRead] = []
        for (bookie, _), read in sorted(reads.items()):
            entry = read.sent_entry_id
            if entry <= last:
                continue
            single = EntrySet.span(entry, entry)
            if read.status in ABSENT_READS:
                held[bookie] = held.get(bookie, EMPTY) - single
            elif read.status is ReadStatus.PRESENT:
                if bookie in seen.held and answers[bookie].look > read.look:
                    overtaken.append(read)
                    continue
                standing.append(read)
                if bookie not in seen.gone:
                    held[bookie] = held.get(bookie, EMPTY) | single
        header: EndHeader | None = None
        for read in (*standing, *overtaken):
            header = _better(header, read)
        held = {bookie: entries for bookie, entries in held.items() if entries}
        if not held and not _names_beyond(header, last):
            return None
        held_on = tuple(
            HeldBeyondEnd(b, held[b].ranges(RANGES_MAX), held[b].count(), b in seen.held)
            for b in sorted(held)
        )
        everything = EMPTY
        for entries in held.values():
            everything = everything | entries
        facts = BeyondEndFacts(last, metadata.ack_quorum, held_on, header)
        return cls(ledger_id, facts, everything)

    @property
    def is_cut_off(self) -> bool:
        """Whether a header proves that acknowledged entries lie above the end."""
        return _names_beyond(self.facts.header, self.facts.last_entry_id)

    @property
    def finding(self) -> Finding:
        """LEDGER_CLOSED_SHORT on the entries that a header proves to be acknowledged. Without such
        a header, ENTRIES_BEYOND_END on the entries that bookies hold.
        """
        last, header = self.facts.last_entry_id, self.facts.header
        kind, entries = Kind.ENTRIES_BEYOND_END, self.entries
        if header is not None and self.is_cut_off:
            kind = Kind.LEDGER_CLOSED_SHORT
            entries = EntrySet.span(max(0, last + 1), header.last_confirmed)
        return Finding(
            kind,
            self.facts,
            ledger_id=self.ledger_id,
            entries=entries.ranges(RANGES_MAX),
            entries_total=entries.count(),
        )


def end_reads(
    metadata: LedgerMetadata, answers: Answers, seen: Coverage, reads: Reads, *, probes: bool
) -> Wanted:
    """Return the (bookie, entry) pairs still to be read above the end at this look.

    `reads` are those of this look. `probes`: bookies that cannot list may be read. Costs the pieces
    that bookies list above the end.
    """
    last = metadata.last_entry_id
    if not _has_end(metadata) or last is None:
        return ()
    wanted: list[tuple[BookieId, EntryId]] = []
    for bookie, answer in answers.items():
        if answer.status is AnswerStatus.UNSUPPORTED and probes:
            read = reads.get((bookie, HIGHEST_STORED))
            if read is None:
                wanted.append((bookie, HIGHEST_STORED))
            elif read.status is ReadStatus.CORRUPT:
                below = EntrySet.span(last + 1, read.sent_entry_id - 1)
                wanted.extend(_next_read(bookie, below, reads))
        elif bookie in seen.held:
            wanted.extend(_next_read(bookie, _above(seen.held[bookie], last), reads))
    return tuple(wanted)


def _next_read(
    bookie: BookieId, above: EntrySet, reads: Reads
) -> Iterator[tuple[BookieId, EntryId]]:
    """Yield the highest entry that this look has not read, unless it has read one already."""
    for _ in range(END_READS_MAX):
        if not above:
            return
        highest = above.last()
        read = reads.get((bookie, highest))
        if read is None:
            yield bookie, highest
            return
        if read.status is ReadStatus.PRESENT:
            return
        above = above - EntrySet.span(highest, highest)


def order_reads(metadata: LedgerMetadata, seen: Coverage, reads: Reads) -> Wanted:
    """Return the (bookie, entry) pairs to read before too large a length counts as a contradiction.

    They are the entries below the last one, each on every bookie of its write set that was not read
    for it. A writer that sets the entry ids itself may have sent one of them later. `reads` are
    those of all looks.
    """
    last = metadata.last_entry_id
    if last is None or not seen.extents or not is_longer_than_its_end(metadata, reads):
        return ()
    lower = range(last - 1, max(-1, last - 1 - ORDER_READS_MAX), -1)
    shares = [share for coverage in seen.extents for share in coverage.shares]
    return tuple(
        (share.bookie_id, entry)
        for entry in lower
        for share in shares
        if entry in share.expected and (share.bookie_id, entry) not in reads
    )


@dataclass(frozen=True, slots=True)
class EmptyLedger:
    """What bookies said of a ledger that is closed without entries.

    `unheard`: the bookies that did not say whether they hold an entry of it, with the reason.
    Bookies that are gone are among them: nobody can say what they held.
    """

    ack_quorum: int
    unheard: Mapping[BookieId, Unknown]

    @classmethod
    def of(
        cls,
        metadata: LedgerMetadata,
        answers: Answers,
        seen: Coverage,
        reads: Reads,
        *,
        probes: bool,
    ) -> EmptyLedger | None:
        """Return what bookies said; None for any other ledger.

        `probes`: bookies that cannot list are read.
        """
        if metadata.state is not LedgerState.CLOSED or metadata.last_entry_id != -1:
            return None
        unheard: dict[BookieId, Unknown] = {}
        for bookie, _ in questions(metadata):
            answer, read = answers.get(bookie), reads.get((bookie, HIGHEST_STORED))
            if bookie in seen.held:
                continue
            if answer is None:
                unheard[bookie] = Unknown.BOOKIE_SILENT
            elif answer.status is not AnswerStatus.UNSUPPORTED or not probes or read is None:
                unheard[bookie] = REASON_OF_ANSWER.get(answer.status, Unknown.ANSWER_INVALID)
            elif read.status not in ANSWERED_READS:
                unheard[bookie] = REASON_OF_READ[read.status]
        return cls(metadata.ack_quorum, unheard)

    @property
    def is_shown(self) -> bool:
        """Whether enough bookies said something: an acknowledged entry was on an ack quorum of
        them.
        """
        return len(self.unheard) < max(1, self.ack_quorum)


def has_sent_beyond_end(metadata: LedgerMetadata, reads: Reads) -> bool:
    """Return whether a read at any look brought an entry above the end of a closed ledger.

    Its header is proof even if no list names the entry any more.
    """
    last = metadata.last_entry_id
    return (
        _has_end(metadata)
        and last is not None
        and any(
            read.status is ReadStatus.PRESENT and read.sent_entry_id > last
            for read in reads.values()
        )
    )


def _has_end(metadata: LedgerMetadata) -> bool:
    return (
        metadata.state is LedgerState.CLOSED
        and metadata.last_entry_id is not None
        and bool(metadata.segments)
    )


def _names_beyond(header: EndHeader | None, last: EntryId) -> bool:
    return header is not None and header.last_confirmed > max(-1, last)


def _above(held: EntrySet, last: EntryId) -> EntrySet:
    return held & EntrySet.span(last + 1, ENTRY_ID_MAX)


def _better(best: EndHeader | None, read: EntryRead) -> EndHeader | None:
    """Return the read's header if it names a higher entry as acknowledged than `best`."""
    confirmed = read.last_confirmed
    if confirmed is None or (best is not None and confirmed <= best.last_confirmed):
        return best
    return EndHeader(read.bookie_id, read.sent_entry_id, confirmed, read.length_bytes or 0)
