"""Detect copies that lie where a neighbouring segment would have them.

A writer that kept the old bookies after an ensemble change leaves its entries at the same positions
of the segment before. The hint needs at least one copy that lies there, and no bookie that should
then have a copy and lacks it. A bookie that said nothing of the entry does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from auditor.model.evidence import Look
from auditor.model.facts import EntryFacts, UnrecoverableFacts
from auditor.model.finding import Finding
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerMetadata, Segment
from auditor.witness.entry_answers import has_entry, newest_state_looks
from auditor.witness.phrases import join_names


def neighbour_sentences(
    finding: Finding, facts: EntryFacts, looks: Sequence[Look]
) -> Iterator[str]:
    """Yield a sentence if copies lie at the same positions of a neighbouring segment.

    The segment before is tried first.
    """
    chain = newest_state_looks(looks)
    metadata, at = chain[-1].record.metadata, finding.segment
    if metadata is None or at is None:
        return
    firsts = [segment.first_entry_id for segment in metadata.segments]
    if firsts.count(at.first_entry_id) != 1 or metadata.ensemble_size != len(at.ensemble):
        return
    number = firsts.index(at.first_entry_id)
    found_first = facts.search.found_first if facts.search else ()
    entries = [
        entry
        for entry in dict.fromkeys((facts.worst_entry, *found_first))
        if at.first_entry_id <= entry <= at.last_entry_id
    ]
    for other in (number - 1, number + 1):
        if not 0 <= other < len(firsts):
            continue
        pairs = _misplaced(metadata, number, metadata.segments[other], entries, chain)
        if pairs:
            holders = join_names([f"{holder} in place of {member}" for holder, member in pairs])
            yield (
                f"Copies lie at the same positions of the segment from entry {firsts[other]}:"
                f" {holders}. These entries may have been written to its ensemble. If they were,"
                " corrected metadata makes them readable."
            )
            return


def has_misplaced_copies(finding: Finding, looks: Sequence[Look]) -> bool:
    """Return whether copies of the finding's entries lie where a neighbouring segment has them."""
    facts = (
        finding.facts.entries if isinstance(finding.facts, UnrecoverableFacts) else finding.facts
    )
    return isinstance(facts, EntryFacts) and any(neighbour_sentences(finding, facts, looks))


def _misplaced(
    metadata: LedgerMetadata,
    number: int,
    other: Segment,
    entries: Sequence[EntryId],
    looks: Sequence[Look],
) -> list[tuple[BookieId, BookieId]]:
    """Return the bookies of the other segment that have entries.

    Each comes with the bookie of this segment at the same position. Empty if one that should then
    have an entry lacks it.
    """
    ensemble, size = metadata.segments[number].ensemble, metadata.ensemble_size
    if len(other.ensemble) != size:
        return []
    pairs: dict[tuple[BookieId, BookieId], None] = {}
    for entry in entries:
        positions = [(entry + copy) % size for copy in range(metadata.write_quorum)]
        members = {ensemble[position] for position in positions}
        for position in positions:
            holder, member = other.ensemble[position], ensemble[position]
            if holder in members:
                continue
            word = has_entry(holder, entry, looks)
            if word is False:
                return []
            if word:
                pairs[holder, member] = None
    return list(pairs)
