"""A lane: everything asked of one bookie at one look, over one conversation with it.

`AsyncLane` for several bookies in one event loop, `Lane` for a task that talks to one bookie and has no loop of its own. Both
answer every question exactly once and raise nothing that a bookie, a name or a network could cause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self, cast

from auditor.bookie.answers import Evidence
from auditor.bookie.late_lists import LateLists, ListPatience
from auditor.bookie.listing import ListingProof
from auditor.bookie.patient_conversation import PatientConversation
from auditor.bookie.questions import Ask, ListQuestion, ReadQuestion
from auditor.config import BookieLimits
from auditor.model.availability import Answer, EntryRead, Greeting
from auditor.model.identity import BookieId

__all__ = ["LANES_AT_ONCE_MAX", "AsyncLane", "Lane", "ListQuestion", "ReadQuestion"]

LANES_AT_ONCE_MAX = 64
"""Bookies asked side by side by one process: each is a conversation that mostly waits."""


class AsyncLane:
    """One bookie at `host`:`port`, one look. One call at a time; all calls in one event loop.

    `now_ms` is the wall clock that dates the evidence; `has_listed` says that the bookie listed a ledger at an earlier time of
    the run: it can, however many questions go unanswered now. What the bookie did in an earlier call holds in the later ones:
    once it is silent, refuses or cannot list, it is not asked again.

    With `patience`, `lists` returns before the time-out of a request where a bookie has listed nothing: what it says of an
    overdue list is assumed, and `settle_late_lists` says in the end what became of it. Entries may be read in between.
    """

    def __init__(
        self,
        bookie_id: BookieId,
        host: str,
        port: int,
        limits: BookieLimits,
        look: int,
        now_ms: Callable[[], int],
        *,
        has_listed: bool = False,
        patience: ListPatience | None = None,
    ) -> None:
        evidence = Evidence(bookie_id, look, limits.groups_max, limits.frame_bytes_max, now_ms)
        proof = ListingProof(has_listed=has_listed, losses_count=look > 1)
        late = LateLists(patience, evidence, proof, limits.rpc_timeout_ms / 1000)
        self._conversation = PatientConversation((host, port), limits, evidence, proof, late)

    async def greet(self) -> tuple[Greeting, str]:
        """Connects and asks GET_BOOKIE_INFO, unless that has been done: ANSWERED, SILENT or REFUSED, and why."""
        await self._conversation.greet()
        return self._conversation.greeting()

    async def lists(self, questions: Sequence[ListQuestion]) -> list[Answer]:
        """One Answer a question, in the order of the questions."""
        return cast("list[Answer]", await self._ask(questions))

    @property
    def has_late_lists(self) -> bool:
        """Whether `lists` assumed something that `settle_late_lists` has to settle."""
        return self._conversation.has_late_lists

    async def settle_late_lists(self) -> list[Answer]:
        """Return the final Answer to each list whose answer was assumed, after waiting for it as long as patience says."""
        return cast("list[Answer]", [ask.outcome for ask in await self._conversation.settle_late_lists()])

    async def reads(self, questions: Sequence[ReadQuestion]) -> list[EntryRead]:
        """One EntryRead a question, in the order of the questions. PRESENT only when ids and digest are right."""
        return cast("list[EntryRead]", await self._ask(questions))

    async def _ask(self, questions: Sequence[ListQuestion] | Sequence[ReadQuestion]) -> list[Answer | EntryRead | None]:
        asks = [Ask(question) for question in questions]
        await self._conversation.ask(asks)
        return [ask.outcome for ask in asks]

    def greeting(self) -> tuple[Greeting, str]:
        """What the bookie as a whole has done, after all this; SILENT when it was never asked."""
        return self._conversation.greeting()

    @property
    def probes(self) -> int:
        """GET_BOOKIE_INFO requests sent: they are in no answer's `requests`."""
        return self._conversation.probes

    async def close(self) -> None:
        """Closes the connection. May be called again."""
        await self._conversation.close()


class Lane:
    """An AsyncLane for a caller without an event loop: each method blocks until it is done (`deadline_ms` bounds it).

    To be used from one thread, where no event loop is running. A context manager: leaving closes it.
    """

    def __init__(self, lane: AsyncLane) -> None:
        self._lane = lane
        self._loop = asyncio.new_event_loop()

    def greet(self) -> tuple[Greeting, str]:
        """See AsyncLane.greet."""
        return self._loop.run_until_complete(self._lane.greet())

    def lists(self, questions: Sequence[ListQuestion]) -> list[Answer]:
        """See AsyncLane.lists."""
        return self._loop.run_until_complete(self._lane.lists(questions))

    def settle_late_lists(self) -> list[Answer]:
        """See AsyncLane.settle_late_lists."""
        return self._loop.run_until_complete(self._lane.settle_late_lists())

    def reads(self, questions: Sequence[ReadQuestion]) -> list[EntryRead]:
        """See AsyncLane.reads."""
        return self._loop.run_until_complete(self._lane.reads(questions))

    def greeting(self) -> tuple[Greeting, str]:
        """See AsyncLane.greeting."""
        return self._lane.greeting()

    @property
    def probes(self) -> int:
        """See AsyncLane.probes."""
        return self._lane.probes

    def close(self) -> None:
        """Closes the connection and the loop. May be called again."""
        if not self._loop.is_closed():
            self._loop.run_until_complete(self._lane.close())
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
