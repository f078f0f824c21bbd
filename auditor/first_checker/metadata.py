"""Judge a ledger's metadata by itself: whether it contradicts itself, or the ledger is stuck.

Verified: a closed ledger has a last entry; segments begin at 0, ascend and end within the ledger;
each ensemble has the ensemble size; E >= W >= A >= 1; at least one segment. A ledger that is closed
without entries has no length. If the last entry was read, its header has the ledger's length. A
ledger that is not closed was created or last written no longer ago than --stuck-after.

Not verified, because BookKeeper does not promise it: that `length` fits the entries if the last one
was not read; that ctime is set; that the cluster knows the bookies. A bookie that is gone is not a
contradiction: its copies are absent.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from types import MappingProxyType

from auditor.first_checker.coverage import Reads
from auditor.first_checker.recovery import blocked_recovery
from auditor.model.availability import ReadStatus
from auditor.model.evidence import Terms
from auditor.model.facts import (
    CONTRADICTIONS_MAX,
    BeyondEndFacts,
    Contradiction,
    ContradictionFacts,
    Contradicts,
    StuckFacts,
    UndecodableFacts,
)
from auditor.model.finding import Finding, Kind
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerMetadata, LedgerRecord, LedgerState

_NO_READS: Reads = MappingProxyType({})


def undecodable_findings(record: LedgerRecord) -> list[Finding]:
    """Return METADATA_MALFORMED for bytes that cannot be decoded."""
    bad = record.malformed
    if bad is None:
        return []
    facts = UndecodableFacts(bad.reason, bad.offset, bad.length, bad.sha256)
    return [Finding(Kind.METADATA_MALFORMED, facts, ledger_id=record.ledger_id)]


def metadata_findings(
    record: LedgerRecord,
    metadata: LedgerMetadata,
    terms: Terms,
    reads: Reads = _NO_READS,
    beyond_end: BeyondEndFacts | None = None,
    unknown: frozenset[BookieId] = frozenset(),
) -> list[Finding]:
    """Return at most one finding: the first that applies.

    They are, in order: METADATA_MALFORMED for contradictory metadata, RECOVERY_BLOCKED if too many
    bookies are `unknown` to recovery, and LEDGER_STUCK. `beyond_end` is what lies above the end and
    has no finding of its own.
    """
    against = contradictions(metadata, reads)
    if against:
        facts = ContradictionFacts(against[:CONTRADICTIONS_MAX], len(against), beyond_end)
        return [Finding(Kind.METADATA_MALFORMED, facts, ledger_id=record.ledger_id)]
    blocked = blocked_recovery(record.ledger_id, metadata, unknown)
    return blocked or _stuck_findings(record, metadata, terms)


def _stuck_findings(record: LedgerRecord, metadata: LedgerMetadata, terms: Terms) -> list[Finding]:
    """Return LEDGER_STUCK for a ledger that is not closed after --stuck-after.

    An open ledger's time counts from its creation, that of one in recovery from its last write.
    """
    stamp = record.stamp
    if stamp is None or not terms.stuck_after_ms or metadata.state is LedgerState.CLOSED:
        return []
    since_ms, by_metadata = stamp.mtime_ms, False
    if metadata.state is LedgerState.OPEN:
        since_ms = stamp.ctime_ms
        # A copied znode is younger than its ledger.
        if metadata.ctime_ms is not None and metadata.ctime_ms < since_ms:
            since_ms, by_metadata = metadata.ctime_ms, True
    age = terms.judged_at_ms - since_ms
    if not since_ms or age <= terms.stuck_after_ms:
        return []
    facts = StuckFacts(metadata.state, since_ms, by_metadata, age, terms.stuck_after_ms)
    return [Finding(Kind.LEDGER_STUCK, facts, ledger_id=record.ledger_id)]


def contradictions(metadata: LedgerMetadata, reads: Reads = _NO_READS) -> tuple[Contradiction, ...]:
    """Return each contradiction with its numbers. Empty for metadata that makes sense.

    Java accepts some of these (a first segment not at 0, W = 0) and refuses others. Costs the
    segments and the reads.
    """
    return (
        *_quorums(metadata),
        *_segments(metadata),
        *_end(metadata),
        *_length(metadata, reads),
    )


def _quorums(metadata: LedgerMetadata) -> Iterator[Contradiction]:
    size, write, ack = metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum
    if size < 1 or write < 1 or ack < 1:
        yield Contradiction(Contradicts.QUORUM_BELOW_ONE, (size, write, ack))
    if write > size:
        yield Contradiction(Contradicts.WRITE_QUORUM_ABOVE_ENSEMBLE, (write, size))
    if ack > write:
        yield Contradiction(Contradicts.ACK_QUORUM_ABOVE_WRITE, (ack, write))


def _segments(metadata: LedgerMetadata) -> Iterator[Contradiction]:
    if not metadata.segments:
        yield Contradiction(Contradicts.NO_SEGMENT)
        return
    firsts = [segment.first_entry_id for segment in metadata.segments]
    if firsts[0] != 0:
        yield Contradiction(Contradicts.FIRST_SEGMENT_NOT_AT_ZERO, (firsts[0],))
    for before, after in pairwise(firsts):
        if after <= before:
            yield Contradiction(Contradicts.SEGMENTS_OUT_OF_ORDER, (after, before))
    for segment in metadata.segments:
        if len(segment.ensemble) != metadata.ensemble_size:
            numbers = (segment.first_entry_id, len(segment.ensemble), metadata.ensemble_size)
            yield Contradiction(Contradicts.WRONG_ENSEMBLE_SIZE, numbers)


def _end(metadata: LedgerMetadata) -> Iterator[Contradiction]:
    if metadata.state is not LedgerState.CLOSED:
        return
    last = metadata.last_entry_id
    if last is None:
        yield Contradiction(Contradicts.NO_LAST_ENTRY)
    elif last < -1:
        yield Contradiction(Contradicts.LAST_ENTRY_BELOW_MINUS_ONE, (last,))
    elif metadata.segments and metadata.segments[-1].first_entry_id > last + 1:
        yield Contradiction(
            Contradicts.SEGMENT_BEYOND_LAST_ENTRY, (metadata.segments[-1].first_entry_id, last)
        )


def _length(metadata: LedgerMetadata, reads: Reads) -> Iterator[Contradiction]:
    """Yield the contradiction between the end and the length of a closed ledger.

    A writer that sets entry ids itself (LedgerHandleAdv) may send a lower entry after a higher one.
    Then the last entry's header has less than the whole length, and a lower entry's header has
    more.
    """
    last, length = metadata.last_entry_id, metadata.length
    if metadata.state is not LedgerState.CLOSED or last is None:
        return
    if last == -1 and length > 0:
        yield Contradiction(Contradicts.LENGTH_WITHOUT_ENTRY, (length,))
    of_last, of_others = _proven_lengths(last, reads)
    if of_last and length not in of_last:
        highest = max(of_last)
        if length < highest or highest >= max(of_others, default=0):
            yield Contradiction(Contradicts.LENGTH_NOT_OF_LAST_ENTRY, (length, last, highest))


def is_longer_than_its_end(metadata: LedgerMetadata, reads: Reads) -> bool:
    """Return whether the length of a closed ledger exceeds the one in its last entry's header.

    False if a header shows that a lower entry was sent later.
    """
    last = metadata.last_entry_id
    if metadata.state is not LedgerState.CLOSED or last is None:
        return False
    of_last, of_others = _proven_lengths(last, reads)
    highest = max(of_last, default=metadata.length)
    return metadata.length > highest >= max(of_others, default=0)


def _proven_lengths(last: EntryId, reads: Reads) -> tuple[set[int], set[int]]:
    """Return the lengths that headers prove: those of the last entry, and those of lower ones."""
    proven: dict[bool, set[int]] = {True: set(), False: set()}
    for read in reads.values():
        entry, proves = read.sent_entry_id, read.length_bytes
        if read.status is ReadStatus.PRESENT and proves is not None and 0 <= entry <= last:
            proven[entry == last].add(proves)
    return proven[True], proven[False]
