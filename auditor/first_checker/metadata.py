"""Judge a ledger's metadata by itself, and whether its recovery can succeed.

Verified: a closed ledger has a last entry; segments begin at 0, ascend and end within the ledger;
each ensemble has the ensemble size; E >= W >= A >= 1; at least one segment. A ledger that is closed
without entries has no length. If the last entry was read, its header has the ledger's length. A
ledger that is not closed was created or last written no longer ago than --stuck-after.

Not verified, because BookKeeper does not promise it: that `length` fits the entries if the last one
was not read; that ctime is set; that the cluster knows the bookies. A bookie that is gone is not a
contradiction: its copies are absent.

Recovery asks the bookies of the last ensemble for the last entry. It continues only if in every
write set fewer bookies than the ack quorum are unknown: otherwise an acknowledged entry may be on
the unknown ones alone (RoundRobinDistributionSchedule.RRQuorumCoverageSet). A bookie is known if it
serves the ledger, or says that it has no such entry or ledger. Verified: at each look at the newest
state of the metadata, at least two, these bookies were not registered, answered with an error of
their own, or were silent while another bookie of the ensemble answered. For an open ledger, the
registrations and greetings of its bookies alone decide: would its recovery succeed if its writer
died now?

Not verified: that a client tried. A refusal, a time-out or a bookie in maintenance does not count
as unknown: other clients may be served.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from types import MappingProxyType

from auditor.first_checker.coverage import Reads
from auditor.first_checker.schedule import Question
from auditor.model.availability import (
    NOT_DIALLED,
    VALID_ANSWERS,
    Answer,
    AnswerStatus,
    Greeting,
    ReadStatus,
)
from auditor.model.cluster import BookieLook, BookieRecord
from auditor.model.evidence import Look, Terms
from auditor.model.facts import (
    CONTRADICTIONS_MAX,
    BeyondEndFacts,
    Contradiction,
    ContradictionFacts,
    Contradicts,
    RecoveryFacts,
    StuckFacts,
    UndecodableFacts,
)
from auditor.model.finding import Finding, Kind
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import LedgerMetadata, LedgerRecord, LedgerState

EXPECTED_BYTES = 1_024
"""Estimated size of the list of a ledger in recovery: a few dozen runs."""

_ANSWERED = VALID_ANSWERS | {AnswerStatus.UNSUPPORTED, AnswerStatus.FAILED}


def _recovery_bookies(metadata: LedgerMetadata) -> tuple[BookieId, ...]:
    """Return the distinct bookies that the recovery of the ledger asks, in their order.

    Empty if the ledger is not in recovery, or if quorums or the last ensemble make no sense.
    """
    return last_bookies(metadata) if metadata.state is LedgerState.IN_RECOVERY else ()


def last_bookies(metadata: LedgerMetadata) -> tuple[BookieId, ...]:
    """Return the distinct bookies of the last ensemble, in their order.

    Empty if quorums or the last ensemble make no sense.
    """
    if not metadata.segments:
        return ()
    ensemble = metadata.segments[-1].ensemble
    size, write, ack = metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum
    if not 1 <= ack <= write <= size or len(ensemble) != size:
        return ()
    return tuple(dict.fromkeys(ensemble))


def recovery_questions(metadata: LedgerMetadata) -> tuple[Question, ...]:
    """Return questions that ask these bookies whether they answer for the ledger."""
    return tuple(Question(bookie, EXPECTED_BYTES) for bookie in _recovery_bookies(metadata))


def unknown_bookies(looks: Sequence[Look], maintenance: frozenset[BookieId]) -> frozenset[BookieId]:
    """Return the bookies that are unknown at every look that asked, except those in maintenance."""
    asked = [look for look in looks if look.answers]
    if not asked:
        return frozenset()
    return frozenset(
        bookie
        for bookie in asked[0].answers.keys() - maintenance
        if all(bookie in look.answers and _is_unknown(look, bookie) for look in asked)
    )


def _is_unknown(look: Look, bookie: BookieId) -> bool:
    answer = look.answers[bookie]
    if answer.status is AnswerStatus.SILENT:
        others = (answer for other, answer in look.answers.items() if other != bookie)
        return not answer.detail.startswith(NOT_DIALLED) and any(map(_is_answered, others))
    return answer.status in (AnswerStatus.UNREGISTERED, AnswerStatus.FAILED)


def _is_answered(answer: Answer) -> bool:
    return answer.status in _ANSWERED


def _blocked_recovery(
    ledger_id: LedgerId, metadata: LedgerMetadata, unknown: frozenset[BookieId]
) -> list[Finding]:
    """Return RECOVERY_BLOCKED if too many bookies of a write set are `unknown`."""
    if not unknown.intersection(_recovery_bookies(metadata)):
        return []
    facts = blocked_write_sets(metadata, unknown)
    return [] if facts is None else [Finding(Kind.RECOVERY_BLOCKED, facts, ledger_id=ledger_id)]


def blocked_write_sets(
    metadata: LedgerMetadata, unknown: frozenset[BookieId]
) -> RecoveryFacts | None:
    """Return the write sets of the last ensemble in which too many bookies are `unknown`.

    None if there are none. The last ensemble must make sense (`last_bookies`).
    """
    segment, ack = metadata.segments[-1], metadata.ack_quorum
    size = metadata.ensemble_size
    write_sets = [
        [segment.ensemble[(at + copy) % size] for copy in range(metadata.write_quorum)]
        for at in range(size)
    ]
    blocked = [
        write_set
        for write_set in write_sets
        if sum(bookie in unknown for bookie in write_set) >= ack
    ]
    if not blocked:
        return None
    return RecoveryFacts(
        first_entry_id=segment.first_entry_id,
        ensemble=segment.ensemble,
        ack_quorum=ack,
        write_sets=size,
        blocked_write_sets=len(blocked),
        write_set=tuple(dict.fromkeys(blocked[0])),
        unknown=tuple(sorted(unknown.intersection(b for write_set in blocked for b in write_set))),
    )


def greets_no_more(record: BookieRecord | None) -> bool:
    """Return whether a bookie is not registered, or was silent when it was dialled.

    `record` is None for a bookie with neither a registration nor a cookie.
    """
    if record is None or not record.is_registered:
        return True
    return record.greeting is Greeting.SILENT and not record.greeting_detail.startswith(NOT_DIALLED)


def unknown_by_greetings(
    ensemble: Sequence[BookieId], looks: Sequence[BookieLook], maintenance: frozenset[BookieId]
) -> frozenset[BookieId]:
    """Return the bookies of an ensemble that registrations and greetings show unknown at every
    look.

    Bookies in maintenance are left out. Silence counts only while another bookie of the ensemble
    answers.
    """
    if not looks:
        return frozenset()
    return frozenset(
        bookie
        for bookie in set(ensemble) - maintenance
        if all(_is_unknown_by_greeting(bookie, ensemble, look) for look in looks)
    )


def _is_unknown_by_greeting(
    bookie: BookieId, ensemble: Sequence[BookieId], look: BookieLook
) -> bool:
    record = look.get(bookie)
    if record is None or not record.is_registered:
        return True
    others = (look.get(other) for other in ensemble if other != bookie)
    return greets_no_more(record) and any(
        other is not None and other.greeting in (Greeting.ANSWERED, Greeting.UNSUPPORTED)
        for other in others
    )


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
    blocked = _blocked_recovery(record.ledger_id, metadata, unknown)
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
