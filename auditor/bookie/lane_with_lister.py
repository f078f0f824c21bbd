"""A lane that asks a bookie's lister for lists, and the bookie itself for everything else.

A lister's list is believed only as far as the bookie confirms it. From each complete list one entry
is read on the bookie. From a list that lacks entries only missing ones are read: reading a listed
one makes the bookie cache the entries after it, including those that its index has lost.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from auditor.bookie.client import AsyncLane
from auditor.bookie.late_lists import ListPatience
from auditor.bookie.lister_conversation import ListerLane
from auditor.bookie.listers import Listers
from auditor.bookie.questions import ListQuestion, ReadQuestion
from auditor.config import BookieLimits
from auditor.first_checker.entry_set import EMPTY
from auditor.first_checker.schedule import held_entries
from auditor.model.availability import (
    LISTED_BY_LISTER,
    LISTER_CONTRADICTED,
    LISTER_SILENT,
    NOT_DIALLED,
    Answer,
    AnswerStatus,
    EntryRead,
    Greeting,
    LanePace,
    ReadStatus,
)
from auditor.model.identity import BookieId, EntryId
from auditor.wire.lister_identity import ListerIdentity

FOUND_OUT_BEFORE = "it showed before that it cannot list: not asked again"
"""Why a bookie that cannot list was not asked again."""
LISTER_IN_DOUBT = "refused: it is in doubt, or the bookie does not serve (see the lister's log)"
"""What EIO means from a lister. From a bookie it means that its storage failed."""
UNLISTED_READS = 6
"""Entries drawn among those that a list lacks, beside their first and last, and read on the bookie.
If all can be read, the list is too early; one that cannot leaves the list to the confirming
reads.
"""
_CONTRADICTIONS = frozenset({ReadStatus.NO_ENTRY, ReadStatus.INVALID})
_THERE = frozenset({ReadStatus.PRESENT, ReadStatus.CORRUPT, ReadStatus.TOO_LARGE})


class LaneWithLister(AsyncLane):
    """The lane of a bookie and of its lister. See AsyncLane for the methods.

    `is_unable`: the bookie showed earlier that it cannot list, and it is not asked for lists
    itself. If the lister does not answer, the bookie is treated as if it had none.
    """

    def __init__(
        self,
        bookie: AsyncLane,
        lister: ListerLane,
        bookie_id: BookieId,
        where: str,
        look: int,
        *,
        is_unable: bool,
    ):
        self._bookie, self._lister = bookie, lister
        self._bookie_id, self._where, self._look = bookie_id, where, look
        self._is_unable = is_unable
        self._has_listed = self._is_greeted = False
        self._trouble = ""
        self.contradiction = ""
        """What the lister listed and the bookie denied in this run, as a sentence, or ""."""

    async def greet(self) -> tuple[Greeting, str]:
        """Greet the bookie, and its lister if the bookie answers."""
        greeting, _ = await self._bookie.greet()
        if greeting is Greeting.ANSWERED:
            await self._greet_lister()
        return self.greeting()

    async def _greet_lister(self) -> bool:
        greeting, why = await self._lister.greet()
        self._is_greeted = True
        self._trouble = (
            "" if greeting is Greeting.ANSWERED else f"{LISTER_SILENT}{self._where}: {why}"
        )
        return greeting is Greeting.ANSWERED

    async def lists(self, questions: Sequence[ListQuestion]) -> list[Answer]:
        greeting, _ = await self._bookie.greet()
        if (
            self.contradiction
            or greeting is not Greeting.ANSWERED
            or not await self._greet_lister()
        ):
            return await self._without_lister(questions)
        answers = await self._lister.lists(questions)
        reads = await self._sample(questions, answers)
        settled = [self._settle(answer, reads.get(answer.ledger_id, ())) for answer in answers]
        self._has_listed = self._has_listed or any(
            one.status is AnswerStatus.HELD for one in settled
        )
        unlisted = [one.detail for one in settled if one.status is AnswerStatus.UNSUPPORTED]
        if unlisted and not self._has_listed:
            self._trouble = f"{LISTER_SILENT}{unlisted[0]}"
        return [self.unless_contradicted(answer) for answer in settled]

    async def _without_lister(self, questions: Sequence[ListQuestion]) -> list[Answer]:
        if not (self._is_unable or self.contradiction):
            return await self._bookie.lists(questions)
        greeting, detail = await self._bookie.greet()
        if greeting not in (Greeting.ANSWERED, Greeting.UNSUPPORTED):
            return await self._bookie.lists(questions)
        status = AnswerStatus.INVALID if self.contradiction else AnswerStatus.UNSUPPORTED
        why = self.contradiction or self._trouble or detail or FOUND_OUT_BEFORE
        now_ms = self._bookie.now_ms()
        return [
            Answer(self._bookie_id, question.ledger_id, self._look, now_ms, status, detail=why)
            for question in questions
        ]

    async def _sample(
        self, questions: Sequence[ListQuestion], answers: Sequence[Answer]
    ) -> dict[int, list[EntryRead]]:
        """Read on the bookie what `reads_of` says of each list; return the reads by ledger."""
        wanted = [
            ReadQuestion(question.ledger_id, entry)
            for question, answer in zip(questions, answers, strict=True)
            if answer.status is AnswerStatus.HELD
            for entry in reads_of(question, answer)
        ]
        found: dict[int, list[EntryRead]] = {}
        for read in await self._bookie.reads(wanted) if wanted else ():
            found.setdefault(read.ledger_id, []).append(read)
        return found

    def _settle(self, answer: Answer, reads: Sequence[EntryRead]) -> Answer:
        """Return what is known of one ledger after the lister's answer and reads on the bookie."""
        if answer.status is not AnswerStatus.HELD:
            said = (
                LISTER_IN_DOUBT
                if answer.status in (AnswerStatus.REFUSED, AnswerStatus.FAILED)
                else answer.detail or answer.status.value
            )
            why = f"the bookie cannot list, and its lister at {self._where} did not: {said}"
            return _without_list(answer, AnswerStatus.UNSUPPORTED, why)
        listed = held_entries(answer.groups)
        answer = replace(
            answer,
            requests=answer.requests + sum(read.requests for read in reads),
            received_bytes=answer.received_bytes + sum(read.received_bytes for read in reads),
            detail=f"{LISTED_BY_LISTER}{self._where}",
        )
        unlisted = [read for read in reads if read.entry_id not in listed]
        sent = tuple(read.entry_id for read in unlisted if read.status in _THERE)
        answer = replace(answer, read_unlisted=sent)
        if unlisted and len(sent) == len(unlisted):
            if answer.missing_logs:
                why = (
                    f"{len(sent)} entries in logs that the lister at {self._where} does not find"
                    " were read"
                )
            else:
                why = (
                    f"{len(sent)} entries that the lister at {self._where} does not list were read:"
                    " not in the index"
                )
            return _without_list(answer, AnswerStatus.UNSUPPORTED, why)
        return next(
            (self._contradict(answer, read) for read in reads if read.entry_id in listed), answer
        )

    def _contradict(self, answer: Answer, read: EntryRead) -> Answer:
        """Return the answer after an entry that it lists was read on the bookie."""
        if read.status in _THERE:
            return answer
        listed = (
            f"the lister at {self._where} lists entry {read.entry_id} of ledger {read.ledger_id}"
        )
        if read.status is ReadStatus.NO_LEDGER:
            why = f"{listed}, but the bookie has no such ledger"
            return _without_list(answer, AnswerStatus.NO_SUCH_LEDGER, why)
        if read.status in _CONTRADICTIONS:
            self.contradiction = (
                f"{LISTER_CONTRADICTED}{listed}, but the bookie does not have it"
                f" ({read.status.value})"
            )
            return answer
        return _without_list(
            answer, AnswerStatus(read.status.value), f"{listed}; read: {read.detail}"
        )

    def unless_contradicted(self, answer: Answer) -> Answer:
        """Return the answer, or INVALID if it is a list of a lister that the bookie contradicts."""
        if not self.contradiction or answer.status is not AnswerStatus.HELD:
            return answer
        unfounded = replace(answer, read_unlisted=())  # the lister may read another index
        return _without_list(unfounded, AnswerStatus.INVALID, self.contradiction)

    @property
    def has_late_lists(self) -> bool:
        return self._bookie.has_late_lists

    async def settle_late_lists(self) -> list[Answer]:
        return await self._bookie.settle_late_lists()

    async def reads(self, questions: Sequence[ReadQuestion]) -> list[EntryRead]:
        return await self._bookie.reads(questions)

    def greeting(self) -> tuple[Greeting, str]:
        """Return the bookie's greeting; its reason says whether and where its lister lists."""
        greeting, detail = self._bookie.greeting()
        if self.contradiction and greeting is Greeting.ANSWERED:
            return greeting, self.contradiction
        if self._has_listed and greeting is Greeting.ANSWERED:
            return greeting, f"{LISTED_BY_LISTER}{self._where}"
        if detail.startswith(NOT_DIALLED):
            return greeting, detail
        if self._is_unable and greeting is Greeting.ANSWERED:
            greeting = Greeting.UNSUPPORTED
        answers = (
            f"its lister at {self._where} answers" if self._is_greeted and not self._trouble else ""
        )
        return greeting, "; ".join(filter(None, (self._trouble or answers, detail)))

    @property
    def probes(self) -> int:
        return self._bookie.probes + self._lister.probes

    @property
    def pace(self) -> LanePace:
        return self._bookie.pace

    async def close(self) -> None:
        await self._lister.close()
        await self._bookie.close()


def _without_list(answer: Answer, status: AnswerStatus, why: str) -> Answer:
    """Return the answer without its list and its missing logs.

    Unlisted entries that were read stay, because the bookie itself sent them. If logs are missing
    they do not: the index may place them in these logs.
    """
    unindexed = () if answer.missing_logs else answer.read_unlisted
    return replace(
        answer, status=status, groups=b"", detail=why, missing_logs=(), read_unlisted=unindexed
    )


def reads_of(question: ListQuestion, answer: Answer) -> tuple[EntryId, ...]:
    """Return the entries of one list to read on the bookie before the list is passed on.

    One listed entry if the list has all that the bookie should hold; otherwise a few that it lacks
    and none that it has, because reading a listed one could make the bookie cache lost ones. If all
    of them can be read, the bookie has not flushed them yet and the list is too early.
    """
    if not question.expected_groups:
        return ()
    expected = held_entries(question.expected_groups)
    lacking = (
        expected - held_entries(answer.groups)
        if answer.groups != question.expected_groups
        else EMPTY
    )
    order = random.Random(f"{answer.bookie_id}/{answer.ledger_id}/{answer.asked_at_ms}")  # noqa: S311 - a sample
    if not lacking:
        return (expected.nth(order.randrange(expected.count())),)
    drawn = {lacking.nth(order.randrange(lacking.count())) for _ in range(UNLISTED_READS)}
    return tuple(sorted({lacking.first(), lacking.last(), *drawn}))


def open_lane(
    bookie_id: BookieId,
    address: tuple[str, int],
    limits: BookieLimits,
    look: int,
    now_ms: Callable[[], int],
    listers: Listers | None,
    *,
    has_listed: bool = False,
    is_unable: bool = False,
    patience: ListPatience | None = None,
) -> AsyncLane:
    """Return the lane of a bookie, with its lister if it should have one."""
    lane = AsyncLane(
        bookie_id, *address, limits, look, now_ms, has_listed=has_listed, patience=patience
    )
    where = None if listers is None else listers.address_of(bookie_id, address[0])
    if where is None or listers is None:
        return lane
    lister = ListerLane(ListerIdentity(bookie_id, listers.instance_id), where, limits, look, now_ms)
    both = LaneWithLister(
        lane, lister, bookie_id, f"{where[0]}:{where[1]}", look, is_unable=is_unable
    )
    both.contradiction = listers.not_believed.get(bookie_id, "")
    return both
