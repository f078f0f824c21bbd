"""Entries above lastEntryId on the last ensemble: a hint that the metadata was truncated.

Verified: that at least ack-quorum bookies of the last ensemble list the entry.

Not verified: that the entries were acknowledged, that they can be read, or who shortened the
ledger. Fewer copies than the ack quorum are usual where a writer died. Bookies that cannot list say
nothing here.
"""

from __future__ import annotations

from auditor.first_checker.coverage import Coverage
from auditor.first_checker.entry_set import EntrySet
from auditor.first_checker.worst import levels
from auditor.model.facts import BeyondEndFacts
from auditor.model.finding import RANGES_MAX, Finding, Kind
from auditor.model.identity import ENTRY_ID_MAX, LedgerId
from auditor.model.ledger import LedgerMetadata, LedgerState


def beyond_end(ledger_id: LedgerId, metadata: LedgerMetadata, seen: Coverage) -> list[Finding]:
    """Return at most one finding, ENTRIES_BEYOND_END, on a closed ledger.

    Costs the pieces that the bookies of the last ensemble list.
    """
    last, ack = metadata.last_entry_id, metadata.ack_quorum
    if metadata.state is not LedgerState.CLOSED or last is None or not metadata.segments or ack < 1:
        return []
    above = EntrySet.span(last + 1, ENTRY_ID_MAX)
    ensemble = dict.fromkeys(metadata.segments[-1].ensemble)
    beyond = {b: found for b in ensemble if b in seen.held and (found := seen.held[b] & above)}
    level = levels(beyond.values())
    if len(level) < ack:
        return []
    entries = level[ack - 1]
    listed_by = tuple(sorted(bookie for bookie, found in beyond.items() if found & entries))
    return [
        Finding(
            Kind.ENTRIES_BEYOND_END,
            BeyondEndFacts(last, ack, listed_by),
            ledger_id=ledger_id,
            entries=entries.ranges(RANGES_MAX),
            entries_total=entries.count(),
        )
    ]
