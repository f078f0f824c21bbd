"""What was seen of one ledger, look by look, and the terms it is judged by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from auditor.model.availability import Answer, EntryRead
from auditor.model.cluster import Surroundings
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import LedgerRecord
from auditor.model.placement import PlacementRule


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
    stranded_entries_max: int = 0
    """Entries without a copy that are looked for on all other bookies, a ledger, at most; 0: none."""
    probe_entries: int = 0
    """Entries sampled a (ledger, bookie) where the bookie cannot list, beside the ends of each segment; 0: none is read."""
    probe_seed: int = 0
    """Seed of that sample, drawn anew for each run."""
    stuck_after_ms: int = 0
    """How long a ledger may be open or in recovery; 0: for ever."""
    placement: PlacementRule = field(default_factory=PlacementRule)
    around: Surroundings = field(default_factory=Surroundings)
    sound_sample: float = 0.0
    """The share (0 to 1) of sound ledgers that are given to the second checker; all others are in any case."""
