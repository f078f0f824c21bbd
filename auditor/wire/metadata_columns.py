"""Decode the metadata of many ledgers at once, into columns.

Almost all metadata is of one shape: format version 3, and each field once, in the order of its
number, as BookKeeper writes it. numpy walks all messages side by side, field by field. A message
that differs in anything is not plain. `auditor.wire.ledger_metadata.decode` is the reference: it
decodes what is not plain, and the result for what is plain equals its result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from auditor.model.identity import BookieId, is_bookie_id
from auditor.model.ledger import DigestType, LedgerState
from auditor.wire.ledger_metadata import HEADER_3

Numbers: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
T = TypeVar("T")

STATES: Final = (LedgerState.OPEN, LedgerState.IN_RECOVERY, LedgerState.CLOSED)
"""States in the order of their numbers on the wire, which begin with 1."""
SEGMENTS_MAX: Final = 8
MEMBERS_MAX: Final = 16
CUSTOM_MAX: Final = 8
"""A plain message has at most so many segments, members of an ensemble, and entries of custom
metadata. Each costs a step of all messages of the batch."""
NAMES_MAX: Final = 20_000
"""At most so many bookie ids, and keys of custom metadata, are remembered between batches."""

_INT32_MAX = 2**31 - 1
_VARINT_BYTES_MAX = 10
_SIZE_BYTES_MAX = 3
"""Of a plain message the size, and that of each field, is a varint of at most so many bytes."""
_HEADER = np.frombuffer(HEADER_3, np.uint8)
_LAST_BYTE_MAX = 1
"""The tenth byte of a varint has one bit, the sign."""


_VARINT, _BYTES = 0, 2
"""Wire types."""


class Names(Generic[T]):
    """Numbers names that occur again and again. `read` returns None for bytes that are no name."""

    def __init__(self, read: Callable[[bytes], T | None]) -> None:
        self._read = read
        self._codes: dict[bytes, int] = {}
        self.values: list[T] = []
        """The names by number."""

    def codes(self, texts: Sequence[bytes]) -> list[int]:
        """Return the number of each name, and -1 for bytes that are none."""
        for text in set(texts).difference(self._codes):
            value = self._read(text)
            self._codes[text] = -1 if value is None else len(self.values)
            if value is not None:
                self.values.append(value)
        return [self._codes[text] for text in texts]

    def forget_many(self) -> None:
        """Begin anew if there are more than NAMES_MAX names. Numbers given before are void."""
        if len(self._codes) > NAMES_MAX:
            self._codes.clear()
            self.values = []


def _bookie_id(text: bytes) -> BookieId | None:
    name = text.decode("ascii", "replace")
    return name if is_bookie_id(name) else None


def _key(text: bytes) -> str | None:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return None


@dataclass(frozen=True, slots=True)
class MetadataColumns:
    """The plain messages of a batch, one row each, in the order of the batch.

    `are_plain` says which of the batch they are. A mask says which rows have an optional value; the
    value of others means nothing. `segments` counts those of each row, `members` those of each
    segment, and `custom` the entries of custom metadata of each row. What is counted stands behind
    each other in `first_entry_ids`, `bookies` (numbers of `bookie_names`), `custom_keys` (numbers
    of `key_names`) and `custom_values`.
    """

    are_plain: Mask
    states: Numbers
    ensemble_sizes: Numbers
    write_quorums: Numbers
    ack_quorums: Numbers
    last_entry_ids: Numbers
    have_last_entry: Mask
    lengths: Numbers
    digest_types: Numbers
    have_digest: Mask
    ctimes_ms: Numbers
    have_ctime: Mask
    segments: Numbers
    first_entry_ids: Numbers
    members: Numbers
    bookies: Numbers
    bookie_names: Sequence[BookieId]
    custom: Numbers
    custom_keys: Numbers
    key_names: Sequence[str]
    custom_values: Sequence[bytes]


@dataclass(slots=True)
class MetadataDecoder:
    """Decodes batches, and remembers the names that it met. Not thread-safe."""

    _bookies: Names[BookieId] = field(default_factory=lambda: Names(_bookie_id))
    _keys: Names[str] = field(default_factory=lambda: Names(_key))

    def decode(self, buffer: bytes, starts: Numbers, sizes: Numbers) -> MetadataColumns:
        """Return the plain ones among the messages `buffer[start : start + size]`.

        Never raises, whatever the bytes. Costs some 2 µs a ledger.
        """
        self._bookies.forget_many()
        self._keys.forget_many()
        walk = _Walk(buffer, starts, starts + sizes)
        walk.skip_header()
        every = np.ones(len(starts), np.bool_)
        walk.require(walk.pass_tag(every, 1, _VARINT))
        write_quorums = walk.int32(every)
        walk.require(walk.pass_tag(every, 2, _VARINT))
        ensemble_sizes = walk.int32(every)
        walk.require(walk.pass_tag(every, 3, _VARINT))
        lengths = walk.varint(every)
        have_last_entry = walk.pass_tag(every, 4, _VARINT)
        last_entry_ids = walk.varint(have_last_entry)
        walk.require(walk.pass_tag(every, 5, _VARINT))
        states = walk.one_of(every, len(STATES))
        segments, members = _walk_segments(walk)
        have_type = walk.pass_tag(every, 7, _VARINT)
        types = walk.one_of(have_type, len(DigestType))
        have_password = walk.pass_tag(every, 8, _BYTES)
        walk.at += walk.size(have_password)
        have_ack_quorum = walk.pass_tag(every, 9, _VARINT)
        ack_quorums = np.where(have_ack_quorum, walk.int32(have_ack_quorum), write_quorums)
        have_ctime = walk.pass_tag(every, 10, _VARINT)
        ctimes_ms = walk.varint(have_ctime)
        custom = _walk_custom_metadata(walk)
        walk.varint(walk.pass_tag(every, 12, _VARINT))  # cToken
        walk.require(walk.at == walk.end)
        bookies = walk.names(members, self._bookies)
        keys = walk.names(custom, self._keys)
        plain = walk.are_plain
        rows = np.flatnonzero(plain)
        in_segments, in_members, in_custom = (
            found.of_plain(plain) for found in (segments, members, custom)
        )
        _, first_entry_ids, member_counts = segments.columns
        _, _, _, value_starts, value_ends = custom.columns
        return MetadataColumns(
            plain,
            states[rows],
            ensemble_sizes[rows],
            write_quorums[rows],
            ack_quorums[rows],
            last_entry_ids[rows],
            have_last_entry[rows],
            lengths[rows],
            # As the reference: Java reads the type of any ledger with a password, and gets the
            # default of the enum.
            np.where(have_type, types, DigestType.CRC32)[rows],
            (have_type | have_password)[rows],
            ctimes_ms[rows],
            have_ctime[rows],
            segments.counts(plain),
            first_entry_ids[in_segments],
            member_counts[in_segments],
            bookies[in_members],
            self._bookies.values,
            custom.counts(plain),
            keys[in_custom],
            self._keys.values,
            _slices(buffer, value_starts[in_custom], value_ends[in_custom]),
        )


def _slices(buffer: bytes, starts: Numbers, ends: Numbers) -> list[bytes]:
    return [buffer[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


class _Repeated:
    """What messages may have several of. The first column has their rows in the batch.

    The rows of one message stand in the order of its bytes.
    """

    def __init__(self, width: int, found: Sequence[tuple[Numbers, ...]]) -> None:
        self.columns: Sequence[Numbers] = (
            [np.concatenate(parts) for parts in zip(*found, strict=True)]
            if found
            else [np.zeros(0, np.int64)] * width
        )

    def of_plain(self, plain: Mask) -> Numbers:
        """Return the places of those of plain messages, message by message."""
        rows = self.columns[0]
        kept = np.flatnonzero(plain[rows])
        return kept[np.argsort(rows[kept], kind="stable")]

    def counts(self, plain: Mask) -> Numbers:
        """Return how many each plain message has."""
        return np.bincount(self.columns[0], minlength=len(plain))[plain]


def _walk_segments(walk: _Walk) -> tuple[_Repeated, _Repeated]:
    """Return the segments: rows, first entries, numbers of members; and the members: rows, starts,
    ends.
    """
    segments: list[tuple[Numbers, ...]] = []
    members: list[tuple[Numbers, ...]] = []
    while len(segments) < SEGMENTS_MAX:
        here = walk.pass_tag(walk.are_plain, 6, _BYTES)
        if not here.any():
            break
        size = walk.size(here)
        end = walk.at + size
        counts = np.zeros(len(here), np.int64)
        for _ in range(MEMBERS_MAX):
            more = walk.pass_tag(here, 1, _BYTES)
            if not more.any():
                break
            members.append(walk.slices(more))
            counts += more
        walk.require(walk.pass_tag(here, 2, _VARINT) | ~here)
        first_entry_ids = walk.varint(here)
        walk.require((walk.at == end) | ~here)
        rows = np.flatnonzero(here)
        segments.append((rows, first_entry_ids[rows], counts[rows]))
    return _Repeated(3, segments), _Repeated(3, members)


def _walk_custom_metadata(walk: _Walk) -> _Repeated:
    """Return the entries: rows, starts and ends of the keys, starts and ends of the values."""
    entries: list[tuple[Numbers, ...]] = []
    while len(entries) < CUSTOM_MAX:
        here = walk.pass_tag(walk.are_plain, 11, _BYTES)
        if not here.any():
            break
        size = walk.size(here)
        end = walk.at + size
        walk.require(walk.pass_tag(here, 1, _BYTES) | ~here)
        rows, *key = walk.slices(here)
        walk.require(walk.pass_tag(here, 2, _BYTES) | ~here)
        _, *value = walk.slices(here)
        walk.require((walk.at == end) | ~here)
        entries.append((rows, *key, *value))
    return _Repeated(5, entries)


class _Walk:
    """Cursors over all messages of a batch. `where` says which of them a method moves.

    A cursor moves forwards only, and may leave its message. Therefore a message was read as it is
    if its cursor is at its end at last. What was read of a message that is not plain means nothing.
    """

    def __init__(self, buffer: bytes, starts: Numbers, ends: Numbers) -> None:
        self._buffer = buffer
        self._bytes = np.frombuffer(buffer + b"\0", np.uint8)
        self.at = starts.astype(np.int64)
        self.end = ends
        self.are_plain: Mask = np.ones(len(starts), np.bool_)

    def require(self, condition: Mask) -> None:
        """Call every message not plain that does not meet the condition."""
        self.are_plain = self.are_plain & condition

    def _byte(self, at: Numbers) -> npt.NDArray[np.uint8]:
        """Return the bytes at these places, and 0 for places behind the buffer."""
        return np.take(self._bytes, at, mode="clip")

    def skip_header(self) -> None:
        """Move behind the header of version 3 and the size, which must reach to the end."""
        head = self._byte(self.at[:, None] + np.arange(len(_HEADER)))
        self.require((head == _HEADER).all(axis=1))
        self.at += len(_HEADER)
        size = self.size(self.are_plain)
        self.require(self.at + size == self.end)

    def pass_tag(self, where: Mask, number: int, wire_type: int) -> Mask:
        """Return which cursors are at the tag of this field, and move these behind it."""
        found: Mask = (self._byte(self.at) == (number << 3 | wire_type)) & where
        self.at += found
        return found

    def varint(self, where: Mask, bytes_max: int = _VARINT_BYTES_MAX) -> Numbers:
        """Return the signed number at each cursor, and 0 for others. Move behind it."""
        number = np.zeros(len(where), np.uint64)
        reading = where
        for place in range(bytes_max):
            byte = np.where(reading, self._byte(self.at), np.uint8(0))
            number |= (byte & np.uint8(0x7F)).astype(np.uint64) << np.uint64(7 * place)
            self.at += reading
            if place == _VARINT_BYTES_MAX - 1:
                self.require(byte <= _LAST_BYTE_MAX)
            reading = byte >= 0x80
            if not reading.any():
                break
        self.require(~reading)
        return number.view(np.int64)

    def int32(self, where: Mask) -> Numbers:
        """Return numbers that must have 31 bits, as `varint` does."""
        number = self.varint(where)
        self.require((number >= 0) & (number <= _INT32_MAX))
        return number

    def one_of(self, where: Mask, last: int) -> Numbers:
        """Return numbers that must be from 1 to `last`, as `varint` does."""
        number = self.varint(where)
        self.require(~where | ((number >= 1) & (number <= last)))
        return number

    def size(self, where: Mask) -> Numbers:
        """Return how many bytes follow, as `varint` does."""
        return self.varint(where, _SIZE_BYTES_MAX)

    def slices(self, where: Mask) -> tuple[Numbers, Numbers, Numbers]:
        """Return the rows of `where`, and where their bytes start and end. Move behind these."""
        size = self.size(where)
        rows = np.flatnonzero(where)
        starts = self.at[rows]
        self.at += size
        return rows, starts, self.at[rows]

    def names(self, found: _Repeated, names: Names[T]) -> Numbers:
        """Return the number of each name that was found. Messages with others are not plain."""
        rows, starts, ends = found.columns[:3]
        codes = np.full(len(rows), -1, np.int64)
        kept = np.flatnonzero(self.are_plain[rows])
        codes[kept] = names.codes(_slices(self._buffer, starts[kept], ends[kept]))
        self.are_plain[rows[codes < 0]] = False
        return codes
