"""The questions of one call to one bookie: what to send now, what came back, what to send again.

Callers pass the time, in seconds of one clock. Nothing here waits: `conversation` does. `Throttle`
controls how much the bookie is asked, in parallel and per second: less while it shows strain.

`LateLists` has the lists that are overdue. A bookie with DbLedgerStorage never answers a list. A
caller with little time therefore reads entries while a list is overdue, instead of waiting for the
time-out of the request. A list that comes late replaces what the caller assumed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

import numpy as np

from auditor.bookie.list_blocks import BlockCall, ListBlock
from auditor.bookie.questions import Ask, Evidence, ListingProof, ReadQuestion, Waiting
from auditor.config import BookieLimits
from auditor.model.availability import WHILE_OTHERS_CAME, LanePace
from auditor.model.identity import BookieId
from auditor.pace import TokenBucket
from auditor.wire.bookie_connection import Answered, AnswerTooLarge, BookieConnection
from auditor.wire.expected_lists import ExpectedLists
from auditor.wire.frames import Operation, Status

BURST_S = 0.02
"""After a pause, one write may send the requests of this many seconds of the rate."""
STEP_S = 0.002
"""While the rate holds us back, one write sends the requests of this many seconds of the rate: four
at 2,000 a second. The reads of a bookie's clients wait behind those of one write. A write that
comes late sends more, up to a burst."""
SAMPLES = 64
"""A median latency is taken over this many responses: as many as are outstanding by default."""
RISE_MAX = 2.0
"""A median may be this many times the lowest median."""
RISE_S_MAX = 0.005
"""A median may always exceed the lowest one by this many seconds. On a fast link medians triple by
chance."""
SMALL_BYTES_MAX = 64 * 2**10
"""Latencies are compared for responses of at most this many bytes. A longer list takes longer on an
idle bookie too."""
SHARE_MIN = 1 / 8
"""Lowest share of the limits, however slow the bookie is: an audit must end. Only refusals and
resets bring the window below it."""


class Latencies:
    """Detects whether responses of one kind take longer than when the bookie was quiet."""

    def __init__(self) -> None:
        self._seconds: list[float] = []
        self._quietest = math.inf

    def add(self, seconds: Sequence[float]) -> bool:
        """Add responses. Return whether they complete a median that is too high."""
        self._seconds += seconds
        has_risen = False
        while len(self._seconds) >= SAMPLES:
            middle = median(self._seconds[:SAMPLES])
            del self._seconds[:SAMPLES]
            self._quietest = min(self._quietest, middle)
            has_risen |= middle > max(RISE_MAX * self._quietest, RISE_S_MAX + self._quietest)
        return has_risen


class Throttle:
    """The most requests that may be outstanding (`size`), and sent per second (`rate`; 0: no
    limit).

    Both halve when the bookie refuses or resets, and shrink by a quarter when it has become slow.
    With each window of answers they grow back, the size by one and the rate by a part, never above
    the limits (TCP Vegas). All times are seconds of the caller's clock.
    """

    def __init__(self, limits: BookieLimits, now: float) -> None:
        self._size_max, self._rate_max = limits.bookie_inflight, limits.bookie_requests_per_second
        self._bucket = TokenBucket(self._rate_max, now, BURST_S)
        self._latencies = {True: Latencies(), False: Latencies()}
        self.size: int
        self.rate: float
        self._lowest = (self._size_max, self._rate_max)
        self._set(self._size_max, self._rate_max)

    def take(self, wanted: int, now: float) -> int:
        """Return how many of `wanted` requests the rate allows now, and charge them."""
        return self._bucket.take(wanted, now)

    def give_back(self, unused: int) -> None:
        """Take back requests that were taken and not sent."""
        self._bucket.give_back(unused)

    def wait_s(self, wanted: int) -> float:
        """Return the seconds until `wanted` requests, or those of one write, may go; 0 without a
        limit.
        """
        return self._bucket.wait_s(min(wanted, max(1, int(self.rate * STEP_S))))

    def halve(self) -> None:
        """Record that the bookie refused a request, or reset a connection with requests on it."""
        self._set(max(1, self.size // 2), self.rate / 2)

    def answered(self, count: int, seconds: Sequence[float], *, are_lists: bool) -> None:
        """Record that `count` answers came. `seconds`: how long each of the small ones took."""
        if self._latencies[are_lists].add(seconds):
            least = max(1, int(self._size_max * SHARE_MIN))
            self._set(max(min(self.size, least), self.size * 3 // 4), self.rate * 3 / 4)
            return
        if not self.is_low:
            return
        self._answers += count
        while self._answers >= self.size and self.is_low:
            self._answers -= self.size
            self.size = min(self._size_max, self.size + 1)
            self.rate = min(self._rate_max, self.rate + self._rate_max / self._size_max)
        self._bucket.set_rate(self.rate)

    @property
    def pace(self) -> LanePace:
        """The current limits, and the lowest ones so far."""
        has_grown = self._lowest < (self.size, self.rate)
        lowest = LanePace(*self._lowest, is_low=True) if has_grown else None
        return LanePace(self.size, self.rate, self.is_low, lowest)

    @property
    def is_low(self) -> bool:
        """Whether the bookie is asked less than the settings allow."""
        return self.size < self._size_max or self.rate < self._rate_max

    def _set(self, size: int, rate: float) -> None:
        self.size, self.rate = size, max(rate, self._rate_max * SHARE_MIN)
        self._lowest = min(self._lowest, (self.size, self.rate))
        self._bucket.set_rate(self.rate)
        self._answers = 0


SETBACK_WAIT_S = 0.1
"""Pause after a lost connection, a failed attempt or ETOOMANYREQUESTS, in seconds. It doubles each
time until a question is answered."""
SETBACK_WAIT_MAX_S = 2.0
FRUITLESS_MAX = 20
"""After this many connections in a row were lost with questions outstanding and none answered, the
bookie is not asked any more."""

NO_QUESTIONS = ListBlock(np.empty(0, np.int64), np.empty(0, np.int64), 1, 1, 0, b"")

_LIST = int(Operation.GET_LIST_OF_ENTRIES_OF_LEDGER)
_EOK = int(Status.EOK)
_ENOLEDGER = int(Status.ENOLEDGER)
_TRY_ELSE = frozenset({int(Status.EUA), int(Status.ETOOMANYREQUESTS)})


class Overdue(NamedTuple):
    """A question that is outstanding for longer than its time-out."""

    txn_id: int
    ask: Ask


class Exchange:
    """The waiting and the outstanding questions of one call.

    `proof` counts over all calls whether the bookie can list. `refused`: the bookie returned EUA,
    and accepts no request of ours. `resume_at`: nothing is sent before that time. `fruitless`: how
    many connections in a row were lost with questions outstanding and none answered.
    `slowest_read_s`: how long the slowest response to a read took.
    """

    def __init__(
        self, limits: BookieLimits, evidence: Evidence, now: float, proof: ListingProof
    ) -> None:
        self._limits = limits
        self._evidence = evidence
        self.throttle = Throttle(limits, now)
        self._waiting = Waiting((), limits.bookie_retries)
        self._block = BlockCall(NO_QUESTIONS)
        self._wire: BookieConnection | None = None
        self._expected: ExpectedLists | None = None
        self._expected_from = 0
        self._outstanding: dict[int, Ask] = {}
        self._outstanding_bytes = 0
        self._alone_txn_id = 0
        self._taken: list[tuple[Ask, Answered | AnswerTooLarge]] = []
        self.proof = proof
        self.refused = False
        self._pause_s = SETBACK_WAIT_S
        self.fruitless = 0
        self.resume_at = 0.0
        self.slowest_read_s = 0.0

    def begin(self, asks: Sequence[Ask], call: BlockCall | None = None) -> None:
        """Take the questions of a new call, which may be about a block of short lists as well.

        Those of the last call must be done.
        """
        assert self.done, "one call at a time"
        self._waiting = Waiting(asks, self._limits.bookie_retries)
        self._block = BlockCall(NO_QUESTIONS) if call is None else call
        self._wire = self._expected = None

    @property
    def done(self) -> bool:
        """Whether nothing waits and nothing is outstanding."""
        return not self.outstanding and not self._waiting and not self._block.unsent

    @property
    def outstanding(self) -> int:
        expected = 0 if self._expected is None else self._expected.awaited_count
        return len(self._outstanding) + expected

    def send(self, wire: BookieConnection, now: float) -> tuple[bytes, float]:
        """Return the frames that may be sent now, joined, and in how many seconds to call again.

        0 seconds means: call again when a response comes.
        """
        waiting, outstanding = self._waiting, self.outstanding
        waits = len(waiting) + self._block.unsent
        if not waits:
            return b"", 0.0
        if now < self.resume_at:
            return b"", self.resume_at - now
        alone = waiting.must_send_next_alone
        if alone or self._alone_txn_id in self._outstanding:
            room = 0 if outstanding else 1
        else:
            room = self.throttle.size - outstanding
        wanted = min(room, waits)
        if wanted < 1:
            return b"", 0.0
        granted = self.throttle.take(wanted, now)
        frames, sent = self._frames(wire, granted, now) if granted else ([], 0)
        if alone and sent:
            self._alone_txn_id = next(iter(self._outstanding))
        if sent < granted:
            self.throttle.give_back(granted - sent)
            return b"".join(frames), 0.0
        return b"".join(frames), self.throttle.wait_s(wanted - granted)

    def _frames(self, wire: BookieConnection, count: int, now: float) -> tuple[list[bytes], int]:
        """Return the frames of the next questions, and how many they are: at most `count`.

        Questions that were sent before go first, then the block, then the other questions. Long
        lists that are never answered therefore do not keep the bookie from listing the block.
        """
        waiting, is_idle = self._waiting, not self.outstanding
        now_ms = self._evidence.now_ms()
        frames: list[bytes] = []
        sent = 0
        if waiting and (before := min(count, waiting.sent_before)):
            frames = self._single_frames(wire, before, now, now_ms, is_idle=is_idle)
            sent = len(frames)
            if sent < before:
                return frames, sent
        of_block = min(count - sent, self._block.unsent)
        if of_block:
            left = self._limits.bookie_inflight_bytes - self._outstanding_bytes
            affordable = left // self._block.expected_bytes
            of_block = min(of_block, max(int(is_idle and not sent), affordable))
        if of_block > 0:
            frames.append(self._block_frames(wire, of_block, now, now_ms))
            sent += of_block
        if waiting and not self._block.unsent:
            is_idle = is_idle and not sent
            fresh = self._single_frames(wire, count - sent, now, now_ms, is_idle=is_idle)
            frames += fresh
            sent += len(fresh)
        return frames, sent

    def _single_frames(
        self, wire: BookieConnection, count: int, now: float, now_ms: int, *, is_idle: bool
    ) -> list[bytes]:
        """Return the frames of at most `count` questions that are in no block.

        `is_idle`: nothing is outstanding, and the first may have any size.
        """
        frames: list[bytes] = []
        waiting, outstanding = self._waiting, self._outstanding
        bytes_max = self._limits.bookie_inflight_bytes
        while waiting and len(frames) < count:
            ask = waiting.next()
            is_first = is_idle and not frames
            if not is_first and self._outstanding_bytes + ask.expected_bytes > bytes_max:
                break
            waiting.pop()
            question = ask.question
            if isinstance(question, ReadQuestion):
                txn_id, frame = wire.ask_read(question.ledger_id, question.entry_id)
            else:
                txn_id, frame = wire.ask_list(question.ledger_id)
            ask.asked_at_ms = now_ms
            ask.sent_at = now
            ask.requests += 1
            outstanding[txn_id] = ask
            self._outstanding_bytes += ask.expected_bytes
            frames.append(frame)
        return frames

    def _block_frames(self, wire: BookieConnection, count: int, now: float, now_ms: int) -> bytes:
        """Return the frames of the next questions of the block. Begins on each connection anew."""
        call = self._block
        if self._expected is None:
            block, start = call.block, call.sent
            self._expected = wire.ask_expected(
                block.ledger_ids[start:],
                lambda first, end: block.lists(start + first, start + end),
                block.is_kept[start:],
            )
            self._wire, self._expected_from = wire, start
        frames, answer_bytes = wire.send_expected(count)
        call.on_sent(answer_bytes, now, now_ms)
        self._outstanding_bytes += count * call.expected_bytes
        return frames

    def _take_expected(self, expected: ExpectedLists, now: float) -> None:
        """Take the answers that came as expected. Those whose lists are kept are decoded."""
        numbers, kept = expected.drain()
        if not numbers:
            return
        if start := self._expected_from:
            numbers = [start + number for number in numbers]
        self._outstanding_bytes -= len(numbers) * self._block.expected_bytes
        self.proof.listed += len(numbers)
        self._pause_s = SETBACK_WAIT_S
        self.fruitless = 0
        seconds = self._block.on_expected(numbers, now)
        self.throttle.answered(len(numbers), seconds, are_lists=True)
        for number, frame in kept.items():
            ask = self._block.ask(start + number, came_as_expected=True)
            payload = frame[-self._block.block.list_bytes(start + number) :]
            answer = Answered(0, _LIST, _EOK, payload, len(frame), abandoned=False)
            ask.outcome = self._evidence.from_event(ask, answer)

    def _withdraw_expected(self) -> None:
        """Await each question of the block that is outstanding by itself, as all others are."""
        if self._wire is None or self._expected is None:
            return
        self._wire.withdraw_expected()
        self._take_withdrawn(self._expected)

    def _take_withdrawn(self, expected: ExpectedLists) -> None:
        """Await the questions by themselves whose answers are not awaited in columns any more."""
        if not expected.has_withdrawn:
            return
        for number in expected.drain_withdrawn():
            ask = self._block.ask(self._expected_from + number)
            self._outstanding[expected.first_txn_id + number] = ask
        by_age = sorted(self._outstanding.items(), key=lambda item: (item[1].sent_at, item[0]))
        self._outstanding = dict(by_age)

    def on_answers(
        self, events: Sequence[Answered | AnswerTooLarge], now: float
    ) -> list[Answered | AnswerTooLarge]:
        """Take the responses to questions of this call, and return all others.

        The others are replies to GET_BOOKIE_INFO and responses that came too late. `decode_pending`
        decodes what was taken: more frames can be sent first. ETOOMANYREQUESTS does not widen the
        window.
        """
        if self._expected is not None:
            self._take_expected(self._expected, now)
            self._take_withdrawn(self._expected)
        take, proof, taken = self._outstanding.pop, self.proof, self._taken
        strays: list[Answered | AnswerTooLarge] = []
        for event in events:
            ask = take(event.txn_id, None)
            if ask is None:
                strays.append(event)
                continue
            self._outstanding_bytes -= ask.expected_bytes
            if not ask.is_list:
                self.slowest_read_s = max(self.slowest_read_s, now - ask.sent_at)
            status = event.status if isinstance(event, Answered) else _EOK
            if status == _EOK:
                proof.listed += ask.is_list
            elif status in _TRY_ELSE:
                self._not_now(ask, event, status, now)
                continue
            elif status == _ENOLEDGER:
                proof.no_such_ledger += ask.is_list
            taken.append((ask, event))
        if taken:
            self._pause_s = SETBACK_WAIT_S
            self.fruitless = 0
            self._set_pace(now)
        return strays

    def _set_pace(self, now: float) -> None:
        """Raise or lower the rate by the latencies of the responses that `on_answers` received."""
        are_lists = self._taken[0][0].is_list
        small = [
            now - ask.sent_at
            for ask, event in self._taken
            if isinstance(event, Answered) and event.received_bytes <= SMALL_BYTES_MAX
        ]
        self.throttle.answered(len(self._taken), small, are_lists=are_lists)

    def decode_pending(self) -> None:
        """Decode the responses that `on_answers` took into outcomes: more than half of the work.

        Also encode the next questions of a block.
        """
        if self._expected is not None:
            self._expected.encode_ahead()
        if self._taken:
            from_event = self._evidence.from_event
            for ask, event in self._taken:
                ask.outcome = from_event(ask, event)
            self._taken.clear()

    def _not_now(self, ask: Ask, event: Answered | AnswerTooLarge, status: int, now: float) -> None:
        """Handle EUA, which ends everything, or retry after a pause on ETOOMANYREQUESTS."""
        if status == Status.EUA:
            self.refused = True
            self._waiting.put_back(ask)
            return
        ask.losses += 1
        ask.refused += 1
        if ask.losses > self._limits.bookie_retries:
            ask.outcome = self._evidence.from_event(ask, event)
            return
        if isinstance(event, Answered):
            ask.received_bytes += event.received_bytes
        self._waiting.put_back(ask)
        if now >= self.resume_at:
            self.throttle.halve()
            self.pause_after_failure(now)

    def pause_after_failure(self, now: float) -> None:
        """Send nothing for a while after a failure, longer each time in a row."""
        self.resume_at = now + self._pause_s
        self._pause_s = min(SETBACK_WAIT_MAX_S, 2 * self._pause_s)

    def on_lost(self, why: str, *, breach: bool) -> None:
        """Queue outstanding questions again after a lost connection; settle those without retries.

        `breach`: the bookie broke the protocol.
        """
        self._withdraw_expected()
        asks = list(self._outstanding.values())
        self._forget()
        if asks:
            self.throttle.halve()
            self.fruitless += 1
        for ask in asks:
            ask.losses += 1
            ask.lost_by.append(why)
            if ask.losses <= self._limits.bookie_retries:
                self._waiting.put_back(ask)
            elif breach:
                ask.outcome = self._evidence.without(
                    ask, "invalid", f"{why} (asked {ask.requests} times)"
                )
            else:
                is_alike = ask.lost_by == [why] * ask.requests
                each = f"{why} each of the {ask.requests} times this was asked"
                ask.trouble = each if is_alike else f"asked {ask.requests} times: {ask.failures}"
                self._give_up_lost(ask)

    def overdue(self, now: float, timeout_s: float, busy_at: float) -> list[Overdue]:
        """Return the questions unanswered for `timeout_s`, oldest first.

        Time before `busy_at`, when a large response was last coming in, does not count.
        """
        found = []
        if self._expected is not None and self._is_expected_overdue(
            self._expected, now, timeout_s, busy_at
        ):
            self._withdraw_expected()
        for txn_id, ask in self._outstanding.items():
            if now - max(ask.sent_at, busy_at) < timeout_s:
                break
            found.append(Overdue(txn_id, ask))
        return found

    def _is_expected_overdue(
        self, expected: ExpectedLists, now: float, timeout_s: float, busy_at: float
    ) -> bool:
        if expected.has_withdrawn or not expected.has_awaited:
            return expected.has_withdrawn
        sent_at = self._block.sent_at(self._expected_from + expected.oldest_awaited())
        return now - max(sent_at, busy_at) >= timeout_s

    def give_up(self, overdue: Sequence[Overdue], wire: BookieConnection, timeout_ms: int) -> None:
        """Stop waiting for these questions. The connection still recognises late responses."""
        for txn_id, ask in overdue:
            wire.abandon(txn_id)
            del self._outstanding[txn_id]
            self._outstanding_bytes -= ask.expected_bytes
            ask.trouble = f"no answer within {timeout_ms} ms{WHILE_OTHERS_CAME}"
            self._give_up(ask)

    def _give_up_lost(self, ask: Ask) -> None:
        """Note that no retry is left after a lost connection.

        A list counts as unanswered only if the bookie never responded to it, not even with
        ETOOMANYREQUESTS.
        """
        if ask.refused:
            ask.unanswered = True
            return
        self.proof.lost += ask.is_list
        self._give_up(ask)

    def _give_up(self, ask: Ask) -> None:
        """Note that no retry is left. The end of the call decides whether the bookie cannot
        list.
        """
        ask.unanswered = True
        self.proof.unanswered += ask.is_list

    def drop(self) -> None:
        """Forget all questions. A response that still comes belongs to none of them."""
        self._withdraw_expected()
        self._forget()
        self._waiting.drain()
        self._block.close()

    def _forget(self) -> None:
        self._outstanding.clear()
        self._outstanding_bytes = 0
        self._alone_txn_id = 0
        self._wire = self._expected = None


SLOWEST_READ_FACTOR = 10
"""We wait for a list at least this many times as long as the slowest read on the same bookie took.
A bookie that is slow at everything is slow at listing too: it must not count as unable to list."""


@dataclass(frozen=True, slots=True)
class ListPatience:
    """How long to wait for lists of a bookie that has listed nothing yet, in ms after the request.

    After `overdue_ms` entries may be read meanwhile. After `give_up_ms` the bookie counts as unable
    to list, if it replied to GET_BOOKIE_INFO. The time-out of a request bounds both.
    """

    overdue_ms: int
    give_up_ms: int


UNTRIED = ListPatience(overdue_ms=500, give_up_ms=1_000)
"""For a bookie about which nothing is known.

A real bookie listed a ledger of 800,000 entries in at most 0.4 s, so a list after 500 ms is late.
1 s is more than twice the slowest list measured. It still allows a verdict within 3 s when a second
look follows one second later."""
KNOWN_UNABLE = ListPatience(overdue_ms=0, give_up_ms=500)
"""For a bookie that an earlier run recorded as unable to list, after waiting for the whole
time-out. It is still asked, to notice a changed storage."""


@dataclass(frozen=True, slots=True)
class Hurry:
    """Says how long each bookie may take to list, for a caller with little time.

    `known_unable` are the bookies that an earlier run recorded as unable to list.
    """

    known_unable: frozenset[BookieId] = frozenset()

    def patience(self, bookie: BookieId) -> ListPatience:
        """Return how long to wait for the lists of this bookie."""
        return KNOWN_UNABLE if bookie in self.known_unable else UNTRIED


class LateLists:
    """The lists of one conversation for which its caller did not wait. Empty without patience.

    `is_inconclusive`: a connection was lost, or the bookie was too busy, while a list was awaited.
    """

    def __init__(
        self,
        patience: ListPatience | None,
        evidence: Evidence,
        proof: ListingProof,
        timeout_s: float,
    ) -> None:
        self._patience = patience
        self._evidence = evidence
        self._proof = proof
        self._timeout_s = timeout_s
        self._awaited: dict[int, Ask] = {}
        self._answered: set[Ask] = set()
        self._asks: list[Ask] = []
        self._has_begun = False
        self.is_inconclusive = False

    def __bool__(self) -> bool:
        return bool(self._asks)

    @property
    def has_awaited(self) -> bool:
        """Whether a list may still come on the connection on which it was requested."""
        return bool(self._awaited)

    @property
    def overdue_s(self) -> float:
        """How many seconds to wait for a list before entries are read meanwhile."""
        if self._patience is None or self._proof.listed:
            return self._timeout_s
        return min(self._patience.overdue_ms / 1000, self._timeout_s)

    def give_up_s(self, slowest_read_s: float) -> float:
        """Return how many seconds to wait for a list in all, given the time of the slowest read."""
        if self._patience is None:
            return self._timeout_s
        return min(
            max(self._patience.give_up_ms / 1000, SLOWEST_READ_FACTOR * slowest_read_s),
            self._timeout_s,
        )

    def give_up_at(self, slowest_read_s: float, busy_at: float) -> float:
        """Return when to stop waiting for the awaited lists, in seconds of the loop's clock.

        At least one list must be awaited. `busy_at` is when a large response was last coming in:
        until then no list counts as late.
        """
        sent_at = max(ask.sent_at for ask in self._awaited.values())
        return max(sent_at, busy_at) + self.give_up_s(slowest_read_s)

    def keep_awaiting(self, overdue: Sequence[Overdue]) -> None:
        """Keep recognising the answers to these lists. Does nothing if lists get the whole
        time-out.
        """
        if overdue and self.overdue_s < self._timeout_s:
            self._has_begun = True
            self._awaited.update((txn_id, ask) for txn_id, ask in overdue if ask.is_list)

    def add(self, asks: Sequence[Ask]) -> None:
        """Take over the unanswered lists that a call gave up before their time-out, sent or not."""
        if self._has_begun:
            self._asks += asks

    def on_answer(self, event: Answered | AnswerTooLarge) -> None:
        """Take the answer to an overdue list. Ignores all other events."""
        ask = self._awaited.pop(event.txn_id, None)
        if ask is None:
            return
        status = event.status if isinstance(event, Answered) else Status.EOK
        if status == Status.ETOOMANYREQUESTS:
            self.is_inconclusive = True
            return
        self._reopen(ask)
        self._proof.no_such_ledger += status == Status.ENOLEDGER
        self._answered.add(ask)
        ask.outcome = self._evidence.from_event(ask, event)

    def on_connection_lost(self) -> None:
        """Stop recognising answers: transaction ids start again on a new connection."""
        self.is_inconclusive = self.is_inconclusive or bool(self._awaited)
        self._awaited.clear()

    def take(self) -> tuple[list[Ask], list[Ask]]:
        """Stop waiting. Return all lists that were taken over, and those of them without an
        answer.
        """
        asks, self._asks = self._asks, []
        self._awaited.clear()
        return asks, [ask for ask in asks if ask not in self._answered]

    def ask_without_patience(self, asks: Sequence[Ask]) -> None:
        """Prepare these lists to be requested again, each with the whole time-out."""
        self._patience = None
        self._has_begun = self.is_inconclusive = False
        self._proof.asked -= len(asks)
        for ask in asks:
            self._reopen(ask)

    def _reopen(self, ask: Ask) -> None:
        self._proof.unanswered -= ask.unanswered
        ask.unanswered = False
        ask.losses = 0
        ask.outcome = None
