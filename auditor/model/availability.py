"""What a bookie said about the entries it holds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from auditor.model.identity import BookieId, EntryId, LedgerId


class SequenceGroup(NamedTuple):
    """BP-34's SequenceGroup: runs of `size` entries each.

    The runs start at `first`, `first + period`, ..., `last`. With `period` 0 there is one run
    (`last == first`).
    """

    first: EntryId
    last: EntryId
    size: int
    period: int


class AnswerStatus(StrEnum):
    """The result of asking one bookie for its list of one ledger's entries."""

    HELD = "held"
    NO_SUCH_LEDGER = "no_such_ledger"
    SILENT = "silent"
    TIMED_OUT = "timed_out"
    REFUSED = "refused"
    """The bookie does not serve us: not authorised (EUA), too busy (ETOOMANYREQUESTS), or it does
    not know the request."""
    FAILED = "failed"
    """The bookie tried and failed, and says so (EIO, EUNKNOWNLEDGERSTATE)."""
    INVALID = "invalid"
    TOO_LARGE = "too_large"
    UNSUPPORTED = "unsupported"
    UNREGISTERED = "unregistered"
    ADDRESS_UNKNOWN = "address_unknown"
    AUDITOR_LIMITED = "auditor_limited"
    """No request could be sent: our own host has no way to the bookie."""


VALID_ANSWERS = frozenset({AnswerStatus.HELD, AnswerStatus.NO_SUCH_LEDGER})
"""The two answers that say which entries a bookie has. All others mean unknown, never absent."""


NO_COOKIE = "neither registered nor known by a cookie"
"""Detail of an UNREGISTERED answer for a bookie that the cluster has forgotten or never knew. Such
a bookie does not come back."""


NOT_ADMITTED = "not admitted: "
"""The beginning of the detail of a REFUSED answer, read or greeting if we and the bookie did not
accept each other's TLS or login. Nothing was requested: this does not tell how the bookie serves.
"""

NOT_DIALLED = "not dialled: "
"""The beginning of the detail of a SILENT answer, read or greeting if we had no Kerberos ticket
because no KDC answered. Nothing was sent: this says nothing about the bookie."""

WHILE_OTHERS_CAME = ", while the bookie answered other requests"
"""The end of the detail of a TIMED_OUT answer or read on a connection that was not lost."""

NON_CANONICAL = (
    "reserved bytes are set, or a group of one run has a period; the entries are well defined"
)
"""What is unusual about a HELD answer that is `non_canonical`."""

LISTED_BY_LISTER = "listed by its lister at "
"""The beginning of the detail of a HELD answer, and of a greeting, if a lister listed for the
bookie."""

LISTER_SILENT = "its lister does not list: "
"""The beginning of a greeting's detail if the bookie's lister gave no list."""
LISTER_CONTRADICTED = "its lister is not believed: "
"""The beginning of a greeting's detail if the bookie denies what its lister listed."""


@dataclass(frozen=True, slots=True)
class MissingLog:
    """An entry log that a bookie's index names, but that is not on the bookie's disk.

    `path` is the file that the lister looked for. The index places `entries` entries of the ledger
    in it, and `ranges` has the first of them: inclusive, ascending, disjoint.
    """

    path: str
    entries: int
    ranges: tuple[tuple[EntryId, EntryId], ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """One bookie's answer about one ledger at one look.

    `groups` is the canonical form of BP-34's list: 24 bytes a group, big-endian, without the
    64-byte header. It is empty unless HELD. `requests` counts every frame sent for this answer,
    `retries` those beyond the first. `non_canonical`: see NON_CANONICAL.

    Only a lister's answer has `missing_logs` and `read_unlisted`. `missing_logs`: entry logs whose
    entries its list leaves out. `read_unlisted`: entries that the list lacks, but that the bookie
    sent when they were read afterwards.

    `is_as_expected`: the list was compared when it came, and equals what the metadata of the same
    look places on the bookie. False also stands for a list that was not compared.
    """

    bookie_id: BookieId
    ledger_id: LedgerId
    look: int
    asked_at_ms: int
    status: AnswerStatus
    groups: bytes = b""
    detail: str = ""
    requests: int = 0
    retries: int = 0
    received_bytes: int = 0
    non_canonical: bool = False
    missing_logs: tuple[MissingLog, ...] = ()
    read_unlisted: tuple[EntryId, ...] = ()
    is_as_expected: bool = False

    @property
    def is_from_lister(self) -> bool:
        """Whether the list came from the bookie's lister, not from the bookie."""
        return self.detail.startswith(LISTED_BY_LISTER)

    @property
    def is_gone(self) -> bool:
        """Whether the bookie had neither a registration nor a cookie when it was to be asked."""
        return self.status is AnswerStatus.UNREGISTERED and self.detail == NO_COOKIE


class ReadStatus(StrEnum):
    """The result of reading one entry on one bookie (READ_ENTRY)."""

    PRESENT = "present"
    NO_ENTRY = "no_entry"
    NO_LEDGER = "no_ledger"
    SILENT = "silent"
    TIMED_OUT = "timed_out"
    REFUSED = "refused"
    """The bookie does not serve us: not authorised (EUA), too busy (ETOOMANYREQUESTS), or it does
    not know the request."""
    FAILED = "failed"
    """The bookie tried and failed, and says so (EIO, EUNKNOWNLEDGERSTATE)."""
    INVALID = "invalid"
    CORRUPT = "corrupt"
    """The right entry, but its digest does not match its bytes."""
    TOO_LARGE = "too_large"
    UNREGISTERED = "unregistered"
    ADDRESS_UNKNOWN = "address_unknown"
    AUDITOR_LIMITED = "auditor_limited"
    NOT_ASKED = "not_asked"
    """Not sent: the searches of this run had used up the reads allowed on this bookie."""


ABSENT_READS = frozenset({ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER})
"""The two results of a read that prove absence."""
UNREADABLE_READS = frozenset({ReadStatus.FAILED, ReadStatus.CORRUPT})
"""Results of a read in which the bookie does not deny the entry but fails to send it as it was
written: an error of its own, or a wrong digest."""
ANSWERED_READS = frozenset({ReadStatus.PRESENT, ReadStatus.CORRUPT, *ABSENT_READS})
"""Reads in which the bookie said something about the requested entry."""

HIGHEST_STORED: EntryId = -1
"""The entry id with which READ_ENTRY returns the highest entry of a ledger that a bookie stores."""


@dataclass(frozen=True, slots=True)
class EntryRead:
    """One read of an entry on one bookie.

    It confirms that the bookie lacks the entry, is a probe, asks what lies above the end of the
    ledger, searches for the entry on bookies where it does not belong (`is_search`), or tests a
    list (`is_spot`): the entry was drawn before anything was judged, or (`is_denser`) because the
    bookie came into doubt, or (`is_named`) the scrub of its lister named it.

    `entry_id` is HIGHEST_STORED where the highest stored entry was asked for; `stored_entry_id` is
    then the entry that came, and None otherwise. `last_confirmed` and `length_bytes` are what the
    entry's header says: the last entry that its writer knew to be acknowledged, and the length of
    the ledger up to this entry. They are None unless a digest proves them.
    """

    bookie_id: BookieId
    ledger_id: LedgerId
    entry_id: EntryId
    look: int
    asked_at_ms: int
    status: ReadStatus
    detail: str = ""
    requests: int = 0
    retries: int = 0
    received_bytes: int = 0
    is_search: bool = False
    stored_entry_id: EntryId | None = None
    last_confirmed: EntryId | None = None
    length_bytes: int | None = None
    is_spot: bool = False
    is_denser: bool = False
    is_named: bool = False

    @property
    def sent_entry_id(self) -> EntryId:
        """The entry that this read is about: if the highest was requested, the one that came."""
        return self.entry_id if self.stored_entry_id is None else self.stored_entry_id


@dataclass(frozen=True, slots=True)
class LanePace:
    """How fast a bookie was asked at the end: the most requests outstanding, and sent per second.

    A rate of 0 means no limit. `is_low`: less than the limits allow, because the bookie showed
    strain. `earlier_low` is the lowest pace of the same conversation, if it was lower before.
    """

    inflight: int
    requests_per_second: float
    is_low: bool
    earlier_low: LanePace | None = None

    @property
    def lowest(self) -> LanePace:
        """The lowest pace of the conversation."""
        return self.earlier_low or self


class DiskSpace(NamedTuple):
    """What a bookie says of the disks of its ledger directories in GET_BOOKIE_INFO, in bytes.

    None: the bookie did not say it, or nothing that can be true. Bookies on one host may share
    disks, and each then reports all of them.
    """

    total_bytes: int | None = None
    free_bytes: int | None = None


class Greeting(StrEnum):
    """How one bookie responded at one look, over all its requests."""

    ANSWERED = "answered"
    SILENT = "silent"
    REFUSED = "refused"
    UNSUPPORTED = "unsupported"
    UNREGISTERED = "unregistered"
    ADDRESS_UNKNOWN = "address_unknown"
    AUDITOR_LIMITED = "auditor_limited"
