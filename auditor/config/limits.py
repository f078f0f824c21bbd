"""What one conversation may cost: the limits the adapters are given, each with its unit and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BookieLimits:
    """What one conversation with one bookie may cost (per bookie, over the whole job). Times in ms, sizes in bytes."""

    requests_per_second: float = 2_000.0
    """Frames sent a second; 0 lifts the limit. A busy bookie answers 50,000 lists a second when idle, so this is gentle."""
    inflight_max: int = 64
    """Requests outstanding at most. Halved on a reset with lists outstanding (a full read queue closes the connection)."""
    inflight_bytes_max: int = 64 * 2**20
    """Answer bytes expected to be outstanding at most: a striped ledger costs 24 bytes a stripe."""
    rpc_timeout_ms: int = 10_000
    """How long one request may stay unanswered."""
    connect_timeout_ms: int = 5_000
    """How long one connection attempt may take."""
    connect_attempts_max: int = 3
    """Connections tried in a row without one answer before the bookie counts as silent."""
    retries_max: int = 3
    """Times one question is asked again after a reset or ETOOMANYREQUESTS."""
    deadline_ms: int = 30 * 60_000
    """How long the whole conversation may take; what is not answered by then is silent."""
    frame_bytes_max: int = 256 * 2**20
    """Largest answer accepted (BookKeeper sets no limit on what a bookie sends; never under 64 MiB)."""
    groups_max: int = 10_000_000
    """Sequence groups accepted in one list."""


@dataclass(frozen=True, slots=True)
class JudgingLimits:
    """What judging one ledger may cost the process that does it. Beyond it the ledger is set aside (poison)."""

    ledger_time_max_ms: int = 5 * 60_000
    """How long it may take."""
    ledger_memory_max: int = 2 * 2**30
    """Address space it may take beyond what the process has, in bytes."""


@dataclass(frozen=True, slots=True)
class ZooKeeperLimits:
    """What reading the metadata service may cost one reader. Times in ms."""

    reads_per_second: float = 20_000.0
    """Znodes read a second by this reader; 0 lifts the limit."""
    batch_paths: int = 200
    """Paths in one multiRead request."""
    inflight_max: int = 4
    """multiRead requests outstanding; times `batch_paths` when falling back to single reads."""
    session_timeout_ms: int = 10_000
    """ZooKeeper session time-out asked for (BookKeeper's zkTimeout default)."""
    connect_timeout_ms: int = 15_000
    """How long the first connection may take before the metadata service counts as unreachable."""
    retries_max: int = 3
    """Times a read is repeated after a lost connection or session."""
    retry_wait_ms: int = 1_000
    """Pause before each repeat, for the ensemble to elect a leader."""
