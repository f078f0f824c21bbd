"""Questions about many clear ledgers to one bookie, in columns.

What a healthy bookie lists of a clear ledger is known before it is asked
(docs/decisions/0062). Where that is one run, or few, the lane compares whole frames
(`auditor.wire.expected_lists`) and makes a value only of an answer that is not as expected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from auditor.bookie.questions import Ask, ListQuestion
from auditor.first_checker.schedule import expected_groups, position_asked
from auditor.model.availability import Answer
from auditor.model.identity import EntryId
from auditor.wire.entry_availability import encode_runs, groups_of
from auditor.wire.expected_lists import (
    ENTRIES_MAX,
    LIST_OF_ONE_RUN_BYTES,
    Lists,
    Numbers,
    lists_of_one_run,
)


@dataclass(frozen=True)
class ListBlock:
    """Questions to a bookie about closed ledgers of one segment, which begins at entry 0.

    Ledger `ledger_ids[n]` ends at entry `last_entries[n]`. Its ensemble has `ensemble_size`
    bookies, of which the bookie is the one at `position`, and no other. The lists are compared, and
    stored where they are not as expected or `is_kept[n]` is not 0.
    """

    ledger_ids: Numbers
    last_entries: Numbers
    ensemble_size: int
    write_quorum: int
    position: int
    is_kept: bytes

    def __len__(self) -> int:
        return len(self.ledger_ids)

    def question(self, number: int) -> ListQuestion:
        """Return one of the questions."""
        last = int(self.last_entries[number])
        asked = position_asked(last, self.ensemble_size, self.write_quorum, self.position)
        return ListQuestion(
            int(self.ledger_ids[number]),
            asked.expected_bytes,
            asked.groups,
            is_compared=True,
            is_kept=bool(self.is_kept[number]),
        )

    def questions(self) -> list[ListQuestion]:
        """Return all questions, in their order."""
        return [self.question(number) for number in range(len(self))]

    @property
    def is_whole(self) -> bool:
        """Whether the bookie should hold every entry."""
        return self.write_quorum >= self.ensemble_size

    def have_short_lists(self) -> npt.NDArray[np.bool_]:
        """Return of which ledgers the list is known as every bookie sends it: one run, or few."""
        if self.is_whole:
            return self.last_entries < ENTRIES_MAX
        return self.last_entries < RUNS_MAX * self.ensemble_size - 1

    def lists(self, start: int, end: int) -> Lists:
        """Return the lists that a healthy bookie sends, of some questions. They must be short."""
        last = self.last_entries[start:end]
        if self.is_whole:
            return lists_of_one_run(last + 1)
        shape = (self.ensemble_size, self.write_quorum, self.position)
        return [_list_of_runs(entry, *shape) for entry in last.tolist()]

    def list_bytes(self, number: int) -> int:
        """Return the size of the list of one question. It must be short."""
        if self.is_whole:
            return LIST_OF_ONE_RUN_BYTES
        return len(self.lists(number, number + 1)[0])

    def take(self, chosen: npt.NDArray[np.bool_]) -> ListBlock:
        """Return the questions that a mask chooses."""
        return replace(
            self,
            ledger_ids=self.ledger_ids[chosen],
            last_entries=self.last_entries[chosen],
            is_kept=np.frombuffer(self.is_kept, np.uint8)[chosen].tobytes(),
        )


RUNS_MAX = 32
"""A list of more runs is decoded. This bounds how many different lists there are, too."""


@cache
def _list_of_runs(last: EntryId, ensemble_size: int, write_quorum: int, position: int) -> bytes:
    """Return the list of a position of a short ledger, a group for each run as bookies send it."""
    groups = expected_groups(0, last, position, ensemble_size, write_quorum)
    assert groups is not None, "a short ledger has short runs"
    return encode_runs(
        (start, group.size)
        for group in groups_of(groups)
        for start in range(group.first, group.last + 1, group.period or 1)
    )


def join_blocks(blocks: Sequence[ListBlock]) -> list[ListBlock]:
    """Return the same questions in as few blocks as possible.

    There is at most one of each shape for short lists, and one for all others.
    """
    by_shape: dict[tuple[int, int, int], list[ListBlock]] = {}
    for block in blocks:
        shape = (block.ensemble_size, block.write_quorum, block.position)
        by_shape.setdefault(shape, []).append(block)
    found = []
    for shape, alike in by_shape.items():
        whole = ListBlock(
            np.concatenate([block.ledger_ids for block in alike]),
            np.concatenate([block.last_entries for block in alike]),
            *shape,
            b"".join(block.is_kept for block in alike),
        )
        is_short = whole.have_short_lists()
        found += [whole.take(is_short), whole.take(~is_short)]
    return [block for block in found if len(block)]


class ExpectedAnswers(NamedTuple):
    """The answers to a block that came as expected, and of which no list is kept."""

    ledger_ids: Numbers
    asked_at_ms: Numbers
    received_bytes: Numbers


class KeptAnswer(NamedTuple):
    """Any other answer to a block. `came_as_expected`: its frame was compared, and is as
    expected.
    """

    question: ListQuestion
    answer: Answer
    came_as_expected: bool


class BlockCall:
    """The questions of one call about a block, and what came of them.

    A question is sent from the block. It becomes an `Ask` once its answer is not as expected, or
    its list is kept.
    """

    def __init__(self, block: ListBlock) -> None:
        self.block = block
        longest = int(block.last_entries.argmax()) if len(block) else None
        self.expected_bytes = 0 if longest is None else block.question(longest).expected_bytes
        """Assumed size of each answer: that of the longest."""
        self.sent = 0
        self._to_send = len(block)
        self._sent_at: list[float] = []
        self._asked_at_ms: list[int] = []
        self._answer_bytes: list[int] = []
        self._expected: list[int] = []
        self._asks: dict[int, Ask] = {}
        self._compared: set[int] = set()

    @property
    def unsent(self) -> int:
        """How many questions wait to be sent for the first time."""
        return max(0, self._to_send - self.sent)

    def close(self) -> None:
        """Send no more questions."""
        self._to_send = 0

    def on_sent(self, answer_bytes: Sequence[int], now: float, now_ms: int) -> None:
        """Record that the next questions were sent, and how long the expected answers are."""
        count = len(answer_bytes)
        self.sent += count
        self._answer_bytes += answer_bytes
        self._sent_at += [now] * count
        self._asked_at_ms += [now_ms] * count

    def sent_at(self, number: int) -> float:
        """Return when a question was sent, in seconds of the caller's clock."""
        return self._sent_at[number]

    def on_expected(self, numbers: Sequence[int], now: float) -> list[float]:
        """Record answers that came as expected. Return how long each of them took, in seconds."""
        self._expected += numbers
        sent_at = self._sent_at
        return [now - sent_at[number] for number in numbers]

    def ask(self, number: int, *, came_as_expected: bool = False) -> Ask:
        """Return a question as an `Ask`, to be answered one by one."""
        ask = self._asks[number] = Ask(self.block.question(number))
        if number < self.sent:
            ask.expected_bytes = self.expected_bytes
            ask.asked_at_ms = self._asked_at_ms[number]
            ask.sent_at = self._sent_at[number]
            ask.requests = 1
        if came_as_expected:
            self._compared.add(number)
        return ask

    def open_asks(self) -> Iterator[Ask]:
        """Yield the questions that have no answer, each as an `Ask`. Nothing may be awaited."""
        is_open = np.ones(len(self.block), np.bool_)
        is_open[self._expected] = False
        for number in np.flatnonzero(is_open).tolist():
            ask = self._asks.get(number) or self.ask(number)
            if ask.outcome is None:
                yield ask

    def all_asks(self) -> list[Ask]:
        """Return all questions as `Ask`s. None was sent."""
        assert not self.sent, "questions were sent in columns"
        return [self.ask(number) for number in range(len(self.block))]

    def expected_answers(self) -> ExpectedAnswers:
        """Return the answers that came as expected, in the order of the questions."""
        is_expected = np.zeros(len(self.block), np.bool_)
        is_expected[self._expected] = True
        is_expected[list(self._asks)] = False
        at = np.flatnonzero(is_expected)
        sent: list[Numbers] = [
            np.array(cells, np.int64) for cells in (self._asked_at_ms, self._answer_bytes)
        ]
        return ExpectedAnswers(self.block.ledger_ids[at], sent[0][at], sent[1][at])

    def other_answers(self) -> list[KeptAnswer]:
        """Return all other answers, in the order of the questions."""
        found = []
        for number, ask in sorted(self._asks.items()):
            assert isinstance(ask.outcome, Answer), number
            assert isinstance(ask.question, ListQuestion)
            came = KeptAnswer(ask.question, ask.outcome, number in self._compared)
            found.append(came)
        return found
