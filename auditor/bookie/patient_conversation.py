"""A conversation that returns while lists are overdue, and waits for them later."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from auditor.bookie.conversation import Conversation
from auditor.bookie.listing import unable_text
from auditor.bookie.questions import Ask


class PatientConversation(Conversation):
    """A conversation whose caller must call `settle_late_lists` after asking for lists.

    Until then the outcomes of overdue lists are assumed.
    """

    @property
    def has_late_lists(self) -> bool:
        """Whether a call ended without a list that may still come."""
        return bool(self._late)

    async def settle_late_lists(self) -> list[Ask]:
        """Wait for overdue lists as long as the patience allows; return them with final outcomes.

        Lists that did not come are requested again, with the whole time-out, unless the bookie has
        shown that it cannot list.
        """
        if not self._late:
            return []
        if self._late.has_awaited:
            await self._within_deadline(self._await_late_lists)
        waited_s, is_inconclusive = (
            self._late.give_up_s(self._exchange.slowest_read_s),
            self._late.is_inconclusive,
        )
        asks, rest = self._late.take()
        unable = self._exchange.proof.unable() and not is_inconclusive
        self.cannot_list = unable_text(self._exchange.proof.unanswered, waited_s) if unable else ""
        self._late.ask_without_patience(rest)
        await self.ask(rest)
        return asks

    async def _await_late_lists(self) -> None:
        link = self._link
        while link is not None and link is self._link and self._late.has_awaited:
            left_s = (
                self._late.give_up_at(self._exchange.slowest_read_s, link.busy_at)
                - self._loop.time()
            )
            if left_s <= 0:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), left_s)
            self._wake.clear()
            self._raise_bug()
