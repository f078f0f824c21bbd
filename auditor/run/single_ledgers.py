"""Audit a few ledgers without Spark in about a second: the same requests and judgement as a run.

At each look the bookies are asked for lists and entries in one event loop. All ledgers, and
everything that bookies said about them, fit in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from auditor.bookie.address_table import AddressTable, SearchBudget, unread
from auditor.bookie.lane import AsyncLane, LaneGate
from auditor.bookie.late_lists import KNOWN_UNABLE, UNTRIED, ListPatience
from auditor.bookie.listers import LaneWithLister, Listers, open_lane
from auditor.bookie.questions import ListQuestion, ReadQuestion
from auditor.config import BookieLimits, JudgingLimits
from auditor.first_checker.schedule import expected_list
from auditor.first_checker.spot_reads import single_spots
from auditor.judging.contradicted_lists import spoil_verdict
from auditor.judging.judge import Judge, poison_step
from auditor.judging.settle import Step, Todo, reading_rounds_max, settle_and_check
from auditor.model.availability import (
    ABSENT_READS,
    UNREADABLE_READS,
    Answer,
    AnswerStatus,
    EntryRead,
    Greeting,
    ReadStatus,
)
from auditor.model.evidence import LedgerEvidence, Look, Terms
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import DigestType, LedgerMetadata, LedgerRecord
from auditor.zookeeper.metadata_store import MetadataStore


@dataclass(frozen=True, slots=True)
class Asker:
    """How the bookies are reached. `wait` sleeps for some seconds, or raises if the command must
    stop.
    """

    store: MetadataStore
    limits: BookieLimits
    now_ms: Callable[[], int]
    wait: Callable[[float], None]
    second_look_delay_ms: int
    judging: JudgingLimits = field(default_factory=JudgingLimits)
    known_unable: frozenset[BookieId] = frozenset()
    """Bookies that an earlier run recorded as unable to list. Entries are read there at once,
    without waiting for their lists."""
    search_reads_max: int | None = None
    """Per bookie: at most this many reads of entries that belong elsewhere. None: no limit."""
    listers: Listers | None = None
    """Where the bookies' listers are; None if no lister is asked."""
    set_aside: dict[LedgerId, str] = field(default_factory=dict)
    """Filled by the audit: ledger id -> why the ledger could not be judged."""


@dataclass(slots=True)
class LedgerLooks:
    """The looks at one ledger so far."""

    records: list[LedgerRecord] = field(default_factory=list)
    answers: dict[int, dict[BookieId, Answer]] = field(default_factory=dict)
    reads: dict[int, dict[tuple[BookieId, EntryId], EntryRead]] = field(default_factory=dict)

    def drop_probes(self, look: int, bookie: BookieId) -> None:
        """Forget the reads on a bookie while its list was overdue, except those of a wrong digest.

        The ledger is then judged as if the list had come in time. Otherwise probes would use up the
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


@dataclass(slots=True)
class AuditState:
    """The state of one audit, kept from look to look.

    `unsupported` bookies cannot list. `listed` bookies gave a list of their own. `denied` has what
    a bookie contradicted of its lister's lists.
    """

    asker: Asker
    terms: Terms
    searches: SearchBudget
    looks: dict[LedgerId, LedgerLooks]
    denied: dict[BookieId, str]
    steps: dict[LedgerId, Step] = field(default_factory=dict)
    unsupported: set[BookieId] = field(default_factory=set)
    listed: set[BookieId] = field(default_factory=set)

    @classmethod
    def of(cls, asker: Asker, ids: Sequence[LedgerId], terms: Terms) -> AuditState:
        """Return the state before the first look. A lister is not believed once its bookie is in
        `denied`.
        """
        denied: dict[BookieId, str] = {}
        if asker.listers is not None:
            asker = replace(asker, listers=replace(asker.listers, not_believed=denied))
        bound = asker.search_reads_max
        bookies = terms.around.writable | terms.around.readonly
        searches = SearchBudget(None if bound is None else dict.fromkeys(bookies, bound))
        return cls(asker, terms, searches, {one: LedgerLooks() for one in ids}, denied)

    def settle(self, ids: Iterable[LedgerId]) -> None:
        """Set where each of these ledgers stands.

        They are judged in a child: a ledger that cannot be judged is set aside, and the command
        survives.
        """
        ledgers = [self.looks[i].evidence() for i in ids]

        def aside(one: LedgerEvidence, detail: str) -> tuple[Step, str]:
            return poison_step(one.ledger_id), detail

        judge = Judge(
            lambda one: settle_and_check(one, self.terms), aside, self.asker.judging, careful=True
        )
        for one, (step, detail) in zip(ledgers, judge.judge_all(ledgers), strict=True):
            self.steps[one.ledger_id] = step
            if detail:
                self.asker.set_aside[one.ledger_id] = detail


_REFUTING_READS = ABSENT_READS | UNREADABLE_READS
"""Results of a read that contradict the list that names the entry."""


class _Wanted(NamedTuple):
    """A read to make on one bookie."""

    bookie_id: BookieId
    ledger_id: LedgerId
    entry_id: EntryId
    is_search: bool = False
    is_spot: bool = False
    is_denser: bool = False


class SingleLook:
    """One look at single ledgers, with its parallel conversations."""

    def __init__(self, state: AuditState, look: int) -> None:
        self._state, self._asker, self._look = state, state.asker, look
        self._looks, self._steps = state.looks, state.steps
        self._lanes: dict[BookieId, AsyncLane] = {}
        self._known = AddressTable.from_records(self._asker.store.bookies(look, self._asker.now_ms))
        self._gate = LaneGate(
            len(self._known.addresses), has_listers=self._asker.listers is not None
        )

    async def ask(self, ids: Iterable[LedgerId]) -> None:
        """Ask for the lists that are due, then read entries until no ledger needs another read.

        While a list is overdue, entries are read on its bookie. A list that comes late is judged as
        if it had been in time.
        """
        ids = list(ids)
        try:
            await self._lists([i for i in ids if self._steps[i].todo is Todo.LISTS])
            await self._read_until_enough(ids)
            if self._look == 1 and await self._read_in_doubt(ids):
                await self._read_until_enough(ids)
            if await self._settle_late_lists():
                await self._read_until_enough(ids)
        finally:
            for lane in self._lanes.values():
                await lane.close()

    async def _read_until_enough(self, ids: Sequence[LedgerId]) -> None:
        for _ in range(reading_rounds_max(self._state.terms, len(self._known.addresses))):
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
        if self._look == 1:
            await self._test_lists(ids)
        self._state.settle(ids)

    async def _test_lists(self, ids: Sequence[LedgerId]) -> None:
        """Read entries that bookies list: the ends of segments, and others as the limit allows.

        Bookies with a lister are left out: DbLedgerStorage reads ahead, and then serves entries
        that its index has lost.
        """
        listed = self._listed(ids)
        terms = self._state.terms
        chosen = single_spots(self._metadata(ids), listed, terms.probe_seed, terms.spot_reads)
        await self._make_reads([_Wanted(*copy, is_spot=True) for copy in chosen])

    async def _read_in_doubt(self, ids: Sequence[LedgerId]) -> bool:
        """Read more of what bookies in doubt list of these ledgers. Return whether there was any.

        A bookie is in doubt if it failed to send an entry that it lists, denied it, or lacks an
        entry of some ledger.
        """
        terms = self._state.terms
        if terms.spot_reads < 1 or terms.doubt_reads < 1:
            return False
        reads = [read for i in ids for read in self._looks[i].reads.get(self._look, {}).values()]
        doubted = {
            read.bookie_id for read in reads if read.is_spot and read.status in _REFUTING_READS
        }
        doubted |= {lack.bookie_id for i in ids for lack in self._steps[i].verdict.lacks}
        listed = [pair for pair in self._listed(ids) if pair[0] in doubted]
        was_read = {(read.bookie_id, read.ledger_id, read.entry_id) for read in reads}
        chosen = single_spots(
            self._metadata(ids), listed, terms.probe_seed, terms.doubt_reads, was_read
        )
        await self._make_reads([_Wanted(*copy, is_spot=True, is_denser=True) for copy in chosen])
        self._state.settle(sorted({ledger_id for _, ledger_id, _ in chosen}))
        return bool(chosen)

    def _listed(self, ids: Sequence[LedgerId]) -> list[tuple[BookieId, LedgerId]]:
        """Return which bookies listed which of these ledgers themselves at this look."""
        return [
            (bookie, ledger_id)
            for ledger_id in ids
            for bookie, answer in self._looks[ledger_id].answers.get(self._look, {}).items()
            if answer.status is AnswerStatus.HELD and not answer.is_from_lister
        ]

    def _metadata(self, ids: Sequence[LedgerId]) -> dict[LedgerId, LedgerMetadata | None]:
        return {i: self._looks[i].records[-1].metadata for i in ids}

    async def _list(self, bookie: BookieId, questions: list[ListQuestion]) -> list[Answer]:
        undialled = self._known.undialled_answers(bookie, questions, self._look, self._asker.now_ms)
        if undialled is not None:
            return undialled
        if bookie in self._state.unsupported and not isinstance(self._lane(bookie), LaneWithLister):
            status = AnswerStatus.UNSUPPORTED
            return [
                Answer(bookie, q.ledger_id, self._look, self._asker.now_ms(), status)
                for q in questions
            ]
        async with self._gate.hold(self._lane(bookie)) as lane:
            answers = await lane.lists(questions)
        self._remember_ability(bookie, answers)
        return answers

    def _remember_ability(self, bookie: BookieId, answers: Iterable[Answer]) -> None:
        """Remember for later looks whether the bookie can list, and what it denied of its lister's
        lists.
        """
        lane = self._lane(bookie)
        if isinstance(lane, LaneWithLister) and lane.contradiction:
            self._state.denied[bookie] = lane.contradiction
        if self._lane(bookie).greeting()[0] is Greeting.UNSUPPORTED:
            self._state.unsupported.add(bookie)
        else:
            self._state.unsupported.discard(bookie)
        if any(
            answer.status is AnswerStatus.HELD and not answer.is_from_lister for answer in answers
        ):
            self._state.listed.add(bookie)

    async def _settle_late_lists(self) -> bool:
        """Wait for the overdue lists. Return whether the answer of any bookie changed."""
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
        self._state.settle(changed)
        return bool(changed)

    async def _reads(self, ids: list[LedgerId]) -> None:
        await self._make_reads(
            [
                _Wanted(bookie, ledger_id, entry, self._steps[ledger_id].are_searches)
                for ledger_id in ids
                for bookie, entry in self._steps[ledger_id].reads
            ]
        )
        self._state.settle(ids)

    async def _make_reads(self, wanted: Sequence[_Wanted]) -> None:
        """Read entries, all bookies in parallel."""
        asked: dict[BookieId, list[ReadQuestion]] = {}
        ids = dict.fromkeys(ledger_id for _, ledger_id, *_ in wanted)
        passwords = self._asker.store.passwords(
            [i for i in ids if self._digest(i) is DigestType.HMAC]
        )
        for bookie, ledger_id, entry, *flags in wanted:
            digest, password = self._digest(ledger_id), passwords.get(ledger_id)
            question = ReadQuestion(ledger_id, entry, digest, password, *flags)
            asked.setdefault(bookie, []).append(question)
        for reads in await asyncio.gather(
            *(self._read(b, questions) for b, questions in asked.items())
        ):
            for read in reads:
                self._looks[read.ledger_id].reads.setdefault(self._look, {})[
                    read.bookie_id, read.entry_id
                ] = read

    async def _read(self, bookie: BookieId, questions: list[ReadQuestion]) -> list[EntryRead]:
        undialled = self._known.undialled_reads(bookie, questions, self._look, self._asker.now_ms)
        if undialled is not None:
            return undialled
        asked, refused = self._state.searches.split(bookie, questions)
        not_asked = [
            unread(bookie, q, self._look, self._asker.now_ms(), ReadStatus.NOT_ASKED)
            for q in refused
        ]
        if not asked:
            return not_asked
        async with self._gate.hold(self._lane(bookie)) as lane:
            return [*await lane.reads(asked), *not_asked]

    def _expected_list(self, ledger_id: LedgerId, bookie: BookieId) -> bytes | None:
        metadata = self._looks[ledger_id].records[-1].metadata
        return expected_list(metadata, bookie) if metadata and self._asker.listers else None

    def _digest(self, ledger_id: LedgerId) -> DigestType | None:
        metadata = self._looks[ledger_id].records[-1].metadata
        return metadata.digest_type if metadata else None

    def _lane(self, bookie: BookieId) -> AsyncLane:
        if bookie not in self._lanes:
            self._lanes[bookie] = open_lane(
                bookie,
                self._known.address_of(bookie),
                self._asker.limits,
                self._look,
                self._asker.now_ms,
                self._asker.listers,
                has_listed=bookie in self._state.listed,
                is_unable=bookie in self._state.unsupported,
                patience=self._patience(bookie),
            )
        return self._lanes[bookie]

    def _patience(self, bookie: BookieId) -> ListPatience | None:
        if self._gate.must_hang_up:  # an overdue list would come on a closed connection
            return None
        return KNOWN_UNABLE if bookie in self._asker.known_unable else UNTRIED


def audit_ledgers(
    asker: Asker, ids: Sequence[LedgerId], terms: Terms
) -> list[tuple[LedgerEvidence, Step]]:
    """Return each ledger's evidence and final step, in the order of `ids`.

    Takes looks until every verdict may stand, as the terms allow.
    """
    state = AuditState.of(asker, ids, terms)
    asker, looks, steps = state.asker, state.looks, state.steps
    open_ids = list(looks)
    for look in range(1, terms.looks_max + 3):
        if look > 1:
            if any(steps[i].wait for i in open_ids):
                asker.wait(asker.second_look_delay_ms / 1000)
            asker.store.sync()
        for record in asker.store.read_ledgers(open_ids, look, asker.now_ms, with_marks=True):
            looks[record.ledger_id].records.append(record)
        state.settle(open_ids)
        asyncio.run(SingleLook(state, look).ask(open_ids))
        open_ids = [i for i in open_ids if steps[i].todo is not Todo.NOTHING]
        if not open_ids:
            break
    assert not open_ids, f"ledgers {open_ids[:5]} did not settle within {terms.looks_max} looks"
    return [_spoil((looks[i].evidence(), steps[i]), frozenset(state.denied)) for i in looks]


def _spoil(
    judged: tuple[LedgerEvidence, Step], denied: frozenset[BookieId]
) -> tuple[LedgerEvidence, Step]:
    """Correct a verdict that rests on lists which a bookie contradicted later."""
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
