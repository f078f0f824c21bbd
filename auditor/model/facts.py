"""The facts of a finding: one frozen dataclass for each kind, or for kinds with the same facts.

A witness is rendered from these values and the looks alone. This makes each sentence testable: the
second checker derives every fact of a ledger again, and the model-based tests compare them with
what they know.

Names that end in `_ms` are times (ms since 1970 UTC) or durations (ms); `previous_finished_at` is
text. Sets of bookies are sorted tuples.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from enum import Enum, StrEnum
from typing import Any, TypeAlias

from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import LedgerState
from auditor.model.topic import Position, Role


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

    `cookie_created_ms`: when ZooKeeper created the bookie's cookie, None if it is not known. The
    metadata of `older_ledgers` of the ledgers that it lacks was last written before that.
    `earlier_cookie_created_ms`: the creation of another cookie that an earlier run saw, else None.
    """

    registration: str
    address: str
    asked: int
    was_probed: bool
    lacking_most: int
    absent: int
    expected: int
    some_ledgers: tuple[LedgerId, ...]
    cookie_created_ms: int | None = None
    older_ledgers: int = 0
    earlier_cookie_created_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ForeignCookieFacts:
    """COOKIE_OF_ANOTHER_INSTANCE.

    `cookie_created_ms` is the time at which ZooKeeper created the cookie; None if it is not known.
    """

    registration: str
    cookie_instance_id: str
    instance_id: str
    cookie_created_ms: int | None
    looks: int


@dataclass(frozen=True, slots=True)
class SizeLost:
    """The total size of a bookie's disks now, and as an earlier run saw it."""

    total_bytes: int
    earlier_total_bytes: int


@dataclass(frozen=True, slots=True)
class DirectoriesLost:
    """How many ledger directories a cookie names now, and how many it named at an earlier run.

    `gone` are the first of those that it does not name any more.
    """

    directories: int
    earlier_directories: int
    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShrunkFacts:
    """BOOKIE_DISK_SHRANK. At least one of `size` and `directories` is not None.

    `missing_percent` is the part of the earlier size that is missing, rounded down, and
    `missing_directories` how many directories fewer the cookie names; 0 for what did not shrink.
    `apart_ms`: from the earlier run's reading to the last look of this run.
    """

    registration: str
    address: str
    size: SizeLost | None
    directories: DirectoriesLost | None
    missing_percent: int
    missing_directories: int
    apart_ms: int


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


@dataclass(frozen=True, slots=True)
class PopulationFacts:
    """LEDGER_POPULATION_DROPPED.

    `ledgers` were listed first, and `ledgers_again` in a second listing `apart_ms` later.
    """

    previous_run: str
    previous_finished_at: str
    previous_ledgers: int
    ledgers: int
    ledgers_again: int
    apart_ms: int
    drop_percent: int
    some_gone: tuple[LedgerId, ...]
    instance_id: str | None
    runs_in_a_row: int = 1
    """Consecutive whole runs, including this one, that listed so few ledgers compared with the same
    run."""


@dataclass(frozen=True, slots=True)
class OverdueFacts:
    """VERIFICATION_OVERDUE.

    `overdue` of the `copies_due` that should be read within `period_ms` were not. They are on
    `bookies` bookies. `oldest_read_ms`: when the copy was read that was read longest ago, None if
    none was.
    """

    period_ms: int
    copies_due: int
    overdue: int
    oldest_read_ms: int | None
    bookies: int
    some_bookies: tuple[BookieId, ...]
    bytes_per_second: int
    rate_needed: int | None
    """The bytes a second with which runs would keep the period on the bookies that they read; None
    if they read none of these."""
    not_read: int
    """How many of the bookies neither runs nor listers read."""
    some_not_read: tuple[BookieId, ...]
    scrubbed: int
    """How many of the bookies have a lister that scrubs."""
    some_scrubbed: tuple[BookieId, ...]
    unanswered: int
    """How many of the bookies did not answer the run, or too few of its reads."""
    some_unanswered: tuple[BookieId, ...]
    reads_unanswered: int
    """How many reads on the other bookies had no answer when they were last made, at least."""


@dataclass(frozen=True, slots=True)
class MarkWithoutLedgerFacts:
    """MARK_WITHOUT_LEDGER.

    `marks` counts marks older than `grace_ms` whose ledgers had no metadata at two looks. The looks
    are `apart_ms` apart.
    """

    marks: int
    some_ledgers: tuple[LedgerId, ...]
    """The ledgers of the oldest of these marks, at most 20, oldest mark first."""
    oldest_age_ms: int
    oldest_path: str
    """The znode of the oldest mark."""
    grace_ms: int
    unchecked: int
    """Further marks of ledgers that were not listed: too many to check."""
    apart_ms: int
    replication_disabled: bool


USES_SHOWN_MAX = 20
"""A finding names at most this many uses of a ledger; the rest is counted."""

LOOKS_APART_MIN_MS = 1_000
"""Least time between the two looks at a ledger, and at its references, on which a finding rests.

A broker that deletes a topic deletes the ledgers first and the references afterwards, in
milliseconds each. A small topic vanishes within a second, a large one within the default delay of
five minutes."""


@dataclass(frozen=True, slots=True)
class UseFacts:
    """What a topic needs a ledger for.

    `name` is the subscription of a cursor or of a compaction, "" for other roles. `position`
    depends on the role: the first lost entry for data, the newest schema in the ledger for a
    schema, ZooKeeper's position of the subscription for a cursor. `shadow_source` is the topic
    whose znode has the ledgers of a shadow topic; None for other topics and roles.
    """

    topic: str
    role: Role
    name: str
    position: Position | None
    shadow_source: str | None = None


@dataclass(frozen=True, slots=True)
class MissingLedgerFacts:
    """REFERENCED_LEDGER_MISSING. The ledger had no metadata at two looks, `apart_ms` apart.

    `topics` reference it in `uses` ways at both looks. `entries` and `size_bytes` are what the
    topic recorded when it closed the ledger, None if nothing was recorded.
    """

    topics: int
    uses: int
    some_uses: tuple[UseFacts, ...]
    """At most 20, those of shadow topics last; sorted by topic, role and name."""
    entries: int | None
    size_bytes: int | None
    apart_ms: int


@dataclass(frozen=True, slots=True)
class NewestMissingFacts:
    """NEWEST_LEDGER_MISSING. The ledger had no metadata at two looks, `apart_ms` apart.

    It is the newest ledger of `topics` topics at both looks, and none recorded how many entries it
    has. A shadow topic and its source have the same newest ledger.
    """

    topics: int
    uses: int
    some_uses: tuple[UseFacts, ...]
    """At most 20, those of shadow topics last; sorted by topic, role and name."""
    apart_ms: int


@dataclass(frozen=True, slots=True)
class TruncatedLedgerFacts:
    """LEDGER_TRUNCATED. The metadata was closed at `last_entry_id` at two looks, `apart_ms` apart.

    `topics` record in `uses` ways that the ledger has more entries; `entries` is the highest of the
    recorded numbers. `length_bytes` is the length in the metadata, `size_bytes` the recorded one.
    """

    last_entry_id: EntryId
    entries: int
    topics: int
    uses: int
    some_uses: tuple[UseFacts, ...]
    """At most 20, those of shadow topics last; sorted by topic, role and name."""
    length_bytes: int
    size_bytes: int | None
    apart_ms: int


@dataclass(frozen=True, slots=True)
class DroppedLedgerFacts:
    """LEDGER_DROPPED_FROM_TOPIC. Run `earlier_run` read the ledger in the lists of `topics` topics.

    At two looks, `apart_ms` apart, these lists lack it, and still have the ledger `before` it and
    the one `after` it, None if they have none of those that they had. `entries` and `size_bytes`
    are what the topic recorded, None if nothing was recorded. `is_offloaded`: a copy was in
    long-term storage. `is_listed`: BookKeeper still has its metadata. The numbers are those of the
    first topic.
    """

    earlier_run: str
    earlier_read_at_ms: int
    topics: int
    some_topics: tuple[str, ...]
    """At most 20, sorted."""
    before: LedgerId
    after: LedgerId | None
    entries: int | None
    size_bytes: int | None
    is_offloaded: bool
    is_listed: bool
    apart_ms: int


class Acknowledgement(StrEnum):
    """What of a subscription has a position."""

    MARK_DELETE = "mark_delete"
    """Everything up to it is acknowledged."""
    RANGE = "range"
    """The end of a range of entries that are acknowledged one by one."""


@dataclass(frozen=True, slots=True)
class PositionFacts:
    """A position of a subscription."""

    topic: str
    subscription: str
    what: Acknowledgement
    position: Position


@dataclass(frozen=True, slots=True)
class PositionBeyondFacts:
    """POSITION_BEYOND_END. The metadata was closed at `last_entry_id` at two looks, `apart_ms`
    apart.

    At both of them `positions` positions of `topics` topics were above it.
    """

    last_entry_id: EntryId
    topics: int
    positions: int
    some_positions: tuple[PositionFacts, ...]
    """At most 20, sorted by topic and subscription."""
    apart_ms: int


@dataclass(frozen=True, slots=True)
class OrphansInNamespace:
    """The orphans of one namespace.

    `stored_bytes`: the lengths of the closed ones, times their write quorums. `is_deleted`: the
    namespace had no policies, managed ledgers or partitioned topics at two looks.
    """

    namespace: str
    ledgers: int
    stored_bytes: int
    is_deleted: bool


@dataclass(frozen=True, slots=True)
class OrphansOfTopic:
    """The orphans that name one topic. `stored_bytes` is as for a namespace."""

    topic: str
    ledgers: int
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class OrphansOnBookie:
    """The orphans that name one bookie.

    `estimated_bytes` is its part of their stored bytes, as if all entries of a ledger had the same
    size and were spread evenly over each ensemble.
    """

    bookie_id: BookieId
    ledgers: int
    estimated_bytes: int


@dataclass(frozen=True, slots=True)
class OrphanedFacts:
    """LEDGER_ORPHANED. Ledgers of Pulsar that nothing referenced at two looks.

    They are ledgers of messages and of cursors, older than `orphan_age_ms`, whose topic could be
    read.
    """

    ledgers: int
    some_ledgers: tuple[LedgerId, ...]
    """The first 20, ascending."""
    length_bytes: int
    """The sum of the lengths of the closed ledgers."""
    stored_bytes: int
    """The sum of these lengths, each times the ledger's write quorum."""
    without_length: int
    """Ledgers that are not closed: their metadata has no length yet."""
    oldest_age_ms: int
    orphan_age_ms: int
    namespaces: int
    some_namespaces: tuple[OrphansInNamespace, ...]
    """At most 20, those with the most bytes first."""
    topics: int
    some_topics: tuple[OrphansOfTopic, ...]
    """Likewise."""
    bookies: int
    some_bookies: tuple[OrphansOnBookie, ...]
    """Likewise."""
    undecided: int
    """Further Pulsar ledgers of this age without a decoded reference.

    Something that is not decoded may reference them."""
    apart_ms: int


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


class MetadataField(StrEnum):
    """The fields of a closed ledger's metadata that do not change, by BookKeeper's names."""

    STATE = "state"
    LAST_ENTRY_ID = "lastEntryId"
    LENGTH = "length"
    ENSEMBLE_SIZE = "ensembleSize"
    WRITE_QUORUM = "quorumSize"
    ACK_QUORUM = "ackQuorumSize"
    DIGEST_TYPE = "digestType"
    CTIME = "ctime"


@dataclass(frozen=True, slots=True)
class ChangedField:
    """A field of metadata, as an earlier run stored it and as it is now."""

    name: MetadataField
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ChangedMetadataFacts:
    """CLOSED_METADATA_CHANGED. Run `earlier_run` read other metadata at `earlier_read_at_ms`.

    The versions are those of the znode, then and at the closing look. `is_same_znode`: the znode
    was created by the same transaction. The two looks of this run are `apart_ms` apart.
    """

    earlier_run: str
    earlier_read_at_ms: int
    earlier_version: int | None
    version: int | None
    is_same_znode: bool
    fields: tuple[ChangedField, ...]
    apart_ms: int


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
    | ForeignCookieFacts
    | ShrunkFacts
    | EntryLogLostFacts
    | UnreadableFacts
    | PopulationFacts
    | OverdueFacts
    | ChangedMetadataFacts
    | MarkWithoutLedgerFacts
    | MissingLedgerFacts
    | NewestMissingFacts
    | TruncatedLedgerFacts
    | DroppedLedgerFacts
    | PositionBeyondFacts
    | OrphanedFacts
)


def facts_json(value: Any) -> Any:
    """Return a fact as plain JSON values.

    A dataclass becomes an object in the order of its fields, a tuple a list.
    """
    if is_dataclass(value):
        return {field.name: facts_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [facts_json(part) for part in value]
    return value.value if isinstance(value, Enum) else value
