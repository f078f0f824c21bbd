"""What an audit of single ledgers needs to ask: the cluster's metadata, the limits, the clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from auditor.bookie.listers import Listers
from auditor.config import BookieLimits, JudgingLimits
from auditor.model.identity import BookieId, LedgerId
from auditor.zookeeper.metadata_store import MetadataStore


@dataclass(frozen=True, slots=True)
class Asker:
    """How the bookies are reached. `wait` sleeps for some seconds, or raises if the command must
    stop.
    """

    store: MetadataStore
    limits: BookieLimits
    now_ms: Callable[[], int]
    wait: Callable[[float], None]
    second_look_delay_ms: int
    judging: JudgingLimits = field(default_factory=JudgingLimits)
    known_unable: frozenset[BookieId] = frozenset()
    """Bookies that an earlier run recorded as unable to list. Entries are read there at once,
    without waiting for their lists."""
    search_reads_max: int | None = None
    """Per bookie: at most this many reads of entries that belong elsewhere. None: no limit."""
    listers: Listers | None = None
    """Where the bookies' listers are; None if no lister is asked."""
    set_aside: dict[LedgerId, str] = field(default_factory=dict)
    """Filled by the audit: ledger id -> why the ledger could not be judged."""
