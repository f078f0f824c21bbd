"""What was seen of one ledger, look by look, and the terms it is judged by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from auditor.model.availability import Answer, EntryRead
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import LedgerRecord


@dataclass(frozen=True, slots=True)
class Look:
    """One look at one ledger: what ZooKeeper said, then what the bookies said. `reads` is keyed by (bookie, entry).

    A look without answers is either one at which nothing had to be asked, or the closing one, which reads the metadata and
    the mark again before anything is reported.
    """

    record: LedgerRecord
    answers: Mapping[BookieId, Answer] = field(default_factory=dict)
    reads: Mapping[tuple[BookieId, EntryId], EntryRead] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LedgerEvidence:
    """Every look at one ledger, oldest first; at least one."""

    ledger_id: LedgerId
    looks: tuple[Look, ...]


@dataclass(frozen=True, slots=True)
class Terms:
    """What a verdict depends on beside the evidence. Written down with the run, so that a replay is exact."""

    judged_at_ms: int
    underreplication_grace_ms: int
    confirming_reads_max: int
    """Confirming reads for one (ledger, bookie) at one look, at most."""
    looks_max: int
    """Looks at which one ledger's bookies are asked, at most; a ledger that keeps changing is `unsettled` then."""
