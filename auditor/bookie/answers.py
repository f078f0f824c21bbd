"""Turn a bookie's responses, or their absence, into evidence.

Each question becomes exactly one Answer or EntryRead. `ListingProof` decides whether a bookie can
list at all: one with DbLedgerStorage never answers GET_LIST for a ledger that it holds.
"""

from __future__ import annotations

from collections.abc import Callable

from auditor.bookie.questions import Ask, ReadQuestion
from auditor.errors import MalformedAvailability
from auditor.model.availability import HIGHEST_STORED, Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import DigestType
from auditor.wire.bookie_connection import LENGTH_BYTES, Answered, AnswerTooLarge
from auditor.wire.digest import BodyCheck, EntryHeader, check_body, read_header
from auditor.wire.entry_availability import decode
from auditor.wire.frames import Status, status_name

UNANSWERED_MIN = 3
"""A bookie counts as unable to list only after this many lists of held ledgers went unanswered, or
all lists if there are fewer."""


class ListingProof:
    """Counts that distinguish a bookie that cannot list from a slow one.

    They cover one conversation. `asked` counts lists that the lane was given, sent or not: one not
    sent yet may still be answered. `has_listed`: the bookie listed a ledger in an earlier
    conversation of the run, and therefore can list. `losses_count`: a list also counts as
    unanswered if every connection on which it was sent was lost. A bookie without read threads ends
    the connection if its storage cannot list, but a network fault does too. Losses therefore count
    only from the second look on, and only if the first look failed too.
    """

    def __init__(self, *, has_listed: bool = False, losses_count: bool = True) -> None:
        self.asked = 0
        self.listed = int(has_listed)
        self.no_such_ledger = 0
        self.unanswered = 0
        self.lost = 0
        """How many of the unanswered lists had every connection lost."""
        self._losses_count = losses_count

    def is_unable(self) -> bool:
        """Return whether the bookie has shown that it cannot list.

        Call this only when GET_BOOKIE_INFO has just been answered. The bookie has shown it if no
        list came in the whole conversation, and lists of UNANSWERED_MIN ledgers that it may hold,
        or of all, went unanswered. A late list counts as a list; ENOLEDGER does not.
        """
        held = self.asked - self.no_such_ledger
        proven = self.unanswered if self._losses_count else self.unanswered - self.lost
        return self.listed == 0 and 0 < min(UNANSWERED_MIN, held) <= proven


def describe_unable(unanswered: int, waited_s: float | None) -> str:
    """Return why a bookie counts as unable to list.

    `waited_s`: how long we waited, in seconds; None for the whole time-out.
    """
    within = f" within {waited_s * 1000:.0f} ms" if waited_s is not None else ""
    return (
        f"GET_BOOKIE_INFO is answered, GET_LIST_OF_ENTRIES_OF_LEDGER is not{within} (asked for"
        f" {unanswered} ledgers): this bookie's storage cannot list, as DbLedgerStorage cannot"
    )


_HELD = AnswerStatus.HELD
_FAILURES = frozenset({Status.EIO, Status.EUNKNOWNLEDGERSTATE})
"""Statuses by which a bookie says that it tried and failed. All others are about us, the request,
or how busy the bookie is."""
_SAYS = {
    Status.EIO: "the bookie's storage failed",
    Status.EUNKNOWNLEDGERSTATE: "the bookie does not know what it holds after an unclean shutdown",
    Status.EBADREQ: "the bookie does not know this request",
    Status.EBADVERSION: "the bookie does not speak protocol version 3",
    Status.ETOOMANYREQUESTS: "the bookie's read queue was full at the last try",
}


class Evidence:
    """Makes the evidence of one bookie at one look.

    `groups_max` and `frame_bytes_max` are settings; `now_ms` is the wall clock.
    """

    def __init__(
        self,
        bookie_id: BookieId,
        look: int,
        groups_max: int,
        frame_bytes_max: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._bookie_id = bookie_id
        self._look = look
        self._groups_max = groups_max
        self._frame_bytes_max = frame_bytes_max
        self.now_ms = now_ms

    def from_event(self, ask: Ask, event: Answered | AnswerTooLarge) -> Answer | EntryRead:
        """Return what `event` says about the question it belongs to."""
        if isinstance(event, AnswerTooLarge):
            ask.received_bytes += event.length + LENGTH_BYTES
            detail = (
                f"the answer has {event.length} bytes, frame_bytes_max accepts"
                f" {self._frame_bytes_max}"
            )
            return self.without(ask, "too_large", detail)
        ask.received_bytes += event.received_bytes
        if isinstance(ask.question, ReadQuestion):
            return self._read(ask, ask.question, event)
        if event.status == 0:
            try:
                groups, put_right = decode(event.payload, self._groups_max)
            except MalformedAvailability as error:
                return self._answer(ask, AnswerStatus.INVALID, str(error))
            return Answer(
                self._bookie_id,
                ask.ledger_id,
                self._look,
                ask.asked_at_ms,
                _HELD,
                groups,
                "",
                ask.requests,
                ask.requests - 1,
                ask.received_bytes,
                put_right,
            )
        if event.status == Status.ENOLEDGER:
            return self._answer(ask, AnswerStatus.NO_SUCH_LEDGER)
        failed = AnswerStatus.FAILED if event.status in _FAILURES else AnswerStatus.REFUSED
        return self._answer(ask, failed, _refusal(event.status))

    def without(self, ask: Ask, status: str, detail: str) -> Answer | EntryRead:
        """Return evidence without entries: an EntryRead for a read, else an Answer.

        `status` is a value of ReadStatus for a read and of AnswerStatus for a list.
        """
        if isinstance(ask.question, ReadQuestion):
            return self._entry_read(ask, ask.question, ReadStatus(status), detail)
        return self._answer(ask, AnswerStatus(status), detail)

    def _answer(self, ask: Ask, status: AnswerStatus, detail: str = "") -> Answer:
        return Answer(
            self._bookie_id,
            ask.ledger_id,
            self._look,
            ask.asked_at_ms or self.now_ms(),
            status,
            b"",
            detail,
            ask.requests,
            ask.retries,
            ask.received_bytes,
        )

    def _read(self, ask: Ask, question: ReadQuestion, event: Answered) -> EntryRead:
        if event.status == Status.ENOENTRY:
            return self._entry_read(ask, question, ReadStatus.NO_ENTRY, "")
        if event.status == Status.ENOLEDGER:
            return self._entry_read(ask, question, ReadStatus.NO_LEDGER, "")
        if event.status != Status.EOK:
            failed = ReadStatus.FAILED if event.status in _FAILURES else ReadStatus.REFUSED
            return self._entry_read(ask, question, failed, _refusal(event.status))
        header = read_header(event.payload)
        stored = _stored_entry(question.entry_id, header)
        check = check_body(
            event.payload,
            question.ledger_id,
            max(0, question.entry_id) if stored is None else stored,
            question.digest_type,
            question.password,
        )
        if check is BodyCheck.OK:
            if question.digest_type is DigestType.DUMMY:
                header = None  # no digest proves it
            return self._entry_read(ask, question, ReadStatus.PRESENT, "", stored, header)
        if check is BodyCheck.UNVERIFIED:
            return self._entry_read(ask, question, ReadStatus.PRESENT, "digest unverified", stored)
        if check is BodyCheck.WRONG_DIGEST:
            detail = (
                f"this entry, {len(event.payload)} bytes, does not match the digest stored with it"
            )
            return self._entry_read(ask, question, ReadStatus.CORRUPT, detail, stored)
        detail = f"what was read, {len(event.payload)} bytes, is not this entry: {check.value}"
        return self._entry_read(ask, question, ReadStatus.INVALID, detail)

    def _entry_read(
        self,
        ask: Ask,
        question: ReadQuestion,
        status: ReadStatus,
        detail: str,
        stored: EntryId | None = None,
        header: EntryHeader | None = None,
    ) -> EntryRead:
        return EntryRead(
            self._bookie_id,
            ask.ledger_id,
            question.entry_id,
            self._look,
            ask.asked_at_ms or self.now_ms(),
            status,
            detail,
            ask.requests,
            ask.retries,
            ask.received_bytes,
            question.is_search,
            stored,
            None if header is None else header.last_confirmed,
            None if header is None else header.length_bytes,
            question.is_spot,
            question.is_denser,
        )


def _stored_entry(asked: EntryId, header: EntryHeader | None) -> EntryId | None:
    """Return the id of the entry that answered a request for the highest stored one, else None."""
    if asked != HIGHEST_STORED or header is None or header.entry_id < 0:
        return None
    return header.entry_id


def _refusal(status: int) -> str:
    name = status_name(status)
    says = _SAYS.get(status)  # type: ignore[call-overload]
    return f"{name}: {says}" if says else name
