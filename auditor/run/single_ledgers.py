"""The same audit for a handful of ledgers, without Spark: the same questions, the same judgement,
an answer in about a second.

Every ledger here fits in memory with all that was said of it; the bookies are asked side by side in
one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from auditor.bookie.address_table import AddressTable
from auditor.bookie.client import LANES_AT_ONCE_MAX, AsyncLane
from auditor.bookie.lane_with_lister import LaneWithLister, open_lane
from auditor.bookie.late_lists import KNOWN_UNABLE, UNTRIED, ListPatience
from auditor.bookie.listers import Listers
from auditor.bookie.questions import ListQuestion, ReadQuestion
from auditor.bookie.searching import SearchBudget, unread
from auditor.config import BookieLimits, JudgingLimits
from auditor.first_checker.schedule import expected_list
from auditor.judging.judge import Judge
from auditor.judging.set_aside import poison_step
from auditor.judging.settle import Step, Todo, reading_rounds_max, settle_and_check
from auditor.judging.spoiled import spoil_verdict
from auditor.model.availability import Answer, AnswerStatus, EntryRead, Greeting, ReadStatus
from auditor.model.evidence import LedgerEvidence, Look, Terms
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import DigestType, LedgerRecord
from auditor.zookeeper.metadata_store import MetadataStore


@dataclass(slots=True)
class _Looks:
    """One ledger's looks as they grow."""

    records: list[LedgerRecord] = field(default_factory=list)
    answers: dict[int, dict[BookieId, Answer]] = field(default_factory=dict)
    reads: dict[int, dict[tuple[BookieId, EntryId], EntryRead]] = field(default_factory=dict)

    def drop_probes(self, look: int, bookie: BookieId) -> None:
        """Forget what was read on a bookie while its list was overdue, but for wrong digests, which
        accuse it.

        The ledger is then judged as if the list had come in time. Probes would use up the
        confirming reads of that bookie.
        """
        reads = self.reads.get(look, {})
        for key, read in list(reads.items()):
            if key[0] == bookie and read.status is not ReadStatus.CORRUPT:
                del reads[key]

    def evidence(self) -> LedgerEvidence:
        looks = tuple(
            Look(r, self.answers.get(r.look, {}), self.reads.get(r.look, {})) for r in self.records
        )
        return LedgerEvidence(self.records[0].ledger_id, looks)


@dataclass(frozen=True, slots=True)
class Asker:
    """How the bookies are reached. `wait` sleeps so many seconds, or raises when the command is to
    stop.
    """

    store: MetadataStore
    limits: BookieLimits
    now_ms: Callable[[], int]
    wait: Callable[[float], None]
    second_look_delay_ms: int
    judging: JudgingLimits = field(default_factory=JudgingLimits)
    known_unable: frozenset[BookieId] = frozenset()
    """Bookies that an earlier run recorded as unable to list: entries are read there at once,
    beside the lists.
    """
    search_reads_max: int | None = None
    """Times one bookie is read for entries that it should not hold; None: no bound."""
    listers: Listers | None = None
    """Where the bookies' listers are; None where none is asked."""
    set_aside: dict[LedgerId, str] = field(default_factory=dict)
    """Filled on the way: why a ledger could not be judged."""


def audit_ledgers(
    asker: Asker, ids: Sequence[LedgerId], terms: Terms
) -> list[tuple[LedgerEvidence, Step]]:
    """Each ledger's evidence and final step, in the order of `ids`: looks until every verdict may
    stand, within the terms.
    """
    looks = {ledger_id: _Looks() for ledger_id in ids}
    steps: dict[LedgerId, Step] = {}
    open_ids = list(looks)
    unsupported: set[BookieId] = set()
    listed: set[BookieId] = set()
    denied: dict[BookieId, str] = {}
    if asker.listers is not None:
        asker = replace(asker, listers=replace(asker.listers, not_believed=denied))
    bound = asker.search_reads_max
    bookies = terms.around.writable | terms.around.readonly
    searches = SearchBudget(None if bound is None else dict.fromkeys(bookies, bound))
    for look in range(1, terms.looks_max + 3):
        if look > 1:
            if any(steps[i].wait for i in open_ids):
                asker.wait(asker.second_look_delay_ms / 1000)
            asker.store.sync()
        for record in asker.store.read_ledgers(open_ids, look, asker.now_ms, with_marks=True):
            looks[record.ledger_id].records.append(record)
        steps |= _settle_all(asker, [looks[i].evidence() for i in open_ids], terms)
        asyncio.run(
            _Round(asker, look, looks, steps, terms, unsupported, listed, denied, searches).ask(
                open_ids
            )
        )
        open_ids = [i for i in open_ids if steps[i].todo is not Todo.NOTHING]
        if not open_ids:
            break
    assert not open_ids, f"ledgers {open_ids[:5]} did not settle within {terms.looks_max} looks"
    return [_spoil((looks[i].evidence(), steps[i]), frozenset(denied)) for i in looks]


def _spoil(
    judged: tuple[LedgerEvidence, Step], denied: frozenset[BookieId]
) -> tuple[LedgerEvidence, Step]:
    """Take back what rests on lists that a bookie contradicted since."""
    evidence, step = judged
    answers = (
        answer
        for look in evidence.looks
        for bookie, answer in look.answers.items()
        if bookie in denied
    )
    if any(one.is_from_lister and one.status is AnswerStatus.HELD for one in answers):
        return evidence, replace(step, verdict=spoil_verdict(step.verdict))
    return judged


def _settle_all(
    asker: Asker, ledgers: Sequence[LedgerEvidence], terms: Terms
) -> dict[LedgerId, Step]:
    """Where each ledger stands. Judged in a child: one that cannot be judged is set aside, and the
    command lives.
    """

    def aside(one: LedgerEvidence, detail: str) -> tuple[Step, str]:
        return poison_step(one.ledger_id), detail

    judge = Judge(lambda one: settle_and_check(one, terms), aside, asker.judging, careful=True)
    results = {
        one.ledger_id: result for one, result in zip(ledgers, judge.judge_all(ledgers), strict=True)
    }
    asker.set_aside.update(
        {ledger_id: detail for ledger_id, (_, detail) in results.items() if detail}
    )
    return {ledger_id: step for ledger_id, (step, _) in results.items()}


class _Round:
    """One look's conversations with the bookies."""

    def __init__(
        self,
        asker: Asker,
        look: int,
        looks: Mapping[LedgerId, _Looks],
        steps: dict[LedgerId, Step],
        terms: Terms,
        unsupported: set[BookieId],
        listed: set[BookieId],
        denied: dict[BookieId, str],
        searches: SearchBudget,
    ) -> None:
        self._asker, self._look, self._looks, self._steps = asker, look, looks, steps
        self._terms, self._unsupported, self._listed = terms, unsupported, listed
        self._denied, self._searches = denied, searches
        self._lanes: dict[BookieId, AsyncLane] = {}
        self._gate = asyncio.Semaphore(LANES_AT_ONCE_MAX)
        self._known = AddressTable.from_records(asker.store.bookies(look, asker.now_ms))

    async def ask(self, ids: Iterable[LedgerId]) -> None:
        """Ask for the lists that are due, then read entries until no ledger wants another.

        Where lists are overdue, entries are read beside them. A list that comes late is judged as
        if it had been in time.
        """
        ids = list(ids)
        try:
            await self._lists([i for i in ids if self._steps[i].todo is Todo.LISTS])
            await self._read_until_enough(ids)
            if await self._settle_late_lists():
                await self._read_until_enough(ids)
        finally:
            for lane in self._lanes.values():
                await lane.close()

    async def _read_until_enough(self, ids: Sequence[LedgerId]) -> None:
        for _ in range(reading_rounds_max(self._terms, len(self._known.addresses))):
            lacking = [i for i in ids if self._steps[i].todo is Todo.READS]
            if not lacking:
                return
            await self._reads(lacking)
        raise AssertionError("ledgers want more entries read than all bookies together are allowed")

    async def _lists(self, ids: list[LedgerId]) -> None:
        asked: dict[BookieId, list[ListQuestion]] = {}
        for ledger_id in ids:
            for bookie, size in self._steps[ledger_id].questions:
                asked.setdefault(bookie, []).append(
                    ListQuestion(ledger_id, size, self._expected_list(ledger_id, bookie))
                )
        for answers in await asyncio.gather(
            *(self._list(b, questions) for b, questions in asked.items())
        ):
            for answer in answers:
                self._looks[answer.ledger_id].answers.setdefault(self._look, {})[
                    answer.bookie_id
                ] = answer
        self._settle(ids)

    async def _list(self, bookie: BookieId, questions: list[ListQuestion]) -> list[Answer]:
        undialled = self._known.undialled_answers(bookie, questions, self._look, self._asker.now_ms)
        if undialled is not None:
            return undialled
        if bookie in self._unsupported and not isinstance(self._lane(bookie), LaneWithLister):
            status = AnswerStatus.UNSUPPORTED
            return [
                Answer(bookie, q.ledger_id, self._look, self._asker.now_ms(), status)
                for q in questions
            ]
        async with self._gate:
            answers = await self._lane(bookie).lists(questions)
        self._remember_ability(bookie, answers)
        return answers

    def _remember_ability(self, bookie: BookieId, answers: Iterable[Answer]) -> None:
        """Remember for the looks to come whether the bookie can list, and what of its lister it
        denied.
        """
        lane = self._lane(bookie)
        if isinstance(lane, LaneWithLister) and lane.contradiction:
            self._denied[bookie] = lane.contradiction
        if self._lane(bookie).greeting()[0] is Greeting.UNSUPPORTED:
            self._unsupported.add(bookie)
        else:
            self._unsupported.discard(bookie)
        if any(
            answer.status is AnswerStatus.HELD and not answer.is_from_lister for answer in answers
        ):
            self._listed.add(bookie)

    async def _settle_late_lists(self) -> bool:
        """Wait for the overdue lists; return whether the word of any bookie has changed."""
        late = [bookie for bookie, lane in self._lanes.items() if lane.has_late_lists]
        settled = await asyncio.gather(
            *(self._lanes[bookie].settle_late_lists() for bookie in late)
        )
        changed: set[LedgerId] = set()
        for bookie, answers in zip(late, settled, strict=True):
            self._remember_ability(bookie, answers)
            for answer in answers:
                looked = self._looks[answer.ledger_id]
                looked.answers[self._look][bookie] = answer
                if answer.status is not AnswerStatus.UNSUPPORTED:
                    looked.drop_probes(self._look, bookie)
                    changed.add(answer.ledger_id)
        self._settle(changed)
        return bool(changed)

    async def _reads(self, ids: list[LedgerId]) -> None:
        asked: dict[BookieId, list[ReadQuestion]] = {}
        passwords = self._asker.store.passwords(
            [i for i in ids if self._digest(i) is DigestType.HMAC]
        )
        for ledger_id in ids:
            for bookie, entry in self._steps[ledger_id].reads:
                is_search = self._steps[ledger_id].are_searches
                question = ReadQuestion(
                    ledger_id, entry, self._digest(ledger_id), passwords.get(ledger_id), is_search
                )
                asked.setdefault(bookie, []).append(question)
        for reads in await asyncio.gather(
            *(self._read(b, questions) for b, questions in asked.items())
        ):
            for read in reads:
                self._looks[read.ledger_id].reads.setdefault(self._look, {})[
                    read.bookie_id, read.entry_id
                ] = read
        self._settle(ids)

    async def _read(self, bookie: BookieId, questions: list[ReadQuestion]) -> list[EntryRead]:
        undialled = self._known.undialled_reads(bookie, questions, self._look, self._asker.now_ms)
        if undialled is not None:
            return undialled
        asked, refused = self._searches.split(bookie, questions)
        not_asked = [
            unread(bookie, q, self._look, self._asker.now_ms(), ReadStatus.NOT_ASKED)
            for q in refused
        ]
        if not asked:
            return not_asked
        async with self._gate:
            return [*await self._lane(bookie).reads(asked), *not_asked]

    def _expected_list(self, ledger_id: LedgerId, bookie: BookieId) -> bytes | None:
        metadata = self._looks[ledger_id].records[-1].metadata
        return expected_list(metadata, bookie) if metadata and self._asker.listers else None

    def _digest(self, ledger_id: LedgerId) -> DigestType | None:
        metadata = self._looks[ledger_id].records[-1].metadata
        return metadata.digest_type if metadata else None

    def _settle(self, ids: Iterable[LedgerId]) -> None:
        self._steps |= _settle_all(
            self._asker, [self._looks[i].evidence() for i in ids], self._terms
        )

    def _lane(self, bookie: BookieId) -> AsyncLane:
        if bookie not in self._lanes:
            self._lanes[bookie] = open_lane(
                bookie,
                self._known.address_of(bookie),
                self._asker.limits,
                self._look,
                self._asker.now_ms,
                self._asker.listers,
                has_listed=bookie in self._listed,
                is_unable=bookie in self._unsupported,
                patience=self._patience(bookie),
            )
        return self._lanes[bookie]

    def _patience(self, bookie: BookieId) -> ListPatience:
        return KNOWN_UNABLE if bookie in self._asker.known_unable else UNTRIED
