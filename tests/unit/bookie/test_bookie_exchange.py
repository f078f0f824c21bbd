"""The questions of one call, without a network: what goes out when, told the time."""

from __future__ import annotations

import struct

from support.lanes import HELD, NOW_MS
from support.scripted_bookie import list_answer

from auditor.bookie.answers import Evidence
from auditor.bookie.exchange import Exchange
from auditor.bookie.listing import ListingProof
from auditor.bookie.questions import Ask, ListQuestion
from auditor.config import BookieLimits
from auditor.wire.bookie_connection import BookieConnection
from auditor.wire.entry_availability import encode_runs


def exchange(**limits: float) -> Exchange:
    made = BookieLimits(**{"requests_per_second": 0, **limits})  # type: ignore[arg-type]
    return Exchange(made, Evidence("b1", 1, made.groups_max, made.frame_bytes_max, lambda: NOW_MS), 0.0, ListingProof())


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
    assert talk.heard(wire.receive(data), now) == []
    talk.make_out()


def test_one_write_fills_the_window_and_the_next_fills_it_up() -> None:
    """As many go out as the window has room for, in one piece; after answers, as many as there were."""
    talk, wire, questions = exchange(inflight_max=8), BookieConnection(2**20), asks(20)
    talk.begin(questions)
    assert frames(talk.send(wire, 0.0)[0]) == 8
    assert talk.send(wire, 0.0) == (b"", 0.0)
    answer(talk, wire, range(1, 4))
    assert frames(talk.send(wire, 0.0)[0]) == 3
    answer(talk, wire, range(4, 12))
    assert frames(talk.send(wire, 0.0)[0]) == 8
    answer(talk, wire, range(12, 20))
    assert frames(talk.send(wire, 0.0)[0]) == 1
    answer(talk, wire, range(20, 21))
    assert talk.done
    assert {HELD} == {ask.outcome.status for ask in questions if ask.outcome}


def test_the_rate_holds_back_and_says_for_how_long() -> None:
    """1,000 a second: a burst of 20 at once, and after the time it names, more."""
    talk, wire = exchange(requests_per_second=1_000, inflight_max=500), BookieConnection(2**20)
    talk.begin(asks(400))
    sent, now, rounds = 0, 0.0, 0
    while sent < 400:
        data, wait_s = talk.send(wire, now)
        assert frames(data) <= 20
        sent += frames(data)
        assert sent == 400 or 0 < wait_s <= 0.02 + 1e-9
        now += wait_s
        rounds += 1
        assert rounds < 100
    assert now >= (400 - 20) / 1_000 - 1e-6


def test_nothing_goes_out_during_a_setback() -> None:
    """A failure is followed by a pause, told in seconds, twice as long each time in a row; an answer starts it anew."""
    talk, wire = exchange(inflight_max=1), BookieConnection(2**20)
    talk.begin(asks(3))
    pauses = []
    for _ in range(3):
        talk.setback(0.0)
        data, wait_s = talk.send(wire, 0.0)
        assert data == b""
        pauses.append(wait_s)
    assert [0.002, 0.004, 0.008] == pauses
    assert frames(talk.send(wire, 1.0)[0]) == 1
    answer(talk, wire, range(1, 2))
    talk.setback(2.0)
    assert abs(talk.send(wire, 2.0)[1] - 0.002) < 1e-9


def test_time_behind_a_large_answer_is_not_waiting() -> None:
    """While a large answer is coming in, the others are stuck behind it: their time counts from then."""
    talk, wire = exchange(inflight_max=4), BookieConnection(2**20)
    talk.begin(asks(4))
    talk.send(wire, 0.0)
    assert talk.overdue(0.9, 1.0, busy_at=0.0) == []
    assert len(talk.overdue(1.0, 1.0, busy_at=0.0)) == 4
    assert talk.overdue(1.9, 1.0, busy_at=1.0) == []
    assert len(talk.overdue(2.0, 1.0, busy_at=1.0)) == 4


def test_txn_ids_of_a_new_connection_are_not_those_of_the_old() -> None:
    """A question made alone on one connection does not keep the next connection's window at one."""
    talk, wire = exchange(inflight_max=8, retries_max=1), BookieConnection(2**20)
    talk.begin(asks(30))
    talk.send(wire, 0.0)
    talk.lost("gone", breach=False)
    wire = BookieConnection(2**20)
    for n in range(1, 9):
        assert frames(talk.send(wire, 0.0)[0]) == 1
        answer(talk, wire, range(n, n + 1))
    assert frames(talk.send(wire, 0.0)[0]) > 1


def test_the_byte_budget_is_free_again_after_each_answer() -> None:
    """Two answers fit: two are asked for, and after each two, two more; what was not sent does not count against the rate."""
    talk, wire = exchange(inflight_bytes_max=1_000, requests_per_second=300), BookieConnection(2**20)
    talk.begin([Ask(ListQuestion(n, 400)) for n in range(1, 7)])
    for first in (1, 3, 5):
        assert frames(talk.send(wire, 0.0)[0]) == 2
        answer(talk, wire, range(first, first + 2))
    assert talk.done
