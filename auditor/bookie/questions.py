"""What a lane may be asked about one bookie, and the one answer to each question.

A bookie's reply becomes an `Answer` or an `EntryRead`, with a status for everything that can go
wrong.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from auditor.errors import MalformedAvailability
from auditor.model.availability import HIGHEST_STORED, Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import DigestType
from auditor.wire.bookie_connection import LENGTH_BYTES, Answered, AnswerTooLarge
from auditor.wire.digest import BodyCheck, EntryHeader, check_body, read_header
from auditor.wire.entry_availability import decode
from auditor.wire.frames import Status, status_name


class ListQuestion(NamedTuple):
    """Asks which entries of a ledger the bookie holds.

    `expected_bytes` is a guess of the answer's size, for `bookie_inflight_bytes`. `expected_groups`
    has what the bookie should hold, as `schedule.expected_list` returns it, to compare the list
    with. `is_compared`: record whether the list is as expected, and then store it only where
    `is_kept`.
    """

    ledger_id: LedgerId
    expected_bytes: int = 0
    expected_groups: bytes | None = None
    is_compared: bool = False
    is_kept: bool = True


class ReadQuestion(NamedTuple):
    """Asks whether the bookie holds an entry.

    `digest_type` and `password` check that the returned bytes are this entry. The password is never
    stored or shown. `is_search`: the bookie should not hold the entry, but no bookie that should
    hold it does. `is_spot`: the read tests what the bookie says to have; `is_denser`:
    because it came into doubt; `is_named`: because its lister's scrub named the entry.
    """

    ledger_id: LedgerId
    entry_id: EntryId
    digest_type: DigestType | None = None
    password: bytes | None = None
    is_search: bool = False
    is_spot: bool = False
    is_denser: bool = False
    is_named: bool = False


class Ask:
    """One question and its progress.

    `sent_at` is in seconds of the loop's clock. `losses` counts failed tries: lost connections and
    ETOOMANYREQUESTS. `refused` counts the ETOOMANYREQUESTS among them, and `lost_by` has each
    reason for which a connection was lost, oldest first. `trouble` says what happened to the last
    try, or to each. `unanswered`: no try is left and the last one got no response; the end of the
    call decides why.
    """

    __slots__ = (
        "asked_at_ms",
        "expected_bytes",
        "is_list",
        "ledger_id",
        "losses",
        "lost_by",
        "outcome",
        "question",
        "received_bytes",
        "refused",
        "requests",
        "sent_at",
        "trouble",
        "unanswered",
    )

    def __init__(self, question: ListQuestion | ReadQuestion) -> None:
        self.question = question
        self.ledger_id = question.ledger_id
        self.is_list = isinstance(question, ListQuestion)
        self.expected_bytes = (
            question.expected_bytes if isinstance(question, ListQuestion) else READ_EXPECTED_BYTES
        )
        self.asked_at_ms = 0
        self.sent_at = 0.0
        self.requests = 0
        self.losses = 0
        self.refused = 0
        self.lost_by: list[str] = []
        self.received_bytes = 0
        self.trouble = ""
        self.unanswered = False
        self.outcome: Answer | EntryRead | None = None

    @property
    def retries(self) -> int:
        return max(0, self.requests - 1)

    @property
    def failures(self) -> str:
        """Each reason for which a try failed, with its number.

        Example: "the connection was lost 2 times, ETOOMANYREQUESTS 1 time".
        """
        counts = Counter(self.lost_by) + Counter({"ETOOMANYREQUESTS": self.refused})
        return ", ".join(f"{why} {n} time{'s' if n > 1 else ''}" for why, n in counts.items())


READ_EXPECTED_BYTES = 64 * 2**10
"""Assumed size of an entry. Most are a few KiB; BookKeeper's default frame limit is 5 MiB."""


class Waiting:
    """The questions that are not outstanding, in the order in which they are sent.

    First those on their last try, each sent alone; then those sent before; then fresh ones.
    """

    def __init__(self, fresh: Iterable[Ask], retries_max: int) -> None:
        self._alone: deque[Ask] = deque()
        self._again: deque[Ask] = deque()
        self._fresh = deque(fresh)
        self._retries_max = retries_max

    def __len__(self) -> int:
        return len(self._alone) + len(self._again) + len(self._fresh)

    def put_back(self, ask: Ask) -> None:
        """Queue a question again after a failed try.

        The last try is made alone, so that no other question can spoil it.
        """
        (self._alone if ask.losses >= self._retries_max else self._again).append(ask)

    @property
    def must_send_next_alone(self) -> bool:
        """Whether the next question must have the connection to itself."""
        return bool(self._alone)

    @property
    def sent_before(self) -> int:
        """How many of the next questions were sent before."""
        return len(self._alone) + len(self._again)

    def next(self) -> Ask:
        return (self._alone or self._again or self._fresh)[0]

    def pop(self) -> Ask:
        return (self._alone or self._again or self._fresh).popleft()

    def drain(self) -> None:
        """Remove all questions."""
        for queue in (self._alone, self._again, self._fresh):
            queue.clear()


UNANSWERED_MIN = 3
"""A bookie counts as unable to list only after this many lists of held ledgers went unanswered, or
all lists if there are fewer and no more will be asked for."""


class ListingProof:
    """Counts that distinguish a bookie that cannot list from a slow one.

    They cover one conversation, and at the first look those before it. `asked` counts lists that
    the lane was given, sent or not: one not sent yet may still be answered. `has_listed`: the
    bookie listed a ledger in an earlier conversation of the run, and therefore can list.
    `unanswered_before`: lists that earlier conversations of this look waited for in vain.
    `losses_count`: a list also counts as unanswered if every connection on which it was sent was
    lost. A bookie without read threads ends the connection if its storage cannot list, but a
    network fault does too. Losses therefore count only from the second look on, and only if the
    first look failed too. `more_follow`: the run asks the bookie for further lists at this look, in
    this conversation or in another one.
    """

    def __init__(
        self, *, has_listed: bool = False, losses_count: bool = True, unanswered_before: int = 0
    ) -> None:
        self.asked = unanswered_before
        self.listed = int(has_listed)
        self.no_such_ledger = 0
        self.unanswered = unanswered_before
        self.lost = 0
        """How many of the unanswered lists had every connection lost."""
        self.more_follow = False
        self._losses_count, self._unanswered_before = losses_count, unanswered_before

    def is_unable(self) -> bool:
        """Return whether the bookie has shown that it cannot list.

        Call this only when GET_BOOKIE_INFO has just been answered. The bookie has shown it if no
        list came in the whole conversation, and lists of UNANSWERED_MIN ledgers that it may hold,
        or of all if no more follow, went unanswered, one of them in this conversation. A late list
        counts as a list; ENOLEDGER does not.
        """
        if self.unanswered <= self._unanswered_before:
            return False
        held = UNANSWERED_MIN if self.more_follow else self.asked - self.no_such_ledger
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
            question.is_named,
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
