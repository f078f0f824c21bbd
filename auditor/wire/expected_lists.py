"""List requests whose answers are known beforehand, in the bytes of requests and of answers.

Every bookie encodes the same list in the same frame. Where it is known what a bookie should list,
comparing frames costs a tenth of decoding its list. An answer in any other form is not taken here,
and is decoded as every other one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from auditor.model.identity import LEDGER_ID_MAX, LedgerId
from auditor.wire.entry_availability import GROUP_BYTES, HEADER_BYTES, SIZE_MAX
from auditor.wire.frames import LIST_HEADER, varint

Numbers: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]

ENCODED_AT_ONCE = 1_024
"""Questions encoded together. They and their expected answers take at most a mebibyte."""
LIST_BYTES_MAX = 896
"""No list that is expected here is longer: 34 runs."""
ANSWER_BYTES_MAX = 1_024
"""No expected answer is longer, with its length in front."""
ENTRIES_MAX = SIZE_MAX
"""More consecutive entries have no list of one run."""

_LIST_OF_ONE_RUN = np.zeros(HEADER_BYTES + GROUP_BYTES, np.uint8)
_LIST_OF_ONE_RUN[7] = 1
"""Version 0, one group, which begins at entry 0 and has no period. Its size is filled in."""
_SIZE_AT = HEADER_BYTES + 16
_VARINT_LIMITS = 2 ** (7 * np.arange(1, 9, dtype=np.int64))

ListsOf: TypeAlias = Callable[[int, int], Sequence[bytes]]
"""Returns the lists that are expected for the questions from one number up to another, exclusive.
Each is as every bookie sends it, and has at most LIST_BYTES_MAX bytes."""


def lists_of_one_run(entries: Numbers) -> list[bytes]:
    """Return the list of each bookie that holds that many entries from 0 on: 1 to ENTRIES_MAX."""
    assert 1 <= entries.min(initial=1) <= entries.max(initial=1) <= ENTRIES_MAX, "no single run"
    rows = np.tile(_LIST_OF_ONE_RUN, (len(entries), 1))
    rows[:, _SIZE_AT : _SIZE_AT + 4] = entries.astype(">i4").view(np.uint8).reshape(-1, 4)
    return _rows(rows)


@dataclass(slots=True)
class ExpectedLists:
    """Questions on one connection, sent in their order, and the answers that are awaited.

    Question `n` is about ledger `ledger_ids[n]` and has the transaction id `first_txn_id + n`.
    Where `is_kept[n]` is not 0, the frame of an answer that comes as expected is kept.
    """

    first_txn_id: int
    ledger_ids: Numbers
    lists: ListsOf
    is_kept: bytes
    _requests: list[bytes] = field(default_factory=list)
    _answers: list[bytes] = field(default_factory=list)
    _encoded_from: int = 0
    _encoded_upto: int = 0
    _sent: int = 0
    _awaited: dict[bytes, int] = field(default_factory=dict)
    """The frame of each awaited answer, oldest question first: the number of its question."""
    _size: int = 0
    _came: list[int] = field(default_factory=list)
    _kept: dict[int, bytes] = field(default_factory=dict)
    _withdrawn: list[int] = field(default_factory=list)

    def send(self, count: int) -> tuple[bytes, list[int]]:
        """Return the frames of the next `count` questions, joined, and the size of the answer that
        is expected to each.
        """
        while self._encoded_upto - self._sent < count:
            self._encode()
        at = self._sent - self._encoded_from
        answers = self._answers[at : at + count]
        numbers = range(self._sent, self._sent + count)
        self._awaited.update(zip(answers, numbers, strict=True))
        self._sent += count
        return b"".join(self._requests[at : at + count]), list(map(len, answers))

    def encode_ahead(self) -> None:
        """Encode more questions if few are left that are encoded, while the bookie works."""
        is_low = self._encoded_upto - self._sent < ENCODED_AT_ONCE // 2
        if is_low and self._encoded_upto < len(self.ledger_ids):
            self._encode()

    def _encode(self) -> None:
        """Encode ENCODED_AT_ONCE more questions, and forget those that were sent."""
        start = self._encoded_upto
        end = min(start + ENCODED_AT_ONCE, len(self.ledger_ids))
        assert start < end, "more questions are sent than there are"
        requests, answers = encode(
            np.arange(self.first_txn_id + start, self.first_txn_id + end),
            self.ledger_ids[start:end],
            self.lists(start, end),
        )
        at = self._sent - self._encoded_from
        self._requests = self._requests[at:] + requests
        self._answers = self._answers[at:] + answers
        self._encoded_from, self._encoded_upto = self._sent, end

    @property
    def has_awaited(self) -> bool:
        """Whether an answer is awaited here."""
        return bool(self._awaited)

    @property
    def awaited_count(self) -> int:
        """The number of answers that are awaited, or were withdrawn and not drained."""
        return len(self._awaited) + len(self._withdrawn)

    def oldest_awaited(self) -> int:
        """Return the number of the question that is awaited longest. There must be one."""
        return next(iter(self._awaited.values()))

    def take(self, data: bytes) -> int:
        """Take the expected answers with which `data` begins, and return where they end."""
        pop, came, size, is_kept = self._awaited.pop, self._came, self._size, self.is_kept
        at, end = 0, len(data)
        while at < end:
            frame = data[at : at + size]
            number = pop(frame, None)
            if number is None:
                announced = int.from_bytes(data[at : at + 4], "big") + 4
                if announced == size or announced > ANSWER_BYTES_MAX:
                    break
                size = announced
                continue
            at += size
            came.append(number)
            if is_kept[number]:
                self._kept[number] = frame
        self._size = size
        return at

    def drain(self) -> tuple[list[int], dict[int, bytes]]:
        """Return the questions that were answered as expected since the last call, and the kept
        frames among their answers.
        """
        came, kept = self._came, self._kept
        self._came, self._kept = [], {}
        return came, kept

    @property
    def has_news(self) -> bool:
        """Whether answers came as expected that `drain` has not returned."""
        return bool(self._came)

    def withdraw(self) -> Iterator[tuple[int, LedgerId]]:
        """Yield the transaction and the ledger of each awaited answer, oldest first, and await none
        of them here any more.
        """
        numbers = list(self._awaited.values())
        self._awaited.clear()
        self._withdrawn += numbers
        for number in numbers:
            yield self.first_txn_id + number, int(self.ledger_ids[number])

    def withdraw_one(self, txn_id: int) -> LedgerId | None:
        """Await the answer of a transaction here no more. Return its ledger, None if it is not
        awaited here.

        Costs a comparison for each answer that is awaited for longer.
        """
        number = txn_id - self.first_txn_id
        if not 0 <= number < self._sent:
            return None
        frame = next((answer for answer, n in self._awaited.items() if n == number), None)
        if frame is None:
            return None
        del self._awaited[frame]
        self._withdrawn.append(number)
        return int(self.ledger_ids[number])

    @property
    def has_withdrawn(self) -> bool:
        """Whether questions were withdrawn that `drain_withdrawn` has not returned."""
        return bool(self._withdrawn)

    def drain_withdrawn(self) -> list[int]:
        """Return the questions that were withdrawn since the last call, oldest first."""
        numbers, self._withdrawn = self._withdrawn, []
        return numbers


def encode(
    txn_ids: Numbers, ledger_ids: Numbers, lists: Sequence[bytes]
) -> tuple[list[bytes], list[bytes]]:
    """Return the frame of each list request, and that of the answer with its list."""
    assert 0 <= ledger_ids.min() <= ledger_ids.max() <= LEDGER_ID_MAX, "a ledger id out of range"
    list_bytes = np.fromiter(map(len, lists), np.int64, len(lists))
    assert list_bytes.max() <= LIST_BYTES_MAX, "a list too long to be expected"
    in_txn, in_ledger = _varint_bytes(txn_ids), _varint_bytes(ledger_ids)
    alike = list_bytes * 256 + in_txn * 16 + in_ledger
    first, *others = np.unique(alike).tolist()
    if not others:
        return _encode_alike(txn_ids, ledger_ids, b"".join(lists), first)
    requests, answers = [b""] * len(lists), [b""] * len(lists)
    for kind in (first, *others):
        rows = np.flatnonzero(alike == kind)
        numbers = rows.tolist()
        joined = b"".join([lists[number] for number in numbers])
        made = zip(*_encode_alike(txn_ids[rows], ledger_ids[rows], joined, kind), strict=True)
        for number, (request, answer) in zip(numbers, made, strict=True):
            requests[number], answers[number] = request, answer
    return requests, answers


def _encode_alike(
    txn_ids: Numbers, ledger_ids: Numbers, lists: bytes, kind: int
) -> tuple[list[bytes], list[bytes]]:
    """Return frames whose fields have the same sizes. `kind` has these sizes, `lists` all lists."""
    in_list, in_txn, in_ledger = kind // 256, kind // 16 % 16, kind % 16
    txn, ledger = _varints(txn_ids, in_txn), _varints(ledger_ids, in_ledger)
    tag = b"\x1a" + varint(in_list)
    head: list[bytes | Bytes] = [b"\x0a%c%b" % (5 + in_txn, LIST_HEADER), txn]
    asked = b"\xe2\x06%c\x08" % (1 + in_ledger)
    in_message = varint(3 + in_ledger + len(tag) + in_list)
    answered = b"\x10\x00\xe2\x06%b\x08\x00\x10" % in_message
    payload = np.frombuffer(lists, np.uint8).reshape(-1, in_list)
    return (
        _frames([*head, asked, ledger], len(txn_ids)),
        _frames([*head, answered, ledger, tag, payload], len(txn_ids)),
    )


def _varint_bytes(numbers: Numbers) -> Numbers:
    """Return how many bytes each number takes as a varint. None is negative."""
    return np.searchsorted(_VARINT_LIMITS, numbers, side="right") + 1


def _varints(numbers: Numbers, length: int) -> Bytes:
    """Return numbers as varints of `length` bytes, one a row."""
    shifts = 7 * np.arange(length, dtype=np.int64)
    rows = numbers[:, None] >> shifts & 0x7F
    rows[:, :-1] |= 0x80
    return rows.astype(np.uint8)


def _frames(parts: Sequence[bytes | Bytes], count: int) -> list[bytes]:
    """Return `count` frames, each its length and a row of each part. Plain bytes are the same in
    all.
    """
    columns = [np.frombuffer(part, np.uint8) if isinstance(part, bytes) else part for part in parts]
    width = sum(column.shape[-1] for column in columns)
    cells = np.empty((count, 4 + width), np.uint8)
    at = 0
    for column in (np.frombuffer(width.to_bytes(4, "big"), np.uint8), *columns):
        cells[:, at : at + column.shape[-1]] = column
        at += column.shape[-1]
    return _rows(cells)


def _rows(cells: Bytes) -> list[bytes]:
    """Return each row of a table of bytes."""
    width, data = cells.shape[1], cells.tobytes()
    return [data[at : at + width] for at in range(0, len(data), width)]
