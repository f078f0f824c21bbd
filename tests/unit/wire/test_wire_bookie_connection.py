"""One connection as a state machine: fed whole, byte by byte, and with garbage behind."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.scripted_bookie import answer, frame, info_answer, list_answer, read_answer

from auditor.errors import LocalProtocolError, PeerProtocolError
from auditor.wire.bookie_connection import Answered, AnswerTooLarge, BookieConnection
from auditor.wire.frames import encode_get_info, encode_get_list, encode_read

FRAME_BYTES_MAX = 4096
LIST, READ, INFO = 11, 1, 8
AUTH, START_TLS, EIO = 5, 9, 501


def asked() -> BookieConnection:
    """A connection that awaits a list (1), a read (2) and an info (3)."""
    connection = BookieConnection(FRAME_BYTES_MAX)
    assert [1, 2, 3] == [
        connection.ask_list(5)[0],
        connection.ask_read(6, 7)[0],
        connection.ask_info()[0],
    ]
    return connection


def test_what_is_asked_goes_onto_the_wire() -> None:
    """Each question is its frame, under a transaction of its own."""
    connection = BookieConnection(FRAME_BYTES_MAX)
    assert (1, encode_get_list(1, 5)) == connection.ask_list(5)
    assert (2, encode_read(2, 6, 7)) == connection.ask_read(6, 7)
    assert (3, encode_get_info(3)) == connection.ask_info()


STREAM = info_answer(3) + read_answer(2, 6, 7, b"body") + list_answer(1, 5, b"list")
EVENTS = [
    Answered(3, INFO, 0, b"", len(info_answer(3)), False),
    Answered(2, READ, 0, b"body", len(read_answer(2, 6, 7, b"body")), False),
    Answered(1, LIST, 0, b"list", len(list_answer(1, 5, b"list")), False),
]


def test_answers_in_any_order_find_their_questions() -> None:
    """Only the transaction id tells answers apart, and afterwards nothing is awaited."""
    connection = asked()
    assert EVENTS == connection.receive(STREAM)
    assert 0 == connection.awaited_count


def start_tls_answer(txn_id: int, status: int = 0) -> bytes:
    message = answer(START_TLS, txn_id, status)
    message.startTLSResponse.SetInParent()
    return frame(message)


def test_a_second_answer_to_start_tls_is_ignored_once_and_only_inside_tls() -> None:
    """It is an EIO. In clear, or without a question, it is a breach, also for the transaction 0."""
    for before_tls in ([], [start_tls_answer(1)]):
        connection = BookieConnection(FRAME_BYTES_MAX)
        if before_tls:
            connection.ask_start_tls()
            connection.receive(before_tls[0])
        for txn_id in (0, 1):
            with pytest.raises(PeerProtocolError):
                BookieConnection(FRAME_BYTES_MAX).receive(start_tls_answer(txn_id, EIO))
        with pytest.raises(PeerProtocolError):
            connection.receive(start_tls_answer(int(bool(before_tls)), EIO))
    inside = BookieConnection(FRAME_BYTES_MAX)
    inside.ask_start_tls()
    inside.receive(start_tls_answer(1))
    inside.ignore_second_start_tls()
    assert inside.receive(start_tls_answer(1, EIO)) == []
    for txn_id in (0, 1):
        with pytest.raises(PeerProtocolError):
            inside.receive(start_tls_answer(txn_id, EIO))


def test_an_answer_to_auth_has_the_name_of_the_plugin() -> None:
    """Beside its bytes: an empty answer may be AuthDisabledPlugin's or a refusal to prove
    anything.
    """
    connection = BookieConnection(FRAME_BYTES_MAX)
    connection.ask_auth(b"")
    message = answer(AUTH, 1)
    message.authResponse.authPluginName, message.authResponse.payload = "AuthDisabledPlugin", b""
    [said] = connection.receive(frame(message))
    assert isinstance(said, Answered)
    assert (said.payload, said.extra) == (b"", b"AuthDisabledPlugin")


def test_answers_that_secure_a_connection_are_awaited() -> None:
    """As those to any question, until they come."""
    connection = BookieConnection(FRAME_BYTES_MAX)
    connection.ask_start_tls()
    connection.ask_auth(b"")
    assert 2 == connection.awaited_count
    auth = answer(AUTH, 2)
    auth.authResponse.authPluginName, auth.authResponse.payload = "sasl", b""
    events = connection.receive(start_tls_answer(1) + frame(auth))
    assert [False, False] == [event.abandoned for event in events]
    assert 0 == connection.awaited_count


@pytest.mark.parametrize("seed", range(5))
def test_the_same_answers_come_out_however_the_bytes_are_cut(seed: int) -> None:
    """Byte by byte (seed 0) or in random pieces: the same events."""
    rng = random.Random(seed)
    connection, events, at = asked(), [], 0
    while at < len(STREAM):
        size = rng.randint(1, 30) if seed else 1
        events += connection.receive(STREAM[at : at + size])
        at += size
    assert EVENTS == events, f"seed {seed}"


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff" * 40,
        struct.pack(">i", 3) + b"abc",
        b"HTTP/1.1 400 Bad Request\r\n\r\n" * 3,
        struct.pack(">i", 0),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_garbage_behind_answers_spoils_nothing_before_it(garbage: bytes, at_once: bool) -> None:
    """Complete answers are reported first; then the breach, every time."""
    connection = asked()
    if at_once:
        assert EVENTS == connection.receive(STREAM + garbage)
    else:
        assert EVENTS == connection.receive(STREAM)
        with pytest.raises(PeerProtocolError):
            connection.receive(garbage)
    assert connection.fault is not None
    for more in (b"", STREAM):
        with pytest.raises(PeerProtocolError):
            connection.receive(more)
    with pytest.raises(LocalProtocolError):
        connection.ask_info()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (list_answer(4, 5, b""), "transaction 4, which awaits none"),
        (list_answer(0, 5, b""), "transaction 0, which awaits none"),
        (read_answer(1, 5, 0, b""), "asked operation 11, the answer is to 1"),
        (list_answer(2, 6, b""), "asked operation 1, the answer is to 11"),
        (list_answer(1, 6, b""), "asked about ledger 5, the answer is about ledger 6"),
        (list_answer(1, 6, None, 402), "asked about ledger 5, the answer is about ledger 6"),
        (
            read_answer(2, 5, 7, b""),
            "asked about ledger 6 entry 7, the answer is about ledger 5 entry 7",
        ),
        (
            read_answer(2, 6, 8, None, 403),
            "asked about ledger 6 entry 7, the answer is about ledger 6 entry 8",
        ),
    ],
)
def test_an_answer_to_something_else_is_a_breach(data: bytes, says: str) -> None:
    """A transaction never asked, another operation, another ledger or entry: the bookie's fault,
    named.
    """
    with pytest.raises(PeerProtocolError, match=says):
        asked().receive(data)


def test_an_answer_given_twice_is_a_breach() -> None:
    """The second answer awaits no question."""
    connection = asked()
    assert EVENTS == connection.receive(STREAM)
    with pytest.raises(PeerProtocolError, match="transaction 1, which awaits none"):
        connection.receive(list_answer(1, 5, b"list"))


def test_a_refusal_needs_no_ids() -> None:
    """EUA comes without a sub-message and still answers its question."""
    (event,) = asked().receive(frame(answer(LIST, 1, 502)))
    assert (1, 502) == (event.txn_id, event.status)  # type: ignore[union-attr]


def test_a_late_answer_is_known_and_marked() -> None:
    """What was given up is still recognised, and is no breach; it cannot be given up twice."""
    connection = asked()
    connection.abandon(1)
    assert 2 == connection.awaited_count
    with pytest.raises(LocalProtocolError):
        connection.abandon(1)
    assert [EVENTS[0], EVENTS[1], EVENTS[2]._replace(abandoned=True)] == connection.receive(STREAM)
    with pytest.raises(LocalProtocolError):
        connection.abandon(1)


def test_an_answer_too_large_names_its_question_and_the_connection_goes_on() -> None:
    """The length comes before the bytes do; they are skipped, and the answers behind are read."""
    connection = asked()
    large = list_answer(1, 5, bytes(3 * FRAME_BYTES_MAX))
    events = connection.receive(large[:5000])
    assert [AnswerTooLarge(1, LIST, len(large) - 4, False)] == events
    assert len(large) - 5000 == connection.unfinished_bytes
    assert [3] == [event.txn_id for event in connection.receive(large[5000:] + info_answer(3))]
    assert 1 == connection.awaited_count


@pytest.mark.parametrize(
    "data",
    [
        list_answer(9, 5, bytes(5000)),
        read_answer(1, 5, 0, bytes(5000)),
        struct.pack(">i", -1) + bytes(80),
        b"x" * 100,
    ],
)
def test_a_frame_too_large_that_answers_nothing_is_a_breach(data: bytes) -> None:
    """An unknown transaction, another operation, no length, or no answer at all."""
    with pytest.raises(PeerProtocolError):
        asked().receive(data)


def test_nothing_happens_after_closing() -> None:
    """Asking or feeding after close is our fault; closing again does nothing."""
    connection = asked()
    connection.close()
    connection.close()
    for use in (
        connection.ask_info,
        lambda: connection.ask_list(1),
        lambda: connection.ask_read(1, 1),
        lambda: connection.receive(b""),
    ):
        with pytest.raises(LocalProtocolError):
            use()


def test_a_question_that_cannot_be_asked_leaves_nothing_behind() -> None:
    """Ids out of range are refused before anything is awaited."""
    connection = BookieConnection(FRAME_BYTES_MAX)
    with pytest.raises(LocalProtocolError):
        connection.ask_read(1, -2)
    assert 0 == connection.awaited_count


def test_random_bytes_raise_nothing_but_a_breach() -> None:
    """Whatever comes is an answer, an unfinished frame, or the bookie's fault."""
    for seed in range(300):
        rng = random.Random(seed)
        stream = bytearray(STREAM)
        for _ in range(rng.randint(1, 4)):
            stream[rng.randrange(len(stream))] = rng.randrange(256)
        connection = asked()
        try:
            for at in range(0, len(stream), 7):
                connection.receive(bytes(stream[at : at + 7]))
        except PeerProtocolError as error:
            assert str(error), f"seed {seed}"


class ByProtobufAlone(BookieConnection):
    """Without the short cut for plain lists."""

    def _plain_list(self, frame: bytes) -> Answered | None:
        return None


def outcome(connection: BookieConnection, ledger_id: int, skipped: int, data: bytes) -> object:
    """What becomes of `data`, for a connection that has asked for `ledger_id` after `skipped` other
    questions.
    """
    connection._last_txn_id = skipped
    connection.ask_list(ledger_id)
    try:
        return connection.receive(data)
    except PeerProtocolError:
        return PeerProtocolError


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from([0, 5, 126, 127, 128, 16_382, 16_383, 16_384, 2_097_150, 2_097_151]),
    st.one_of(st.integers(0, 300), st.integers(0, 2**63 - 1)),
    st.one_of(st.integers(0, 300), st.integers(16_300, 16_400)),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), max_size=3),
)
def test_the_short_cut_for_plain_lists_says_what_protobuf_says(
    skipped: int, ledger_id: int, size: int, changes: list[tuple[int, int]]
) -> None:
    """For any ids and lengths, and any changed bytes, the result is the same with and without the
    short cut.
    """
    data = bytearray(
        list_answer(
            skipped + 1, ledger_id, bytes(range(256)) * (size // 256) + bytes(range(size % 256))
        )
    )
    for at, byte in changes:
        if 4 <= at < len(data):
            data[at] = byte
    expected = outcome(ByProtobufAlone(2**20), ledger_id, skipped, bytes(data))
    assert expected == outcome(BookieConnection(2**20), ledger_id, skipped, bytes(data))


def listed(txn_id: int, ledger_id: int, size: int) -> tuple[BookieConnection, bytes, Answered]:
    """A connection that awaits one list, the bytes that answer with a list of that size, and what
    they say.
    """
    connection = BookieConnection(2**20)
    connection._last_txn_id = txn_id - 1
    connection.ask_list(ledger_id)
    data = list_answer(txn_id, ledger_id, bytes(size))
    return connection, data, Answered(txn_id, LIST, 0, bytes(size), len(data), False)


@pytest.mark.parametrize("txn_id", [128, 201, 16_383, 16_384, 21_845, 1_398_101, 2_097_151])
@pytest.mark.parametrize("ledger_id", [5, 12_345])
@pytest.mark.parametrize("size", [88, 121, 122, 127, 128, 10_000, 16_374])
def test_the_short_cut_is_taken(txn_id: int, ledger_id: int, size: int) -> None:
    """An ordinary list, up to 16 KiB, under a transaction id of two bytes or three, does not go
    through protobuf.
    """
    connection, data, expected = listed(txn_id, ledger_id, size)
    assert expected == connection._plain_list(data[4:])
    assert 0 == connection.awaited_count


def test_the_short_cut_is_taken_to_both_its_bounds() -> None:
    """A frame of 64 bytes, the shortest with a list, and a list message of 16,383 bytes, the
    longest with a length of two.
    """
    for size, frame_bytes in ((44, 64), (16_376, 16_398)):
        connection, data, expected = listed(201, 5, size)
        assert frame_bytes == len(data) - 4
        assert expected == connection._plain_list(data[4:])


@pytest.mark.parametrize(("txn_id", "size"), [(127, 88), (2_097_152, 88), (201, 43), (201, 16_377)])
def test_beyond_the_short_cut_protobuf_reads_the_list(txn_id: int, size: int) -> None:
    """A transaction id of one byte or four, a list shorter than any and one that is longer: nothing
    is lost but time.
    """
    connection, data, expected = listed(txn_id, 5, size)
    assert connection._plain_list(data[4:]) is None
    assert [expected] == connection.receive(data)


LIST_OF_LEDGER_5 = b"\x08\x00\x10\x05\x1a"


@pytest.mark.parametrize(
    ("txn_id", "header", "message"),
    [
        (
            16_389,
            b"\x07\x08\x03\x10\x0b\x18\x85\x80",
            b"\x6a" + LIST_OF_LEDGER_5 + b"\x64" + bytes(100),
        ),
        (
            2_097_157,
            b"\x08\x08\x03\x10\x0b\x18\x85\x80\x80",
            b"\x6a" + LIST_OF_LEDGER_5 + b"\x64" + bytes(100),
        ),
        (
            201,
            b"\x07\x08\x03\x10\x0b\x18\xc9\x01",
            b"\x80" + LIST_OF_LEDGER_5 + b"\x7a" + bytes(122),
        ),
        (
            201,
            b"\x07\x08\x03\x10\x0b\x18\xc9\x01",
            b"\x80\x80" + LIST_OF_LEDGER_5 + b"\xf9\x7f" + bytes(16_377),
        ),
    ],
    ids=["transaction of two", "transaction of three", "length of one", "length of two"],
)
def test_a_number_that_goes_on_is_not_cut_short(txn_id: int, header: bytes, message: bytes) -> None:
    """A last byte that announces another one is a breach, even if the numbers fit without it."""
    body = b"\x0a" + header + b"\x10\x00\xe2\x06" + message
    data = struct.pack(">i", len(body)) + body
    assert PeerProtocolError is outcome(ByProtobufAlone(2**20), 5, txn_id - 1, data)
    assert PeerProtocolError is outcome(BookieConnection(2**20), 5, txn_id - 1, data)


@pytest.mark.parametrize("skipped", [5, 300, 20_000])
@pytest.mark.parametrize("size", [64, 90, 128, 400])
def test_no_single_bit_makes_the_short_cut_say_something_else(skipped: int, size: int) -> None:
    """Every bit of everything before the list, turned over: with and without the short cut, the
    same comes out.
    """
    right = list_answer(skipped + 1, 9_000, bytes(size))
    for bit in range(8 * 4, 8 * (len(right) - size + 2)):
        data = bytearray(right)
        data[bit // 8] ^= 1 << bit % 8
        expected = outcome(ByProtobufAlone(2**20), 9_000, skipped, bytes(data))
        assert expected == outcome(BookieConnection(2**20), 9_000, skipped, bytes(data)), (
            f"bit {bit}"
        )
