"""The facts of findings on bookies: one frozen dataclass a kind. See `auditor.model.facts`."""

from __future__ import annotations

from dataclasses import dataclass

from auditor.model.identity import BookieId, LedgerId


@dataclass(frozen=True, slots=True)
class SilentFacts:
    """BOOKIE_SILENT_YET_REGISTERED. `address`: host and port of its registration; `detail`: how the last try ended."""

    registration: str
    address: str
    looks: int
    detail: str
    lost_bookie_recovery_delay_s: int | None
    replication_disabled: bool


@dataclass(frozen=True, slots=True)
class FailingFacts:
    """BOOKIE_FAILING_REQUESTS. `ledgers`: those refused at each of two looks or more; `lists_refused` and `reads_refused` count
    over all looks, and `statuses` has each error status with its number, the most frequent first."""

    registration: str
    address: str
    looks: int
    ledgers: int
    some_ledgers: tuple[LedgerId, ...]
    lists_refused: int
    reads_refused: int
    statuses: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class LostFacts:
    """BOOKIE_LOST_UNNOTICED. `unmarked_ledgers`: closed, non-empty, naming it and unmarked at each look; `some_ledgers` are the
    first of them. Of the other ledgers that name it still, `marked_ledgers_last` were marked when their mark was read last,
    `marked_ledgers_first` of these at the first look already: the two are equal, else the cluster is marking."""

    has_cookie: bool
    unmarked_ledgers: int
    some_ledgers: tuple[LedgerId, ...]
    marked_ledgers_first: int
    marked_ledgers_last: int
    apart_ms: int
    """Time between the first and the last look at which it was not registered."""
    unregistered_ms: int
    """Time since it was first seen unregistered, by this run or one before, up to the last look."""
    lost_bookie_recovery_delay_s: int | None
    replication_disabled: bool
    renamed_to: BookieId | None = None
    """The registered bookie that holds what this one should hold, and that no segment of the compared ledgers names."""


@dataclass(frozen=True, slots=True)
class LostContentFacts:
    """BOOKIE_LOST_CONTENT. Of `asked` ledgers it lacks more than half in `lacking_most`: `absent` of `expected` entries."""

    registration: str
    address: str
    asked: int
    was_probed: bool
    lacking_most: int
    absent: int
    expected: int
    some_ledgers: tuple[LedgerId, ...]
