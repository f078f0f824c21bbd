"""Frames are cut out of a bookie's bytes, and those too large are named and skipped."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.errors import PeerProtocolError
from auditor.wire.bookie_connection import HEAD_BYTES, FrameReader, Oversized
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb


def unspaced(text: str) -> bytes:
    return bytes.fromhex(text.replace(" ", ""))


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@given(
    st.lists(st.binary(max_size=200), max_size=8),
    st.lists(st.integers(1, 60), min_size=1, max_size=30),
)
def test_frames_come_out_whole_however_they_are_cut(bodies: list[bytes], sizes: list[int]) -> None:
    """The same frames in the same order, whether the bytes come at once, in pieces, or one by
    one.
    """
    stream = b"".join(map(framed, bodies))
    for pieces in (sizes, [len(stream) or 1], [1]):
        reader, found, at, turn = FrameReader(100), [], 0, 0
        while at < len(stream):
            size = pieces[turn % len(pieces)]
            found += reader.feed(stream[at : at + size])
            at, turn = at + size, turn + 1
        expected = [b if len(b) <= 100 else Oversized(len(b), b[:HEAD_BYTES]) for b in bodies]
        assert expected == found
        assert 0 == reader.unfinished_bytes


def test_an_oversized_frame_is_named_as_soon_as_it_can_be_and_skipped() -> None:
    """Its length and its first bytes come out before the rest is there, and the next frame is
    read.
    """
    reader = FrameReader(1000)
    body = bytes(range(100)) * 50
    assert [] == reader.feed(framed(body)[: 4 + HEAD_BYTES - 1])
    assert [Oversized(5000, body[:HEAD_BYTES])] == reader.feed(body[HEAD_BYTES - 1 : HEAD_BYTES])
    assert 5000 - HEAD_BYTES == reader.unfinished_bytes
    assert [] == reader.feed(body[HEAD_BYTES:-1])
    assert [b"next"] == reader.feed(body[-1:] + framed(b"next"))


def test_nothing_behind_an_oversized_frame_is_skipped() -> None:
    """One that came whole in its piece leaves nothing to skip in the next."""
    reader = FrameReader(10)
    assert [Oversized(11, bytes(11))] == reader.feed(framed(bytes(11)))
    assert 0 == reader.unfinished_bytes
    assert [b"next"] == reader.feed(framed(b"next"))


def test_an_empty_frame_is_a_frame() -> None:
    """It has a length, of 0, and the next begins behind it."""
    assert [b"", b"next"] == FrameReader(10).feed(framed(b"") + framed(b"next"))


def test_what_is_still_to_come_of_a_frame_is_known() -> None:
    """Of its length at first, then of the frame; nothing between frames."""
    reader = FrameReader(10)
    left = []
    for byte in framed(bytes(3)):
        reader.feed(bytes((byte,)))
        left.append(reader.unfinished_bytes)
    assert [3, 2, 1, 3, 2, 1, 0] == left


def test_what_is_still_to_come_of_an_oversized_frame_is_known() -> None:
    """Of its length at first, then of what is kept of it, then of the rest."""
    reader = FrameReader(10)
    left = []
    for byte in framed(bytes(HEAD_BYTES + 2)):
        reader.feed(bytes((byte,)))
        left.append(reader.unfinished_bytes)
    assert [3, 2, 1, *range(HEAD_BYTES, 0, -1), 2, 1, 0] == left


def test_a_negative_length_is_reported_at_once() -> None:
    """Nothing of the frame is waited for."""
    assert [Oversized(-5, b"")] == FrameReader(1000).feed(struct.pack(">i", -5))


def test_a_negative_length_ends_everything() -> None:
    """A length that overflowed is oversized, and nothing behind it is taken for a frame."""
    reader = FrameReader(1000)
    assert [b"good", Oversized(-5, b"")] == reader.feed(
        framed(b"good") + struct.pack(">i", -5) + framed(b"never")
    )
    assert [] == reader.feed(framed(b"never"))
    with pytest.raises(PeerProtocolError, match="announces -5 bytes"):
        Oversized(-5, b"").addressee()


def test_a_frame_of_the_largest_size_is_taken() -> None:
    """The limit itself is within the limit."""
    reader = FrameReader(10)
    assert [bytes(10), Oversized(11, bytes(11))] == reader.feed(
        framed(bytes(10)) + framed(bytes(11))
    )


def test_a_large_frame_in_small_pieces_grows_one_buffer() -> None:
    """Bytes of an unfinished frame are appended in place: no piece makes what came before it be
    copied by us.
    """
    reader = FrameReader(64 * 2**20)
    stream = framed(bytes(4 * 2**20))
    found: list[bytes | Oversized] = []
    buffers = set()
    for at in range(0, len(stream), 1460):
        found += reader.feed(stream[at : at + 1460])
        buffers.add(id(reader._buffer))
    assert [4 * 2**20] == [len(body) for body in found]
    assert 1 == len(buffers)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x0a",
        b"GET / HTTP/1.1\r\n",
        unspaced("0a020803"),
        unspaced("0b060803100b1801"),
        unspaced("0aff0803"),
        unspaced("0a070803100b1801"),
    ],
)
def test_an_oversized_frame_without_a_header_has_no_addressee(body: bytes) -> None:
    """A frame too large that does not begin as an answer is a breach."""
    with pytest.raises(PeerProtocolError, match="does not begin as an answer"):
        Oversized(10**9, body).addressee()


def test_a_header_is_enough_for_an_addressee() -> None:
    """With nothing behind it."""
    assert (11, 1) == Oversized(10**9, unspaced("0a060803100b1801")).addressee()


def test_an_oversized_answer_names_its_question() -> None:
    """Operation and transaction id are in the first bytes of the frame."""
    message = pb.Response()
    message.header.version, message.status = pb.VERSION_THREE, 0
    message.header.operation, message.header.txnId = 11, 2**64 - 1
    answer = message.getListOfEntriesOfLedgerResponse
    answer.status, answer.ledgerId = 0, 5
    answer.availabilityOfEntriesOfLedger = bytes(5000)
    (oversized,) = FrameReader(100).feed(framed(message.SerializeToString()))
    assert isinstance(oversized, Oversized)
    assert (11, 2**64 - 1) == oversized.addressee()
