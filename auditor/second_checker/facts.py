"""The facts of findings as the second checker derives them: of entries, marks and metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from auditor.model.availability import EntryRead, ReadStatus
from auditor.model.evidence import Terms
from auditor.model.facts import (
    Contradiction,
    Contradicts,
    EntryFacts,
    MarkFacts,
    Search,
    StuckFacts,
    WhyMarked,
)
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerMetadata, LedgerRecord, LedgerState
from auditor.model.verdict import CopyCounts
from auditor.second_checker.copies import Tally, Worst
from auditor.second_checker.entry_bits import lowest_of
from auditor.second_checker.holdings import HELD, Testimony
from auditor.second_checker.ledger_count import LedgerCount
from auditor.second_checker.listed_groups import names
from auditor.second_checker.newest_words import Words
from auditor.second_checker.schedule import entries_from_below, first_of, stretches

Testimonies = Mapping[BookieId, Testimony]


def _claims_of_length(
    length: int, last: EntryId, reads: Iterable[EntryRead]
) -> Iterator[tuple[bool, Contradicts, tuple[int, ...]]]:
    """Yield whether the length is the one in the last entry's header, if that was read.

    A lower entry whose header has more than the last one's was sent after it. The length may then
    be larger than the last entry's.
    """
    lengths: dict[EntryId, set[int]] = {}
    for read in reads:
        entry = read.entry_id if read.stored_entry_id is None else read.stored_entry_id
        if read.length_bytes is not None and read.status is ReadStatus.PRESENT and entry >= 0:
            lengths.setdefault(entry, set()).add(read.length_bytes)
    proven = lengths.get(last)
    if not proven:
        return
    was_late = any(
        max(of_it) > max(proven) for entry, of_it in lengths.items() if 0 <= entry < last
    )
    fits = length in proven or (length > max(proven) and was_late)
    yield fits, Contradicts.LENGTH_NOT_OF_LAST_ENTRY, (length, last, max(proven))


def entry_facts(
    heard: Words,
    metadata: LedgerMetadata,
    count: LedgerCount,
    worst: Worst,
    search: Search | None,
) -> EntryFacts:
    """Return the facts about the worst entry.

    `at_tail` is right only if all entries were examined.
    """
    write_set = worst.stretch.bookies_of(worst.entry)
    lists = count.lists
    return EntryFacts(
        worst.entry,
        write_set,
        tuple(sorted(b for b in lists if b not in write_set and names(lists[b], worst.entry))),
        tuple(_gone_bookies(heard, metadata)),
        0 < worst.confirmed >= metadata.ack_quorum
        and _is_at_tail(metadata, count.tally, count.testimonies),
        search,
    )


def _gone_bookies(heard: Words, metadata: LedgerMetadata) -> Iterator[BookieId]:
    """Yield the gone bookies to which some entry was written, whether that was examined or not."""
    gone = sorted(bookie for bookie, answer in heard.answers.items() if answer.is_gone)
    parts = stretches(metadata) if gone else ()
    for bookie in gone:
        if any(bookie in part.ensemble and first_of(part, bookie) is not None for part in parts):
            yield bookie


def _is_at_tail(metadata: LedgerMetadata, tally: Tally, testimonies: Testimonies) -> bool:
    """Return whether each bookie that lacks entries lacks only the end of the last stretch.

    Such a bookie must hold its first entry there, and none of its entries may be unknown or
    assumed. Each write set must name W distinct bookies, and the last stretch must reach
    lastEntryId.
    """
    blocks = [one.block for one in tally.counted]
    end = blocks[-1].stretch
    if end.last != metadata.last_entry_id:
        return False
    if any(
        len(block.stretch.bookies_of(entry)) < block.stretch.write_quorum
        for block in blocks
        for entry in entries_from_below(block.stretch)
    ):
        return False
    if any(
        bookie in tally.unknown_on or _count_assumed(tally, testimonies, bookie)
        for bookie in tally.absent
    ):
        return False
    for one in tally.counted:
        for bookie, missing in one.absent.items():
            held = one.written[bookie].bits ^ missing
            if one.block.stretch != end or not held or held.bit_length() > lowest_of(missing):
                return False
    return True


def _count_assumed(tally: Tally, testimonies: Testimonies, bookie: BookieId) -> int:
    """Return how many copies on a bookie that cannot list rest on its sample: nobody read them."""
    testimony = testimonies[bookie]
    return (
        tally.held[bookie] - sum(word == HELD for word in testimony.by_entry.values())
        if testimony.rest == HELD
        else 0
    )


def copy_counts(
    tally: Tally, testimonies: Testimonies, probed: Sequence[BookieId], promised: int
) -> CopyCounts:
    """Return how many of the promised copies were listed, read or assumed.

    Only examined entries count.
    """
    listed = read = assumed = 0
    for bookie, held in tally.held.items():
        read_here = list(testimonies[bookie].by_entry.values()).count(HELD)
        read += read_here
        if bookie in probed:
            assumed += held - read_here
        else:
            listed += held - read_here
    return CopyCounts(promised, listed, read, assumed)


def is_mark_stale(record: LedgerRecord, tally: Tally, copies: CopyCounts) -> bool:
    """Return whether all entries of a marked ledger have all their copies, and none is assumed."""
    metadata = record.metadata
    if (
        record.mark is None
        or metadata is None
        or not tally.counted
        or metadata.last_entry_id is None
    ):
        return False
    entries = sum(one.block.high - one.block.low + 1 for one in tally.counted)
    lacks = any(one.confirmed.at_most(metadata.write_quorum - 1) for one in tally.counted)
    return entries == metadata.last_entry_id + 1 and not lacks and copies.assumed == 0


def mark_facts(
    record: LedgerRecord,
    tally: Tally | None,
    terms: Terms,
    *,
    is_stale: bool,
    is_empty: bool = False,
) -> MarkFacts:
    """Return the facts about a mark. `tally` is None if no bookie was asked.

    `is_empty`: bookies showed that the ledger has no entry.
    """
    mark, metadata = record.mark, record.metadata
    assert mark is not None, record
    times = [mark.created_ms, *([] if mark.changed_ms is None else [mark.changed_ms])]
    held = mark.lock
    return MarkFacts(
        max(0, max(terms.judged_at_ms - time for time in times)),
        terms.underreplication_grace_ms,
        mark.created_ms,
        mark.changed_ms,
        mark.missing_replicas,
        mark.problem or "",
        held.holder if held else None,
        held.since_ms if held else None,
        metadata.state if metadata else None,
        tuple(_why(record, tally, terms, is_stale=is_stale, is_empty=is_empty)),
    )


def _why(
    record: LedgerRecord, tally: Tally | None, terms: Terms, *, is_stale: bool, is_empty: bool
) -> Iterator[WhyMarked]:
    around = terms.around
    counted = tally.counted if tally is not None else []
    if any(one.possible.at_most(0) for one in counted):
        yield WhyMarked.NO_COPY
    elif any(one.in_reach.at_most(0) for one in counted):
        yield WhyMarked.NO_COPY_IN_REACH
    if around.replication_disabled:
        yield WhyMarked.REPLICATION_DISABLED
    if around.auditor is None:
        yield WhyMarked.NO_AUDITOR
    lacking = {
        one.block.stretch
        for one in counted
        if one.confirmed.at_most(one.block.stretch.write_quorum - 1)
    }
    if any(around.writable <= set(stretch.ensemble) for stretch in lacking):
        yield WhyMarked.NO_SPARE_BOOKIE
    if record.mark is not None and record.mark.lock is not None:
        yield WhyMarked.LOCKED
    if is_empty:
        yield WhyMarked.EMPTY_LEDGER
    if is_stale:
        yield WhyMarked.STALE


def stuck_facts(record: LedgerRecord, terms: Terms) -> StuckFacts:
    """Return the facts of a stuck ledger: since when it has been open or in recovery."""
    metadata, stamp = record.metadata, record.stamp
    assert metadata is not None and stamp is not None, record
    if metadata.state is LedgerState.IN_RECOVERY:
        since, by_metadata = stamp.mtime_ms, False
    else:
        own = stamp.ctime_ms if metadata.ctime_ms is None else metadata.ctime_ms
        since, by_metadata = min(own, stamp.ctime_ms), own < stamp.ctime_ms
    return StuckFacts(
        metadata.state, since, by_metadata, terms.judged_at_ms - since, terms.stuck_after_ms
    )


def contradictions(
    metadata: LedgerMetadata, reads: Iterable[EntryRead] = ()
) -> list[Contradiction]:
    """Return every promise of BookKeeper that the metadata breaks (metadata.md 6.2)."""
    size, write, ack = metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum
    firsts = [segment.first_entry_id for segment in metadata.segments]
    last, is_closed = metadata.last_entry_id, metadata.state is LedgerState.CLOSED
    claims = [
        (min(size, write, ack) >= 1, Contradicts.QUORUM_BELOW_ONE, (size, write, ack)),
        (write <= size, Contradicts.WRITE_QUORUM_ABOVE_ENSEMBLE, (write, size)),
        (ack <= write, Contradicts.ACK_QUORUM_ABOVE_WRITE, (ack, write)),
        (bool(firsts), Contradicts.NO_SEGMENT, ()),
        (not firsts or firsts[0] == 0, Contradicts.FIRST_SEGMENT_NOT_AT_ZERO, tuple(firsts[:1])),
        (not is_closed or last is not None, Contradicts.NO_LAST_ENTRY, ()),
    ]
    if is_closed and last is not None:
        claims.append((last >= -1, Contradicts.LAST_ENTRY_BELOW_MINUS_ONE, (last,)))
        fits = last < -1 or not firsts or firsts[-1] - 1 <= last
        claims.append((fits, Contradicts.SEGMENT_BEYOND_LAST_ENTRY, (*firsts[-1:], last)))
        has_room = last != -1 or metadata.length <= 0
        claims.append((has_room, Contradicts.LENGTH_WITHOUT_ENTRY, (metadata.length,)))
        claims.extend(_claims_of_length(metadata.length, last, reads))
    for place in range(1, len(firsts)):
        one, before = firsts[place], firsts[place - 1]
        claims.append((one > before, Contradicts.SEGMENTS_OUT_OF_ORDER, (one, before)))
    for segment in metadata.segments:
        members = len(segment.ensemble)
        numbers = (segment.first_entry_id, members, size)
        claims.append((members == size, Contradicts.WRONG_ENSEMBLE_SIZE, numbers))
    return [Contradiction(what, numbers) for holds, what, numbers in claims if not holds]
