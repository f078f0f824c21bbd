"""What can be asked of a bookie, and how far each question has got."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from auditor.model.availability import Answer, EntryRead
from auditor.model.identity import EntryId, LedgerId
from auditor.model.ledger import DigestType


class ListQuestion(NamedTuple):
    """Which entries of this ledger do you hold? `expected_bytes` is a guess of the answer's size, for `inflight_bytes_max`."""

    ledger_id: LedgerId
    expected_bytes: int = 0


class ReadQuestion(NamedTuple):
    """Do you hold this entry? `digest_type` and `password` (never stored, never shown) tell whether what comes back is it.

    `is_search`: the bookie should not hold it; the entry has no copy where it should be.
    """

    ledger_id: LedgerId
    entry_id: EntryId
    digest_type: DigestType | None = None
    password: bytes | None = None
    is_search: bool = False


class Ask:
    """One question on its way. `sent_at` is in seconds of the loop's clock; `losses` counts tries that ended without an answer.

    `trouble` says what became of the last try; `unanswered`: no try is left and no answer came, why is still to be found out.
    """

    __slots__ = (
        "asked_at_ms",
        "expected_bytes",
        "is_list",
        "ledger_id",
        "losses",
        "outcome",
        "question",
        "received_bytes",
        "requests",
        "sent_at",
        "trouble",
        "unanswered",
    )

    def __init__(self, question: ListQuestion | ReadQuestion) -> None:
        self.question = question
        self.ledger_id = question.ledger_id
        self.is_list = isinstance(question, ListQuestion)
        self.expected_bytes = question.expected_bytes if isinstance(question, ListQuestion) else READ_EXPECTED_BYTES
        self.asked_at_ms = 0
        self.sent_at = 0.0
        self.requests = 0
        self.losses = 0
        self.received_bytes = 0
        self.trouble = ""
        self.unanswered = False
        self.outcome: Answer | EntryRead | None = None

    @property
    def retries(self) -> int:
        return max(0, self.requests - 1)


READ_EXPECTED_BYTES = 64 * 2**10
"""What one entry is guessed to weigh; BookKeeper's entries are a few KiB, and frames end at 5 MiB by default."""


class Waiting:
    """Questions not outstanding, in the order they go out: those on their last try, alone; those asked before; fresh ones."""

    def __init__(self, fresh: Iterable[Ask], retries_max: int) -> None:
        self._alone: deque[Ask] = deque()
        self._again: deque[Ask] = deque()
        self._fresh = deque(fresh)
        self._retries_max = retries_max

    def __len__(self) -> int:
        return len(self._alone) + len(self._again) + len(self._fresh)

    def put_back(self, ask: Ask) -> None:
        """A try came to nothing and another is left. The last one is made alone, so that no other question can spoil it."""
        (self._alone if ask.losses >= self._retries_max else self._again).append(ask)

    @property
    def one_alone(self) -> bool:
        """The next question must have the connection to itself."""
        return bool(self._alone)

    def next(self) -> Ask:
        return (self._alone or self._again or self._fresh)[0]

    def pop(self) -> Ask:
        return (self._alone or self._again or self._fresh).popleft()

    def drain(self) -> None:
        """Leave nothing waiting."""
        for queue in (self._alone, self._again, self._fresh):
            queue.clear()
