"""What was seen of one ledger, look by look, and the terms by which it is judged.

The terms include the placement policy that ensembles must satisfy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from auditor.model.availability import Answer, EntryRead
from auditor.model.cluster import Surroundings
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import LedgerRecord


class Policy(StrEnum):
    """The placement policies that ensembles can be judged by."""

    NONE = "none"
    RACK = "rack"
    REGION = "region"
    ZONE = "zone"


class Adherence(IntEnum):
    """BookKeeper's PlacementPolicyAdherence with its numbers, plus UNKNOWN. The lowest is the
    worst.
    """

    FAIL = 1
    UNKNOWN = 2
    SOFT = 3
    STRICT = 5


@dataclass(frozen=True, slots=True)
class PlacementRule:
    """A policy with BookKeeper's own parameters and defaults.

    `java_compatible`: judge like BookKeeper's Java classes, with their defects.
    """

    policy: Policy = Policy.NONE
    java_compatible: bool = False
    min_num_racks_per_write_quorum: int = 2
    enforce_min_num_racks_per_write_quorum: bool = False
    min_num_zones_per_write_quorum: int = 2
    desired_num_zones_per_write_quorum: int = 3
    repp_minimum_regions_for_durability: int = 2


@dataclass(frozen=True, slots=True)
class Look:
    """One look at one ledger: what ZooKeeper said, then what the bookies said.

    `reads` is keyed by (bookie, entry). A look has no answers if no bookie had to be asked, or if
    it is the closing look, which reads the metadata and the mark again before anything is reported.
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
    """Which entries are read by rank on a bookie.

    On one that cannot list, they are read besides those of `probe_entries`. On one that lists, they
    test its lists. The entries of one ledger that the bookie should hold have the ranks 0, 1, 2 ...
    in ascending order. One of every `step` consecutive ranks is read. Runs with the same `seed` and
    other turns read other ranks, and all runs with `step` consecutive turns read every rank
    (docs/soundness.md#a-sweep).
    """

    seed: int = 0
    """The seed of the series of runs that this run belongs to. It decides at which rank reading
    starts."""
    turn: int = 0
    """The number of the run in its series, from 0."""
    budget: int = 0
    """At most this many entries are read by rank on one bookie in one run; 0: none."""
    step: int = 0
    """A power of two that keeps the run within its budget; 0: no entry is read by rank."""
    copies_before: float = 0.0
    """How many entries the fullest bookie should hold, by the count of the series' last run."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a verdict depends on beside the evidence. A run stores it, to make replays exact."""

    judged_at_ms: int
    underreplication_grace_ms: int
    confirming_reads_max: int
    """Most confirming reads for one (ledger, bookie) at one look."""
    looks_max: int
    """Most looks that ask a ledger's bookies. A ledger that still changes is `unsettled`."""
    stranded_entries_max: int = 0
    """Most entries without a copy, for each ledger, that are searched on all other bookies."""
    probe_entries: int = 0
    """Entries drawn at random for each (ledger, bookie) if the bookie cannot list.

    The ends of each segment are read too. 0: no entry is read."""
    probe_seed: int = 0
    """Seed of that sample, drawn for each run."""
    stuck_after_ms: int = 0
    """How long a ledger may be open or in recovery; 0: without limit."""
    placement: PlacementRule = field(default_factory=PlacementRule)
    around: Surroundings = field(default_factory=Surroundings)
    sound_sample: float = 0.0
    """The share (0 to 1) of sound ledgers that the second checker judges.

    It judges every ledger that is not sound."""
    sweep: Sweep = field(default_factory=Sweep)
    """What is also read by rank on a bookie that cannot list, if `probe_entries` is not 0."""
    spot_reads: int = 0
    """Most entries read on one bookie in a run to test its lists; 0: none.

    No verdict depends on it: a read itself says whether it is one of these."""
    doubt_reads: int = 0
    """Maximum of further entries read on one bookie in doubt in a run; 0: none. No verdict depends
    on it."""
    orphan_age_ms: int = 0
    """A Pulsar ledger of this age without a reference is an orphan."""
    clock_lag_ms: int = 0
    """By how much, at least, this host's clock lies behind ZooKeeper's; 0: no lag is known.

    `judged_at_ms` is then the newest time that ZooKeeper proves, and ages are lower bounds. An age
    below a limit may really be above it."""


@dataclass(frozen=True, slots=True)
class LastPopulation:
    """The finished whole run of the same cluster with which the next run is compared.

    It is the last run, unless the last ones listed far fewer ledgers than it. A run may list up to
    `drop_percent` percent fewer ledgers than it; 0 allows any number.
    """

    run_id: str
    finished_at: str
    listed: int
    drop_percent: int
    low_listed: tuple[int, ...] = ()
    """The numbers that the latest whole runs since then listed, oldest first. Each had the finding,
    and they agree."""
    low_runs: int = 0
    """Number of whole runs in a row since then that had the finding, whether or not they agree."""
