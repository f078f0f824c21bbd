"""Lists that are overdue: how long we wait for them, and what happens to late ones.

A bookie with DbLedgerStorage never answers a list. A caller with little time (`Hurry`) therefore
does not wait for the time-out of the request. It reads entries while a list is overdue: how fast
the bookie reads says how long to wait for the list. A list that comes late replaces what the caller
assumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from auditor.bookie.exchange import Overdue
from auditor.bookie.questions import Ask, Evidence, ListingProof
from auditor.model.identity import BookieId
from auditor.wire.bookie_connection import Answered, AnswerTooLarge
from auditor.wire.frames import Status

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
