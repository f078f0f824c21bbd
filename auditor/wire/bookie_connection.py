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
    FrameReader,
    Operation,
    Oversized,
    decode_response,
    encode_get_info,
    encode_get_list,
    encode_read,
)

_LIST = int(Operation.GET_LIST_OF_ENTRIES_OF_LEDGER)
_READ = int(Operation.READ_ENTRY)
_INFO = int(Operation.GET_BOOKIE_INFO)

TxnId = int


class Question(NamedTuple):
    """What was asked under one transaction id. `abandoned`: nobody waits any more, the answer may still come."""

    operation: int
    ledger_id: LedgerId | None = None
    entry_id: EntryId | None = None
    abandoned: bool = False


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
        self._frame_bytes_max = frame_bytes_max
        self._questions: dict[TxnId, Question] = {}
        self._last_txn_id = 0
        self._closed = False
        self._fault: PeerProtocolError | None = None

    def ask_list(self, ledger_id: LedgerId) -> tuple[TxnId, bytes]:
        """GET_LIST_OF_ENTRIES_OF_LEDGER. Raises LocalProtocolError after the end, and for an id no ledger can have."""
        txn_id = self._next_txn_id()
        frame = encode_get_list(txn_id, ledger_id)
        self._questions[txn_id] = Question(_LIST, ledger_id)
        return txn_id, frame

    def ask_read(self, ledger_id: LedgerId, entry_id: EntryId) -> tuple[TxnId, bytes]:
        """READ_ENTRY of one entry. Raises LocalProtocolError after the end, and for ids out of range."""
        txn_id = self._next_txn_id()
        frame = encode_read(txn_id, ledger_id, entry_id)
        self._questions[txn_id] = Question(_READ, ledger_id, entry_id)
        return txn_id, frame

    def ask_info(self) -> tuple[TxnId, bytes]:
        """GET_BOOKIE_INFO. Raises LocalProtocolError after the end."""
        txn_id = self._next_txn_id()
        frame = encode_get_info(txn_id)
        self._questions[txn_id] = Question(_INFO)
        return txn_id, frame

    def abandon(self, txn_id: TxnId) -> None:
        """Stop waiting for an answer, and know it again if it comes. Raises LocalProtocolError if it is not awaited."""
        question = self._questions.get(txn_id)
        if question is None or question.abandoned:
            raise LocalProtocolError(f"transaction {txn_id} is not awaited")
        self._questions[txn_id] = question._replace(abandoned=True)

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
                events.append(self._answer(frame) if type(frame) is bytes else self._too_large(frame))  # type: ignore[arg-type]
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
        return sum(not question.abandoned for question in self._questions.values())

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

    def _answer(self, frame: bytes) -> Answered:
        operation, txn_id, status, ledger_id, entry_id, payload = decode_response(frame)
        question = self._questions.pop(txn_id, None)
        if question is None:
            raise PeerProtocolError(f"an answer to transaction {txn_id}, which awaits none")
        if operation != question.operation:
            raise PeerProtocolError(f"transaction {txn_id} asked operation {question.operation}, the answer is to {operation}")
        if ledger_id is not None and (ledger_id != question.ledger_id or entry_id != question.entry_id):
            raise PeerProtocolError(
                f"transaction {txn_id} asked about {_named(question.ledger_id, question.entry_id)}, "
                f"the answer is about {_named(ledger_id, entry_id)}"
            )
        return Answered(txn_id, operation, status, payload, len(frame) + LENGTH_BYTES, question.abandoned)

    def _too_large(self, frame: Oversized) -> AnswerTooLarge:
        operation, txn_id = frame.addressee()
        question = self._questions.pop(txn_id, None)
        if question is None or operation != question.operation or frame.length < 0:
            raise PeerProtocolError(f"a frame announces {frame.length} bytes and answers no question")
        return AnswerTooLarge(txn_id, operation, frame.length, question.abandoned)


def _named(ledger_id: int | None, entry_id: int | None) -> str:
    return f"ledger {ledger_id}" if entry_id is None else f"ledger {ledger_id} entry {entry_id}"
