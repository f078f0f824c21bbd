"""The arithmetic of overdue lists: how long they are waited for, and what is kept of them."""

from __future__ import annotations

from support.lanes import NOW_MS

from auditor.bookie.exchange import LateLists, ListPatience, Overdue
from auditor.bookie.questions import Ask, Evidence, ListingProof, ListQuestion, ReadQuestion
from auditor.wire.bookie_connection import Answered
from auditor.wire.entry_availability import encode_runs
from auditor.wire.frames import Operation, Status

PATIENCE = ListPatience(overdue_ms=500, give_up_ms=2_000)
TIMEOUT_S = 10.0


def late(
    patience: ListPatience | None = PATIENCE,
    proof: ListingProof | None = None,
    timeout_s: float = TIMEOUT_S,
) -> LateLists:
    evidence = Evidence("b1", 1, 100, 2**20, lambda: NOW_MS)
    return LateLists(patience, evidence, proof or ListingProof(), timeout_s)


def asked(count: int) -> list[Ask]:
    """Lists that were asked for and given up."""
    asks = [Ask(ListQuestion(ledger_id)) for ledger_id in range(1, count + 1)]
    for ask in asks:
        ask.unanswered, ask.requests, ask.losses = True, 1, 2
    return asks


def overdue(*asks: Ask) -> list[Overdue]:
    """Under the transaction of their ledger."""
    return [Overdue(ask.ledger_id, ask) for ask in asks]


def event(txn_id: int, status: int = 0) -> Answered:
    payload = encode_runs([0]) if status == 0 else b""
    return Answered(txn_id, Operation.GET_LIST_OF_ENTRIES_OF_LEDGER, status, payload, 99, True)


def test_patience_counts_from_the_last_list_that_was_sent_or_from_a_large_answer() -> None:
    """Whichever was later."""
    lists, asks = late(), asked(2)
    for ask, sent_at in zip(asks, (3.0, 4.0), strict=True):
        ask.sent_at = sent_at
    lists.keep_awaiting(overdue(*asks))
    assert [6.0, 7.0, 14.0] == [
        lists.give_up_at(0.0, 0.0),
        lists.give_up_at(0.0, 5.0),
        lists.give_up_at(1.0, 0.0),
    ]


def test_questions_of_several_calls_are_settled_together() -> None:
    """Those asked and those never sent, but no read. After that there is nothing to settle."""
    lists, (first, second, third) = late(), asked(3)
    read = Ask(ReadQuestion(1, 0))
    lists.keep_awaiting([*overdue(first), Overdue(9, read)])
    lists.add([first])
    lists.keep_awaiting(overdue(second))
    lists.add([second, third])
    lists.on_answer(event(9))
    assert (None, True, True) == (read.outcome, lists.has_awaited, bool(lists))
    lists.on_answer(event(2))
    assert ([first, second, third], [first, third]) == lists.take()
    assert (False, False) == (lists.has_awaited, bool(lists))
    assert ([], []) == lists.take()


def test_an_answer_to_nothing_that_is_awaited_changes_nothing() -> None:
    """As one that came before."""
    proof, asks = ListingProof(), asked(1)
    lists = late(proof=proof)
    lists.keep_awaiting(overdue(*asks))
    for txn_id in (7, 1, 1):
        lists.on_answer(event(txn_id, Status.ENOLEDGER))
    assert (1, False) == (proof.no_such_ledger, lists.has_awaited)


def test_late_answers_without_a_list_are_counted_for_what_they_are() -> None:
    """ENOLEDGER each time; a full read queue proves nothing, and is no answer."""
    proof, asks = ListingProof(), asked(4)
    lists = late(proof=proof)
    lists.keep_awaiting(overdue(*asks))
    lists.add(asks)
    lists.on_answer(event(1, Status.ENOLEDGER))
    lists.on_answer(event(2, Status.ENOLEDGER))
    lists.on_answer(event(3, Status.EIO))
    assert (2, False) == (proof.no_such_ledger, lists.is_inconclusive)
    lists.on_answer(event(4, Status.ETOOMANYREQUESTS))
    assert (2, True) == (proof.no_such_ledger, lists.is_inconclusive)
    assert asks[3:] == lists.take()[1]


def test_a_connection_lost_proves_nothing_where_a_list_was_awaited_on_it() -> None:
    """And stays so, whatever is lost later; lost without a list awaited it says nothing."""
    lists, asks = late(), asked(1)
    lists.on_connection_lost()
    assert lists.is_inconclusive is False
    lists.keep_awaiting(overdue(*asks))
    lists.on_connection_lost()
    assert (True, False) == (lists.is_inconclusive, lists.has_awaited)
    lists.on_connection_lost()
    assert lists.is_inconclusive is True


def test_what_is_asked_anew_is_as_if_it_had_not_been_asked() -> None:
    """With the whole time-out and every try; the requests that it cost stay counted."""
    proof, asks = ListingProof(), asked(2)
    proof.asked, proof.unanswered = 5, 2
    lists = late(proof=proof)
    lists.keep_awaiting(overdue(*asks))
    lists.on_connection_lost()
    asks[0].outcome = Evidence("b1", 1, 100, 2**20, lambda: NOW_MS).without(
        asks[0], "unsupported", "assumed"
    )
    lists.ask_without_patience(asks)
    assert (3, 0, False, TIMEOUT_S) == (
        proof.asked,
        proof.unanswered,
        lists.is_inconclusive,
        lists.overdue_s,
    )
    assert lists.is_inconclusive is False
    assert [(False, 0, None, 1)] * 2 == [
        (one.unanswered, one.losses, one.outcome, one.requests) for one in asks
    ]
    assert all(one.unanswered is False for one in asks)
    lists.add(asks)
    assert not lists
