"""Listers: where they are, the conversation with one, and a lane that asks a bookie's lister.

A lister runs beside each bookie, at one port or where a file says. It is asked for lists, and the
bookie itself for everything else. Each connection to a lister must name the bookie that it lists
for.

A lister's list is believed only as far as the bookie confirms it. From each complete list one entry
is read on the bookie. From a list that lacks entries only missing ones are read: reading a listed
entry makes the bookie cache the entries after it, including those that its index has lost.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from auditor.bookie.conversation import End, PatientConversation
from auditor.bookie.exchange import LateLists, ListPatience
from auditor.bookie.lane import AsyncLane, LaneGate
from auditor.bookie.link import Link
from auditor.bookie.questions import Ask, Evidence, ListingProof, ListQuestion, ReadQuestion
from auditor.config import BookieLimits
from auditor.config.operator_files import read_small_file
from auditor.errors import ConfigError, MalformedAvailability
from auditor.first_checker.entry_set import EMPTY
from auditor.first_checker.schedule import held_entries
from auditor.model.availability import (
    LISTED_BY_LISTER,
    LISTER_CONTRADICTED,
    LISTER_SILENT,
    NOT_DIALLED,
    Answer,
    AnswerStatus,
    DiskSpace,
    EntryRead,
    Greeting,
    LanePace,
    ReadStatus,
)
from auditor.model.identity import BookieId, EntryId, split_host_port
from auditor.model.scrub import ScrubReport
from auditor.wire.bookie_connection import Answered, AnswerTooLarge
from auditor.wire.frames import Operation, Status, status_name
from auditor.wire.lister_fields import ListerIdentity, decode_identity, decode_missing_logs

MAP_BYTES_MAX = 4 * 2**20
"""Largest map of listers read, in bytes."""


@dataclass(frozen=True, slots=True)
class Listers:
    """The listers of one cluster. `instance_id` is the cluster's: a lister of another is not asked.

    `port` is that of the lister on each bookie's host, None if there is none. `addresses` override
    it. `not_believed` has, by bookie, what its lister listed earlier in the run although the bookie
    denied it.
    """

    instance_id: str | None
    port: int | None = None
    addresses: Mapping[BookieId, tuple[str, int]] = field(default_factory=dict)
    not_believed: Mapping[BookieId, str] = field(default_factory=dict)

    def address_of(self, bookie_id: BookieId, host: str) -> tuple[str, int] | None:
        """Return where the lister of a bookie on this host should be, or None if it should have
        none.
        """
        beside = None if self.port is None else (host, self.port)
        return self.addresses.get(bookie_id, beside)


def find_unknown_bookies(listers: Listers | None, known: Iterable[BookieId]) -> list[str]:
    """Return a sentence for each bookie of the map that is not among the `known` ones, sorted.

    Nothing is asked there: a typo in the id leaves the intended bookie without its lister.
    """
    named = set(listers.addresses if listers is not None else ()) - set(known)
    return [
        f"the map of listers names {bookie}, which the metadata service does not know:"
        " its lister is not asked"
        for bookie in sorted(named)
    ]


def read_listers(port: int, map_file: str | None, instance_id: str | None) -> Listers | None:
    """Return the listers that the settings name, or None if they name none (port 0, no file).

    Raises ConfigError if the file cannot be read or used.
    """
    if not port and map_file is None:
        return None
    addresses = _read_map(map_file) if map_file is not None else {}
    return Listers(instance_id, port or None, addresses)


def _read_map(name: str) -> dict[BookieId, tuple[str, int]]:
    content = read_small_file(Path(name), MAP_BYTES_MAX, "the map of listers")
    return parse_map(content.decode("utf-8", "replace"), name)


def parse_map(text: str, name: str) -> dict[BookieId, tuple[str, int]]:
    """Return the addresses in lines `BOOKIE_ID HOST:PORT`. # begins a comment. Raises
    ConfigError.
    """
    found: dict[BookieId, tuple[str, int]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        named = split_host_port(words[1]) if len(words) == 2 else None
        if named is None or named[1] is None:
            raise ConfigError(
                f"line {number} of the map of listers {name} is not of the form BOOKIE_ID HOST:PORT"
            )
        if words[0] in found:
            raise ConfigError(
                f"line {number} of the map of listers {name} names bookie {words[0]} again"
            )
        found[words[0]] = named[0], named[1]
    return found


CONNECT_TIMEOUT_MS = 2_000
"""How long a lister may take to accept a connection. Its host was reached already: a firewall that
drops packets to its port must not cost more.
"""

LIST_TIMEOUT_MS = 65_000
"""How long a lister may be silent while it makes a list. It is longer than the lister's own limit
on reading the index, and enough for 30 million keys at its default rate.
"""
NAME_MAX = 200
"""Characters kept of the names that a foreign lister gives."""


def limits_of_lister(limits: BookieLimits) -> BookieLimits:
    """Return the limits for a conversation with a lister: one short attempt to connect."""
    return replace(
        limits,
        bookie_connect_attempts=1,
        bookie_connect_timeout_ms=min(limits.bookie_connect_timeout_ms, CONNECT_TIMEOUT_MS),
        access=limits.access.of_listers(),
    )


ONLY_SCRUBS = "it only scrubs"
"""Why a lister is not asked for lists that reads the entry logs of a bookie that can list."""


class ListerConversation(PatientConversation):
    """A conversation that ends as refused unless the expected lister answers GET_BOOKIE_INFO.

    `found` is what that lister said of itself; None before it did.
    """

    found: ListerIdentity | None = None

    def expect(self, identity: ListerIdentity, list_timeout_ms: int) -> None:
        """Set who must answer, and how long a list may take. Call before anything is asked."""
        self._expected = identity
        self._answer_timeout_ms = list_timeout_ms

    def on_answers(self, link: Link, events: Sequence[Answered | AnswerTooLarge]) -> None:
        """Take responses. Each restarts the time-out: a lister makes its lists one after
        another.
        """
        for event in events:
            if event.operation == Operation.GET_LIST_OF_ENTRIES_OF_LEDGER:
                link.busy_at = link.heard_at
            if isinstance(event, Answered) and event.operation == Operation.GET_BOOKIE_INFO:
                problem = self._problem(event)
                if problem:
                    self._finish(End.refusal(problem))
                    return
        super().on_answers(link, events)

    def _problem(self, event: Answered) -> str:
        """Return why the greeting is not that of the expected lister; "" if it is."""
        if event.status == Status.EUA:
            return "EUA: its lister answers inside TLS alone: set --lister-tls on"
        if event.status != Status.EOK:
            return f"{status_name(event.status)}: its lister says that the bookie does not serve"
        found, expected = decode_identity(event.extra), self._expected
        if found is None:
            return "what answers there is not a lister"
        if (found.bookie_id, found.instance_id) != (expected.bookie_id, expected.instance_id):
            owner = (
                f"bookie {found.bookie_id[:NAME_MAX]} in cluster"
                f" {(found.instance_id or 'without an id')[:NAME_MAX]}"
            )
            return f"it is the lister of {owner}"
        self.found = found
        return "" if found.lists else ONLY_SCRUBS


class ListerEvidence(Evidence):
    """Makes evidence of a lister's answers, including the entry logs that it reports as missing."""

    def from_event(self, ask: Ask, event: Answered | AnswerTooLarge) -> Answer | EntryRead:
        outcome = super().from_event(ask, event)
        if not isinstance(event, Answered) or not event.extra or not isinstance(outcome, Answer):
            return outcome
        if outcome.status is not AnswerStatus.HELD:
            return outcome
        try:
            return replace(outcome, missing_logs=decode_missing_logs(event.extra))
        except MalformedAvailability as error:
            return replace(outcome, status=AnswerStatus.INVALID, groups=b"", detail=str(error))


class ListerLane(AsyncLane):
    """The lane of a bookie's lister. Its answers count as the bookie's. It can only list."""

    def __init__(
        self,
        identity: ListerIdentity,
        address: tuple[str, int],
        limits: BookieLimits,
        look: int,
        now_ms: Callable[[], int],
    ) -> None:
        bookie_id: BookieId = identity.bookie_id
        bounds = limits_of_lister(limits)
        evidence = ListerEvidence(
            bookie_id, look, bounds.list_groups_max, bounds.frame_bytes_max, now_ms
        )
        proof = ListingProof(has_listed=True)
        list_timeout_ms = max(bounds.rpc_timeout_ms, LIST_TIMEOUT_MS)
        late = LateLists(None, evidence, proof, list_timeout_ms / 1000)
        conversation = ListerConversation(address, bounds, evidence, proof, late)
        conversation.expect(identity, list_timeout_ms)
        self._conversation = self._lister = conversation

    @property
    def found(self) -> ListerIdentity | None:
        """What the lister said of itself in its newest greeting; None before the first."""
        return self._lister.found


FOUND_OUT_BEFORE = "it showed before that it cannot list: not asked again"
"""Why a bookie that cannot list was not asked again."""
LISTER_IN_DOUBT = "refused: it is in doubt, or the bookie does not serve (see the lister's log)"
"""What EIO from a lister means. From a bookie it means that its storage failed."""
UNLISTED_READS = 6
"""This many entries that a list lacks are drawn, beside the first and the last, and read on the
bookie. If all can be read, the list is too early. If one cannot, the confirming reads decide about
the list."""
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
        self._bookie_id, self._peer, self._look = bookie_id, where, look
        self._is_unable = is_unable
        self._has_listed = self._is_greeted = self._only_scrubs = False
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
        """Return whether the lister lists. One that only scrubs is greeted once."""
        if self._only_scrubs:
            return False
        greeting, why = await self._lister.greet()
        if why == ONLY_SCRUBS:
            self._only_scrubs = True
            return False
        self._is_greeted = True
        self._trouble = (
            "" if greeting is Greeting.ANSWERED else f"{LISTER_SILENT}{self._peer}: {why}"
        )
        return greeting is Greeting.ANSWERED

    def expect_lists(self, *, more_follow: bool) -> None:
        """Say whether the bookie itself is asked for more lists after those of the next call."""
        self._bookie.expect_lists(more_follow=more_follow)

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
            answer.status is AnswerStatus.HELD for answer in settled
        )
        unlisted = [
            answer.detail for answer in settled if answer.status is AnswerStatus.UNSUPPORTED
        ]
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
        """Read on the bookie the entries that `reads_of` chooses from each list; return them by
        ledger.
        """
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
            why = f"the bookie cannot list, and its lister at {self._peer} did not: {said}"
            return _without_list(answer, AnswerStatus.UNSUPPORTED, why)
        listed = held_entries(answer.groups)
        answer = replace(
            answer,
            requests=answer.requests + sum(read.requests for read in reads),
            received_bytes=answer.received_bytes + sum(read.received_bytes for read in reads),
            detail=f"{LISTED_BY_LISTER}{self._peer}",
        )
        unlisted = [read for read in reads if read.entry_id not in listed]
        sent = tuple(read.entry_id for read in unlisted if read.status in _THERE)
        answer = replace(answer, read_unlisted=sent)
        if unlisted and len(sent) == len(unlisted):
            if answer.missing_logs:
                why = (
                    f"{len(sent)} entries in logs that the lister at {self._peer} does not find"
                    " were read"
                )
            else:
                why = (
                    f"{len(sent)} entries that the lister at {self._peer} does not list were read:"
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
            f"the lister at {self._peer} lists entry {read.entry_id} of ledger {read.ledger_id}"
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
    def only_scrubs(self) -> bool:
        """Whether the lister said that it makes no lists."""
        return self._only_scrubs

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
            return greeting, f"{LISTED_BY_LISTER}{self._peer}"
        if detail.startswith(NOT_DIALLED):
            return greeting, detail
        if self._is_unable and greeting is Greeting.ANSWERED:
            greeting = Greeting.UNSUPPORTED
        answers = (
            f"its lister at {self._peer} answers" if self._is_greeted and not self._trouble else ""
        )
        return greeting, "; ".join(filter(None, (self._trouble or answers, detail)))

    @property
    def probes(self) -> int:
        return self._bookie.probes + self._lister.probes

    @property
    def disk(self) -> DiskSpace | None:
        return self._bookie.disk

    @property
    def pace(self) -> LanePace:
        return self._bookie.pace

    async def close(self) -> None:
        await self._lister.close()
        await self._bookie.close()


def _without_list(answer: Answer, status: AnswerStatus, why: str) -> Answer:
    """Return the answer without its list and its missing logs.

    Unlisted entries that were read stay, because the bookie itself sent them. If logs are missing,
    these entries go too: the index may place them in those logs.
    """
    unindexed = () if answer.missing_logs else answer.read_unlisted
    return replace(
        answer, status=status, groups=b"", detail=why, missing_logs=(), read_unlisted=unindexed
    )


def reads_of(question: ListQuestion, answer: Answer) -> tuple[EntryId, ...]:
    """Return the entries of one list to read on the bookie before the list is used.

    They are one listed entry if the list has everything that the bookie should hold, otherwise a
    few that it lacks and no listed one: reading a listed entry could make the bookie cache lost
    ones. If all missing entries can be read, the bookie has not flushed them yet and the list is
    too early.
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
    unanswered_before: int = 0,
    is_unable: bool = False,
    patience: ListPatience | None = None,
) -> AsyncLane:
    """Return the lane of a bookie, with its lister if it should have one."""
    lane = AsyncLane(
        *(bookie_id, *address, limits, look, now_ms),
        has_listed=has_listed,
        unanswered_before=unanswered_before,
        patience=patience,
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


async def ask_scrubs(
    bookies: Mapping[BookieId, tuple[str, int]],
    listers: Listers,
    limits: BookieLimits,
    now_ms: Callable[[], int],
) -> dict[BookieId, ScrubReport]:
    """Return what the scrubs of these bookies' listers report, where there is one that answers.

    Costs one connection to each lister. Raises LocalFault if this host gives no socket.
    """
    gate = LaneGate(len(bookies))

    async def ask(bookie: BookieId, address: tuple[str, int]) -> ScrubReport | None:
        where = listers.address_of(bookie, address[0])
        if where is None:
            return None
        identity = ListerIdentity(bookie, listers.instance_id)
        lane = ListerLane(identity, where, limits, 1, now_ms)
        async with gate.hold(lane):
            try:
                await lane.greet()
            finally:
                await lane.close()
        return lane.found.scrub if lane.found is not None else None

    found = await asyncio.gather(*(ask(*one) for one in bookies.items()))
    return {
        bookie: report for bookie, report in zip(bookies, found, strict=True) if report is not None
    }
