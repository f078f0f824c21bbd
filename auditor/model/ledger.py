"""A ledger as ZooKeeper has it: metadata, under-replication mark, and how reading them ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from auditor.model.identity import BookieId, EntryId, LedgerId


class LedgerState(StrEnum):
    """LedgerMetadataFormat.State."""

    OPEN = "OPEN"
    IN_RECOVERY = "IN_RECOVERY"
    CLOSED = "CLOSED"


class DigestType(IntEnum):
    """LedgerMetadataFormat.DigestType, with its numbers on the wire."""

    CRC32 = 1
    HMAC = 2
    CRC32C = 3
    DUMMY = 4


@dataclass(frozen=True, slots=True)
class Segment:
    """Entries from `first_entry_id` up to the next segment or the last entry.

    `ensemble` has the bookies that hold them, by position.
    """

    first_entry_id: EntryId
    ensemble: tuple[BookieId, ...]


@dataclass(frozen=True, slots=True)
class LedgerMetadata:
    """Decoded ledger metadata, exactly as written, without the password. It may contradict itself.

    `last_entry_id` is inclusive; None if the bytes have none; -1 for a closed ledger without
    entries. `ack_quorum` is the write quorum if the bytes have none (format 1).
    """

    format_version: int
    state: LedgerState
    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    last_entry_id: EntryId | None
    length: int
    segments: tuple[Segment, ...]
    digest_type: DigestType | None = None
    ctime_ms: int | None = None
    custom_metadata: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class ReplicationLock:
    """The lock of a worker that replicates a marked ledger.

    `holder` is the worker's host name, "" if the lock has none.
    """

    holder: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class Mark:
    """An under-replication mark at the path computed from its ledger's id.

    `created_ms` is the znode's creation time. `changed_ms` is the mark's own ctime field, which
    BookKeeper sets again whenever a replica is added. `problem` says why the bytes could not be
    read; the ledger is marked all the same.
    """

    created_ms: int
    changed_ms: int | None = None
    missing_replicas: tuple[BookieId, ...] = ()
    problem: str | None = None
    lock: ReplicationLock | None = None


@dataclass(frozen=True, slots=True)
class ZnodeStamp:
    """Identifies the incarnation of a znode and the write that was read: equal stamps mean equal
    bytes.

    `ctime_ms` is when the znode was created, `mtime_ms` when it was last written.
    """

    czxid: int
    version: int
    ctime_ms: int
    mtime_ms: int = 0


@dataclass(frozen=True, slots=True)
class Malformed:
    """Where and why metadata could not be decoded; never the bytes, which hold the password."""

    reason: str
    offset: int
    length: int
    sha256: str


class RecordStatus(StrEnum):
    """The result of reading one ledger's znode."""

    FOUND = "found"
    GONE = "gone"
    MALFORMED = "malformed"
    UNREADABLE = "unreadable"
    NOT_AUTHORISED = "not_authorised"


@dataclass(frozen=True, slots=True)
class LedgerRecord:
    """What ZooKeeper said of one ledger at one look.

    `metadata` is set when FOUND, `malformed` when MALFORMED, `stamp` in both cases. An unreadable
    ledger has a record too, with the reason in `detail`.
    """

    ledger_id: LedgerId
    look: int
    read_at_ms: int
    status: RecordStatus
    stamp: ZnodeStamp | None = None
    metadata: LedgerMetadata | None = None
    malformed: Malformed | None = None
    mark: Mark | None = None
    detail: str = ""
