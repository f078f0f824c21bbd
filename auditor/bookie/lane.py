"""A lane: the one bounded conversation with one bookie at one look.

`AsyncLane` returns exactly one result for each question. It raises no error that a bookie, a host
name or a network could cause. `LaneGate` bounds how many lanes talk at once, and how many
connections stay open meanwhile. `refusal_of_all` finds out before an audit whether any bookie
accepts our certificates and logins.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import chain
from typing import cast

from auditor.bookie.conversation import PatientConversation
from auditor.bookie.exchange import LateLists, ListPatience
from auditor.bookie.list_blocks import BlockCall, ListBlock
from auditor.bookie.questions import Ask, Evidence, ListingProof, ListQuestion, ReadQuestion
from auditor.config import BookieLimits
from auditor.errors import BookieRefused, KdcUnreachable
from auditor.host_limits import sockets_affordable
from auditor.model.availability import NOT_DIALLED, Answer, DiskSpace, EntryRead, Greeting, LanePace
from auditor.model.cluster import BookieRecord
from auditor.model.identity import BookieId

__all__ = ["LANES_AT_ONCE_MAX", "AsyncLane", "ListQuestion", "ReadQuestion"]

LANES_AT_ONCE_MAX = 64
"""Conversations that one process has at a time. Each mostly waits."""


class AsyncLane:
    """The lane of the bookie at `host`:`port`, for one look. One call at a time, in one event loop.

    `now_ms` is the wall clock that dates the evidence. `has_listed` says that the bookie listed a
    ledger earlier in the run. Then it can list, however many questions go unanswered now.
    `unanswered_before` is how many lists it left unanswered earlier at this look. A bookie
    that is silent or refuses is not asked again in later calls; one that cannot list gets no more
    lists.

    With `patience`, `lists` does not wait for the time-out of a request if the bookie has listed
    nothing yet. Its Answer to an overdue list is then assumed, and `settle_late_lists` returns the
    final one. Entries may be read in between.
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
        unanswered_before: int = 0,
        patience: ListPatience | None = None,
    ) -> None:
        evidence = Evidence(bookie_id, look, limits.list_groups_max, limits.frame_bytes_max, now_ms)
        self._proof = proof = ListingProof(
            has_listed=has_listed, losses_count=look > 1, unanswered_before=unanswered_before
        )
        self._has_patience = patience is not None
        late = LateLists(patience, evidence, proof, limits.rpc_timeout_ms / 1000)
        self._conversation = PatientConversation((host, port), limits, evidence, proof, late)
        self.now_ms = now_ms

    async def greet(self) -> tuple[Greeting, str]:
        """Connect and ask GET_BOOKIE_INFO unless connected; return the greeting and its reason.

        See `greeting`."""
        await self._conversation.greet()
        return self._conversation.greeting()

    def expect_lists(self, *, more_follow: bool) -> None:
        """Say whether more lists follow those of the next call. One or two that go unanswered show
        that the bookie cannot list only if they are all.
        """
        self._proof.more_follow = more_follow

    async def lists(self, questions: Sequence[ListQuestion]) -> list[Answer]:
        """Return one Answer a question, in the order of the questions."""
        answers, _ = await self.ask_lists(questions, ())
        return answers

    async def ask_lists(
        self, questions: Sequence[ListQuestion], blocks: Sequence[ListBlock]
    ) -> tuple[list[Answer], list[BlockCall]]:
        """Return one Answer a question, in their order, and what came of each block.

        Lists of blocks that are not short are asked for one by one. With blocks the lane must have
        no patience.
        """
        assert not (blocks and self._has_patience), "an overdue list has no place in a block"
        asks = [Ask(question) for question in questions]
        calls = [BlockCall(block) for block in blocks]
        is_short = [bool(block.have_short_lists().all()) for block in blocks]
        long = (call.all_asks() for call, short in zip(calls, is_short, strict=True) if not short)
        short = [call for call, short in zip(calls, is_short, strict=True) if short]
        await self._conversation.ask([*asks, *chain.from_iterable(long)], short)
        return cast("list[Answer]", [ask.outcome for ask in asks]), calls

    @property
    def has_late_lists(self) -> bool:
        """Whether `lists` assumed an Answer that `settle_late_lists` must replace."""
        return self._conversation.has_late_lists

    async def settle_late_lists(self) -> list[Answer]:
        """Return the final Answer to each list whose Answer was assumed.

        Waits for overdue lists as long as `patience` says.
        """
        return cast(
            "list[Answer]", [ask.outcome for ask in await self._conversation.settle_late_lists()]
        )

    async def reads(self, questions: Sequence[ReadQuestion]) -> list[EntryRead]:
        """Return one EntryRead a question, in the order of the questions.

        PRESENT means that the ids match and no digest that could be checked is wrong.
        """
        asks = [Ask(question) for question in questions]
        await self._conversation.ask(asks)
        return cast("list[EntryRead]", [ask.outcome for ask in asks])

    def greeting(self) -> tuple[Greeting, str]:
        """Return how the bookie as a whole behaved so far, and why. SILENT if never asked."""
        return self._conversation.greeting()

    @property
    def probes(self) -> int:
        """The number of GET_BOOKIE_INFO requests sent. No answer's `requests` includes them."""
        return self._conversation.probes

    @property
    def disk(self) -> DiskSpace | None:
        """What the bookie said of its disks last; None if it did not."""
        return self._conversation.disk

    @property
    def pace(self) -> LanePace:
        """How fast the bookie is asked now, as it answers."""
        return self._conversation.pace

    async def close(self) -> None:
        """Close the connection. May be called again."""
        await self._conversation.close()


class LaneGate:
    """Lets at most LANES_AT_ONCE_MAX lanes talk at once, fewer if this host gives fewer sockets.

    `must_hang_up`: there are fewer sockets than bookies. Each lane then closes its connection when
    it leaves the gate, and connects again the next time. Raises LocalFault if no socket is left.
    """

    def __init__(self, bookies: int, *, has_listers: bool = False) -> None:
        sockets_each = 2 if has_listers else 1
        affordable = sockets_affordable(max(1, bookies) * sockets_each) // sockets_each
        self.must_hang_up = affordable < bookies
        self._places = asyncio.Semaphore(max(1, min(LANES_AT_ONCE_MAX, affordable)))

    @asynccontextmanager
    async def hold(self, lane: AsyncLane) -> AsyncIterator[AsyncLane]:
        """Wait for a place, and yield the lane that may talk now."""
        async with self._places:
            try:
                yield lane
            finally:
                if self.must_hang_up:
                    await lane.close()


GREETED_AT_ONCE = 16
"""Bookies greeted at a time. Hundreds that refuse then take seconds instead of minutes."""


async def refusal_of_all(
    bookies: Iterable[BookieRecord], limits: BookieLimits, now_ms: Callable[[], int]
) -> BookieRefused | KdcUnreachable | None:
    """Return an error if no bookie can be asked: all refuse us, or no KDC answers for their logins.

    Return None if a bookie can be asked or is silent, or if no address is known.

    Greets one bookie, then GREETED_AT_ONCE at a time until one can be asked. Costs one connection
    if all is well. Stops after a group in which a bookie lacked a KDC: each further bookie would
    wait for the KDC again, 25 s if it is silent. Raises LocalFault if this host gives no socket.
    """
    at_once = sockets_affordable(GREETED_AT_ONCE)
    known = [bookie for bookie in bookies if bookie.host is not None and bookie.port is not None]
    refused: list[str] = []
    undialled: list[str] = []
    later = [known[at : at + at_once] for at in range(1, len(known), at_once)]
    for number, group in enumerate((known[:1], *later)):
        greeted = await asyncio.gather(*(_greet(bookie, limits, now_ms) for bookie in group))
        for bookie, (greeting, detail) in zip(group, greeted, strict=True):
            if detail.startswith(NOT_DIALLED):
                undialled.append(f"{bookie.bookie_id}: {detail}")
            elif greeting is Greeting.REFUSED:
                refused.append(f"{bookie.bookie_id}: {detail}")
            else:
                return None
        if undialled and number:
            break
    return _error(len(known), refused, undialled)


def _error(
    known: int, refused: Sequence[str], undialled: Sequence[str]
) -> BookieRefused | KdcUnreachable | None:
    """Return the error to raise if no bookie can be asked, or None if there is no bookie."""
    if undialled:
        return KdcUnreachable(
            "without a Kerberos ticket no bookie can be asked, so that nothing can be audited"
            f" ({undialled[0]}). Run again when the KDC answers; `auditor doctor` asks each bookie"
        )
    if refused:
        every = f"all {known} bookies refuse" if known > 1 else "the only bookie refuses"
        return BookieRefused(
            f"{every} this client, so that nothing can be audited ({refused[0]}). `auditor doctor`"
            " asks each of them"
        )
    return None


async def _greet(
    bookie: BookieRecord, limits: BookieLimits, now_ms: Callable[[], int]
) -> tuple[Greeting, str]:
    assert bookie.host is not None, "only bookies that can be dialled are asked"
    assert bookie.port is not None
    lane = AsyncLane(bookie.bookie_id, bookie.host, bookie.port, limits, 0, now_ms)
    try:
        return await lane.greet()
    finally:
        await lane.close()
