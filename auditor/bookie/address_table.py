"""Decide which bookies can be dialled, where, and which answers are recorded for all others.

Runs and audits of single ledgers use the same table: a bookie that is not dialled has the same
status and the same reason in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from auditor.bookie.questions import ListQuestion, ReadQuestion
from auditor.bookie.searching import unread
from auditor.model.availability import NO_COOKIE, Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.identity import BookieId


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
            one.bookie_id: (
                (one.host, one.port) if one.host is not None and one.port is not None else None
            )
            for one in records
            if one.registration is not Registration.NONE
        }
        return cls(addresses, frozenset(one.bookie_id for one in records if one.has_cookie) or None)

    def undialled_answers(
        self,
        bookie: BookieId,
        questions: Iterable[ListQuestion],
        look: int,
        now_ms: Callable[[], int],
    ) -> list[Answer] | None:
        """Return what is recorded for lists of a bookie that is not dialled; None if it is
        dialled.
        """
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
            Answer(bookie, one.ledger_id, look, now_ms(), status, detail=detail)
            for one in questions
        ]

    def undialled_reads(
        self,
        bookie: BookieId,
        questions: Iterable[ReadQuestion],
        look: int,
        now_ms: Callable[[], int],
    ) -> list[EntryRead] | None:
        """Return what is recorded for reads on a bookie that is not dialled; None if it is
        dialled.
        """
        status = self._undialled_status(bookie)
        if status is None:
            return None
        return [unread(bookie, one, look, now_ms(), ReadStatus(status.value)) for one in questions]

    def address_of(self, bookie: BookieId) -> tuple[str, int]:
        """Return the address of a bookie that is dialled."""
        address = self.addresses[bookie]
        assert address is not None, bookie
        return address

    def _undialled_status(self, bookie: BookieId) -> AnswerStatus | None:
        if bookie not in self.addresses:
            return AnswerStatus.UNREGISTERED
        return AnswerStatus.ADDRESS_UNKNOWN if self.addresses[bookie] is None else None
