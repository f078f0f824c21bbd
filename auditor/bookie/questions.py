"""The questions to a bookie, and the progress of each."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import NamedTuple

from auditor.model.availability import Answer, EntryRead
from auditor.model.identity import EntryId, LedgerId
from auditor.model.ledger import DigestType


class ListQuestion(NamedTuple):
    """Asks which entries of a ledger the bookie holds.

    `expected_bytes` is a guess of the answer's size, for `bookie_inflight_bytes`. `expected_groups`
    has what the bookie should hold, as `schedule.expected_list` returns it, to compare a lister's
    list with.
    """

    ledger_id: LedgerId
    expected_bytes: int = 0
    expected_groups: bytes | None = None


class ReadQuestion(NamedTuple):
    """Asks whether the bookie holds an entry.

    `digest_type` and `password` check that the returned bytes are this entry. The password is never
    stored or shown. `is_search`: the bookie should not hold the entry, but no bookie that should
    hold it does. `is_spot`: the read tests a list; `is_denser`: that of a bookie in doubt.
    """

    ledger_id: LedgerId
    entry_id: EntryId
    digest_type: DigestType | None = None
    password: bytes | None = None
    is_search: bool = False
    is_spot: bool = False
    is_denser: bool = False


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

    def next(self) -> Ask:
        return (self._alone or self._again or self._fresh)[0]

    def pop(self) -> Ask:
        return (self._alone or self._again or self._fresh).popleft()

    def drain(self) -> None:
        """Remove all questions."""
        for queue in (self._alone, self._again, self._fresh):
            queue.clear()
