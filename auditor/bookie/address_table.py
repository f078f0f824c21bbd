"""Decide which bookies are dialled and at which address, and what is recorded for the others.

Runs and audits of single ledgers use the same table: a bookie that is not dialled has the same
status and the same reason in both.

`SearchBudget` limits how often a bookie is read for entries that it should not hold. The limit
holds for a whole run. Without it, a lost bookie of a large cluster would cost every other bookie
one read for each of the lost bookie's ledgers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from auditor.bookie.questions import ListQuestion, ReadQuestion
from auditor.model.availability import NO_COOKIE, Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.cluster import BookieRecord
from auditor.model.identity import BookieId


class SearchBudget:
    """The search reads left for each bookie; 0 for a bookie not in `left`. If `left` is None, there
    is no limit.
    """

    def __init__(self, left: Mapping[BookieId, int] | None) -> None:
        self._left = None if left is None else dict(left)

    def split(
        self, bookie: BookieId, questions: Iterable[ReadQuestion]
    ) -> tuple[list[ReadQuestion], list[ReadQuestion]]:
        """Return (the questions to send, the searches beyond the limit). Charges what is sent."""
        asked: list[ReadQuestion] = []
        refused: list[ReadQuestion] = []
        for question in questions:
            (asked if not question.is_search or self._take(bookie) else refused).append(question)
        return asked, refused

    def _take(self, bookie: BookieId) -> bool:
        if self._left is None:
            return True
        left = self._left.get(bookie, 0)
        self._left[bookie] = max(0, left - 1)
        return left > 0


def unread(
    bookie: BookieId, question: ReadQuestion, look: int, at_ms: int, status: ReadStatus
) -> EntryRead:
    """Return the evidence for a question that was not sent."""
    return EntryRead(
        bookie,
        question.ledger_id,
        question.entry_id,
        look,
        at_ms,
        status,
        is_search=question.is_search,
        is_spot=question.is_spot,
        is_denser=question.is_denser,
        is_named=question.is_named,
    )


@dataclass(frozen=True, slots=True)
class AddressTable:
    """The registered bookies of one look, with host and port.

    An address is None if the registration could not be read. `cookies` are the bookies with a
    cookie; None if no bookie has one, because then a missing cookie proves nothing.
    """

    addresses: Mapping[BookieId, tuple[str, int] | None]
    cookies: frozenset[BookieId] | None = None

    @classmethod
    def from_records(cls, records: Iterable[BookieRecord]) -> AddressTable:
        """Return the table for the bookies as ZooKeeper had them at one look."""
        records = list(records)
        addresses = {
            record.bookie_id: (
                (record.host, record.port)
                if record.host is not None and record.port is not None
                else None
            )
            for record in records
            if record.is_registered
        }
        return cls(
            addresses,
            frozenset(record.bookie_id for record in records if record.has_cookie) or None,
        )

    def undialled_answers(
        self,
        bookie: BookieId,
        questions: Iterable[ListQuestion],
        look: int,
        now_ms: Callable[[], int],
    ) -> list[Answer] | None:
        """Return what is recorded for lists of a bookie that is not dialled, or None if it is."""
        status = self._undialled_status(bookie)
        if status is None:
            return None
        is_gone = (
            status is AnswerStatus.UNREGISTERED
            and self.cookies is not None
            and bookie not in self.cookies
        )
        detail = NO_COOKIE if is_gone else ""
        return [
            Answer(bookie, question.ledger_id, look, now_ms(), status, detail=detail)
            for question in questions
        ]

    def undialled_reads(
        self,
        bookie: BookieId,
        questions: Iterable[ReadQuestion],
        look: int,
        now_ms: Callable[[], int],
    ) -> list[EntryRead] | None:
        """Return what is recorded for reads on a bookie that is not dialled, or None if it is."""
        status = self._undialled_status(bookie)
        if status is None:
            return None
        return [
            unread(bookie, question, look, now_ms(), ReadStatus(status.value))
            for question in questions
        ]

    def address_of(self, bookie: BookieId) -> tuple[str, int]:
        """Return the address of a bookie that is dialled."""
        address = self.addresses[bookie]
        assert address is not None, bookie
        return address

    def _undialled_status(self, bookie: BookieId) -> AnswerStatus | None:
        if bookie not in self.addresses:
            return AnswerStatus.UNREGISTERED
        return AnswerStatus.ADDRESS_UNKNOWN if self.addresses[bookie] is None else None
