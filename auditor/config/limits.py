"""The limits for conversations with bookies, for judging and for reading ZooKeeper."""

from __future__ import annotations

from dataclasses import dataclass

from auditor.config.access import IN_CLEAR, IN_CLEAR_TO_ZOOKEEPER, BookieAccess, ZooKeeperAccess


@dataclass(frozen=True, slots=True)
class BookieLimits:
    """Limits for the conversation with one bookie, over the whole job.

    Times are in ms, sizes in bytes.
    """

    requests_per_second: float = 2_000.0
    """Frames sent a second; 0: no limit. An idle bookie answers 50,000 lists a second."""
    inflight_max: int = 64
    """Most requests outstanding. `throttle` lowers this and the rate while the bookie shows
    strain."""
    inflight_bytes_max: int = 64 * 2**20
    """Most bytes of expected answers outstanding: a striped ledger costs 24 bytes a stripe."""
    rpc_timeout_ms: int = 10_000
    """How long one request may wait for its response."""
    connect_timeout_ms: int = 5_000
    """How long one connection attempt may take."""
    connect_attempts_max: int = 3
    """Connections tried in a row without a response before the bookie counts as silent."""
    retries_max: int = 3
    """Times one request is repeated after a reset or ETOOMANYREQUESTS."""
    deadline_ms: int = 30 * 60_000
    """How long the whole conversation may take. Requests without a response by then are silent."""
    frame_bytes_max: int = 256 * 2**20
    """Largest response accepted, never under 64 MiB. BookKeeper sets no limit on responses."""
    groups_max: int = 10_000_000
    """Sequence groups accepted in one list."""
    access: BookieAccess = IN_CLEAR
    """How the conversation is secured. It is here because it goes wherever the limits go."""


@dataclass(frozen=True, slots=True)
class JudgingLimits:
    """Limits for judging one ledger. A ledger that exceeds them is set aside (`poison`)."""

    ledger_time_max_ms: int = 5 * 60_000
    """How long judging may take."""
    ledger_memory_max: int = 2 * 2**30
    """Address space that judging may add to what the process has, in bytes."""


@dataclass(frozen=True, slots=True)
class ZooKeeperLimits:
    """Limits for one reader of the metadata service. Times in ms."""

    reads_per_second: float = 20_000.0
    """Znodes read a second by this reader; 0: no limit."""
    batch_paths: int = 200
    """Paths in one multiRead request."""
    inflight_max: int = 4
    """Most multiRead requests outstanding; times `batch_paths` for single reads (the fallback)."""
    session_timeout_ms: int = 10_000
    """ZooKeeper session time-out to request (BookKeeper's zkTimeout default)."""
    connect_timeout_ms: int = 15_000
    """How long the first connection may take before the metadata service counts as unreachable."""
    retries_max: int = 3
    """Times that a read is repeated after a lost connection or session."""
    retry_wait_ms: int = 1_000
    """Pause before each repeat, in which the ensemble can elect a leader."""
    access: ZooKeeperAccess = IN_CLEAR_TO_ZOOKEEPER
    """How the sessions are secured. It is here because it goes wherever the limits go."""
