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
    """One look at one ledger: what ZooKeeper said, then what the bookies said.

    `reads` is keyed by (bookie, entry). A look has no answers if nothing had to be asked, or if it
    is the closing look. The closing look reads the metadata and the mark again before anything is
    reported.
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
class Sweep:
    """Which entries of a bookie are read by rank: of one that cannot list, besides those of
    `probe_entries`, or of one that lists, to test its lists.

    The entries of one ledger that the bookie should hold have the ranks 0, 1, 2 ... in ascending
    order. Of every `step` consecutive ones, one is read. Runs with one `seed` and other turns read
    other ranks, and all runs with `step` consecutive turns read every rank
    (docs/soundness.md#a-sweep).
    """

    seed: int = 0
    """The seed of the series of runs that this run belongs to: it says where counting starts."""
    turn: int = 0
    """The number of the run in its series, from 0."""
    budget: int = 0
    """Maximum of entries read by rank on one bookie in one run; 0: none."""
    step: int = 0
    """A power of two that keeps the run within its budget; 0: no entry is read by rank."""
    copies_before: float = 0.0
    """How many entries the fullest bookie should hold, as the last run of the series counted."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a verdict depends on beside the evidence. A run stores it, so that a replay is exact."""

    judged_at_ms: int
    underreplication_grace_ms: int
    confirming_reads_max: int
    """Maximum of confirming reads for one (ledger, bookie) at one look."""
    looks_max: int
    """Maximum of looks that ask a ledger's bookies. A ledger that still changes is `unsettled`."""
    stranded_entries_max: int = 0
    """Maximum of entries without a copy that are searched on all other bookies, for each ledger."""
    probe_entries: int = 0
    """Entries drawn at random for each (ledger, bookie) if the bookie cannot list.

    The ends of each segment are read too. 0: no entry is read."""
    probe_seed: int = 0
    """Seed of that sample, drawn anew for each run."""
    stuck_after_ms: int = 0
    """How long a ledger may be open or in recovery; 0: without limit."""
    placement: PlacementRule = field(default_factory=PlacementRule)
    around: Surroundings = field(default_factory=Surroundings)
    sound_sample: float = 0.0
    """The share (0 to 1) of sound ledgers that the second checker judges.

    It judges every ledger that is not sound."""
    sweep: Sweep = field(default_factory=Sweep)
    """What is read by rank besides on a bookie that cannot list, if `probe_entries` is not 0."""
    spot_reads: int = 0
    """Maximum of entries read on one bookie in a run to test its lists; 0: none. No verdict depends
    on it: a read says itself that it is one of these."""
    doubt_reads: int = 0
    """Maximum of further entries read on one bookie in doubt in a run; 0: none. No verdict depends
    on it."""
    orphan_age_ms: int = 0
    """Age above which a ledger of Pulsar without a reference is an orphan."""
    clock_lag_ms: int = 0
    """By how much this host's clock lies behind ZooKeeper's, at least; 0: as far as is known, not.

    `judged_at_ms` is then the newest time that ZooKeeper proves, and ages are the least that they
    can be. An age that is not above a limit may be above it all the same."""
