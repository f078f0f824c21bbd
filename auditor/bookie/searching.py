"""Limit how often a bookie is read for entries that it should not hold.

The limit holds for a whole run. Without it, a lost bookie of a large cluster would cost every other
bookie one read for each of the lost bookie's ledgers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from auditor.bookie.questions import ReadQuestion
from auditor.model.availability import EntryRead, ReadStatus
from auditor.model.identity import BookieId


class SearchBudget:
    """The search reads left for each bookie; 0 for a bookie not in `left`. None means no bound."""

    def __init__(self, left: Mapping[BookieId, int] | None) -> None:
        self._left = None if left is None else dict(left)

    def split(
        self, bookie: BookieId, questions: Iterable[ReadQuestion]
    ) -> tuple[list[ReadQuestion], list[ReadQuestion]]:
        """Return (the questions to send, the searches over the bound). Charges what is sent."""
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
    )
