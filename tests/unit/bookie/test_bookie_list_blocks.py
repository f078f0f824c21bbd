"""Questions in blocks: the lane gives the answers that it gives to the same questions one by one.

Healthy answers are compared as whole frames. Every script of a bookie that misbehaves is played to
both ways of asking.
"""

from __future__ import annotations

import asyncio
import struct
import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from support.lanes import HELD, LIMITS, NOW_MS, SHORT_MS, BlockingLane, lane, listed
from support.scripted_bookie import (
    INFO,
    Connection,
    ScriptedBookie,
    info_answer,
    list_answer,
)

from auditor.bookie.exchange import UNTRIED, Exchange
from auditor.bookie.lane import AsyncLane
from auditor.bookie.list_blocks import RUNS_MAX, BlockCall, ListBlock, join_blocks
from auditor.bookie.questions import Ask, Evidence, ListingProof, ListQuestion, ReadQuestion
from auditor.config import BookieLimits
from auditor.first_checker.schedule import positions_asked
from auditor.model.availability import Answer, Greeting
from auditor.wire.bookie_connection import BookieConnection
from auditor.wire.entry_availability import encode_runs
from auditor.wire.expected_lists import ENTRIES_MAX
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb

LEDGERS = list(range(1, 301))
SICK = 150
"""The ledger about which a bookie misbehaves. Others are outstanding around it."""


def last_of(ledger_id: int) -> int:
    return ledger_id % 7


def block_of(ledger_ids: list[int], kept: tuple[int, ...] = ()) -> ListBlock:
    """Return questions about ledgers of which the bookie should hold all entries."""
    return ListBlock(
        np.array(ledger_ids, np.int64),
        np.array([last_of(one) for one in ledger_ids], np.int64),
        3,
        3,
        1,
        bytes(one in kept for one in ledger_ids),
    )


def healthy(ledger_ids: list[int] = LEDGERS) -> dict[int, range]:
    return {one: range(last_of(one) + 1) for one in ledger_ids}


def answers_of(call: BlockCall) -> list[Answer]:
    """Return all answers to a block, in the order of its questions."""
    expected = call.expected_answers()
    found = {kept.question.ledger_id: kept.answer for kept in call.other_answers()}
    for ledger_id, at_ms, size in zip(*(cells.tolist() for cells in expected), strict=True):
        number = call.block.ledger_ids.tolist().index(ledger_id)
        groups = call.block.question(number).expected_groups
        assert ledger_id not in found
        found[ledger_id] = Answer("b1:3181", ledger_id, 1, at_ms, HELD, groups, "", 1, 0, size)
    assert len(found) == len(call.block), "one answer a question"
    return [found[ledger_id] for ledger_id in call.block.ledger_ids.tolist()]


def both_ways(
    make: Callable[[], ScriptedBookie], **changes: float
) -> tuple[list[Answer], BlockCall, list[Answer]]:
    """Return what a bookie answers to questions one by one, and to the same questions in a block.

    Both bookies are greeted alike.
    """
    block = block_of(LEDGERS)
    with make() as bookie, lane(bookie, **changes) as asker:
        singly = asker.lists(block.questions())
        greeting = asker.greeting()
    with make() as bookie, lane(bookie, **changes) as asker:
        call = asker.list_block(block)
        assert greeting == asker.greeting()
    return singly, call, answers_of(call)


def test_a_healthy_bookie_is_asked_alike_and_its_answers_need_no_values() -> None:
    singly, call, answers = both_ways(lambda: ScriptedBookie(healthy()))
    assert singly == answers
    assert [] == call.other_answers()


def misbehave(answer: Callable[[Connection, int, int], None]) -> Callable[[], ScriptedBookie]:
    """Return how to make a bookie that answers the SICK ledger in its own way."""

    def act(connection: Connection, request: pb.Request) -> bool:
        if listed(request) != SICK:
            return False
        answer(connection, request.header.txnId, SICK)
        return True

    return lambda: ScriptedBookie(healthy(), act)


def sent(payload: bytes | None, status: int = 0) -> Callable[[Connection, int, int], None]:
    return lambda connection, txn_id, ledger_id: connection.send(
        list_answer(txn_id, ledger_id, payload, status)
    )


WHOLE = encode_runs([(0, last_of(SICK) + 1)])
SICK_WAYS = {
    "it lacks the last entry": sent(encode_runs([(0, last_of(SICK))])),
    "it lacks the first entry": sent(encode_runs([(1, last_of(SICK))])),
    "it holds one more": sent(encode_runs([(0, last_of(SICK) + 2)])),
    "it holds none": sent(encode_runs([])),
    "it lists two runs": sent(encode_runs([0, 2])),
    "a reserved byte is set": sent(WHOLE[:20] + b"\1" + WHOLE[21:]),
    "another version": sent(b"\0\0\0\1" + WHOLE[4:]),
    "the list is cut off": sent(WHOLE[:-1]),
    "it does not know the ledger": sent(None, pb.ENOLEDGER),
    "its storage failed": sent(None, pb.EIO),
    "it does not know the request": sent(None, pb.EBADREQ),
    "it is too busy": sent(None, pb.ETOOMANYREQUESTS),
    "another ledger answers": lambda connection, txn_id, _: connection.send(
        list_answer(txn_id, SICK + 1, WHOLE)
    ),
    "another transaction answers": lambda connection, _, ledger_id: connection.send(
        list_answer(9_999, ledger_id, WHOLE)
    ),
    "it closes": lambda connection, _, __: connection.close(),
    "it resets": lambda connection, _, __: connection.reset(),
    "it sends nonsense": lambda connection, _, __: connection.send(b"\0\0\0\5hello"),
    "it announces too much": lambda connection, txn_id, ledger_id: connection.send(
        struct.pack(">i", 2**24) + list_answer(txn_id, ledger_id, WHOLE)[4:] + bytes(2**24 - 100)
    ),
}


@pytest.mark.parametrize("way", SICK_WAYS)
def test_an_answer_that_is_not_as_expected_is_as_ever(way: str) -> None:
    """All other answers are, too. How the system words a lost connection varies."""
    singly, call, answers = both_ways(misbehave(SICK_WAYS[way]))
    ours, theirs = (
        next(answer for answer in found if answer.ledger_id == SICK) for found in (singly, answers)
    )
    is_lost = "connection" in ours.detail
    assert theirs == (replace(ours, detail=theirs.detail) if is_lost else ours)
    assert is_lost is ("connection" in theirs.detail)
    what = [(answer.ledger_id, answer.status, answer.groups) for answer in singly]
    assert what == [(answer.ledger_id, answer.status, answer.groups) for answer in answers]
    assert SICK in {kept.question.ledger_id for kept in call.other_answers()}


@pytest.mark.parametrize("way", list(SICK_WAYS)[:12])
def test_a_single_answer_that_differs_is_not_as_expected(way: str) -> None:
    """Nothing that was asked beside it makes it known."""
    with misbehave(SICK_WAYS[way])() as bookie, lane(bookie) as asker:
        call = asker.list_block(block_of([SICK]))
    assert 0 == len(call.expected_answers().ledger_ids)
    assert [False] == [kept.came_as_expected for kept in call.other_answers()]


def test_an_unanswered_list_times_out_as_ever() -> None:
    """The bookie answers all other requests meanwhile."""
    singly, call, answers = both_ways(misbehave(lambda *_: None), rpc_timeout_ms=SHORT_MS)
    assert singly == answers
    assert [SICK] == [kept.question.ledger_id for kept in call.other_answers()]


def test_a_bookie_that_never_lists_is_found_out_as_ever() -> None:
    singly, _, answers = both_ways(
        lambda: ScriptedBookie(healthy(), lambda _, request: listed(request) is not None),
        rpc_timeout_ms=SHORT_MS,
    )
    assert singly == answers


@pytest.mark.parametrize(
    ("parts", "silent", "greeting"),
    [
        ([[1, 2], [3], LEDGERS[3:]], {1, 2, 3}, Greeting.ANSWERED),
        ([[1], [2], [3]], {1, 2}, Greeting.ANSWERED),
        ([[1], [2], [3]], {1, 2, 3}, Greeting.UNSUPPORTED),
        ([[1, 2], [3], LEDGERS[3:]], set(LEDGERS), Greeting.UNSUPPORTED),
    ],
)
def test_questions_in_parts_are_judged_as_questions_at_once(
    parts: list[list[int]], silent: set[int], greeting: Greeting
) -> None:
    """What a bookie can do shows only after all questions, those of later blocks too.

    A bookie that lists a ledger can list, even if it never answers the questions of the other
    parts. That it cannot list is said of the questions of every part.
    """
    singles, *blocks = map(block_of, parts)
    questions = [question for block in (singles, *blocks) for question in block.questions()]

    def bookie() -> ScriptedBookie:
        return ScriptedBookie(healthy(), lambda _, request: listed(request) in silent)

    with bookie() as at_once, lane(at_once, rpc_timeout_ms=SHORT_MS) as asker:
        expected = asker.lists(questions)
        assert greeting is asker.greeting()[0]
    with bookie() as in_parts, lane(in_parts, rpc_timeout_ms=SHORT_MS) as asker:
        answers, calls = asker.ask_lists(singles.questions(), blocks)
        assert greeting is asker.greeting()[0]
    answers += [answer for call in calls for answer in answers_of(call)]
    assert [(a.ledger_id, a.status) for a in expected] == [(a.ledger_id, a.status) for a in answers]


def test_a_bookie_that_does_not_let_us_ask_is_not_asked_again() -> None:
    act = misbehave(sent(None, pb.EUA))
    singly, _, answers = both_ways(act)
    assert {"refused", "held"} == {str(answer.status) for answer in answers}
    assert {answer.ledger_id for answer in singly} == {answer.ledger_id for answer in answers}


def test_answers_in_any_order_belong_to_their_questions() -> None:
    """Eight at a time, backwards."""
    waiting: list[tuple[Connection, pb.Request]] = []

    def backwards(connection: Connection, request: pb.Request) -> bool:
        if listed(request) is None:
            return False
        waiting.append((connection, request))
        asyncio.get_running_loop().call_later(0.001, drain)
        return True

    def drain() -> None:
        while waiting:
            bookie.answer(*waiting.pop())

    with ScriptedBookie(healthy(), backwards) as bookie, lane(bookie, bookie_inflight=8) as asker:
        call = asker.list_block(block_of(LEDGERS))
    assert [] == call.other_answers()
    assert LEDGERS == call.expected_answers().ledger_ids.tolist()


def test_a_kept_list_is_what_came() -> None:
    """It is decoded from the answer, and it is said that the frame was as expected."""
    kept = (1, SICK, 300)
    with ScriptedBookie(healthy()) as bookie, lane(bookie) as asker:
        singly = asker.lists(block_of(LEDGERS).questions())
        call = asker.list_block(block_of(LEDGERS, kept))
    found = call.other_answers()
    assert list(kept) == [one.question.ledger_id for one in found]
    assert all(one.came_as_expected and one.question.is_kept for one in found)
    assert [one.groups for one in singly if one.ledger_id in kept] == [
        one.answer.groups for one in found
    ]
    assert len(LEDGERS) == len(answers_of(call))


def striped(last: int, position: int) -> ListBlock:
    """Return questions about ledgers of which the bookie should hold two entries of three."""
    block = replace(block_of(LEDGERS), last_entries=np.full(300, last))
    return replace(block, write_quorum=2, position=position)


@pytest.mark.parametrize("last", [0, 1, 2, 19, 94, 95, 200])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_lists_of_few_runs_are_compared_whole_and_all_others_one_by_one(
    last: int, position: int
) -> None:
    """The list is what striping puts on the bookie, entry by entry."""
    entries = [e for e in range(last + 1) if (position - e) % 3 < 2]
    block = striped(last, position)
    with ScriptedBookie(dict.fromkeys(LEDGERS, entries)) as bookie, lane(bookie) as asker:
        call = asker.list_block(block)
    expected = positions_asked(last, 3, 2)
    groups = {one.groups for one in expected if one.position == position}
    assert groups == {question.expected_groups for question in block.questions()}
    assert groups == {answer.groups for answer in answers_of(call)}
    is_short = last < 3 * RUNS_MAX - 1
    assert (0 if is_short else 300) == len(call.other_answers())
    assert is_short is bool(block.have_short_lists().all())


def test_a_bookie_without_entries_that_does_not_know_the_ledger_says_so() -> None:
    """It should hold none of them."""
    block = striped(0, 2)
    with ScriptedBookie() as bookie, lane(bookie) as asker:
        answers = answers_of(asker.list_block(block))
    assert {("no_such_ledger", b"")} == {(str(one.status), one.groups) for one in answers}
    assert {b""} == {question.expected_groups for question in block.questions()}


def test_a_ledger_too_long_for_one_group_has_no_short_list() -> None:
    long = replace(block_of([1, 2]), last_entries=np.array([0, ENTRIES_MAX]))
    assert [True, False] == long.have_short_lists().tolist()
    assert [[1], [2]] == [block.ledger_ids.tolist() for block in join_blocks([long])]
    longest = replace(long, last_entries=np.array([0, ENTRIES_MAX - 1]))
    assert longest.have_short_lists().all()


def test_after_a_block_the_lane_is_asked_anything_else() -> None:
    """Transactions go on."""
    with ScriptedBookie(healthy()) as bookie, lane(bookie) as asker:
        asker.list_block(block_of(LEDGERS))
        (read,) = asker.reads([ReadQuestion(5, 0)])
        again = asker.list_block(block_of([7, 8]))
        assert 0 == len(asker.list_block(block_of([])).block)
    assert "present" == read.status
    assert [7, 8] == again.expected_answers().ledger_ids.tolist()


def test_a_silent_bookie_gets_one_answer_a_question() -> None:
    """Also in a second call, which it is not asked."""
    with (
        ScriptedBookie(act=lambda _, __: True) as bookie,
        lane(bookie, rpc_timeout_ms=SHORT_MS) as asker,
    ):
        for _ in range(2):
            answers = answers_of(asker.list_block(block_of([1, 2, 3])))
            assert {"silent"} == {str(answer.status) for answer in answers}
        assert Greeting.SILENT is asker.greeting()[0]


def test_blocks_of_one_shape_are_joined() -> None:
    """The questions of each shape keep their order."""
    striped = replace(block_of([5]), write_quorum=2)
    joined = join_blocks([block_of([1, 2], kept=(2,)), striped, block_of([3])])
    assert [[1, 2, 3], [5]] == [block.ledger_ids.tolist() for block in joined]
    assert [[False, True, False], [False]] == [
        [question.is_kept for question in block.questions()] for block in joined
    ]


def exchange(**limits: float) -> Exchange:
    made = BookieLimits(**{"bookie_requests_per_second": 0, **limits})  # type: ignore[arg-type]
    evidence = Evidence("b1", 1, made.list_groups_max, made.frame_bytes_max, lambda: NOW_MS)
    return Exchange(made, evidence, 0.0, ListingProof())


def split(data: bytes) -> list[bytes]:
    frames, at = [], 0
    while at < len(data):
        end = at + 4 + struct.unpack_from(">i", data, at)[0]
        frames.append(data[at + 4 : end])
        at = end
    return frames


def frames_in(data: bytes) -> int:
    return len(split(data))


def test_the_rate_holds_for_blocks() -> None:
    """At 100 a second a burst is two. The next one may go after 10 ms."""
    talk, wire = exchange(bookie_requests_per_second=100), BookieConnection(2**20)
    talk.begin((), BlockCall(block_of(LEDGERS)))
    data, wait_s = talk.send(wire, 0.0)
    assert (2, pytest.approx(0.01)) == (frames_in(data), wait_s)
    assert 0 == frames_in(talk.send(wire, 0.005)[0])
    assert 1 == frames_in(talk.send(wire, 0.011)[0])


@pytest.mark.parametrize(("budget", "allowed"), [(10, 1), (88 * 3 + 1, 3)])
def test_the_byte_budget_holds_for_blocks(budget: int, allowed: int) -> None:
    """One question may always go."""
    talk, wire = exchange(bookie_inflight_bytes=budget), BookieConnection(2**20)
    talk.begin((), BlockCall(block_of(LEDGERS)))
    assert allowed == frames_in(talk.send(wire, 0.0)[0]) == talk.outstanding
    assert 0 == frames_in(talk.send(wire, 0.0)[0])


def test_the_window_holds_for_blocks() -> None:
    talk, wire = exchange(bookie_inflight=5), BookieConnection(2**20)
    talk.begin((), BlockCall(block_of(LEDGERS)))
    assert 5 == frames_in(talk.send(wire, 0.0)[0]) == talk.outstanding == wire.awaited_count
    data = b"".join(list_answer(n, n, encode_runs([(0, last_of(n) + 1)])) for n in (2, 1))
    assert [] == talk.on_answers(wire.receive(data), 0.0)
    assert 3 == talk.outstanding
    assert 2 == frames_in(talk.send(wire, 0.0)[0])


def test_time_behind_a_large_answer_is_not_waiting() -> None:
    """As of questions that are asked one by one. What is overdue is awaited by itself then."""
    talk, wire = exchange(bookie_inflight=4), BookieConnection(2**20)
    talk.begin((), BlockCall(block_of(LEDGERS)))
    talk.send(wire, 0.0)
    assert [] == talk.overdue(0.9, 1.0, busy_at=0.0)
    assert [] == talk.overdue(1.9, 1.0, busy_at=1.0)
    overdue = talk.overdue(2.0, 1.0, busy_at=1.0)
    assert [1, 2, 3, 4] == [one.ask.ledger_id for one in overdue]
    assert 4 == talk.outstanding == wire.awaited_count
    talk.give_up(overdue, wire, 1_000)
    assert 0 == talk.outstanding == wire.awaited_count


def test_late_small_answers_slow_a_block_down() -> None:
    """As they slow down any other questions: the median of 64 has risen."""
    talk, wire, now = exchange(bookie_inflight=64), BookieConnection(2**20), 0.0
    talk.begin((), BlockCall(block_of(LEDGERS)))
    for start, took_s in ((1, 0.001), (65, 0.1)):
        talk.send(wire, now)
        now += took_s
        numbers = range(start, start + 64)
        data = b"".join(list_answer(n, n, encode_runs([(0, last_of(n) + 1)])) for n in numbers)
        talk.on_answers(wire.receive(data), now)
    assert talk.throttle.is_low


def test_a_list_as_expected_costs_few_calls_of_python() -> None:
    """Fewer than one for five lists: all else is done in columns, or inside the interpreter."""
    count = 5_000
    ids = list(range(1, count + 1))
    answers = [list_answer(n, n, encode_runs([(0, last_of(n) + 1)])) for n in ids]
    talk, wire = exchange(bookie_inflight=count), BookieConnection(2**20)
    calls = 0

    def on_call(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    call = BlockCall(block_of(ids))
    data = b"".join(answers)
    sys.setprofile(on_call)
    try:
        talk.begin((), call)
        talk.send(wire, 0.0)
        talk.on_answers(wire.receive(data), 0.001)
        talk.decode_pending()
    finally:
        sys.setprofile(None)
    assert count == len(call.expected_answers().ledger_ids)
    assert calls <= count / 5, f"{calls / count:.1f} calls a list"


def test_a_greeting_between_lists_is_no_list() -> None:
    """Its transaction shows it, and the lists behind it are as expected."""
    talk, wire = exchange(bookie_inflight=3), BookieConnection(2**20)
    call = BlockCall(block_of([1, 2, 3]))
    talk.begin((), call)
    talk.send(wire, 0.0)
    info, _ = wire.ask_info()
    lists = [list_answer(n, n, encode_runs([(0, last_of(n) + 1)])) for n in (1, 2, 3)]
    data = lists[0] + info_answer(info) + lists[1]
    assert [INFO] == [event.operation for event in talk.on_answers(wire.receive(data), 0.0)]
    talk.on_answers(wire.receive(lists[2]), 0.0)
    talk.decode_pending()
    assert talk.done
    assert [1, 2, 3] == call.expected_answers().ledger_ids.tolist()
    assert [] == call.other_answers()


@pytest.mark.parametrize(("single", "odd"), [(True, False), (False, True), (True, True)])
def test_another_answer_leaves_the_lists_around_it_as_expected(single: bool, odd: bool) -> None:
    """Ten answers a turn: others are always outstanding."""
    count, sick = 3_000, 1_500
    talk, wire = exchange(bookie_inflight=64), BookieConnection(2**20)
    call = BlockCall(block_of(list(range(1, count + 1))))
    singles = [Ask(ListQuestion(count + 1)) for _ in range(single)]
    lists = {n: encode_runs([(0, last_of(n) + 1)]) for n in range(1, count + 1 + single)}
    if odd:
        lists[sick] = encode_runs([])
    answers = [list_answer(n, n, runs) for n, runs in lists.items()]
    talk.begin(singles, call)
    talk.send(wire, 0.0)
    calls = 0

    def on_call(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(on_call)
    try:
        for start in range(0, len(answers), 10):
            talk.on_answers(wire.receive(b"".join(answers[start : start + 10])), 0.0)
            talk.send(wire, 0.0)
            talk.decode_pending()
    finally:
        sys.setprofile(None)
    assert talk.done
    assert [sick] * odd == [one.answer.ledger_id for one in call.other_answers()]
    assert all(ask.outcome is not None for ask in singles)
    assert calls <= 5 * count, f"{calls / count:.1f} calls a list"


MIB = 2**20


@pytest.mark.parametrize(
    ("in_block", "singles", "size", "losses"),
    [(300, 20, 6 * MIB, 0), (300, 64, 52, 0), (300, 11, 6 * MIB, 0), (3, 64, 52, 1)],
)
def test_lists_that_never_come_do_not_hide_that_a_bookie_lists_a_block(
    in_block: int, singles: int, size: int, losses: int
) -> None:
    """They may fill the window or the budget of bytes, also after a lost connection."""
    talk, wire = exchange(), BookieConnection(2**20)
    talk.proof = ListingProof(losses_count=False)
    talk.proof.asked = singles + in_block
    asks = [Ask(ListQuestion(1_000 + number, size)) for number in range(singles)]
    call, now = BlockCall(block_of(LEDGERS[:in_block])), 0.0
    talk.begin(asks, call)
    for _ in range(losses):
        talk.send(wire, now)
        talk.on_lost("the connection was lost", breach=False)
        wire = BookieConnection(2**20)
    while not talk.done:
        now += 1.0
        data = b""
        for frame in split(talk.send(wire, now)[0]):
            request = pb.Request.FromString(frame)
            ledger_id = listed(request)
            assert ledger_id is not None
            if ledger_id <= in_block:
                whole = encode_runs([(0, last_of(ledger_id) + 1)])
                data += list_answer(request.header.txnId, ledger_id, whole)
        talk.on_answers(wire.receive(data), now)
        talk.decode_pending()
        talk.give_up(talk.overdue(now, 10.0, busy_at=0.0), wire, 10_000)
        assert not talk.proof.is_unable()
    assert in_block == talk.proof.listed
    assert all(ask.unanswered for ask in asks)


def test_a_lane_with_patience_takes_no_blocks() -> None:
    made = AsyncLane(
        "b1",
        "127.0.0.1",
        1,
        BookieLimits(**LIMITS),
        1,
        lambda: NOW_MS,
        patience=UNTRIED,  # type: ignore[arg-type]
    )
    with pytest.raises(AssertionError, match="overdue"), BlockingLane(made) as asker:
        asker.list_block(block_of([1]))
