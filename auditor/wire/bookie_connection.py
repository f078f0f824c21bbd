"""One connection to a bookie as a pure state machine, without socket or clock.

Requests become bytes, and bytes become responses. Responses come in any order; the transaction id
alone says which request each belongs to. As in h11, PeerProtocolError is the bookie's fault and
LocalProtocolError is ours. After a fault of the bookie or `close`, no request can be made.

`FrameReader` cuts the bytes into frames: 4 bytes of length, big-endian, then that many bytes.
`frames` decodes what is in them.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from google.protobuf.message import DecodeError

from auditor.errors import LocalProtocolError, PeerProtocolError
from auditor.model.availability import DiskSpace
from auditor.model.identity import EntryId, LedgerId
from auditor.wire.expected_lists import ANSWER_BYTES_MAX, ExpectedLists, ListsOf, Numbers
from auditor.wire.frames import (
    LIST_HEADER,
    Operation,
    Status,
    decode_response,
    encode_auth,
    encode_get_info,
    encode_get_list,
    encode_read,
    encode_start_tls,
    varint,
)
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb

LENGTH_BYTES = 4
"""The length in front of each frame does not count itself."""
HEAD_BYTES = 64
"""Bytes kept of a response that is too large: enough for its header and its ledger."""

_LENGTH = struct.Struct(">i")
_FOR_EVER = 2**63


class Oversized(NamedTuple):
    """A frame longer than the limit, or with a negative length.

    `length` is the announced length in bytes, without its own 4; `head` has at most the first
    HEAD_BYTES. A negative length means that an int32 overflowed, or that the peer is not a bookie:
    nothing behind it can be read.
    """

    length: int
    head: bytes

    def addressee(self) -> tuple[int, int]:
        """Return operation and transaction id from `head`. Raises PeerProtocolError."""
        try:
            if len(self.head) < 2 or self.head[0] != 0x0A or self.head[1] >= len(self.head) - 1:
                raise DecodeError
            header = pb.BKPacketHeader.FromString(self.head[2 : 2 + self.head[1]])
            if not header.IsInitialized():
                raise DecodeError
        except DecodeError:
            raise PeerProtocolError(
                f"a frame announces {self.length} bytes and does not begin as an answer does"
            ) from None
        return int(header.operation), int(header.txnId)


class FrameReader:
    """Split incoming bytes into frame bodies. A frame over `frame_bytes_max` becomes Oversized.

    The bytes of an oversized frame are skipped. Bytes of an unfinished frame wait in one buffer: at
    most one frame of `frame_bytes_max`, and what came with its end in the same piece. Each byte is
    copied a fixed number of times, however small the pieces are.
    """

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._buffer = bytearray()
        self._needed = LENGTH_BYTES
        self._to_skip = 0

    @property
    def unfinished_bytes(self) -> int:
        """The bytes still missing from the frame that has begun; 0 between frames.

        While its length (or the head of an oversized frame) is incomplete, only the rest of that
        counts.
        """
        if self._to_skip:
            return self._to_skip
        return self._needed - len(self._buffer) if self._buffer else 0

    def take_begun(self, bytes_max: int) -> bytes | None:
        """Return the bytes of the frame that has begun, and keep none of them.

        Return None, and keep them, if they are more than `bytes_max`.
        """
        if self._to_skip or len(self._buffer) > bytes_max:
            return None
        begun = bytes(self._buffer)
        self._buffer.clear()
        self._needed = LENGTH_BYTES
        return begun

    def feed(self, data: bytes) -> list[bytes | Oversized]:
        """Return the frames that `data` completes, in order."""
        if self._to_skip:
            skipped = min(self._to_skip, len(data))
            self._to_skip -= skipped
            data = data[skipped:]
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._needed:
                return []
            data = bytes(self._buffer)
            self._buffer.clear()
        frames: list[bytes | Oversized] = []
        start, length = self._split(data, frames)
        self._buffer += data[start:]
        self._needed = length
        return frames

    def _split(self, data: bytes, frames: list[bytes | Oversized]) -> tuple[int, int]:
        """Append complete frames; return where the unfinished one starts and what it needs next."""
        start, end = 0, len(data)
        while end - start >= LENGTH_BYTES:
            (length,) = _LENGTH.unpack_from(data, start)
            body = start + LENGTH_BYTES
            if 0 <= length <= self._frame_bytes_max:
                if end - body < length:
                    return start, LENGTH_BYTES + length
                frames.append(data[body : body + length])
                start = body + length
                continue
            head = max(0, min(length, HEAD_BYTES))
            if end - body < head:
                return start, LENGTH_BYTES + head
            frames.append(Oversized(length, data[body : body + head]))
            span = length if head else _FOR_EVER
            self._to_skip = max(0, span - (end - body))
            start = min(end, body + span)
        return start, LENGTH_BYTES


_LIST = int(Operation.GET_LIST_OF_ENTRIES_OF_LEDGER)
_READ = int(Operation.READ_ENTRY)
_INFO = int(Operation.GET_BOOKIE_INFO)
_AUTH = int(Operation.AUTH)
_START_TLS = int(Operation.START_TLS)

SASL_PLUGIN = "sasl"
"""What BookKeeper calls its SASL plug-in in AUTH messages."""

TxnId = int

PLAIN_BYTES_MIN = 64
"""Every response with a list is longer than this: the list's own header has this size."""
_NOT_PLAIN = b"\xff"
"""The tail for requests that ask for no list. It keeps `_plain_list` from matching."""


_Question = tuple[int, LedgerId | None, EntryId | None, bytes, bool]
"""The request of one transaction id: operation, ledger, entry, tail, and whether it was abandoned.

The tail is what a list response must have in front of its list (see `_plain_list`). Nobody waits
for an abandoned request, but its response may still come."""


class Answered(NamedTuple):
    """A whole response to one of our requests.

    `status` is BookKeeper's number. `payload` is the list or the stored entry. `received_bytes`
    counts the frame with its length. `abandoned`: it came after we had given up waiting. `extra`:
    the additional field of a lister, or, in an answer to AUTH, the name of the plug-in. `disk`:
    what GET_BOOKIE_INFO says.
    """

    txn_id: TxnId
    operation: int
    status: int
    payload: bytes
    received_bytes: int
    abandoned: bool
    extra: bytes = b""
    disk: DiskSpace | None = None


class AnswerTooLarge(NamedTuple):
    """A response of `length` bytes, over the limit. It is skipped; the connection stays usable."""

    txn_id: TxnId
    operation: int
    length: int
    abandoned: bool


class BookieConnection:
    """The requests and responses of one connection. Transaction ids count up from 1.

    Memory: one table row for each request without a response, abandoned ones too, and one
    unfinished frame of at most `frame_bytes_max`.
    """

    def __init__(self, frame_bytes_max: int) -> None:
        self._reader = FrameReader(frame_bytes_max)
        self._questions: dict[TxnId, _Question] = {}
        self._expected: ExpectedLists | None = None
        self._last_txn_id = 0
        self._asked_start_tls: TxnId | None = None
        self._ignored_start_tls: TxnId | None = None
        self._closed = False
        self._fault: PeerProtocolError | None = None

    def ask_list(self, ledger_id: LedgerId) -> tuple[TxnId, bytes]:
        """Return the transaction id and frame of a GET_LIST_OF_ENTRIES_OF_LEDGER request.

        Raises LocalProtocolError after the end, and for an id that no ledger can have.
        """
        txn_id = self._next_txn_id()
        frame = encode_get_list(txn_id, ledger_id)
        self._await_list(txn_id, ledger_id)
        return txn_id, frame

    def _await_list(self, txn_id: TxnId, ledger_id: LedgerId) -> None:
        tail = b"\x08\x00\x10%b\x1a" % varint(ledger_id)
        self._questions[txn_id] = (_LIST, ledger_id, None, tail, False)

    def ask_expected(self, ledger_ids: Numbers, lists: ListsOf, is_kept: bytes) -> ExpectedLists:
        """Return list requests whose answers are known, for `send_expected`. None may be awaited.

        Responses that are as expected are found in what is returned here. Any other response is
        matched by its transaction id, as the responses to other requests are.
        Raises LocalProtocolError after the end.
        """
        assert self._expected is None or not self._expected.has_awaited, "one call at a time"
        first = self._next_txn_id()
        self._last_txn_id += len(ledger_ids) - 1
        self._expected = ExpectedLists(first, ledger_ids, lists, is_kept)
        return self._expected

    def send_expected(self, count: int) -> tuple[bytes, list[int]]:
        """Return the frames of the next `count` of these requests, joined, and the sizes of the
        responses that are expected.

        Raises LocalProtocolError after the end.
        """
        assert self._expected is not None, "nothing is expected"
        self._check_open()
        return self._expected.send(count)

    def withdraw_expected(self) -> None:
        """Match the responses that are awaited by their transaction ids from now on."""
        if self._expected is not None:
            for txn_id, ledger_id in self._expected.withdraw():
                self._await_list(txn_id, ledger_id)

    def ask_read(self, ledger_id: LedgerId, entry_id: EntryId) -> tuple[TxnId, bytes]:
        """Return the transaction id and frame of a READ_ENTRY request for one entry.

        Raises LocalProtocolError after the end, and for ids out of range.
        """
        txn_id = self._next_txn_id()
        frame = encode_read(txn_id, ledger_id, entry_id)
        self._questions[txn_id] = (_READ, ledger_id, entry_id, _NOT_PLAIN, False)
        return txn_id, frame

    def ask_info(self, lister_field: bytes = b"") -> tuple[TxnId, bytes]:
        """Return the transaction id and frame of a GET_BOOKIE_INFO request.

        `lister_field` asks a lister for more. Raises LocalProtocolError after the end.
        """
        txn_id = self._next_txn_id()
        frame = encode_get_info(txn_id, lister_field)
        self._questions[txn_id] = (_INFO, None, None, _NOT_PLAIN, False)
        return txn_id, frame

    def ask_start_tls(self) -> tuple[TxnId, bytes]:
        """Return the transaction id and frame of a START_TLS request. Raises LocalProtocolError.

        A bookie that wants authentication answers it again with EIO after the handshake.
        """
        txn_id = self._next_txn_id()
        self._asked_start_tls = txn_id
        self._questions[txn_id] = (_START_TLS, None, None, _NOT_PLAIN, False)
        return txn_id, encode_start_tls(txn_id)

    def ignore_second_start_tls(self) -> None:
        """Ignore one more EIO to START_TLS. Call this once all further bytes come inside TLS."""
        self._ignored_start_tls, self._asked_start_tls = self._asked_start_tls, None

    def ask_auth(self, payload: bytes) -> tuple[TxnId, bytes]:
        """Return the transaction id and frame of an AUTH request for SASL.

        Raises LocalProtocolError after the end.
        """
        txn_id = self._next_txn_id()
        self._questions[txn_id] = (_AUTH, None, None, _NOT_PLAIN, False)
        return txn_id, encode_auth(txn_id, SASL_PLUGIN, payload)

    def abandon(self, txn_id: TxnId) -> None:
        """Stop waiting for a response. If it still comes, it is marked as abandoned.

        Raises LocalProtocolError if the response is not awaited.
        """
        question = self._questions.get(txn_id)
        if question is None or question[4]:
            raise LocalProtocolError(f"transaction {txn_id} is not awaited")
        self._questions[txn_id] = (*question[:4], True)

    def receive(self, data: bytes) -> list[Answered | AnswerTooLarge]:
        """Return the responses that `data` completes, in the order they came.

        Those that came as expected are not among them. Raises PeerProtocolError for a frame that is
        not a response, answers no request, or has another operation, ledger or entry than its
        request. Responses completed before the fault are returned first; `fault` is then set and
        the next call raises it. Raises LocalProtocolError after `close`.
        """
        if self._fault is not None:
            raise self._fault
        if self._closed:
            raise LocalProtocolError("bytes were fed to a connection that was closed")
        events: list[Answered | AnswerTooLarge] = []
        if self._expected is not None and self._expected.has_awaited:
            data = self._take_expected(self._expected, data)
        try:
            for frame in self._reader.feed(data) if data else ():
                if isinstance(frame, Oversized):
                    events.append(self._too_large(frame))
                elif not self._is_expected(frame):
                    event = self._plain_list(frame) or self._answer(frame)
                    if event is not None:
                        events.append(event)
        except PeerProtocolError as error:
            self._fault = error
            if not (events or self.has_expected_answers):
                raise
        return events

    def _take_expected(self, expected: ExpectedLists, data: bytes) -> bytes:
        """Take the expected responses with which the bytes begin, and return the other bytes."""
        begun = self._reader.take_begun(ANSWER_BYTES_MAX)
        if begun is None:
            return data
        data = begun + data
        return data[expected.take(data) :]

    def _is_expected(self, frame: bytes) -> bool:
        """Take a frame if it is an expected response. Return whether it is."""
        if self._expected is None or not self._expected.has_awaited:
            return False
        return self._expected.take(len(frame).to_bytes(LENGTH_BYTES, "big") + frame) > 0

    def _question(self, txn_id: TxnId) -> _Question | None:
        """Return the request of a transaction that is awaited, or None.

        A response that was expected otherwise is matched by its transaction id from now on.
        """
        if txn_id not in self._questions and self._expected is not None:
            ledger_id = self._expected.withdraw_one(txn_id)
            if ledger_id is not None:
                self._await_list(txn_id, ledger_id)
        return self._questions.get(txn_id)

    @property
    def has_expected_answers(self) -> bool:
        """Whether responses came as expected that nobody has drained."""
        return self._expected is not None and self._expected.has_news

    @property
    def fault(self) -> PeerProtocolError | None:
        """The bookie's breach of the protocol, or None. After one the connection cannot be used."""
        return self._fault

    @property
    def awaited_count(self) -> int:
        """Number of requests without a response, except abandoned ones.

        Cost: linear in the table, so only for tests and messages.
        """
        expected = 0 if self._expected is None else self._expected.awaited_count
        return expected + sum(not abandoned for *_, abandoned in self._questions.values())

    @property
    def unfinished_bytes(self) -> int:
        """The bytes still missing from the frame that has begun; 0 between frames."""
        return self._reader.unfinished_bytes

    def close(self) -> None:
        """Refuse all further requests and bytes. May be called more than once."""
        self._closed = True

    def _next_txn_id(self) -> TxnId:
        self._check_open()
        self._last_txn_id += 1
        return self._last_txn_id

    def _check_open(self) -> None:
        if self._closed or self._fault is not None:
            raise LocalProtocolError("a question was asked on a connection that has ended")

    def _plain_list(self, frame: bytes) -> Answered | None:
        """Decode an EOK list in the layout that every bookie uses, without protobuf; else return
        None.

        protobuf would decode the same values: each byte before the list is compared, and both
        lengths (of one or two bytes) reach exactly to the end of the frame. This runs for every
        list, in half of protobuf's time.
        """
        if len(frame) < PLAIN_BYTES_MIN or frame[2:7] != LIST_HEADER or frame[0] != 0x0A:
            return None
        size, low, middle, high = frame[1], frame[7], frame[8], frame[9]
        if size == 7 and low >= 0x80 > middle:
            txn_id = low & 0x7F | middle << 7
        elif size == 8 and low >= 0x80 <= middle and high < 0x80:
            txn_id = low & 0x7F | (middle & 0x7F) << 7 | high << 14
        else:
            return None
        question = self._questions.get(txn_id) or self._question(txn_id)
        at = size + 6
        if question is None or frame[at - 4 : at] != b"\x10\x00\xe2\x06":
            return None
        at = _length_start(frame, at)
        tail = question[3]
        if not at or not frame.startswith(tail, at):
            return None
        at = _length_start(frame, at + len(tail))
        if not at:
            return None
        del self._questions[txn_id]
        return Answered(txn_id, _LIST, 0, frame[at:], len(frame) + LENGTH_BYTES, question[4])

    def _answer(self, frame: bytes) -> Answered | None:
        """Return the response in a frame, None for the ignored second response to START_TLS."""
        response = decode_response(frame)
        operation, txn_id, status, ledger_id, entry_id, payload, extra, disk = response
        question = self._question(txn_id)
        self._questions.pop(txn_id, None)
        ignored = (_START_TLS, self._ignored_start_tls, Status.EIO)
        if question is None and (operation, txn_id, status) == ignored:
            self._ignored_start_tls = None
            return None
        if question is None:
            raise PeerProtocolError(f"an answer to transaction {txn_id}, which awaits none")
        asked, asked_ledger_id, asked_entry_id, _, abandoned = question
        if operation != asked:
            raise PeerProtocolError(
                f"transaction {txn_id} asked operation {asked}, the answer is to {operation}"
            )
        if ledger_id is not None and (ledger_id != asked_ledger_id or entry_id != asked_entry_id):
            asked_about = _name_request(asked_ledger_id, asked_entry_id)
            about = _name_request(ledger_id, entry_id)
            raise PeerProtocolError(
                f"transaction {txn_id} asked about {asked_about}, the answer is about {about}"
            )
        return Answered(
            txn_id, operation, status, payload, len(frame) + LENGTH_BYTES, abandoned, extra, disk
        )

    def _too_large(self, frame: Oversized) -> AnswerTooLarge:
        operation, txn_id = frame.addressee()
        question = self._question(txn_id)
        self._questions.pop(txn_id, None)
        if question is None or operation != question[0]:
            raise PeerProtocolError(
                f"a frame announces {frame.length} bytes and answers no question"
            )
        return AnswerTooLarge(txn_id, operation, frame.length, question[4])


def _name_request(ledger_id: int | None, entry_id: int | None) -> str:
    return f"ledger {ledger_id}" if entry_id is None else f"ledger {ledger_id} entry {entry_id}"


def _length_start(frame: bytes, at: int) -> int:
    """Return where the bytes begin whose length is at `at`; 0 unless they end with the frame.

    Also 0 for 16 KiB and more. `at` lies within the frame: what precedes a list is shorter than
    PLAIN_BYTES_MIN.
    """
    rest = len(frame) - at
    if rest <= 0x80:
        return at + 1 if frame[at] == rest - 1 else 0
    if rest <= 0x4001 and frame[at] >= 0x80 and frame[at] & 0x7F | frame[at + 1] << 7 == rest - 2:
        return at + 2
    return 0
