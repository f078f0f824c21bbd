"""The facts of a finding: one frozen dataclass a kind (or for kinds that say the same things).

A witness is rendered from these values and from the looks, and from nothing else. So each sentence can be compared with the
truth: the second checker derives every fact again, and the model compares them with what it knows. Times are in ms since 1970
UTC, durations in ms where the name ends so. Sets of bookies are sorted tuples.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from enum import Enum, StrEnum
from typing import Any, TypeAlias

from auditor.model.bookie_facts import FailingFacts, LostContentFacts, LostFacts, SilentFacts
from auditor.model.cluster_facts import MarkWithoutLedgerFacts, PopulationFacts
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerState

Parameters: TypeAlias = tuple[tuple[str, str], ...]


class WhyMarked(StrEnum):
    """Why a mark may still stand, as far as the evidence tells."""

    NO_COPY = "no_copy"
    """An entry has no copy to replicate from."""
    NO_COPY_IN_REACH = "no_copy_in_reach"
    """An entry has no copy on any bookie that answered: all that may hold it are not registered or silent."""
    REPLICATION_DISABLED = "replication_disabled"
    NO_AUDITOR = "no_auditor"
    NO_SPARE_BOOKIE = "no_spare_bookie"
    LOCKED = "locked"
    EMPTY_LEDGER = "empty_ledger"
    """Closed without entries."""
    STALE = "stale"
    """Every copy was listed where the metadata says."""


@dataclass(frozen=True, slots=True)
class Search:
    """How far entries without a copy were looked for on registered bookies outside their write sets.

    A bookie is looked at by its list of the ledger where it gave a valid one, else by reading. `searched`: it answered for
    each entry it was looked at for. `unheard`: it did not, for one of them at least. `found_on`: it holds one at least;
    `found_unnamed`: likewise, and no segment of the ledger names it. `corrupt_on`: it sent one with a wrong digest or under
    other ids.
    """

    entries: int
    """Entries looked for."""
    entries_found: int
    """Of these, entries that some bookie holds."""
    entries_unnamed: int
    """Of these, entries that a bookie holds which no segment of the ledger names: it will collect them."""
    entries_left: int
    """Entries without a copy that were not looked for."""
    searched: tuple[BookieId, ...] = ()
    found_on: tuple[BookieId, ...] = ()
    found_unnamed: tuple[BookieId, ...] = ()
    corrupt_on: tuple[BookieId, ...] = ()
    unheard: tuple[BookieId, ...] = ()
    not_asked: tuple[BookieId, ...] = ()
    """Bookies that were not read, because the search had reached its bound for one bookie and run."""
    found_first: tuple[EntryId, ...] = ()
    """For each bookie of `found_on`, the lowest entry looked for that it holds."""


@dataclass(frozen=True, slots=True)
class EntryFacts:
    """ENTRY_WITHOUT_REPLICA, ENTRY_ONLY_OUTSIDE_ENSEMBLE, ENTRY_BELOW_ACK_QUORUM and ENTRY_BELOW_WRITE_QUORUM."""

    worst_entry: EntryId
    write_set: tuple[BookieId, ...]
    """The distinct bookies of its write set, in that order."""
    listed_outside: tuple[BookieId, ...] = ()
    """Bookies outside the write set whose list of the ledger names the worst entry."""
    gone: tuple[BookieId, ...] = ()
    """Bookies with neither a registration nor a cookie that should hold some entry of the ledger, and so lack it."""
    at_tail: bool = False
    """Each bookie that lacks entries was found to hold all it should before them: only the end of the last segment is missing.
    Of the worst entry as many copies as the ack quorum were found."""
    search: Search | None = None
    """None where every entry has a copy, or where no bookie could be looked at."""


@dataclass(frozen=True, slots=True)
class CorruptFacts:
    """ENTRY_CORRUPT. `copies`: each bookie with the entries, ascending, that it sent with a wrong digest at two looks."""

    worst_entry: EntryId
    write_set: tuple[BookieId, ...]
    copies: tuple[tuple[BookieId, tuple[EntryId, ...]], ...]


@dataclass(frozen=True, slots=True)
class MarkFacts:
    """UNDERREPLICATED_BEYOND_GRACE. `age_ms` counts from the older of the two times. `state` is the ledger's, None where its
    metadata could not be read: of a ledger that is not closed no entry is checked."""

    age_ms: int
    grace_ms: int
    created_ms: int
    changed_ms: int | None
    missing_replicas: tuple[BookieId, ...]
    problem: str
    """Why the mark's bytes could not be read; "" where they could."""
    lock_holder: str | None
    """Host name of the worker that holds its lock, "" where the lock names none; None without a lock."""
    lock_since_ms: int | None
    state: LedgerState | None
    why: tuple[WhyMarked, ...]


@dataclass(frozen=True, slots=True)
class UnrecoverableFacts:
    """UNDERREPLICATED_UNRECOVERABLE: the entries without a copy, and the mark of their ledger."""

    entries: EntryFacts
    mark: MarkFacts


@dataclass(frozen=True, slots=True)
class DuplicateFacts:
    """ENSEMBLE_DUPLICATE_BOOKIE: each bookie that stands more than once, with its positions in the ensemble."""

    positions: tuple[tuple[BookieId, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class WriteSetFacts:
    """A write set that decides about placement. `position` is where it begins, None for the ensemble as a whole; a location is
    None where the bookie has none (in java mode: where it is not writable). `why` is a clause: "has 1 rack (/r1) and needs 2".
    """

    position: int | None
    members: tuple[BookieId, ...]
    locations: tuple[str | None, ...]
    why: str


@dataclass(frozen=True, slots=True)
class PlacementFacts:
    """PLACEMENT_FAILED and PLACEMENT_SOFT. `shown` are the first of the `deciding` write sets, of `write_sets` in all."""

    policy: str
    java_mode: bool
    parameters: Parameters
    write_sets: int
    deciding: int
    shown: tuple[WriteSetFacts, ...]
    without_location: tuple[BookieId, ...]
    recorded_policy: str
    """What the ledger's writer recorded: shown, never judged; "" where it recorded none."""


@dataclass(frozen=True, slots=True)
class UndecodableFacts:
    """METADATA_MALFORMED: bytes that cannot be decoded; never the bytes themselves, which carry the password."""

    reason: str
    offset_bytes: int
    length_bytes: int
    sha256: str


class Contradicts(StrEnum):
    """What BookKeeper promises of metadata, and is not so. Behind each member: the numbers that go with it."""

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
    """firstEntryId of a segment, and of the one before it, which is not lower."""
    WRONG_ENSEMBLE_SIZE = "wrong_ensemble_size"
    """firstEntryId of the segment, its bookies, ensemble size."""
    NO_LAST_ENTRY = "no_last_entry"
    LAST_ENTRY_BELOW_MINUS_ONE = "last_entry_below_minus_one"
    """lastEntryId."""
    SEGMENT_BEYOND_LAST_ENTRY = "segment_beyond_last_entry"
    """firstEntryId of the last segment, lastEntryId."""


CONTRADICTIONS_MAX = 20
"""Contradictions that a finding carries; the rest is counted. A znode has room for thousands of segments."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """One contradiction with its numbers, in the order that `Contradicts` gives."""

    what: Contradicts
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ContradictionFacts:
    """METADATA_MALFORMED: metadata that contradicts itself. `contradictions` are the first CONTRADICTIONS_MAX of `total`."""

    contradictions: tuple[Contradiction, ...]
    total: int


@dataclass(frozen=True, slots=True)
class StuckFacts:
    """LEDGER_STUCK. OPEN counts from the ledger's creation (`by_metadata`: as its own metadata dates it), IN_RECOVERY from
    the last write of its znode."""

    state: LedgerState
    since_ms: int
    by_metadata: bool
    age_ms: int
    stuck_after_ms: int


@dataclass(frozen=True, slots=True)
class BeyondEndFacts:
    """ENTRIES_BEYOND_END: entries above `last_entry_id` that at least ack-quorum bookies of the last ensemble list."""

    last_entry_id: EntryId
    ack_quorum: int
    listed_by: tuple[BookieId, ...]
    """The bookies of the last ensemble that list one of them."""


Facts: TypeAlias = (
    EntryFacts
    | CorruptFacts
    | MarkFacts
    | UnrecoverableFacts
    | DuplicateFacts
    | PlacementFacts
    | UndecodableFacts
    | ContradictionFacts
    | StuckFacts
    | BeyondEndFacts
    | SilentFacts
    | FailingFacts
    | LostFacts
    | LostContentFacts
    | PopulationFacts
    | MarkWithoutLedgerFacts
)


def facts_json(value: Any) -> Any:
    """Return a fact as plain JSON values: a dataclass as an object in the order of its fields, a tuple as a list."""
    if is_dataclass(value):
        return {field.name: facts_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [facts_json(one) for one in value]
    return value.value if isinstance(value, Enum) else value
