"""The facts of a finding: one frozen dataclass for each kind, or for kinds with the same facts.

A witness is rendered from these values and the looks alone. This makes each sentence testable: the
second checker derives every fact of a ledger again, and the model-based tests compare them with
what they know.

Names that end in `_ms` are times (ms since 1970 UTC) or durations (ms). Sets of bookies are sorted
tuples.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from enum import Enum, StrEnum
from typing import Any, TypeAlias

from auditor.model.bookie_facts import (
    EntryLogLostFacts,
    FailingFacts,
    LostContentFacts,
    LostFacts,
    SilentFacts,
    UnreadableFacts,
)
from auditor.model.cluster_facts import MarkWithoutLedgerFacts, PopulationFacts
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerState
from auditor.model.reference_facts import (
    MissingLedgerFacts,
    NewestMissingFacts,
    OrphanedFacts,
    TruncatedLedgerFacts,
)

Parameters: TypeAlias = tuple[tuple[str, str], ...]


class WhyMarked(StrEnum):
    """Why a mark may still exist, as far as the evidence shows."""

    NO_COPY = "no_copy"
    """An entry has no copy to replicate from."""
    NO_COPY_IN_REACH = "no_copy_in_reach"
    """An entry has no copy on any bookie that answered. Those that may hold it are silent or not
    registered."""
    REPLICATION_DISABLED = "replication_disabled"
    NO_AUDITOR = "no_auditor"
    NO_SPARE_BOOKIE = "no_spare_bookie"
    LOCKED = "locked"
    EMPTY_LEDGER = "empty_ledger"
    """Closed without entries, and no bookie that answered holds an entry."""
    STALE = "stale"
    """Every copy was listed or read where the metadata says."""


@dataclass(frozen=True, slots=True)
class Search:
    """How far entries without a copy were searched on registered bookies outside their write sets.

    A bookie is searched by its list of the ledger if that is valid, else by reads. `searched`:
    bookies that gave a result for each entry. `unheard`: bookies that gave none for at least one.
    `found_on`: bookies that hold at least one. `found_unnamed`: those of them that no segment of
    the ledger names. `corrupt_on`: bookies that sent an entry with a wrong digest or other ids.
    """

    entries: int
    """Entries that were searched."""
    entries_found: int
    """Of these, entries that some bookie holds."""
    entries_unnamed: int
    """Of these, entries on a bookie that no segment of the ledger names, and that will garbage
    collect them."""
    entries_left: int
    """Entries without a copy that were not searched."""
    searched: tuple[BookieId, ...] = ()
    found_on: tuple[BookieId, ...] = ()
    found_unnamed: tuple[BookieId, ...] = ()
    corrupt_on: tuple[BookieId, ...] = ()
    unheard: tuple[BookieId, ...] = ()
    not_asked: tuple[BookieId, ...] = ()
    """Bookies that were not read: searches had used up the reads allowed on them in this run."""
    found_first: tuple[EntryId, ...] = ()
    """For each bookie of `found_on`, the lowest searched entry that it holds."""


@dataclass(frozen=True, slots=True)
class EntryFacts:
    """ENTRY_WITHOUT_REPLICA, ENTRY_ONLY_OUTSIDE_ENSEMBLE, ENTRY_BELOW_ACK_QUORUM and
    ENTRY_BELOW_WRITE_QUORUM."""

    worst_entry: EntryId
    write_set: tuple[BookieId, ...]
    """The distinct bookies of its write set, in that order."""
    listed_outside: tuple[BookieId, ...] = ()
    """Bookies outside the write set whose list of the ledger names the worst entry."""
    gone: tuple[BookieId, ...] = ()
    """Bookies that should hold entries of the ledger, but have neither registration nor cookie."""
    at_tail: bool = False
    """Only the end of the last segment is missing.

    Each bookie that lacks entries was found to hold all that it should hold before them. At least
    ack-quorum copies of the worst entry were found."""
    search: Search | None = None
    """None if every entry has a copy, or if no bookie could be searched."""


@dataclass(frozen=True, slots=True)
class UnavailableFacts:
    """ENTRY_UNAVAILABLE: why no bookie of the worst entry's write set can serve it.

    The bookies of `write_set` that are neither in `unregistered` nor in `failed` lack the entry.
    """

    worst_entry: EntryId
    write_set: tuple[BookieId, ...]
    """The distinct bookies of its write set, in that order."""
    unregistered: tuple[BookieId, ...]
    """Those of them that were not registered at any look, and may have a copy."""
    failed: tuple[BookieId, ...]
    """Those of them that answered the read with an error of their own, and may have a copy."""
    gone: tuple[BookieId, ...] = ()
    """Those of them that have neither registration nor cookie."""


@dataclass(frozen=True, slots=True)
class CorruptFacts:
    """ENTRY_CORRUPT.

    `copies`: each bookie, with the entries (ascending) that had a wrong digest at two looks.
    """

    worst_entry: EntryId
    write_set: tuple[BookieId, ...]
    copies: tuple[tuple[BookieId, tuple[EntryId, ...]], ...]


@dataclass(frozen=True, slots=True)
class MarkFacts:
    """UNDERREPLICATED_BEYOND_GRACE. `age_ms` counts from the older of the mark's two times.

    `state` is the ledger's, None if its metadata could not be read. The entries of a ledger that is
    not closed are not checked."""

    age_ms: int
    grace_ms: int
    created_ms: int
    changed_ms: int | None
    missing_replicas: tuple[BookieId, ...]
    problem: str
    """Why the mark's bytes could not be read; "" if they could."""
    lock_holder: str | None
    """Host name of the worker that holds its lock; "" if the lock has none, None without a lock."""
    lock_since_ms: int | None
    state: LedgerState | None
    why: tuple[WhyMarked, ...]


@dataclass(frozen=True, slots=True)
class UnrecoverableFacts:
    """UNDERREPLICATED_UNRECOVERABLE: the entries without a copy, and their ledger's mark."""

    entries: EntryFacts
    mark: MarkFacts


@dataclass(frozen=True, slots=True)
class DuplicateFacts:
    """ENSEMBLE_DUPLICATE_BOOKIE: each repeated bookie with its positions in the ensemble."""

    positions: tuple[tuple[BookieId, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class WriteSetFacts:
    """A write set that decides whether an ensemble adheres to the placement policy.

    `position` is where it begins in the ensemble, None for the ensemble as a whole. A location is
    None if the bookie has none (in java mode: if it is not writable). `why` is a clause: "has 1
    rack (/r1) and needs 2".
    """

    position: int | None
    members: tuple[BookieId, ...]
    locations: tuple[str | None, ...]
    why: str


@dataclass(frozen=True, slots=True)
class PlacementFacts:
    """PLACEMENT_FAILED and PLACEMENT_SOFT.

    `deciding` of `write_sets` write sets decide the adherence; `shown` are the first of these.
    """

    policy: str
    java_mode: bool
    parameters: Parameters
    write_sets: int
    deciding: int
    shown: tuple[WriteSetFacts, ...]
    without_location: tuple[BookieId, ...]
    recorded_policy: str
    """The policy that the ledger's writer recorded, "" if none. It is shown, never judged."""


@dataclass(frozen=True, slots=True)
class UndecodableFacts:
    """METADATA_MALFORMED: metadata that cannot be decoded. The bytes are left out: they hold the
    password."""

    reason: str
    offset_bytes: int
    length_bytes: int
    sha256: str


class Contradicts(StrEnum):
    """How metadata contradicts itself or BookKeeper's rules.

    The string below a member describes the numbers that go with it.
    """

    QUORUM_BELOW_ONE = "quorum_below_one"
    """Ensemble size, write quorum, ack quorum."""
    WRITE_QUORUM_ABOVE_ENSEMBLE = "write_quorum_above_ensemble"
    """Write quorum, ensemble size."""
    ACK_QUORUM_ABOVE_WRITE = "ack_quorum_above_write"
    """Ack quorum, write quorum."""
    NO_SEGMENT = "no_segment"
    FIRST_SEGMENT_NOT_AT_ZERO = "first_segment_not_at_zero"
    """Its firstEntryId."""
    SEGMENTS_OUT_OF_ORDER = "segments_out_of_order"
    """firstEntryId of a segment, and that of the segment before it, which is not lower."""
    WRONG_ENSEMBLE_SIZE = "wrong_ensemble_size"
    """firstEntryId of the segment, number of its bookies, ensemble size."""
    NO_LAST_ENTRY = "no_last_entry"
    LAST_ENTRY_BELOW_MINUS_ONE = "last_entry_below_minus_one"
    """lastEntryId."""
    SEGMENT_BEYOND_LAST_ENTRY = "segment_beyond_last_entry"
    """firstEntryId of the last segment, lastEntryId."""
    LENGTH_WITHOUT_ENTRY = "length_without_entry"
    """The length of a ledger that is closed with lastEntryId -1."""
    LENGTH_NOT_OF_LAST_ENTRY = "length_not_of_last_entry"
    """The length; lastEntryId; the length that the header of this entry proves."""


CONTRADICTIONS_MAX = 20
"""At most this many contradictions are in one finding; the rest is counted. A znode can hold
thousands of segments."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """One contradiction, with its numbers in the order given in `Contradicts`."""

    what: Contradicts
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldBeyondEnd:
    """Entries above the end of a ledger on one bookie: the first ranges of them, and their number.

    `is_listed`: a list names them. Otherwise they were read, and the bookie may hold more.
    """

    bookie_id: BookieId
    ranges: tuple[tuple[EntryId, EntryId], ...]
    entries: int
    is_listed: bool


@dataclass(frozen=True, slots=True)
class EndHeader:
    """The header of an entry, proven by its digest.

    `last_confirmed` is the last entry that the writer knew to be acknowledged, `length_bytes` the
    ledger's length up to this entry.
    """

    bookie_id: BookieId
    entry_id: EntryId
    last_confirmed: EntryId
    length_bytes: int


@dataclass(frozen=True, slots=True)
class BeyondEndFacts:
    """LEDGER_CLOSED_SHORT and ENTRIES_BEYOND_END: what lies above `last_entry_id`, the metadata's
    end.

    `header` has the highest `last_confirmed` of those that were read above the end; None if no
    digest proved one. If it is above `last_entry_id`, acknowledged entries were cut off.
    """

    last_entry_id: EntryId
    ack_quorum: int
    held_on: tuple[HeldBeyondEnd, ...]
    """The bookies that hold such entries, sorted."""
    header: EndHeader | None = None


@dataclass(frozen=True, slots=True)
class ContradictionFacts:
    """METADATA_MALFORMED: metadata that contradicts itself.

    `contradictions` are the first CONTRADICTIONS_MAX of `total`. `beyond_end` is set if entries lie
    above the end and no header proves that any of them was acknowledged.
    """

    contradictions: tuple[Contradiction, ...]
    total: int
    beyond_end: BeyondEndFacts | None = None


@dataclass(frozen=True, slots=True)
class StuckFacts:
    """LEDGER_STUCK. `since_ms` is when an OPEN ledger was created.

    For a ledger IN_RECOVERY it is the last write of its znode. `by_metadata`: the creation time is
    the one in the ledger's metadata."""

    state: LedgerState
    since_ms: int
    by_metadata: bool
    age_ms: int
    stuck_after_ms: int


@dataclass(frozen=True, slots=True)
class RecoveryFacts:
    """RECOVERY_BLOCKED. `ensemble` is that of the last segment, which begins at `first_entry_id`.

    In `blocked_write_sets` of its `write_sets` write sets, at least an ack quorum of bookies is
    unknown. `write_set` is the first of these. `unknown` are the unknown bookies of all of them:
    recovery can succeed when enough of them answer.
    """

    first_entry_id: EntryId
    ensemble: tuple[BookieId, ...]
    ack_quorum: int
    write_sets: int
    blocked_write_sets: int
    write_set: tuple[BookieId, ...]
    unknown: tuple[BookieId, ...]


Facts: TypeAlias = (
    EntryFacts
    | UnavailableFacts
    | CorruptFacts
    | MarkFacts
    | UnrecoverableFacts
    | DuplicateFacts
    | PlacementFacts
    | UndecodableFacts
    | ContradictionFacts
    | StuckFacts
    | RecoveryFacts
    | BeyondEndFacts
    | SilentFacts
    | FailingFacts
    | LostFacts
    | LostContentFacts
    | EntryLogLostFacts
    | UnreadableFacts
    | PopulationFacts
    | MarkWithoutLedgerFacts
    | MissingLedgerFacts
    | NewestMissingFacts
    | TruncatedLedgerFacts
    | OrphanedFacts
)


def facts_json(value: Any) -> Any:
    """Return a fact as plain JSON values.

    A dataclass becomes an object in the order of its fields, a tuple a list.
    """
    if is_dataclass(value):
        return {field.name: facts_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [facts_json(one) for one in value]
    return value.value if isinstance(value, Enum) else value
