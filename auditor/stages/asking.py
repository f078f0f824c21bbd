"""Ask bookies for lists and entries, batch by batch, in conversations that end with the work.

On Spark each piece of work has one bookie (`auditor.spark.executor`). In this process one piece of
work asks all bookies in parallel.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice, zip_longest
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from auditor.bookie.address_table import AddressTable, SearchBudget, unread
from auditor.bookie.exchange import Hurry, ListPatience
from auditor.bookie.lane import AsyncLane, LaneGate
from auditor.bookie.list_blocks import BlockCall, ExpectedAnswers, ListBlock, join_blocks
from auditor.bookie.listers import FOUND_OUT_BEFORE, LaneWithLister, Listers, open_lane
from auditor.bookie.questions import ListQuestion, ReadQuestion
from auditor.clock import now_ms
from auditor.config import BookieLimits
from auditor.errors import StoreUnavailable
from auditor.evidence.rows import (
    Row,
    answer_row,
    expected_answer_row,
    greeting_row,
    named_row,
    pace_cells,
    read_row,
    table,
)
from auditor.evidence.schemas import ANSWERS, DISK, READS, with_pace, with_read_counts
from auditor.first_checker.schedule import held_entries
from auditor.model.availability import (
    LISTED_BY_LISTER,
    VALID_ANSWERS,
    Answer,
    AnswerStatus,
    EntryRead,
    Greeting,
    ReadStatus,
)
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import DigestType
from auditor.stages.blocks import (
    ANSWERED_BLOCK,
    LIST_BLOCK,
    pack_answers,
    unpack_questions,
)
from auditor.stages.reading import Batches, Work, with_counts
from auditor.zookeeper.metadata_store import StoreAddress
from auditor.zookeeper.session import ReadCounts

QUESTIONS = pa.schema(
    [
        ("bookie_id", pa.string()),
        ("ledger_id", pa.int64()),
        ("expected_bytes", pa.int64()),
        ("expected_groups", pa.binary()),
        ("is_compared", pa.bool_()),
        ("is_kept", pa.bool_()),
        ("block", LIST_BLOCK),
    ]
)
"""A bookie to ask about a ledger: a `ListQuestion`. Key: (bookie_id, ledger_id).

A row with a block asks about many ledgers; all other columns are null, except the bookie's. A row
with neither a ledger nor a block only greets the bookie. `expected_groups` is null unless the list
is compared, or the directory needs expected lists."""

WANTED = pa.schema(
    [
        ("bookie_id", pa.string()),
        ("ledger_id", pa.int64()),
        ("entry_id", pa.int64()),
        ("digest_type", pa.int32()),
        ("is_search", pa.bool_()),
        ("is_spot", pa.bool_()),
        ("is_denser", pa.bool_()),
        ("is_named", pa.bool_()),
    ]
)
"""A read to make. Key: (bookie_id, ledger_id, entry_id)."""
_KINDS_OF_READ = ("is_search", "is_spot", "is_denser", "is_named")

COUNTED_READS = with_pace(with_read_counts(READS))
PACED_ANSWERS = pa.schema([*with_pace(ANSWERS), DISK])
"""What the run writes."""
LANE_ANSWERS = pa.schema([*PACED_ANSWERS, ("block", ANSWERED_BLOCK)])
"""What lanes say: PACED_ANSWERS, and rows of many answers that came as expected.

A row with a block has the bookie and the look, and no other cell."""


@dataclass(frozen=True, slots=True)
class Directory:
    """The addresses of the registered bookies at one look.

    An address is None if the registration could not be read.
    """

    addresses: Mapping[BookieId, tuple[str, int] | None]
    unsupported: frozenset[BookieId]
    """Bookies that cannot list, as earlier requests of the run showed.

    They are not asked for lists, which saves the time-outs, but read like all others."""
    cookies: frozenset[BookieId] | None = None
    """Bookies with a cookie; None if the cookies are not known."""
    listed: frozenset[BookieId] = frozenset()
    """Bookies that gave a list earlier in the run, and therefore can list."""
    unanswered: Mapping[BookieId, int] = field(default_factory=dict)
    """By bookie, how many lists it left unanswered earlier at the first look, while it answered
    other requests. A bookie that lists few ledgers of each shard shows by them that it cannot
    list."""
    searches_left: Mapping[BookieId, int] | None = None
    """By bookie, how many reads of entries that belong elsewhere are left; 0 for one that is not
    named.

    None: no limit."""
    listers: Listers | None = None
    """Where the bookies' listers are; None if no lister is asked."""
    greets_all: bool = True
    """Whether bookies are greeted that no ledger names: findings on bookies need it."""
    hurry: Hurry | None = None
    """How long bookies may take to list; None: the whole time-out of a request."""

    def lanes(self) -> list[BookieId]:
        """Return the bookies that have a lane. All others share one lane, in which none is
        dialled.
        """
        return sorted(self.addresses)

    def greetings(self) -> pa.RecordBatch:
        """Return a QUESTIONS row for each bookie that is greeted even if no ledger names it."""
        nothing = [None] * (len(QUESTIONS) - 1)
        greeted = self.lanes() if self.greets_all else []
        return table(QUESTIONS, [(bookie, *nothing) for bookie in greeted])

    @property
    def needs_expected_lists(self) -> bool:
        """Whether a question must say what the bookie should hold."""
        return self.listers is not None or self.hurry is not None


def wanted_rows(
    reads: Iterable[tuple[BookieId, EntryId]],
    ledger_id: LedgerId,
    digest: DigestType | None,
    *,
    are_searches: bool,
) -> Iterator[Row]:
    """Yield WANTED rows of one ledger, none of them a spot read."""
    kind = None if digest is None else int(digest)
    for bookie, entry in reads:
        yield bookie, ledger_id, entry, kind, are_searches, False, False, False


def list_asker(
    directory: Directory, limits: BookieLimits, look: int, *, more_follow: bool = False
) -> Work:
    """Return work on QUESTIONS rows: LANE_ANSWERS with an answer to each question.

    Each bookie has a greeting, too. A lane has one bookie. Several bookies are asked in parallel.
    `more_follow`: other work asks the same bookies for more lists, at the same first look.
    """

    def work(batches: Batches) -> Batches:
        with _hold_conversation(directory, limits, look) as (loop, board):
            portions = chain.from_iterable(
                _portions(batch, more_follow=more_follow or (look == 1 and not is_last))
                for batch, is_last in _with_last(batches)
            )
            asked = (loop.run_until_complete(_ask_lists(board, one)) for one in portions)
            # If the bookie contradicts its lister, even in the last batch, no list counts.
            for bookies in asked if directory.listers is None else list(asked):
                rows = (row for answers in bookies for row in _answer_rows(board, answers, look))
                yield table(LANE_ANSWERS, rows)
            greetings = board.greetings()
            yield table(LANE_ANSWERS, [(*row, None) for row in greetings])

    return work


Answered: TypeAlias = tuple[ListQuestion, Answer]
"""A question to a bookie, and its answer."""


class BookieAnswers(NamedTuple):
    """What a bookie answered to the questions of a portion.

    `expected` are answers that came as expected, `came_as_expected` those among them whose lists
    are kept.
    """

    bookie: BookieId
    answered: list[Answered]
    came_as_expected: list[Answer]
    expected: list[ExpectedAnswers]


class Portion(NamedTuple):
    """Questions to a bookie that are asked, and whose answers become rows, together.

    `more_follow`: whether the bookie may be asked for more lists later, at the same first look.
    """

    bookie: BookieId
    questions: list[ListQuestion]
    blocks: list[ListBlock]
    more_follow: bool


PORTION_QUESTIONS = 10_000
"""A portion takes no more blocks once it has so many questions. Its last block may add up to
BLOCK_QUESTIONS_MAX, and the questions that are in no block are all in the first portion. Each
answer that is not as expected takes a kilobyte until all answers to its portion are there."""


def _with_last(batches: Batches) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """Yield each batch with whether it is the last one. Takes a batch more than it has yielded."""
    ahead = iter(batches)
    for batch in ahead:
        for following in ahead:
            yield batch, False
            batch = following
        yield batch, True


def _portions(batch: pa.RecordBatch, *, more_follow: bool) -> Iterator[list[Portion]]:
    """Yield the questions of QUESTIONS rows, a portion of each bookie at a time. `more_follow`: so
    do further rows.

    The first portion has the questions that are not in blocks, and the largest blocks: what a
    bookie can do shows best among many questions.
    """
    by_bookie: list[list[Portion]] = []
    for bookie, columns in _by_bookie(batch, *QUESTIONS.names[1:]).items():
        cells = list(zip(*columns, strict=True))
        questions = [ListQuestion(*cell[:-1]) for cell in cells if cell[0] is not None]
        blocks = [unpack_questions(cell[-1]) for cell in cells if cell[-1] is not None]
        portions, size = [Portion(bookie, questions, [], more_follow)], len(questions)
        for block in sorted(blocks, key=len, reverse=True):
            if size >= PORTION_QUESTIONS:
                portions.append(Portion(bookie, [], [], more_follow))
                size = 0
            portions[-1].blocks.append(block)
            size += len(block)
        by_bookie.append(portions)
    for together in zip_longest(*by_bookie):
        yield [portion for portion in together if portion is not None]


async def _ask_lists(board: _Switchboard, portions: Iterable[Portion]) -> list[BookieAnswers]:
    return await asyncio.gather(*(_ask_bookie(board, *portion) for portion in portions))


async def _ask_bookie(
    board: _Switchboard,
    bookie: BookieId,
    questions: Sequence[ListQuestion],
    blocks: Sequence[ListBlock],
    more_follow: bool,
) -> BookieAnswers:
    if blocks and not board.takes_blocks(bookie):
        questions = [*questions, *chain.from_iterable(block.questions() for block in blocks)]
        blocks = ()
    by_ledger = {question.ledger_id: question for question in questions}
    answers, calls = await board.lists(
        bookie, questions, join_blocks(blocks), more_follow=more_follow
    )
    found = BookieAnswers(bookie, [(by_ledger[a.ledger_id], a) for a in answers], [], [])
    for call in calls:
        found.expected.append(call.expected_answers())
        others = call.other_answers()
        assert len(found.expected[-1].ledger_ids) + len(others) == len(call.block), "lost answers"
        for question, answer, came_as_expected in others:
            if came_as_expected:
                found.came_as_expected.append(answer)
            else:
                found.answered.append((question, answer))
    said = chain((answer for _, answer in found.answered), found.came_as_expected)
    assert all(answer.bookie_id == bookie for answer in said), f"another bookie than {bookie}"
    return found


def _answer_rows(board: _Switchboard, answers: BookieAnswers, look: int) -> Iterator[Row]:
    """Yield LANE_ANSWERS rows."""
    for question, answer in answers.answered:
        row = _compared_row(board.unless_contradicted(answer), question)
        yield (*row, None, None, None)
    for answer in answers.came_as_expected:
        yield (*expected_answer_row(answer, is_kept=True), None, None, None)
    for expected in answers.expected:
        if len(expected.ledger_ids):
            cells = {"bookie_id": answers.bookie, "look": look, "block": pack_answers(expected)}
            yield named_row(LANE_ANSWERS, **cells)


def _compared_row(answer: Answer, question: ListQuestion) -> Row:
    """Return the row of an answer, without its list if that is as expected and not kept."""
    if not (question.is_compared and _is_as_expected(answer, question)):
        return answer_row(answer)
    return expected_answer_row(answer, is_kept=question.is_kept)


def _is_as_expected(answer: Answer, question: ListQuestion) -> bool:
    """Return whether the bookie gave the list that it should give, and said nothing else with it.

    A bookie that should hold nothing may also say that it does not know the ledger.
    """
    return (
        answer.status in VALID_ANSWERS
        and answer.groups == question.expected_groups
        and not (answer.non_canonical or answer.missing_logs or answer.read_unlisted)
    )


def entry_reader(
    directory: Directory, limits: BookieLimits, look: int, address: StoreAddress
) -> Work:
    """Return work on WANTED rows: a READS row for each, with read counts.

    Bookies are read in parallel.
    """

    def work(batches: Batches) -> Batches:
        with _hold_conversation(directory, limits, look) as (loop, board):
            for batch in batches:
                counts = ReadCounts()
                passwords = _passwords(batch, address, counts)
                reads = loop.run_until_complete(_read_entries(board, batch, passwords))
                rows = with_counts([read_row(read) for read in reads], counts)
                yield table(COUNTED_READS, board.with_paces(rows))

    return work


async def _read_entries(
    board: _Switchboard, batch: pa.RecordBatch, passwords: Mapping[LedgerId, bytes | None]
) -> list[EntryRead]:
    asked = []
    columns = ("ledger_id", "entry_id", "digest_type", *_KINDS_OF_READ)
    for bookie, cells in _by_bookie(batch, *columns).items():
        questions = [
            ReadQuestion(
                i,
                entry,
                None if digest is None else DigestType(digest),
                passwords.get(i),
                *(bool(flag) for flag in flags),
            )
            for i, entry, digest, *flags in zip(*cells, strict=True)
        ]
        asked.append(board.reads(bookie, questions))
    return list(chain.from_iterable(await asyncio.gather(*asked)))


def _passwords(
    batch: pa.RecordBatch, address: StoreAddress, counts: ReadCounts
) -> dict[LedgerId, bytes | None]:
    """Read the passwords that HMAC digests need from ZooKeeper, for this batch only.

    Adds to `counts`.
    """
    pairs = zip(
        batch.column("ledger_id").to_pylist(), batch.column("digest_type").to_pylist(), strict=True
    )
    ledgers = sorted({ledger for ledger, digest in pairs if digest == DigestType.HMAC})
    if not ledgers:
        return {}
    try:
        with address.open() as store:
            passwords = store.passwords(ledgers)
            counts.add(store.counts)
            return passwords
    except StoreUnavailable:
        return {}  # then only the ids show whether this is the entry


def _by_bookie(batch: pa.RecordBatch, *columns: str) -> dict[BookieId, tuple[list[int], ...]]:
    """Return the named columns of the batch as lists, bookie by bookie. A lane has one bookie."""
    found: dict[BookieId, tuple[list[int], ...]] = {}
    cells = zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
    for bookie, row in zip(batch.column("bookie_id").to_pylist(), cells, strict=True):
        mine = found.setdefault(bookie, tuple([] for _ in columns))
        for cell, column in zip(row, mine, strict=True):
            column.append(cell)
    return found


@contextmanager
def _hold_conversation(
    directory: Directory, limits: BookieLimits, look: int
) -> Iterator[tuple[asyncio.AbstractEventLoop, _Switchboard]]:
    """Open an event loop, and conversations in it that end with the context."""
    loop = asyncio.new_event_loop()
    board = _Switchboard(directory, limits, look)
    try:
        yield loop, board
    finally:
        loop.run_until_complete(board.close())
        loop.close()


class _Switchboard:
    """The conversations of one task or process, one for each bookie.

    As many at a time as `LaneGate` allows. If a bookie cannot be dialled, its answers say why.
    """

    def __init__(self, directory: Directory, limits: BookieLimits, look: int) -> None:
        self._directory, self._limits, self._look = directory, limits, look
        self._addresses = AddressTable(directory.addresses, directory.cookies)
        self._searches = SearchBudget(directory.searches_left)
        self._gate = LaneGate(
            sum(at is not None for at in directory.addresses.values()),
            has_listers=directory.listers is not None,
        )
        self._open: dict[BookieId, AsyncLane] = {}
        self._greeted: set[BookieId] = set()

    async def close(self) -> None:
        """End every conversation."""
        for lane in self._open.values():
            await lane.close()

    async def lists(
        self,
        bookie: BookieId,
        questions: Sequence[ListQuestion],
        blocks: Sequence[ListBlock],
        *,
        more_follow: bool,
    ) -> tuple[list[Answer], list[BlockCall]]:
        """Ask a bookie for lists, in blocks only if it takes blocks.

        Without a question, only greet it if it can be dialled. `more_follow`: the bookie is asked
        for more lists later.
        """
        undialled = self._addresses.undialled_answers(bookie, questions, self._look, now_ms)
        if undialled is not None:
            return undialled, []
        async with self._gate.hold(self._lane(bookie)) as lane:
            await self._greet_first(bookie, lane)
            lane.expect_lists(more_follow=more_follow)
            if bookie not in self._directory.unsupported or isinstance(lane, LaneWithLister):
                if blocks:
                    return await lane.ask_lists(questions, blocks)
                return await _await_lists(lane, questions), []
        status = AnswerStatus.UNSUPPORTED
        return [
            Answer(bookie, q.ledger_id, self._look, now_ms(), status, detail=FOUND_OUT_BEFORE)
            for q in questions
        ], []

    def takes_blocks(self, bookie: BookieId) -> bool:
        """Return whether a bookie is asked in blocks: itself, and with the whole time-out."""
        is_dialled = self._addresses.undialled_answers(bookie, (), self._look, now_ms) is None
        if not is_dialled or bookie in self._directory.unsupported:
            return False
        is_plain = not isinstance(self._lane(bookie), LaneWithLister)
        return is_plain and self._patience(bookie) is None

    async def reads(self, bookie: BookieId, questions: Sequence[ReadQuestion]) -> list[EntryRead]:
        """Read entries of a bookie, as many as the limit on searches allows."""
        undialled = self._addresses.undialled_reads(bookie, questions, self._look, now_ms)
        if undialled is not None:
            return undialled
        asked, refused = self._searches.split(bookie, questions)
        reads = [unread(bookie, q, self._look, now_ms(), ReadStatus.NOT_ASKED) for q in refused]
        if asked:
            async with self._gate.hold(self._lane(bookie)) as lane:
                await self._greet_first(bookie, lane)
                reads += await lane.reads(asked)
        return reads

    def unless_contradicted(self, answer: Answer) -> Answer:
        """Return the answer, or INVALID if it is a list of a lister that the bookie contradicts."""
        lane = self._open.get(answer.bookie_id)
        return lane.unless_contradicted(answer) if isinstance(lane, LaneWithLister) else answer

    def greetings(self) -> list[tuple[object, ...]]:
        """Return how each dialled bookie behaved over all its requests."""
        rows = []
        for bookie, lane in self._open.items():
            greeting, detail = lane.greeting()
            is_unable = bookie in self._directory.unsupported
            is_listed = detail.startswith(LISTED_BY_LISTER)
            if is_unable and greeting is Greeting.ANSWERED and not is_listed:
                greeting, detail = Greeting.UNSUPPORTED, detail or FOUND_OUT_BEFORE
            row = greeting_row(bookie, self._look, now_ms(), greeting, detail, lane.probes)
            rows.append((*row, pace_cells(lane.pace), lane.disk))
        return rows

    def with_paces(self, reads: Iterable[Row]) -> Iterator[Row]:
        """Yield rows of reads with the cell PACE: set in the last row of each bookie."""
        rows = list(reads)
        last = {row[0]: number for number, row in enumerate(rows)}
        for number, row in enumerate(rows):
            lane = self._open.get(str(row[0])) if last[row[0]] == number else None
            yield (*row, None if lane is None else pace_cells(lane.pace))

    def _lane(self, bookie: BookieId) -> AsyncLane:
        """Return this bookie's only conversation."""
        if bookie not in self._open:
            self._open[bookie] = open_lane(
                bookie,
                self._addresses.address_of(bookie),
                self._limits,
                self._look,
                now_ms,
                self._directory.listers,
                has_listed=bookie in self._directory.listed,
                unanswered_before=self._directory.unanswered.get(bookie, 0),
                is_unable=bookie in self._directory.unsupported,
                patience=self._patience(bookie),
            )
        return self._open[bookie]

    def _patience(self, bookie: BookieId) -> ListPatience | None:
        if self._directory.hurry is None or self._gate.must_hang_up:
            return None  # an overdue list would come on a closed connection
        return self._directory.hurry.patience(bookie)

    async def _greet_first(self, bookie: BookieId, lane: AsyncLane) -> None:
        """Greet the bookie, once in a conversation."""
        if bookie not in self._greeted:
            self._greeted.add(bookie)
            await lane.greet()


async def _await_lists(lane: AsyncLane, questions: Sequence[ListQuestion]) -> list[Answer]:
    """Return one Answer a question. While lists are overdue, read entries on the bookie.

    The slowest of these reads says how long to wait for the lists. They are not evidence: the
    ledgers are judged as if no list had been overdue.
    """
    answers = await lane.lists(questions)
    if not lane.has_late_lists:
        return answers
    await lane.reads(_pacing_reads(questions))
    late = {answer.ledger_id: answer for answer in await lane.settle_late_lists()}
    return [late.get(answer.ledger_id, answer) for answer in answers]


PACING_READS_MAX = 16
"""Entries read on a bookie to learn how fast it reads while its lists are overdue."""


def _pacing_reads(questions: Iterable[ListQuestion]) -> list[ReadQuestion]:
    """Return reads of the first and the last entry that the bookie should hold of each ledger."""
    held = (
        (question.ledger_id, held_entries(question.expected_groups or b""))
        for question in questions
    )
    ends = (
        ReadQuestion(ledger_id, entry)
        for ledger_id, entries in held
        if entries
        for entry in sorted({entries.first(), entries.last()})
    )
    return list(islice(ends, PACING_READS_MAX))
