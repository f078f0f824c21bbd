"""Ask a scripted bookie through a lane, with real time-outs, one look and one date.

The time-out of a request is long, so that a machine that stalls for a second spoils no test. A test
that waits for a time-out, or needs it not to pass, uses `support.virtual_time`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Self

from support.scripted_bookie import LIST, ScriptedBookie

from auditor.bookie.exchange import ListPatience
from auditor.bookie.lane import AsyncLane
from auditor.bookie.list_blocks import BlockCall, ListBlock
from auditor.bookie.questions import ListQuestion, ReadQuestion
from auditor.config import BookieLimits
from auditor.model.availability import (
    Answer,
    AnswerStatus,
    DiskSpace,
    EntryRead,
    Greeting,
    ReadStatus,
)
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb

HELD, NO_SUCH_LEDGER, SILENT, TIMED_OUT = (
    AnswerStatus.HELD,
    AnswerStatus.NO_SUCH_LEDGER,
    AnswerStatus.SILENT,
    AnswerStatus.TIMED_OUT,
)
REFUSED, FAILED, INVALID, TOO_LARGE, UNSUPPORTED = (
    AnswerStatus.REFUSED,
    AnswerStatus.FAILED,
    AnswerStatus.INVALID,
    AnswerStatus.TOO_LARGE,
    AnswerStatus.UNSUPPORTED,
)

LOOK, NOW_MS = 1, 1_700_000_000_000
SHORT_MS = 1_000
LIMITS: dict[str, float] = {
    "bookie_requests_per_second": 0,
    "rpc_timeout_ms": 20_000,
    "bookie_connect_timeout_ms": 2_000,
    "bookie_deadline_ms": 60_000,
    "frame_bytes_max": 2**20,
}


class BlockingLane:
    """A lane for a test without an event loop: each call runs to its end in `loop`.

    As a context manager it closes itself, and a loop of its own.
    """

    def __init__(self, lane: AsyncLane, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._lane = lane
        self._loop = loop or asyncio.new_event_loop()

    def greet(self) -> tuple[Greeting, str]:
        return self._loop.run_until_complete(self._lane.greet())

    def lists(self, questions: Sequence[ListQuestion]) -> list[Answer]:
        return self._loop.run_until_complete(self._lane.lists(questions))

    def list_block(self, block: ListBlock) -> BlockCall:
        _, (call,) = self.ask_lists((), [block])
        return call

    def ask_lists(
        self, questions: Sequence[ListQuestion], blocks: Sequence[ListBlock]
    ) -> tuple[list[Answer], list[BlockCall]]:
        return self._loop.run_until_complete(self._lane.ask_lists(questions, blocks))

    def settle_late_lists(self) -> list[Answer]:
        return self._loop.run_until_complete(self._lane.settle_late_lists())

    def reads(self, questions: Sequence[ReadQuestion]) -> list[EntryRead]:
        return self._loop.run_until_complete(self._lane.reads(questions))

    @property
    def disk(self) -> DiskSpace | None:
        return self._lane.disk

    def greeting(self) -> tuple[Greeting, str]:
        return self._lane.greeting()

    @property
    def probes(self) -> int:
        return self._lane.probes

    def close(self) -> None:
        """Close the connection and the event loop. May be called again."""
        if not self._loop.is_closed():
            self._loop.run_until_complete(self._lane.close())
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def lane(
    bookie: ScriptedBookie, look: int = LOOK, patience: ListPatience | None = None, **changes: float
) -> BlockingLane:
    limits = BookieLimits(**{**LIMITS, **changes})  # type: ignore[arg-type]
    return BlockingLane(
        AsyncLane(
            "b1:3181", "127.0.0.1", bookie.port, limits, look, lambda: NOW_MS, patience=patience
        )
    )


def ask(
    bookie: ScriptedBookie, ledger_ids: range | list[int], look: int = LOOK, **changes: float
) -> tuple[list[Answer], tuple[Greeting, str]]:
    """Ask a fresh lane for these lists; return one answer for each question, in the order of the
    questions.
    """
    with lane(bookie, look, **changes) as asker:
        answers = asker.lists([ListQuestion(ledger_id) for ledger_id in ledger_ids])
        assert list(ledger_ids) == [a.ledger_id for a in answers]
        return answers, asker.greeting()


def statuses(answers: list[Answer] | list[EntryRead]) -> list[AnswerStatus | ReadStatus]:
    return [a.status for a in answers]


def listed(request: pb.Request) -> int | None:
    """Return the ledger of a list request, None for any other request."""
    return (
        request.getListOfEntriesOfLedgerRequest.ledgerId
        if request.header.operation == LIST
        else None
    )


def ledgers(count: int) -> dict[int, range]:
    return {ledger_id: range(ledger_id % 7 + 1) for ledger_id in range(1, count + 1)}
