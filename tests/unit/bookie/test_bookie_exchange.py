"""The questions of one call, without a network: what is sent when, by a clock of the test."""

from __future__ import annotations

import struct

import pytest
from support.lanes import INVALID, NOW_MS, REFUSED
from support.scripted_bookie import LIST, list_answer, read_answer
from support.scripted_bookie import answer as header
from support.scripted_bookie import frame as framed

from auditor.bookie.exchange import SAMPLES, Exchange
from auditor.bookie.questions import Ask, Evidence, ListingProof, ListQuestion, ReadQuestion
from auditor.config import BookieLimits
from auditor.wire.bookie_connection import Answered, BookieConnection
from auditor.wire.entry_availability import encode_runs
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb


def exchange(**limits: float) -> Exchange:
    made = BookieLimits(**{"bookie_requests_per_second": 0, **limits})  # type: ignore[arg-type]
    return Exchange(
        made,
        Evidence("b1", 1, made.list_groups_max, made.frame_bytes_max, lambda: NOW_MS),
        0.0,
        ListingProof(),
    )


def asks(count: int) -> list[Ask]:
    return [Ask(ListQuestion(ledger_id)) for ledger_id in range(1, count + 1)]


def frames(data: bytes) -> int:
    """How many frames these bytes are."""
    count = at = 0
    while at < len(data):
        at += 4 + struct.unpack_from(">i", data, at)[0]
        count += 1
    return count


def answer(talk: Exchange, wire: BookieConnection, txn_ids: range, now: float = 0.0) -> None:
    """The bookie lists ledger n under transaction n."""
    data = b"".join(list_answer(n, n, encode_runs([n])) for n in txn_ids)
    assert talk.on_answers(wire.receive(data), now) == []
    talk.decode_pending()


def test_time_behind_a_large_answer_is_not_waiting() -> None:
    """While a large answer is coming in, the others are stuck behind it: their time counts from
    then.
    """
    talk, wire = exchange(bookie_inflight=4), BookieConnection(2**20)
    talk.begin(asks(4))
    talk.send(wire, 0.0)
    assert talk.overdue(0.9, 1.0, busy_at=0.0) == []
    assert len(talk.overdue(1.0, 1.0, busy_at=0.0)) == 4
    assert talk.overdue(1.9, 1.0, busy_at=1.0) == []
    assert len(talk.overdue(2.0, 1.0, busy_at=1.0)) == 4


def hear(talk: Exchange, wire: BookieConnection, data: bytes, now: float = 0.0) -> list[int]:
    """Hand these answers over and make them out; the transactions of those that are no
    question's.
    """
    strays = talk.on_answers(wire.receive(data), now)
    talk.decode_pending()
    return [event.txn_id for event in strays]


def too_many(txn_id: int, ledger_id: int) -> bytes:
    return list_answer(txn_id, ledger_id, None, pb.ETOOMANYREQUESTS)


def no_entry(txn_id: int, entry_id: int) -> bytes:
    return read_answer(txn_id, 1, entry_id, None, pb.ENOENTRY)


@pytest.mark.parametrize(
    ("later_s", "received_bytes", "is_low"),
    [(0.1, 64 * 2**10, True), (0.1, 64 * 2**10 + 1, False), (0.001, 100, False)],
)
def test_small_answers_that_come_later_than_before_make_it_ask_less(
    later_s: float, received_bytes: int, is_low: bool
) -> None:
    """A long list takes longer on an idle bookie too."""
    talk, wire, now = exchange(bookie_inflight=SAMPLES), BookieConnection(2**20), 5.0
    talk.begin(asks(2 * SAMPLES))
    for took_s in (0.001, later_s):
        talk.send(wire, now)
        now += took_s
        events = [
            Answered(txn_id, LIST, 0, encode_runs([]), received_bytes, abandoned=False)
            for txn_id in list(talk._outstanding)
        ]
        assert talk.on_answers(events, now) == []
        talk.decode_pending()
    assert is_low is talk.throttle.is_low


def test_a_setback_is_over_at_its_time_and_never_longer_than_the_longest() -> None:
    """However many there are in a row."""
    talk, wire = exchange(), BookieConnection(2**20)
    talk.begin(asks(1))
    for _ in range(3_000):
        talk.pause_after_failure(5.0)
    assert talk.send(wire, 5.0) == (b"", pytest.approx(0.02))
    assert talk.resume_at == 5.02
    assert frames(talk.send(wire, 5.02)[0]) == 1


def test_what_the_byte_budget_holds_back_is_given_back_to_the_rate_exactly() -> None:
    """A burst is six: three times two go out at once, and the seventh waits for the rate."""
    talk, wire = (
        exchange(bookie_inflight_bytes=1_000, bookie_requests_per_second=300),
        BookieConnection(2**20),
    )
    talk.begin([Ask(ListQuestion(n, 400)) for n in range(1, 13)])
    for first in (1, 3, 5):
        data, wait_s = talk.send(wire, 0.0)
        assert (2, first == 5) == (frames(data), wait_s > 0)
        answer(talk, wire, range(first, first + 2))
    data, wait_s = talk.send(wire, 0.0)
    assert (b"", True) == (data, wait_s > 0)


def test_what_was_answered_is_counted_for_what_it_was() -> None:
    """Lists, and ledgers that are not there, are counted of lists alone, whatever else was answered
    between.
    """
    talk, wire = exchange(), BookieConnection(2**20)
    questions = [ListQuestion(1), ListQuestion(2), ListQuestion(3), ListQuestion(4)]
    talk.begin([Ask(one) for one in questions])
    talk.send(wire, 0.0)
    data = list_answer(1, 1, None, pb.ENOLEDGER) + list_answer(2, 2, None, pb.ENOLEDGER)
    data += list_answer(3, 3, encode_runs([3])) + list_answer(4, 4, encode_runs([4]))
    assert [] == hear(talk, wire, data)
    talk.begin([Ask(ReadQuestion(1, 0)), Ask(ReadQuestion(1, 1)), Ask(ReadQuestion(1, 2))])
    talk.send(wire, 0.0)
    hear(
        talk,
        wire,
        read_answer(5, 1, 0, bytes(32)) + read_answer(6, 1, 1, None, pb.ENOLEDGER) + no_entry(7, 2),
    )
    assert (2, 2, 0) == (talk.proof.listed, talk.proof.no_such_ledger, talk.proof.unanswered)


def test_the_slowest_read_is_remembered_and_no_list_is_one() -> None:
    """From sending it to its answer, whatever came later."""
    talk, wire = exchange(), BookieConnection(2**20)
    talk.begin([Ask(ReadQuestion(1, entry)) for entry in range(3)])
    talk.send(wire, 1.0)
    for txn_id, now in ((1, 1.25), (2, 1.75), (3, 1.5)):
        hear(talk, wire, no_entry(txn_id, txn_id - 1), now)
    talk.begin(asks(1))
    talk.send(wire, 2.0)
    hear(talk, wire, list_answer(4, 1, encode_runs([1])), 9.0)
    assert 0.75 == talk.slowest_read_s


def test_a_full_read_queue_is_asked_again_until_no_try_is_left() -> None:
    """What each try cost is added up; those behind it are heard all the same; a new answer of it is
    a refusal in the end.
    """
    talk, wire, (busy, held) = exchange(bookie_retries=2), BookieConnection(2**20), asks(2)
    talk.begin([busy, held])
    talk.send(wire, 0.0)
    size = len(too_many(1, 1))
    hear(talk, wire, too_many(1, 1) + list_answer(2, 2, encode_runs([2])))
    assert held.outcome is not None
    hear_at = 1.0
    for txn_id in (3, 4):
        assert (None, False) == (busy.outcome, talk.done)
        assert frames(talk.send(wire, hear_at)[0]) == 1
        hear(talk, wire, too_many(txn_id, 1), hear_at)
        hear_at += 1.0
    assert talk.done
    assert busy.outcome is not None
    assert (REFUSED, 3, 2, 3 * size) == (
        busy.outcome.status,
        busy.outcome.requests,
        busy.outcome.retries,
        busy.outcome.received_bytes,
    )


def test_a_full_read_queue_halves_the_window_once_a_pause() -> None:
    """Whatever was sent before the pause says the same once more; what is said after it halves
    again.
    """
    talk, wire = exchange(bookie_inflight=16, bookie_retries=9), BookieConnection(2**20)
    talk.begin(asks(16))
    assert frames(talk.send(wire, 1.0)[0]) == 16
    hear(talk, wire, b"".join(too_many(n, n) for n in range(1, 17)), 1.0)
    assert talk.resume_at == 1.002
    assert frames(talk.send(wire, 1.002)[0]) == 8
    hear(talk, wire, b"".join(too_many(n, n - 16) for n in range(17, 25)), 1.002)
    assert talk.resume_at == pytest.approx(1.006)
    assert frames(talk.send(wire, 2.0)[0]) == 4


def test_eua_refuses_the_exchange_and_what_is_behind_it_is_heard() -> None:
    """The question goes without an answer; the next one has its own."""
    talk, wire, (first, second) = exchange(), BookieConnection(2**20), asks(2)
    talk.begin([first, second])
    talk.send(wire, 0.0)
    hear(talk, wire, framed(header(LIST, 1, pb.EUA)) + list_answer(2, 2, encode_runs([2])))
    assert (True, None, False) == (talk.refused, first.outcome, talk.done)
    assert second.outcome is not None


@pytest.mark.parametrize("breach", [True, False])
def test_a_lost_connection_is_a_try_of_each_question_on_it(breach: bool) -> None:
    """After two tries a breach is reported as one, and anything else leaves the question
    unanswered.
    """
    talk, questions = exchange(bookie_retries=1), asks(2)
    talk.begin(questions)
    talk.send(BookieConnection(2**20), 0.0)
    talk.on_lost("gone", breach=breach)
    assert (1, 0) == (talk.fruitless, talk.outstanding)
    for tries, question in enumerate(questions, 1):
        assert (False, None) == (question.unanswered, question.outcome)
        assert frames(talk.send(BookieConnection(2**20), 0.0)[0]) == 1
        talk.on_lost("gone", breach=breach)
        assert 1 + tries == talk.fruitless
        if breach:
            assert question.outcome is not None
            assert (INVALID, "gone (asked 2 times)") == (
                question.outcome.status,
                question.outcome.detail,
            )
        else:
            assert question.unanswered is True
            assert "gone each of the 2 times this was asked" == question.trouble
    assert talk.done
    assert ((0, 0) if breach else (2, 2)) == (talk.proof.lost, talk.proof.unanswered)


def test_a_list_that_was_responded_to_is_no_proof_that_a_bookie_cannot_list() -> None:
    """ETOOMANYREQUESTS is a response: what is lost behind it says nothing about the storage, and
    each failure is counted.
    """
    talk, (question,) = exchange(bookie_retries=2), asks(1)
    talk.begin([question])
    for txn_id, is_lost in ((1, False), (2, True), (3, True)):
        now = 10.0 * txn_id
        wire = BookieConnection(2**20)
        assert frames(talk.send(wire, now)[0]) == 1
        if is_lost:
            talk.on_lost("the bookie closed the connection", breach=False)
        else:
            hear(talk, wire, too_many(1, 1), now)
    assert (0, 0, True) == (talk.proof.lost, talk.proof.unanswered, question.unanswered)
    assert (
        "asked 3 times: the bookie closed the connection 2 times, ETOOMANYREQUESTS 1 time"
        == question.trouble
    )


def test_each_time_that_a_bookie_was_too_busy_is_counted() -> None:
    """In what is said when the last try is lost."""
    talk, (question,) = exchange(bookie_retries=2), asks(1)
    talk.begin([question])
    wire = BookieConnection(2**20)
    for txn_id in (1, 2):
        talk.send(wire, 10.0 * txn_id)
        hear(talk, wire, too_many(txn_id, 1), 10.0 * txn_id)
    talk.send(wire, 30.0)
    talk.on_lost("gone", breach=False)
    assert "asked 3 times: gone 1 time, ETOOMANYREQUESTS 2 times" == question.trouble


def test_reads_that_are_lost_prove_nothing_of_lists() -> None:
    """They are unanswered, and not counted among lists."""
    talk = exchange(bookie_retries=0)
    read = Ask(ReadQuestion(1, 0))
    talk.begin([read])
    talk.send(BookieConnection(2**20), 0.0)
    talk.on_lost("gone", breach=False)
    assert (True, 0, 0) == (read.unanswered, talk.proof.lost, talk.proof.unanswered)
