"""List requests whose answers are known beforehand, in the bytes of requests and of answers.

Every bookie encodes the same list in the same frame. Where it is known what a bookie should list,
comparing frames costs a tenth of decoding its list. Answers that come in the order of the questions
are compared together, all others frame by frame. An answer in any other form is not taken here, and
is decoded as every other one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from operator import sub
from typing import NamedTuple, TypeAlias

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

LIST_OF_ONE_RUN_BYTES = HEADER_BYTES + GROUP_BYTES
_LIST_OF_ONE_RUN = np.zeros(LIST_OF_ONE_RUN_BYTES, np.uint8)
_LIST_OF_ONE_RUN[7] = 1
"""Version 0, one group, which begins at entry 0 and has no period. Its size is filled in."""
_SIZE_AT = HEADER_BYTES + 16
_VARINT_LIMITS = 2 ** (7 * np.arange(1, 9, dtype=np.int64))

Lists: TypeAlias = Bytes | Sequence[bytes]
"""Lists of entries as every bookie sends them: one a row, or one after the other."""
ListsOf: TypeAlias = Callable[[int, int], Lists]
"""Returns the lists that are expected for the questions from one number up to another, exclusive.
Each has at most LIST_BYTES_MAX bytes."""


def lists_of_one_run(entries: Numbers) -> Bytes:
    """Return the list of each bookie that holds that many entries from 0 on: 1 to ENTRIES_MAX."""
    assert 1 <= entries.min(initial=1) <= entries.max(initial=1) <= ENTRIES_MAX, "no single run"
    rows = np.empty((len(entries), LIST_OF_ONE_RUN_BYTES), np.uint8)
    rows[:] = _LIST_OF_ONE_RUN
    rows[:, _SIZE_AT : _SIZE_AT + 4] = entries.astype(">i4").view(np.uint8).reshape(-1, 4)
    return rows


class Frames(NamedTuple):
    """Frames one behind the other, and the size of each."""

    data: bytes
    sizes: list[int]


class _Encoded:
    """The frames of consecutive questions that are encoded and not forgotten.

    The frame of question `first + n` has the bytes from `starts[n]` to `starts[n + 1]` of all
    frames. `data` begins with that of question `first`.
    """

    def __init__(self) -> None:
        self.first = 0
        self.data = b""
        self.starts = [0]

    def add(self, frames: Frames, first: int) -> None:
        """Add the frames of the next questions, and forget those of questions before `first`."""
        at, begin = first - self.first, self.starts[0]
        self.data = self.data[self.starts[at] - begin :] + frames.data
        sums = accumulate(frames.sizes, initial=self.starts[-1])
        self.starts = [*self.starts[at:-1], *sums]
        self.first = first

    def joined(self, start: int, end: int) -> bytes:
        """Return the frames of the questions from `start` up to `end`, exclusive, joined."""
        begin, at = self.starts[0], self.first
        return self.data[self.starts[start - at] - begin : self.starts[end - at] - begin]

    def sizes(self, start: int, end: int) -> list[int]:
        """Return the sizes of these frames."""
        starts = self.starts[start - self.first : end - self.first + 1]
        return list(map(sub, starts[1:], starts))

    def each(self, start: int, end: int) -> list[bytes]:
        """Return these frames."""
        data, begin = self.data, self.starts[0]
        starts = self.starts[start - self.first : end - self.first + 1]
        return [data[a - begin : b - begin] for a, b in pairwise(starts)]

    def whole_frames(self, data: bytes, start: int, end: int) -> int | None:
        """Return how many frames `data` has if the frames of these questions begin with it.

        Return None if they do not. `data` may end within a frame.
        """
        begin, at = self.starts[0], self.first
        place = self.starts[start - at]
        if not self.data.startswith(data, place - begin, self.starts[end - at] - begin):
            return None
        return bisect_right(self.starts, place + len(data)) - 1 - (start - at)


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
    _requests: _Encoded = field(default_factory=_Encoded)
    _answers: _Encoded = field(default_factory=_Encoded)
    _encoded: int = 0
    """The number of questions that were encoded."""
    _sent: int = 0
    _in_order_from: int = 0
    """The questions from here up to `_sent` are awaited in order."""
    _apart: dict[bytes, int] = field(default_factory=dict)
    """The frame of each answer that is awaited by itself, oldest question first: its question.
    These are older than those that are awaited in order."""
    _size: int = 0
    _came: list[int] = field(default_factory=list)
    _kept: dict[int, bytes] = field(default_factory=dict)
    _withdrawn: list[int] = field(default_factory=list)

    def send(self, count: int) -> tuple[bytes, list[int]]:
        """Return the frames of the next `count` questions, joined, and the size of the answer that
        is expected to each.
        """
        while self._encoded - self._sent < count:
            self._encode()
        start, end = self._sent, self._sent + count
        self._sent = end
        return self._requests.joined(start, end), self._answers.sizes(start, end)

    def encode_ahead(self) -> None:
        """Encode more questions if few are left that are encoded, while the bookie works."""
        is_low = self._encoded - self._sent < ENCODED_AT_ONCE // 2
        if is_low and self._encoded < len(self.ledger_ids):
            self._encode()

    def _encode(self) -> None:
        """Encode ENCODED_AT_ONCE more questions, and forget the frames that are not needed."""
        start = self._encoded
        end = min(start + ENCODED_AT_ONCE, len(self.ledger_ids))
        assert start < end, "more questions are sent than there are"
        requests, answers = encode(
            np.arange(self.first_txn_id + start, self.first_txn_id + end),
            self.ledger_ids[start:end],
            self.lists(start, end),
        )
        self._requests.add(requests, self._sent)
        self._answers.add(answers, self._in_order_from)
        self._encoded = end

    @property
    def has_awaited(self) -> bool:
        """Whether an answer is awaited here."""
        return self._in_order_from < self._sent or bool(self._apart)

    @property
    def awaited_count(self) -> int:
        """The number of answers that are awaited, or were withdrawn and not drained."""
        return self._sent - self._in_order_from + len(self._apart) + len(self._withdrawn)

    def oldest_awaited(self) -> int:
        """Return the number of the question that is awaited longest. There must be one."""
        return next(iter(self._apart.values()), self._in_order_from)

    def take(self, data: bytes) -> int:
        """Take the expected answers with which `data` begins, and return where they end."""
        at, end = 0, len(data)
        if not self._apart and (taken := self._take_in_order(data)) is not None:
            return taken
        pop, came, size, is_kept = self._apart.pop, self._came, self._size, self.is_kept
        while at < end:
            frame = data[at : at + size]
            number = pop(frame, None)
            if number is not None:
                at += size
                came.append(number)
                if is_kept[number]:
                    self._kept[number] = frame
                continue
            announced = int.from_bytes(data[at : at + 4], "big") + 4
            if announced > ANSWER_BYTES_MAX:
                break
            if announced != size:
                size = announced
            elif (taken := self._take_in_order(data[at:])) is not None:
                at += taken
                break
            elif not self._await_apart():
                break
        self._size = size
        return at

    def _take_in_order(self, data: bytes) -> int | None:
        """Take answers that are awaited in order. Return where they end.

        Return None if they are not all that `data` has, but for a part of the next one.
        """
        start, sent = self._in_order_from, self._sent
        if start == sent:
            return None
        count = self._answers.whole_frames(data, start, sent)
        if count is None:
            return None
        if not count:
            return 0
        end = start + count
        self._came += range(start, end)
        self._in_order_from = end
        answers = self._answers
        if self.is_kept.count(0, start, end) < count:
            for number in range(start, end):
                if self.is_kept[number]:
                    self._kept[number] = answers.joined(number, number + 1)
        return answers.starts[end - answers.first] - answers.starts[start - answers.first]

    def _await_apart(self) -> bool:
        """Await each answer by itself from now on. Return whether there were any in order."""
        start, sent = self._in_order_from, self._sent
        frames = self._answers.each(start, sent)
        self._apart.update(zip(frames, range(start, sent), strict=True))
        self._in_order_from = sent
        return start < sent

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
        numbers = [*self._apart.values(), *range(self._in_order_from, self._sent)]
        self._apart.clear()
        self._in_order_from = self._sent
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
        self._await_apart()
        frame = next((answer for answer, n in self._apart.items() if n == number), None)
        if frame is None:
            return None
        del self._apart[frame]
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


def encode(txn_ids: Numbers, ledger_ids: Numbers, lists: Lists) -> tuple[Frames, Frames]:
    """Return the frame of each list request, and that of the answer with its list."""
    assert 0 <= ledger_ids.min() <= ledger_ids.max() <= LEDGER_ID_MAX, "a ledger id out of range"
    list_bytes = np.array(
        [lists.shape[1]] if isinstance(lists, np.ndarray) else list(map(len, lists)), np.int64
    )
    assert list_bytes.max() <= LIST_BYTES_MAX, "a list too long to be expected"
    ends = np.array([(ids.min(), ids.max()) for ids in (txn_ids, ledger_ids)])
    (in_txn, in_ledger), last = _varint_bytes(ends).T.tolist()
    if [in_txn, in_ledger] == last and (list_bytes == list_bytes[0]).all():
        kind = _kind(list_bytes, in_txn, in_ledger)[0]
        tables = _encode_alike(txn_ids, ledger_ids, lists, int(kind))
        return _joined(tables[0]), _joined(tables[1])
    alike = _kind(list_bytes, _varint_bytes(txn_ids), _varint_bytes(ledger_ids))
    frames = [[b""] * len(lists), [b""] * len(lists)]
    for kind in np.unique(alike).tolist():
        rows = np.flatnonzero(alike == kind)
        numbers = rows.tolist()
        some = [lists[number] for number in numbers]
        for mine, table in zip(
            frames, _encode_alike(txn_ids[rows], ledger_ids[rows], some, kind), strict=True
        ):
            for number, frame in zip(numbers, table, strict=True):
                mine[number] = frame.tobytes()
    requests, answers = (Frames(b"".join(mine), list(map(len, mine))) for mine in frames)
    return requests, answers


def _kind(in_list: Numbers, in_txn: Numbers | int, in_ledger: Numbers | int) -> Numbers:
    """Return a number for each frame that says the sizes of its fields."""
    return in_list * 256 + in_txn * 16 + in_ledger


def _joined(table: Bytes) -> Frames:
    """Return the frames of a table, one a row."""
    return Frames(table.tobytes(), [table.shape[1]] * len(table))


def _encode_alike(
    txn_ids: Numbers, ledger_ids: Numbers, lists: Lists, kind: int
) -> tuple[Bytes, Bytes]:
    """Return frames whose fields have the same sizes, one a row. `kind` has these sizes."""
    in_list, in_txn, in_ledger = kind // 256, kind // 16 % 16, kind % 16
    txn, ledger = _varints(txn_ids, in_txn), _varints(ledger_ids, in_ledger)
    tag = b"\x1a" + varint(in_list)
    head: list[bytes | Bytes] = [b"\x0a%c%b" % (5 + in_txn, LIST_HEADER), txn]
    asked = b"\xe2\x06%c\x08" % (1 + in_ledger)
    in_message = varint(3 + in_ledger + len(tag) + in_list)
    answered = b"\x10\x00\xe2\x06%b\x08\x00\x10" % in_message
    payload = (
        lists
        if isinstance(lists, np.ndarray)
        else np.frombuffer(b"".join(lists), np.uint8).reshape(-1, in_list)
    )
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


def _frames(parts: Sequence[bytes | Bytes], count: int) -> Bytes:
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
    return cells
