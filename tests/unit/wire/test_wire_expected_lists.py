"""List requests whose answers are known: in bytes, against the product's encoder and protobuf."""

from __future__ import annotations

import random
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.scripted_bookie import info_answer, list_answer

from auditor.errors import LocalProtocolError, PeerProtocolError
from auditor.model.identity import LEDGER_ID_MAX
from auditor.wire.bookie_connection import Answered, BookieConnection
from auditor.wire.entry_availability import encode_runs
from auditor.wire.expected_lists import (
    ANSWER_BYTES_MAX,
    ENCODED_AT_ONCE,
    ENTRIES_MAX,
    LIST_BYTES_MAX,
    encode,
    lists_of_one_run,
)
from auditor.wire.frames import encode_get_list

TXN_IDS = st.integers(1, 2**40)
LEDGER_IDS = st.one_of(st.integers(0, 300), st.integers(0, LEDGER_ID_MAX))
ENTRIES = st.one_of(st.integers(1, 300), st.integers(1, ENTRIES_MAX))


def arrays(*columns: list[int]) -> list[np.ndarray]:
    return [np.array(column, np.int64) for column in columns]


LISTS = st.one_of(
    ENTRIES.map(lambda count: encode_runs([(0, count)])),
    st.lists(st.integers(0, 99), max_size=34).map(lambda entries: encode_runs(sorted(entries))),
)


@given(st.lists(st.tuples(TXN_IDS, LEDGER_IDS, LISTS), min_size=1, max_size=9))
def test_frames_are_those_of_the_encoder_and_of_protobuf(
    rows: list[tuple[int, int, bytes]],
) -> None:
    txn_ids, ledger_ids = arrays(*map(list, zip(*(row[:2] for row in rows), strict=True)))
    requests, answers = encode(txn_ids, ledger_ids, [one for *_, one in rows])
    for frames, expected in (
        (requests, [encode_get_list(txn, ledger) for txn, ledger, _ in rows]),
        (answers, [list_answer(*row) for row in rows]),
    ):
        assert (b"".join(expected), list(map(len, expected))) == frames
    assert max(answers.sizes) <= ANSWER_BYTES_MAX


def test_the_longest_frame_is_bounded() -> None:
    longest = encode_runs(range(0, 68, 2))
    assert LIST_BYTES_MAX - 24 < len(longest) <= LIST_BYTES_MAX
    _, answers = encode(*arrays([2**56], [LEDGER_ID_MAX]), [longest])
    assert max(answers.sizes) <= ANSWER_BYTES_MAX


@given(st.lists(ENTRIES, max_size=9))
def test_a_list_of_one_run_is_that_of_every_bookie(entries: list[int]) -> None:
    expected = [encode_runs([(0, count)]) for count in entries]
    assert expected == [row.tobytes() for row in lists_of_one_run(np.array(entries, np.int64))]


def asked(count: int, sent: int, kept: tuple[int, ...] = ()) -> BookieConnection:
    """Return a connection that awaits the lists of the first `sent` of `count` ledgers.

    Ledger n + 1 has the transaction n + 1 and n + 1 entries.
    """
    connection = BookieConnection(2**20)
    ids = np.arange(1, count + 1)
    is_kept = bytes(number in kept for number in range(count))
    connection.ask_expected(ids, lambda start, end: lists_of_one_run(ids[start:end]), is_kept)
    data, sizes = connection.send_expected(sent)
    assert [len(answer(number)) for number in range(1, sent + 1)] == sizes
    assert data == b"".join(encode_get_list(n, n) for n in range(1, sent + 1))
    return connection


def answer(number: int) -> bytes:
    return list_answer(number, number, encode_runs([(0, number)]))


def test_answers_as_expected_are_found_in_any_order_and_any_pieces() -> None:
    """None of them is a response of `receive`. A frame may come in any two or more pieces."""
    numbers = list(range(1, 301))
    random.Random(3).shuffle(numbers)
    data = b"".join(map(answer, numbers))
    for size in (1, 7, 110, 111, 112, 1_000, len(data)):
        connection = asked(300, 300)
        expected = connection._expected
        assert expected is not None
        found: list[int] = []
        for at in range(0, len(data), size):
            assert [] == connection.receive(data[at : at + size])
            assert connection.has_expected_answers is bool(expected._came)
            found += expected.drain()[0]
        assert [number - 1 for number in numbers] == found
        assert 0 == connection.awaited_count == connection.unfinished_bytes


def test_answers_in_the_order_of_the_questions_are_compared_together() -> None:
    """In any pieces, and again once a bookie has answered in another order."""
    numbers = list(range(1, 301))
    data = b"".join(map(answer, numbers))
    for size in (1, 111, 112, 1_000, len(data)):
        connection = asked(303, 300)
        expected = connection._expected
        assert expected is not None
        for at in range(0, len(data), size):
            assert [] == connection.receive(data[at : at + size])
            assert not expected._apart
        assert [number - 1 for number in numbers] == expected.drain()[0]
        connection.send_expected(3)
        for later in (302, 303, 301):
            assert [] == connection.receive(answer(later))
        assert ([301, 302, 300], {}) == expected.drain()


@given(st.integers(0, 2**32))
def test_each_answer_is_found_once_or_matched_by_its_transaction(seed: int) -> None:
    """Whatever the order, the pieces, and the lists that are not as expected."""
    draw = random.Random(seed)
    count, disorder, oddness = draw.randint(1, 60), draw.random() ** 3, draw.random() ** 3
    kept = {number for number in range(count) if draw.random() < disorder}
    connection = asked(count, 0, tuple(kept))
    expected = connection._expected
    assert expected is not None
    asked_for: list[int] = []
    answered, odd, found, found_odd = [], [], [], []
    found_kept: dict[int, bytes] = {}
    unread, unsent = b"", list(range(1, count + 1))
    while unsent or asked_for or unread:
        more = draw.randint(0, min(9, len(unsent)))
        connection.send_expected(more)
        asked_for += unsent[:more]
        del unsent[:more]
        for _ in range(draw.randint(0, len(asked_for))):
            is_next = draw.random() >= disorder
            number = asked_for.pop(0 if is_next else draw.randrange(len(asked_for)))
            is_odd = draw.random() < oddness
            (odd if is_odd else answered).append(number)
            unread += list_answer(number, number, encode_runs([2])) if is_odd else answer(number)
        size = draw.choice([draw.randint(0, len(unread)), len(unread)])
        found_odd += [event.txn_id for event in connection.receive(unread[:size])]
        unread = unread[size:]
        numbers, some = expected.drain()
        found += [number + 1 for number in numbers]
        found_kept |= some
    assert (answered, odd) == (found, found_odd)
    assert {n: answer(n + 1) for n in kept if n + 1 in answered} == found_kept
    assert sorted(odd) == sorted(number + 1 for number in expected.drain_withdrawn())
    assert 0 == connection.awaited_count == connection.unfinished_bytes


def test_no_single_bit_of_an_answer_passes() -> None:
    """It is decoded as any other response, or breaks the protocol."""
    right = answer(2)
    for bit in range(8 * len(right)):
        wrong = bytearray(right)
        wrong[bit // 8] ^= 1 << bit % 8
        connection = asked(3, 3)
        with suppress(PeerProtocolError):
            connection.receive(bytes(wrong))
        assert not connection.has_expected_answers, bit


def test_another_response_is_matched_by_its_transaction_and_those_behind_it_as_before() -> None:
    connection = asked(9, 6)
    info, _ = connection.ask_info()
    assert 10 == info, "the transactions of the questions to come are taken"
    events = connection.receive(answer(2) + info_answer(info) + answer(1) + answer(5))
    assert [(info, 8)] == [(event.txn_id, event.operation) for event in events]
    expected = connection._expected
    assert expected is not None
    assert ([1, 0, 4], {}) == expected.drain()
    assert [] == expected.drain_withdrawn()
    assert 3 == connection.awaited_count
    connection.send_expected(3)
    assert [] == connection.receive(answer(3) + answer(4) + answer(6))
    assert ([2, 3, 5], {}) == expected.drain()


@pytest.mark.parametrize("number", [1, 2, 5])
def test_only_the_question_of_an_unexpected_list_is_withdrawn(number: int) -> None:
    """Once. Its list as expected, or any list again, answers no request then."""
    wrong = list_answer(number, number, encode_runs([0, 2]))
    for second in (wrong, answer(number)):
        connection = asked(9, 5)
        (event,) = connection.receive(wrong)
        assert number == event.txn_id
        expected = connection._expected
        assert expected is not None
        assert [number - 1] == expected.drain_withdrawn()
        assert 4 == connection.awaited_count
        with pytest.raises(PeerProtocolError, match="which awaits none"):
            connection.receive(second)


def test_an_answer_to_a_question_that_was_not_sent_is_a_breach() -> None:
    """Its frame is encoded already."""
    connection = asked(9, 3)
    assert [] == connection.receive(b"".join(map(answer, (1, 2, 3, 4))))
    expected = connection._expected
    assert expected is not None
    assert [0, 1, 2] == expected.drain()[0]
    assert connection.fault is not None
    assert "which awaits none" in str(connection.fault)


def test_answers_are_awaited_in_order_over_the_parts_that_are_encoded() -> None:
    """Those that are outstanding when the next part is encoded are remembered."""
    count = 2 * ENCODED_AT_ONCE
    connection = asked(count, ENCODED_AT_ONCE - 10)
    connection.send_expected(20)
    expected = connection._expected
    assert expected is not None
    for number in range(1, ENCODED_AT_ONCE + 11):
        assert [] == connection.receive(answer(number))
        assert not expected._apart
    assert list(range(ENCODED_AT_ONCE + 10)) == expected.drain()[0]


def test_the_oldest_question_is_known_in_any_order() -> None:
    """Its age says whether answers are overdue."""
    connection = asked(9, 5)
    expected = connection._expected
    assert expected is not None
    for answered, oldest in ((1, 1), (3, 1), (2, 3), (4, 4)):
        connection.receive(answer(answered))
        assert oldest == expected.oldest_awaited()
    connection.send_expected(2)
    assert (4, 3) == (expected.oldest_awaited(), connection.awaited_count)
    connection.withdraw_expected()
    assert [4, 5, 6] == expected.drain_withdrawn()


def test_withdrawn_questions_are_matched_by_their_transactions() -> None:
    connection = asked(4, 3)
    connection.withdraw_expected()
    expected = connection._expected
    assert expected is not None
    assert [0, 1, 2] == expected.drain_withdrawn()
    connection.send_expected(1)
    assert [2, 1] == [one.txn_id for one in connection.receive(answer(4) + answer(2) + answer(1))]
    assert ([3], {}) == expected.drain()


def test_later_questions_are_expected_again() -> None:
    connection = asked(9, 3)
    wrong = list_answer(2, 2, encode_runs([0]))
    (event,) = connection.receive(answer(1) + wrong)
    assert isinstance(event, Answered)
    assert encode_runs([0]) == event.payload
    connection.send_expected(2)
    expected = connection._expected
    assert expected is not None
    assert [] == connection.receive(answer(4) + answer(5))
    assert [0, 3, 4] == expected.drain()[0]


def test_kept_frames_are_what_came() -> None:
    connection = asked(4, 4, kept=(1, 3))
    connection.receive(b"".join(map(answer, (4, 3, 2, 1))))
    expected = connection._expected
    assert expected is not None
    came, kept = expected.drain()
    assert ([3, 2, 1, 0], {1: answer(2), 3: answer(4)}) == (came, kept)
    assert encode_runs([(0, 2)]) == kept[1][-88:]


def test_a_breach_behind_expected_answers_comes_after_them() -> None:
    """The fault is raised at the next call."""
    connection = asked(2, 2)
    assert [] == connection.receive(answer(1) + b"\0\0\0\5hello")
    assert connection.has_expected_answers
    assert connection.fault is not None
    with pytest.raises(PeerProtocolError):
        connection.receive(b"")
    with pytest.raises(LocalProtocolError):
        connection.send_expected(1)


def test_a_long_frame_that_comes_in_pieces_is_not_copied_each_time() -> None:
    """Its bytes wait in the reader's buffer. Expected answers follow it."""
    connection = asked(2, 2)
    long = list_answer(1, 1, encode_runs(range(0, 2_000, 2)))
    for at in range(0, len(long) - 1, 2_000):
        assert [] == connection.receive(long[at : min(at + 2_000, len(long) - 1)])
        assert connection._reader.take_begun(ANSWER_BYTES_MAX) is None
    (event,) = connection.receive(long[-1:] + answer(2)[:50])
    assert 1 == event.txn_id
    assert [] == connection.receive(answer(2)[50:])
    assert connection.has_expected_answers


def test_many_questions_are_encoded_part_by_part() -> None:
    count = 2 * ENCODED_AT_ONCE + 3
    connection = asked(count, count)
    connection.receive(b"".join(map(answer, range(1, count + 1))))
    expected = connection._expected
    assert expected is not None
    assert list(range(count)) == expected.drain()[0]
