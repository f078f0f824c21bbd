"""One connection to a bookie as a pure state machine, without socket or clock.

Requests become bytes, and bytes become responses. Responses come in any order; the transaction id
alone says which request each belongs to. As in h11, PeerProtocolError is the bookie's fault and
LocalProtocolError is ours. After a fault of the bookie or `close`, no request can be made.
"""

from __future__ import annotations

from typing import NamedTuple

from auditor.errors import LocalProtocolError, PeerProtocolError
from auditor.model.identity import EntryId, LedgerId
from auditor.wire.frame_reader import LENGTH_BYTES, FrameReader, Oversized
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

_LIST = int(Operation.GET_LIST_OF_ENTRIES_OF_LEDGER)
_READ = int(Operation.READ_ENTRY)
_INFO = int(Operation.GET_BOOKIE_INFO)
_AUTH = int(Operation.AUTH)
_START_TLS = int(Operation.START_TLS)

SASL_PLUGIN = "sasl"
"""What BookKeeper calls its SASL plug-in in AUTH messages."""

TxnId = int

PLAIN_BYTES_MIN = 64
"""Every response with a list is longer: the list's own header has this size."""
_NOT_PLAIN = b"\xff"
"""The tail for requests that are not for a list. It keeps `_plain_list` from matching."""


_Question = tuple[int, LedgerId | None, EntryId | None, bytes, bool]
"""The request of one transaction id: operation, ledger, entry, tail, and whether it was abandoned.

The tail is what a list response must have in front of its list (see `_plain_list`). Nobody waits
for an abandoned request, but its response may still come."""


class Answered(NamedTuple):
    """A whole response to one of our requests.

    `status` is BookKeeper's number. `payload` is the list or the stored entry. `received_bytes`
    counts the frame with its length. `abandoned`: it came after we had given up waiting. `extra`:
    the additional field of a lister, or, in an answer to AUTH, the name of the plug-in.
    """

    txn_id: TxnId
    operation: int
    status: int
    payload: bytes
    received_bytes: int
    abandoned: bool
    extra: bytes = b""


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
        tail = b"\x08\x00\x10%b\x1a" % varint(ledger_id)
        self._questions[txn_id] = (_LIST, ledger_id, None, tail, False)
        return txn_id, frame

    def ask_read(self, ledger_id: LedgerId, entry_id: EntryId) -> tuple[TxnId, bytes]:
        """Return the transaction id and frame of a READ_ENTRY request for one entry.

        Raises LocalProtocolError after the end, and for ids out of range.
        """
        txn_id = self._next_txn_id()
        frame = encode_read(txn_id, ledger_id, entry_id)
        self._questions[txn_id] = (_READ, ledger_id, entry_id, _NOT_PLAIN, False)
        return txn_id, frame

    def ask_info(self) -> tuple[TxnId, bytes]:
        """Return the transaction id and frame of a GET_BOOKIE_INFO request.

        Raises LocalProtocolError after the end.
        """
        txn_id = self._next_txn_id()
        frame = encode_get_info(txn_id)
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
        """Ignore one more EIO to START_TLS. To be called when all further bytes come inside TLS."""
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

        Raises PeerProtocolError for a frame that is not a response, answers no request, or has
        another operation, ledger or entry than its request. Responses completed before the fault
        are returned first; `fault` is then set and the next call raises it. Raises
        LocalProtocolError after `close`.
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
                    event = self._plain_list(frame) or self._answer(frame)
                    if event is not None:
                        events.append(event)
        except PeerProtocolError as error:
            self._fault = error
            if not events:
                raise
        return events

    @property
    def fault(self) -> PeerProtocolError | None:
        """The bookie's breach of the protocol, or None. After one the connection cannot be used."""
        return self._fault

    @property
    def awaited_count(self) -> int:
        """Number of requests without a response, except abandoned ones.

        Cost: linear in the table, so only for tests and messages.
        """
        return sum(not abandoned for *_, abandoned in self._questions.values())

    @property
    def unfinished_bytes(self) -> int:
        """Bytes still missing of the frame that has begun; 0 between frames."""
        return self._reader.unfinished_bytes

    def close(self) -> None:
        """Refuse all further requests and bytes. May be called more than once."""
        self._closed = True

    def _next_txn_id(self) -> TxnId:
        if self._closed or self._fault is not None:
            raise LocalProtocolError("a question was asked on a connection that has ended")
        self._last_txn_id += 1
        return self._last_txn_id

    def _plain_list(self, frame: bytes) -> Answered | None:
        """Decode an EOK list in the layout every bookie uses, without protobuf; else return None.

        protobuf would decode the same values: each byte before the list is compared, and both
        lengths (of one or two bytes) reach exactly to the end of the frame. This runs once for
        every list and takes half of protobuf's time.
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
        operation, txn_id, status, ledger_id, entry_id, payload, extra = decode_response(frame)
        question = self._questions.pop(txn_id, None)
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
            txn_id, operation, status, payload, len(frame) + LENGTH_BYTES, abandoned, extra
        )

    def _too_large(self, frame: Oversized) -> AnswerTooLarge:
        operation, txn_id = frame.addressee()
        question = self._questions.pop(txn_id, None)
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
