"""The facts of findings on bookies: one frozen dataclass a kind. See `auditor.model.facts`."""

from __future__ import annotations

from dataclasses import dataclass

from auditor.model.identity import BookieId, EntryId, LedgerId


@dataclass(frozen=True, slots=True)
class SilentFacts:
    """BOOKIE_SILENT_YET_REGISTERED.

    `address`: host and port in its registration. `detail`: how the last attempt ended.
    """

    registration: str
    address: str
    looks: int
    detail: str
    lost_bookie_recovery_delay_s: int | None
    replication_disabled: bool


@dataclass(frozen=True, slots=True)
class FailingFacts:
    """BOOKIE_FAILING_REQUESTS. `ledgers`: ledgers refused at each of at least two looks.

    `lists_refused` and `reads_refused` count over all looks. `statuses` has each error status with
    its number of occurrences, the most frequent first.
    """

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
    """BOOKIE_LOST_UNNOTICED.

    `unmarked_ledgers`: closed, non-empty ledgers that name it and are unmarked at each look;
    `some_ledgers` are the first of these. Of the other ledgers that still name it,
    `marked_ledgers_last` had a mark when their mark was last read, and `marked_ledgers_first` of
    these had one at the first look. The two numbers are equal: otherwise the cluster is still
    marking, and there is no finding.
    """

    has_cookie: bool
    unmarked_ledgers: int
    some_ledgers: tuple[LedgerId, ...]
    marked_ledgers_first: int
    marked_ledgers_last: int
    apart_ms: int
    """Time between the first and the last look at which it was not registered."""
    unregistered_ms: int
    """Time from the first look, of this run or an earlier one, that saw it unregistered to the last
    look."""
    lost_bookie_recovery_delay_s: int | None
    replication_disabled: bool
    renamed_to: BookieId | None = None
    """The registered bookie that holds this bookie's entries.

    No segment of the compared ledgers names it."""


@dataclass(frozen=True, slots=True)
class LostContentFacts:
    """BOOKIE_LOST_CONTENT.

    `asked`: ledgers for which the bookie's last result is valid. In `lacking_most` of these it
    surely lacks more than half of its entries: `absent` of `expected` entries in all of them.
    """

    registration: str
    address: str
    asked: int
    was_probed: bool
    lacking_most: int
    absent: int
    expected: int
    some_ledgers: tuple[LedgerId, ...]


@dataclass(frozen=True, slots=True)
class LostLog:
    """An entry log of ENTRY_LOG_LOST. Lists left its entries out at two looks or more.

    `ledgers` are those whose lists did, and `entries` their entries in it by their newest lists.
    `some`: the first of these ledgers, each with the first range of its entries in the log.
    `reads_failed`: reads of these entries that ended in EIO, over all looks.
    """

    path: str
    ledgers: int
    entries: int
    some: tuple[tuple[LedgerId, EntryId, EntryId], ...]
    reads_failed: int


@dataclass(frozen=True, slots=True)
class EntryLogLostFacts:
    """ENTRY_LOG_LOST. `lister` is the address of the bookie's lister.

    `logs`, `ledgers` (each once) and `entries` count over all lost logs; `some_logs` are the first
    of these by path.
    """

    registration: str
    address: str
    lister: str
    logs: int
    ledgers: int
    entries: int
    some_logs: tuple[LostLog, ...]


@dataclass(frozen=True, slots=True)
class UnreadableFacts:
    """BOOKIE_UNREADABLE_ENTRIES.

    Of the `read` entries that the bookie lists, or should hold if it cannot list, it could not send
    `failed`, in `ledgers` ledgers; `some` are the first of these. At least one was read so at two
    looks. `statuses` has each error status, or "digest", with its number of entries, the most
    frequent first. `sample_failed` of `sample_read` of these were drawn from all that it should
    hold. `share_min`: at least this share of all entries that it should hold fails, at 95 %
    confidence; None where no entry of a sample failed."""

    registration: str
    address: str
    read: int
    failed: int
    ledgers: int
    some: tuple[tuple[LedgerId, EntryId], ...]
    statuses: tuple[tuple[str, int], ...]
    sample_read: int
    sample_failed: int
    share_min: float | None
