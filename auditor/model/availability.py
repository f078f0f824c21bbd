"""What a bookie said about the entries it holds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from auditor.model.identity import BookieId, EntryId, LedgerId


class SequenceGroup(NamedTuple):
    """BP-34's SequenceGroup: runs of `size` entries starting at `first`, `first + period`, ..., `last`.

    `period` 0 is one run (`last == first`).
    """

    first: EntryId
    last: EntryId
    size: int
    period: int


class AnswerStatus(StrEnum):
    """What came of asking one bookie for its list of one ledger's entries."""

    HELD = "held"
    NO_SUCH_LEDGER = "no_such_ledger"
    SILENT = "silent"
    TIMED_OUT = "timed_out"
    REFUSED = "refused"
    INVALID = "invalid"
    TOO_LARGE = "too_large"
    UNSUPPORTED = "unsupported"
    UNREGISTERED = "unregistered"
    ADDRESS_UNKNOWN = "address_unknown"


VALID_ANSWERS = frozenset({AnswerStatus.HELD, AnswerStatus.NO_SUCH_LEDGER})
"""The two answers that say which entries are there. Everything else is unknown, never absence."""


NO_COOKIE = "neither registered nor known by a cookie"
"""The detail of an UNREGISTERED answer for a bookie that the cluster has forgotten, or never knew: it will not come back."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One bookie's answer about one ledger at one look.

    `groups` is the canonical form (contract section 5), 24 bytes a group, big-endian, without the 64-byte header; empty
    unless HELD. `requests` counts every frame sent for it, `retries` those beyond the first.
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

    @property
    def is_gone(self) -> bool:
        """The bookie was neither registered nor known by a cookie when it should have been asked."""
        return self.status is AnswerStatus.UNREGISTERED and self.detail == NO_COOKIE


class ReadStatus(StrEnum):
    """What came of reading one entry on one bookie (READ_ENTRY)."""

    PRESENT = "present"
    NO_ENTRY = "no_entry"
    NO_LEDGER = "no_ledger"
    SILENT = "silent"
    TIMED_OUT = "timed_out"
    REFUSED = "refused"
    INVALID = "invalid"
    CORRUPT = "corrupt"
    """The right entry with a digest that does not match its bytes."""
    TOO_LARGE = "too_large"
    UNREGISTERED = "unregistered"
    ADDRESS_UNKNOWN = "address_unknown"
    NOT_ASKED = "not_asked"
    """Not sent: the bookie was searched for entries of other ledgers as often as one run allows."""


ABSENT_READS = frozenset({ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER})
"""The two read answers that prove absence."""


@dataclass(frozen=True, slots=True)
class EntryRead:
    """One entry read on one bookie: to confirm that it is lacking, as a probe, or (`is_search`) to look for it elsewhere."""

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


class Greeting(StrEnum):
    """What a bookie as a whole did when it was asked at one look."""

    ANSWERED = "answered"
    SILENT = "silent"
    REFUSED = "refused"
    UNSUPPORTED = "unsupported"
    UNREGISTERED = "unregistered"
    ADDRESS_UNKNOWN = "address_unknown"
