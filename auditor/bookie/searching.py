"""The bound on looking for entries elsewhere: how often one bookie is read, in one run, for entries that it should not hold.

Without it a lost bookie of a large cluster would have every other bookie read once for each of its ledgers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from auditor.bookie.questions import ReadQuestion
from auditor.model.availability import EntryRead, ReadStatus
from auditor.model.identity import BookieId


class SearchBudget:
    """Reads that are left for each bookie; 0 for one that is not named. None: no bound."""

    def __init__(self, left: Mapping[BookieId, int] | None) -> None:
        self._left = None if left is None else dict(left)

    def split(self, bookie: BookieId, questions: Iterable[ReadQuestion]) -> tuple[list[ReadQuestion], list[ReadQuestion]]:
        """Return (the questions to send, the searches that are over the bound), and take what is sent from what is left."""
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


def unread(bookie: BookieId, question: ReadQuestion, look: int, at_ms: int, status: ReadStatus) -> EntryRead:
    """Return the evidence of a question that was not sent."""
    return EntryRead(bookie, question.ledger_id, question.entry_id, look, at_ms, status, is_search=question.is_search)
