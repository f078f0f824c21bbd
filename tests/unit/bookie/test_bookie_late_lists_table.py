"""The arithmetic of overdue lists: how long they are waited for, and what is kept of them."""

from __future__ import annotations

import pytest
from support.lanes import NOW_MS

from auditor.bookie.answers import Evidence, ListingProof
from auditor.bookie.exchange import Overdue
from auditor.bookie.late_lists import LateLists, ListPatience
from auditor.bookie.questions import Ask, ListQuestion, ReadQuestion
from auditor.model.availability import AnswerStatus
from auditor.wire.bookie_connection import Answered, AnswerTooLarge
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


def test_lists_are_waited_for_as_patience_says_and_never_longer_than_a_request() -> None:
    """The whole time-out without patience, and before reads where the bookie has listed."""
    listed = ListingProof(has_listed=True)
    assert [0.5, 10.0, 10.0, 0.25] == [
        late().overdue_s,
        late(None).overdue_s,
        late(proof=listed).overdue_s,
        late(timeout_s=0.25).overdue_s,
    ]
    assert [2.0, 2.0, 2.5, 10.0] == [late().give_up_s(slowest) for slowest in (0.0, 0.2, 0.25, 7.0)]
    assert [10.0, 1.0] == [late(None).give_up_s(0.0), late(timeout_s=1.0).give_up_s(0.0)]


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


@pytest.mark.parametrize(("patience", "timeout_s"), [(None, 10.0), (PATIENCE, 0.5)])
def test_nothing_is_kept_where_the_time_of_a_list_is_over(
    patience: ListPatience | None, timeout_s: float
) -> None:
    """Then no answer is waited for."""
    lists, asks = late(patience, timeout_s=timeout_s), asked(1)
    lists.keep_awaiting(overdue(*asks))
    lists.add(asks)
    assert (False, False, False) == (lists.has_awaited, bool(lists), lists.is_inconclusive)


def test_a_call_without_an_overdue_list_leaves_nothing_to_settle() -> None:
    """What it left unanswered is so for another reason."""
    lists, asks = late(), asked(1)
    lists.keep_awaiting([])
    lists.add(asks)
    assert (False, False) == (lists.has_awaited, bool(lists))


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


def test_a_late_list_is_an_answer_and_no_longer_counted_as_missing() -> None:
    """One of two: the other stays unanswered. What is too large is an answer too."""
    proof, (first, second, third) = ListingProof(), asked(3)
    proof.unanswered = 3
    lists = late(proof=proof)
    lists.keep_awaiting(overdue(first, second, third))
    lists.on_answer(event(1))
    assert first.outcome is not None
    assert (AnswerStatus.HELD, False, 2) == (
        first.outcome.status,
        first.unanswered,
        proof.unanswered,
    )
    lists.on_answer(AnswerTooLarge(2, Operation.GET_LIST_OF_ENTRIES_OF_LEDGER, 2**21, True))
    assert second.outcome is not None
    assert (AnswerStatus.TOO_LARGE, 1) == (second.outcome.status, proof.unanswered)
    assert ((True, None), False) == ((third.unanswered, third.outcome), lists.is_inconclusive)


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
