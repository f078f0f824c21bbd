"""Find what contradicts itself in a ledger's metadata.

Verified: a closed ledger has a last entry; segments begin at 0, ascend and end within the ledger;
each ensemble has the ensemble size; E >= W >= A >= 1; at least one segment.

Not verified, because BookKeeper does not promise it: that `length` fits the entries; that ctime is
set; that the cluster knows the bookies. A bookie that is gone is not a contradiction: its copies
are absent.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from auditor.model.facts import Contradiction, Contradicts
from auditor.model.ledger import LedgerMetadata, LedgerState


def contradictions(metadata: LedgerMetadata) -> tuple[Contradiction, ...]:
    """Return each contradiction with its numbers. Empty for metadata that makes sense.

    Java accepts some of these (metadata.md 6.2: first segment not at 0, W = 0) and refuses others
    outright. Costs the segments.
    """
    return (*_quorums(metadata), *_segments(metadata), *_end(metadata))


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
