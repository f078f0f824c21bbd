"""One connection to a bookie as a pure state machine: questions become bytes, bytes become answers; no socket, no clock.

Answers come in any order and are told apart by transaction id alone. Two kinds of fault, as in h11: PeerProtocolError is the
bookie's, LocalProtocolError ours. After either the bookie's fault or `close`, nothing can be asked any more.
"""

from __future__ import annotations

from typing import NamedTuple

from auditor.errors import LocalProtocolError, PeerProtocolError
from auditor.model.identity import EntryId, LedgerId
from auditor.wire.frames import (
    LENGTH_BYTES,
    LIST_HEADER,
    FrameReader,
    Operation,
    Oversized,
    decode_response,
    encode_get_info,
    encode_get_list,
    encode_read,
    varint,
)

_LIST = int(Operation.GET_LIST_OF_ENTRIES_OF_LEDGER)
_READ = int(Operation.READ_ENTRY)
_INFO = int(Operation.GET_BOOKIE_INFO)

TxnId = int

PLAIN_BYTES_MIN = 64
"""No answer with a list is shorter."""
_NOT_PLAIN = b"\xff"
"""How no list answer goes on."""


_Question = tuple[int, LedgerId | None, EntryId | None, bytes, bool]
"""What was asked under one transaction id: operation, ledger, entry, how a list answer must go on (see `_plain_list`), and
whether it was abandoned: nobody waits any more, the answer may still come."""


class Answered(NamedTuple):
    """A whole answer to a question of ours. `status` is BookKeeper's number; `payload` the list or the stored entry.

    `received_bytes` counts the frame with its length. `abandoned`: it came after we had given up waiting.
    """

    txn_id: TxnId
    operation: int
    status: int
    payload: bytes
    received_bytes: int
    abandoned: bool


class AnswerTooLarge(NamedTuple):
    """An answer of `length` bytes, over the limit: its bytes are skipped as they come, the connection goes on."""

    txn_id: TxnId
    operation: int
    length: int
    abandoned: bool


class BookieConnection:
    """Questions and answers of one connection. Transaction ids count up from 1.

    Memory: one table row a question unanswered (abandoned ones too), and one unfinished frame of at most `frame_bytes_max`.
    """

    def __init__(self, frame_bytes_max: int) -> None:
        self._reader = FrameReader(frame_bytes_max)
        self._questions: dict[TxnId, _Question] = {}
        self._last_txn_id = 0
        self._closed = False
        self._fault: PeerProtocolError | None = None

    def ask_list(self, ledger_id: LedgerId) -> tuple[TxnId, bytes]:
        """GET_LIST_OF_ENTRIES_OF_LEDGER. Raises LocalProtocolError after the end, and for an id no ledger can have."""
        txn_id = self._next_txn_id()
        frame = encode_get_list(txn_id, ledger_id)
        self._questions[txn_id] = (_LIST, ledger_id, None, b"\x08\x00\x10%b\x1a" % varint(ledger_id), False)
        return txn_id, frame

    def ask_read(self, ledger_id: LedgerId, entry_id: EntryId) -> tuple[TxnId, bytes]:
        """READ_ENTRY of one entry. Raises LocalProtocolError after the end, and for ids out of range."""
        txn_id = self._next_txn_id()
        frame = encode_read(txn_id, ledger_id, entry_id)
        self._questions[txn_id] = (_READ, ledger_id, entry_id, _NOT_PLAIN, False)
        return txn_id, frame

    def ask_info(self) -> tuple[TxnId, bytes]:
        """GET_BOOKIE_INFO. Raises LocalProtocolError after the end."""
        txn_id = self._next_txn_id()
        frame = encode_get_info(txn_id)
        self._questions[txn_id] = (_INFO, None, None, _NOT_PLAIN, False)
        return txn_id, frame

    def abandon(self, txn_id: TxnId) -> None:
        """Stop waiting for an answer, and know it again if it comes. Raises LocalProtocolError if it is not awaited."""
        question = self._questions.get(txn_id)
        if question is None or question[4]:
            raise LocalProtocolError(f"transaction {txn_id} is not awaited")
        self._questions[txn_id] = (*question[:4], True)

    def receive(self, data: bytes) -> list[Answered | AnswerTooLarge]:
        """The answers that `data` completes, in the order they came.

        Raises PeerProtocolError when the first thing in `data` is one: no answer, an answer to no question, of another
        operation, or about another ledger or entry. What came whole before the fault is returned first; the fault is then
        raised by the next call (`fault` tells). Raises LocalProtocolError after `close`.
        """
        if self._fault is not None:
            raise self._fault
        if self._closed:
            raise LocalProtocolError("bytes were fed to a connection that was closed")
        events: list[Answered | AnswerTooLarge] = []
        try:
            for frame in self._reader.feed(data):
                if isinstance(frame, Oversized):
                    events.append(self._too_large(frame))
                else:
                    events.append(self._plain_list(frame) or self._answer(frame))
        except PeerProtocolError as error:
            self._fault = error
            if not events:
                raise
        return events

    @property
    def fault(self) -> PeerProtocolError | None:
        """The bookie's breach of the protocol, if there was one: the connection is of no more use."""
        return self._fault

    @property
    def awaited(self) -> int:
        """Questions without an answer, abandoned ones not counted. Linear in the table: for tests and messages."""
        return sum(not abandoned for *_, abandoned in self._questions.values())

    @property
    def unfinished_bytes(self) -> int:
        """Bytes still to come of the frame that has begun; 0 between frames."""
        return self._reader.unfinished_bytes

    def close(self) -> None:
        """The end, whoever wanted it. May be called again."""
        self._closed = True

    def _next_txn_id(self) -> TxnId:
        if self._closed or self._fault is not None:
            raise LocalProtocolError("a question was asked on a connection that has ended")
        self._last_txn_id += 1
        return self._last_txn_id

    def _plain_list(self, frame: bytes) -> Answered | None:
        """An EOK list laid out as every bookie lays it out, read without protobuf; None for anything else.

        Whatever passes says the same to protobuf: each byte before the list is compared, and both lengths (of one byte or
        two) reach exactly to the end of the frame. It runs once for every list there is, and takes half of protobuf's time.
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
        question = self._questions.get(txn_id)
        at = size + 6
        if question is None or frame[at - 4 : at] != b"\x10\x00\xe2\x06":
            return None
        at = _spanning(frame, at)
        tail = question[3]
        if not at or not frame.startswith(tail, at):
            return None
        at = _spanning(frame, at + len(tail))
        if not at:
            return None
        del self._questions[txn_id]
        return Answered(txn_id, _LIST, 0, frame[at:], len(frame) + LENGTH_BYTES, question[4])

    def _answer(self, frame: bytes) -> Answered:
        operation, txn_id, status, ledger_id, entry_id, payload = decode_response(frame)
        question = self._questions.pop(txn_id, None)
        if question is None:
            raise PeerProtocolError(f"an answer to transaction {txn_id}, which awaits none")
        asked, asked_ledger_id, asked_entry_id, _, abandoned = question
        if operation != asked:
            raise PeerProtocolError(f"transaction {txn_id} asked operation {asked}, the answer is to {operation}")
        if ledger_id is not None and (ledger_id != asked_ledger_id or entry_id != asked_entry_id):
            raise PeerProtocolError(
                f"transaction {txn_id} asked about {_named(asked_ledger_id, asked_entry_id)}, "
                f"the answer is about {_named(ledger_id, entry_id)}"
            )
        return Answered(txn_id, operation, status, payload, len(frame) + LENGTH_BYTES, abandoned)

    def _too_large(self, frame: Oversized) -> AnswerTooLarge:
        operation, txn_id = frame.addressee()
        question = self._questions.pop(txn_id, None)
        if question is None or operation != question[0]:
            raise PeerProtocolError(f"a frame announces {frame.length} bytes and answers no question")
        return AnswerTooLarge(txn_id, operation, frame.length, question[4])


def _named(ledger_id: int | None, entry_id: int | None) -> str:
    return f"ledger {ledger_id}" if entry_id is None else f"ledger {ledger_id} entry {entry_id}"


def _spanning(frame: bytes, at: int) -> int:
    """Where the bytes begin whose length is at `at`, if they go exactly to the end of the frame; else 0. Up to 16 KiB.

    `at` lies within the frame: what stands before a list is shorter than PLAIN_BYTES_MIN.
    """
    rest = len(frame) - at
    if rest <= 0x80:
        return at + 1 if frame[at] == rest - 1 else 0
    if rest <= 0x4001 and frame[at] >= 0x80 and frame[at] & 0x7F | frame[at + 1] << 7 == rest - 2:
        return at + 2
    return 0
