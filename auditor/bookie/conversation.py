"""One conversation with one bookie: its connections, its silence and its deadline.

Every connection begins with GET_BOOKIE_INFO. A bookie that does not reply to it is silent, and we
do not wait for it again. A question times out if it stays unanswered while the bookie replies to
others. If the bookie sent nothing since then, or never listed, GET_BOOKIE_INFO is sent again. Its
reply tells a bookie that cannot list from one that is gone. `exchange` decides which questions are
sent.

`PatientConversation` returns while lists are overdue, and waits for them later. `End` says why a
conversation ended, in the words of the evidence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import chain
from typing import NamedTuple, Self

from auditor.bookie.dialling import Dialler
from auditor.bookie.exchange import FRUITLESS_MAX, Exchange, LateLists
from auditor.bookie.link import Link
from auditor.bookie.list_blocks import BlockCall
from auditor.bookie.questions import Ask, Evidence, ListingProof, describe_unable
from auditor.config import BookieLimits
from auditor.errors import BookieBarred, BookieRefused, BookieUnreachable, LocalFault
from auditor.model.availability import NOT_ADMITTED, NOT_DIALLED, DiskSpace, Greeting, LanePace
from auditor.wire.bookie_connection import Answered, AnswerTooLarge
from auditor.wire.frames import Operation, Status


class Timers:
    """Timers by name. Exceptions of a timer go to `on_error`: an event loop would only log them."""

    def __init__(self, on_error: Callable[[BaseException], None]) -> None:
        self._on_error = on_error
        self._handles: dict[str, asyncio.TimerHandle] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._handles

    def start(self, name: str, delay_s: float, act: Callable[[], None]) -> None:
        """Call `act` once in `delay_s` seconds.

        Needs a running event loop. No timer of this name may be running.
        """
        assert name not in self._handles, name

        def expire() -> None:
            del self._handles[name]
            try:
                act()
            except Exception as error:
                self._on_error(error)

        self._handles[name] = asyncio.get_running_loop().call_later(delay_s, expire)

    def cancel_all(self) -> None:
        """Stop every timer."""
        for handle in self._handles.values():
            handle.cancel()
        self._handles.clear()


NOT_AUTHORISED = (
    "EUA: the bookie does not let this client ask (not authorised). It may want a login"
    " (--bookie-sasl), or a client certificate (--bookie-tls)"
)


class End(NamedTuple):
    """Why the conversation is over: the bookie's greeting, and what is recorded for open
    questions.
    """

    greeting: Greeting
    status: str
    detail: str

    @classmethod
    def refusal(cls, detail: str) -> Self:
        """Return the end of a conversation with a bookie, or another listener there, that must not
        be asked.
        """
        return cls(Greeting.REFUSED, "refused", detail)

    @classmethod
    def not_admitted(cls, error: BookieRefused) -> Self:
        """Return the end of a conversation in which the bookie refused our certificate or login."""
        return cls.refusal(f"{NOT_ADMITTED}{error}")

    @classmethod
    def not_authorised(cls) -> Self:
        """Return the end of a conversation in which the bookie answered EUA."""
        return cls.refusal(NOT_AUTHORISED)

    @classmethod
    def without_ticket(cls, limits: BookieLimits) -> Self:
        """Return the end of a conversation that spent all its time waiting for a KDC."""
        return cls(
            Greeting.SILENT,
            "silent",
            f"{NOT_DIALLED}no KDC gave us a Kerberos ticket before the conversation's deadline of"
            f" {limits.bookie_deadline_ms} ms passed",
        )

    @classmethod
    def deadline_passed(cls, limits: BookieLimits, pace: LanePace, *, has_answered: bool) -> Self:
        """Return the end of a conversation that used up its whole time."""
        greeting = Greeting.ANSWERED if has_answered else Greeting.SILENT
        detail = f"the conversation's deadline of {limits.bookie_deadline_ms} ms passed"
        if pace.is_low:
            detail += (
                f", at the end with {pace.inflight} requests outstanding: the bookie refused"
                " requests, closed connections or became slow"
            )
        return cls(greeting, "silent", detail)

    @classmethod
    def unreachable(cls, trouble: str, attempts: int) -> Self:
        """Return the end of a conversation without a connection. `trouble` says how the last
        attempt failed.
        """
        return cls(Greeting.SILENT, "silent", f"{trouble} ({attempts} attempts)")

    @classmethod
    def barred(cls, trouble: str, attempts: int) -> Self:
        """Return the end of a conversation with a bookie that this host cannot reach at all.

        `trouble` says how the last attempt failed.
        """
        said = f"{trouble} ({attempts} attempts)"
        return cls(Greeting.AUDITOR_LIMITED, "auditor_limited", said)

    @classmethod
    def greeting_unanswered(cls, limits: BookieLimits) -> Self:
        """Return the end of a conversation in which GET_BOOKIE_INFO had no reply within its
        time-out.
        """
        within = f"within {limits.rpc_timeout_ms} ms"
        detail = f"connected, but GET_BOOKIE_INFO was not answered {within}"
        return cls(Greeting.SILENT, "silent", detail)

    @classmethod
    def connections_lost(cls, why: str, *, breach: bool) -> Self:
        """Return the end of a conversation that lost FRUITLESS_MAX connections in a row.

        `breach`: the last one by an answer that breaks the protocol.
        """
        detail = (
            f"{FRUITLESS_MAX} connections in a row were lost before a question was answered: {why}"
        )
        return cls(Greeting.ANSWERED, "invalid" if breach else "silent", detail)


TICKS_PER_TIMEOUT = 20
"""Overdue questions are looked for this many times within a request's time-out."""
TICK_MAX_S = 0.1
IDLE_LOOPS = 3
"""Turns of the event loop before a call sends anything, to notice if the connection was closed."""

_LIST = Operation.GET_LIST_OF_ENTRIES_OF_LEDGER


class Conversation:
    """One conversation with a bookie. One call at a time, all in one event loop.

    `end` is set once nothing more will be asked. `cannot_list` says why the bookie cannot list, or
    "". `probes` counts GET_BOOKIE_INFO requests, which belong to no question. `disk` is from the
    newest response to one that has figures, None without any. A call may end before
    overdue lists came: `late` keeps them, and `PatientConversation` waits for them.
    """

    def __init__(
        self,
        address: tuple[str, int],
        limits: BookieLimits,
        evidence: Evidence,
        proof: ListingProof,
        late: LateLists,
    ) -> None:
        self._dialler = Dialler(address, limits)
        self._limits, self._evidence, self._late = limits, evidence, late
        self._timeout_s = limits.rpc_timeout_ms / 1000
        self._tick_s = min(TICK_MAX_S, self._timeout_s / TICKS_PER_TIMEOUT)
        self._answer_timeout_ms = limits.rpc_timeout_ms
        self._left_s = limits.bookie_deadline_ms / 1000
        self._exchange = Exchange(limits, evidence, 0.0, proof)
        self._link: Link | None = None
        self._hello: asyncio.Future[None] | None = None
        self._attempts, self._trouble, self._is_barred = 0, "", False
        self._timers = Timers(self.on_failed)
        self._bug: BaseException | None = None
        self._info_due = self._asks_lists = self._answered = False
        self.end: End | None = None
        self.cannot_list, self.probes = "", 0
        self.disk: DiskSpace | None = None

    async def ask(self, asks: Sequence[Ask], calls: Sequence[BlockCall] = ()) -> None:
        """Set the outcome of each ask, all lists or all reads, and of each question of the blocks.

        Asks the largest block together with the asks, then block after block. What they show is
        judged as if all had been asked at once: all lists count as asked from the beginning, and
        the end says why one has no answer. Blocks have short lists, and need a conversation without
        patience. No bookie can make this raise.

        Raises LocalFault if this host has no descriptor or memory left for a connection.
        """
        lists = self._asks_lists = bool(calls) or bool(asks and asks[0].is_list)
        in_blocks = sum(len(call.block) for call in calls)
        self._exchange.proof.asked += len(asks) + in_blocks if lists else 0
        by_size = sorted(calls, key=lambda call: -len(call.block))
        parts: list[tuple[Sequence[Ask], BlockCall | None]] = [((), call) for call in by_size]
        parts[:1] = [(asks, by_size[0] if by_size else None)]
        for some, call in parts:
            if (some or call) and self.end is None and not (lists and self.cannot_list):
                self._exchange.begin(some, call)
                await self._exchange_all()
        unanswered = [ask for ask in asks if ask.outcome is None]
        if lists and self.end is None:
            self._late.add(unanswered)
        for ask in chain(unanswered, *(call.open_asks() for call in calls)):
            ask.outcome = self._evidence.without(ask, *self._why_not(ask))

    async def _exchange_all(self) -> None:
        """Ask what the exchange has, until all of it is answered or nothing more will be asked."""
        await self._within_deadline(self._work)
        self._judge_listing()

    def _why_not(self, ask: Ask) -> tuple[str, str]:
        """Return (status, detail) for a question that got no response."""
        if ask.is_list and self.cannot_list:
            return "unsupported", self.cannot_list
        if ask.unanswered and (self.end is None or self.end.greeting is Greeting.ANSWERED):
            return "timed_out", ask.trouble
        assert self.end is not None, "a question goes without an answer for a reason"
        return self.end.status, self.end.detail

    async def greet(self) -> None:
        """Connect and get a reply to GET_BOOKIE_INFO, or set `end`. Raises LocalFault."""
        await self._within_deadline(self._connect)

    def greeting(self) -> tuple[Greeting, str]:
        """Return the bookie's greeting so far, and a sentence that explains it, or ""."""
        if self.end is not None:
            return self.end.greeting, self.end.detail
        if self.cannot_list:
            return Greeting.UNSUPPORTED, self.cannot_list
        if self._answered:
            return Greeting.ANSWERED, ""
        return Greeting.SILENT, "the bookie was not asked"

    @property
    def pace(self) -> LanePace:
        return self._exchange.throttle.pace

    async def close(self) -> None:
        """Close the connection. May be called again."""
        self._close_link()
        await asyncio.sleep(0)

    async def _within_deadline(self, work: Callable[[], Awaitable[None]]) -> None:
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        began = self._loop.time()
        self._timers.start("tick", self._tick_s, self._tick)
        try:
            async with asyncio.timeout_at(began + self._left_s):
                await work()
        except TimeoutError:
            if self._dialler.awaits_first_ticket:
                self._finish(End.without_ticket(self._limits))
            self._finish(End.deadline_passed(self._limits, self.pace, has_answered=self._answered))
        finally:
            self._left_s -= self._loop.time() - began
            self._timers.cancel_all()
            if not self._exchange.done:
                self._close_link()
                self._exchange.drop()

    async def _work(self) -> None:
        for _ in range(IDLE_LOOPS):
            await asyncio.sleep(0)
        while self.end is None and (self._info_due or not self._exchange.done):
            if self._link is None:
                await self._connect()
            else:
                self.send_more()
                await self._wake.wait()
            self._wake.clear()
            self._raise_bug()

    async def _connect(self) -> None:
        """Connect and get a reply to GET_BOOKIE_INFO, or set `end`."""
        while self.end is None and self._link is None:
            if self._attempts >= self._limits.bookie_connect_attempts:
                end = End.barred if self._is_barred else End.unreachable
                self._finish(end(self._trouble, self._attempts))
                return
            self._attempts += 1
            await asyncio.sleep(max(0.0, self._exchange.resume_at - self._loop.time()))
            try:
                link = await self._dialler.open(self)
            except BookieRefused as error:
                self._finish(End.not_admitted(error))
            except BookieUnreachable as error:
                self._trouble, self._is_barred = str(error), isinstance(error, BookieBarred)
                self._exchange.pause_after_failure(self._loop.time())
            except LocalFault:  # the lack of sockets may pass when other conversations end
                if self._attempts >= self._limits.bookie_connect_attempts:
                    raise
                self._exchange.pause_after_failure(self._loop.time())
            else:
                self.probes += link.probes
                await self._await_greeting(link)
                self._raise_bug()

    async def _await_greeting(self, link: Link) -> None:
        """Send GET_BOOKIE_INFO on a new link. A time-out means silence; a lost connection uses one
        attempt.
        """
        self._link = link
        self._hello = self._loop.create_future()
        self._send_info(link)
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._hello
        except TimeoutError:
            self._finish(End.greeting_unanswered(self._limits))
        finally:
            self._hello = None

    def _send_info(self, link: Link) -> None:
        """Send GET_BOOKIE_INFO. Until its reply `_info_txn_id` is not 0 and no question is sent."""
        self._info_txn_id, frame = link.wire.ask_info()
        self._info_sent_at = self._loop.time()
        self.probes += 1
        link.send(frame)

    def on_answers(self, link: Link, events: Sequence[Answered | AnswerTooLarge]) -> None:
        self._answered = True
        refused = False
        for event in self._exchange.on_answers(events, link.heard_at):
            status = event.status if isinstance(event, Answered) else Status.EOK
            refused = refused or status == Status.EUA
            if isinstance(event, Answered) and event.disk is not None:
                self.disk = event.disk
            if event.txn_id == self._info_txn_id:
                self._on_info_answered(link)
            elif event.operation == _LIST and status == Status.EOK:
                self._exchange.proof.listed += 1
            self._late.on_answer(event)
        if refused or self._exchange.refused:
            self._finish(End.not_authorised())
        elif self._exchange.done:
            self._wake.set()

    def _on_info_answered(self, link: Link) -> None:
        """Give up the overdue questions: the bookie is alive, but does not answer them."""
        self._info_txn_id = 0
        self._info_due = False
        overdue = self._exchange.overdue(link.heard_at, self._due_s, link.busy_at)
        self._exchange.give_up(overdue, link.wire, self._answer_timeout_ms)
        self._late.keep_awaiting(overdue)
        self._judge_listing()
        self._resolve_hello()

    def _judge_listing(self) -> None:
        """Set `cannot_list` if proven. Needs a GET_BOOKIE_INFO reply after all unanswered lists."""
        proof = self._exchange.proof
        if self.end is None and not self.cannot_list and proof.is_unable():
            self.cannot_list = describe_unable(proof.unanswered, None)
            self._exchange.drop()

    def send_more(self) -> None:
        link = self._link
        if link is None or self._info_txn_id:
            return
        frames, wait_s = self._exchange.send(link.wire, self._loop.time())
        if frames:
            self._attempts = 0
            link.send(frames)
        if wait_s > 0 and "refill" not in self._timers:
            self._timers.start("refill", wait_s, self.send_more)

    def decode_pending(self) -> None:
        self._exchange.decode_pending()

    def on_lost(self, link: Link, why: str, *, breach: bool) -> None:
        if link is not self._link:
            return
        self._link = None
        self._trouble, self._is_barred = why, False
        self._late.on_connection_lost()
        proof = self._exchange.proof
        unanswered = proof.unanswered
        if self._exchange.outstanding or self._hello is not None:
            self._exchange.pause_after_failure(self._loop.time())
        self._exchange.on_lost(why, breach=breach)
        self._info_due = self._info_due or (proof.unanswered > unanswered and proof.listed == 0)
        if self._exchange.fruitless >= FRUITLESS_MAX:
            self._finish(End.connections_lost(why, breach=breach))
        self._resolve_hello()

    def on_failed(self, error: BaseException) -> None:
        self._bug = error
        self._link = None
        self._resolve_hello()

    @property
    def _due_s(self) -> float:
        return self._late.overdue_s if self._asks_lists else self._timeout_s

    def _tick(self) -> None:
        """Give up overdue questions if the bookie sent anything since and can list; otherwise probe
        it.
        """
        self._timers.start("tick", self._tick_s, self._tick)
        link, now = self._link, self._loop.time()
        if link is None or self._hello is not None:
            return
        if self._info_txn_id:
            if now - max(self._info_sent_at, link.busy_at) >= self._timeout_s:
                link.abort()
                silence = f"no answer to anything within {self._limits.rpc_timeout_ms} ms"
                self.on_lost(link, silence, breach=False)
            return
        overdue = self._exchange.overdue(now, self._due_s, link.busy_at)
        if not overdue:
            return
        can_list = self._exchange.proof.listed > 0 or not overdue[0].ask.is_list
        if can_list and link.heard_at > overdue[-1].ask.sent_at:
            self._exchange.give_up(overdue, link.wire, self._answer_timeout_ms)
            self._wake.set()
        else:
            self._send_info(link)

    def _finish(self, end: End) -> None:
        self.end = self.end or end
        self._close_link()
        self._exchange.drop()
        self._resolve_hello()

    def _close_link(self) -> None:
        if self._link is not None:
            self._link.abort()
            self._link = None
            self._late.on_connection_lost()

    def _resolve_hello(self) -> None:
        if self._hello is not None and not self._hello.done():
            self._hello.set_result(None)
        self._wake.set()

    def _raise_bug(self) -> None:
        if self._bug is not None:
            raise self._bug


class PatientConversation(Conversation):
    """A conversation whose caller must call `settle_late_lists` after asking for lists.

    Until then the outcomes of overdue lists are assumed.
    """

    @property
    def has_late_lists(self) -> bool:
        """Whether a call ended while a list may still come."""
        return bool(self._late)

    async def settle_late_lists(self) -> list[Ask]:
        """Wait for overdue lists as long as the patience allows; return them with final outcomes.

        Lists that did not come are requested again, with the whole time-out, unless the bookie has
        shown that it cannot list.
        """
        if not self._late:
            return []
        if self._late.has_awaited:
            await self._within_deadline(self._await_late_lists)
        waited_s, is_inconclusive = (
            self._late.give_up_s(self._exchange.slowest_read_s),
            self._late.is_inconclusive,
        )
        asks, rest = self._late.take()
        unable = self._exchange.proof.is_unable() and not is_inconclusive
        self.cannot_list = (
            describe_unable(self._exchange.proof.unanswered, waited_s) if unable else ""
        )
        self._late.ask_without_patience(rest)
        await self.ask(rest)
        return asks

    async def _await_late_lists(self) -> None:
        link = self._link
        while link is not None and link is self._link and self._late.has_awaited:
            left_s = (
                self._late.give_up_at(self._exchange.slowest_read_s, link.busy_at)
                - self._loop.time()
            )
            if left_s <= 0:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), left_s)
            self._wake.clear()
            self._raise_bug()
