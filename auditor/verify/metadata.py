"""What in a ledger's metadata contradicts itself.

Verified: a closed ledger has a last entry; segments begin at 0, ascend and end within the ledger; each ensemble has the
ensemble size; E >= W >= A >= 1; at least one segment.
Not verified, because BookKeeper does not promise it: that `length` fits the entries; that ctime is set; that the cluster knows
the bookies it names (a bookie that is gone is no contradiction: its copies are absent).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from auditor.model.ledger import LedgerMetadata, LedgerState


def contradictions(metadata: LedgerMetadata) -> tuple[str, ...]:
    """Each contradiction as a sentence naming both sides; empty for metadata that makes sense. Java accepts some of these
    (metadata.md 6.2: first segment not at 0, W = 0) and refuses others outright."""
    return (*_quorums(metadata), *_segments(metadata), *_end(metadata))


def _quorums(metadata: LedgerMetadata) -> Iterator[str]:
    size, write, ack = metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum
    if size < 1 or write < 1 or ack < 1:
        yield f"a quorum below one: ensemble size {size}, write quorum {write}, ack quorum {ack}"
    if write > size:
        yield f"the write quorum {write} is larger than the ensemble size {size}"
    if ack > write:
        yield f"the ack quorum {ack} is larger than the write quorum {write}"


def _segments(metadata: LedgerMetadata) -> Iterator[str]:
    if not metadata.segments:
        yield "no segment names any bookie"
        return
    firsts = [segment.first_entry_id for segment in metadata.segments]
    if firsts[0] != 0:
        yield f"the first segment begins at entry {firsts[0]}, not at 0"
    for before, after in pairwise(firsts):
        if after <= before:
            yield f"the segment at entry {after} stands after the one at entry {before}"
    for segment in metadata.segments:
        if len(segment.ensemble) != metadata.ensemble_size:
            yield (
                f"the ensemble of the segment at entry {segment.first_entry_id} has {len(segment.ensemble)} bookies, "
                f"the ensemble size is {metadata.ensemble_size}"
            )


def _end(metadata: LedgerMetadata) -> Iterator[str]:
    if metadata.state is not LedgerState.CLOSED:
        return
    last = metadata.last_entry_id
    if last is None:
        yield "the ledger is CLOSED and has no lastEntryId"
    elif last < -1:
        yield f"the ledger is CLOSED with lastEntryId {last}"
    elif metadata.segments and metadata.segments[-1].first_entry_id > last + 1:
        yield f"the last segment begins at entry {metadata.segments[-1].first_entry_id}, beyond lastEntryId {last}"
