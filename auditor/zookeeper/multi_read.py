"""ZooKeeper's multiRead (opcode 22, since 3.6): many znodes per request. kazoo does not have it.

The layout is that of `multi`: a header (type, done, error) before each operation, and a last header
with done set. In the reply a failed operation has type -1 and its error code, never 0, as an int.
Servers accept GetData (4) and GetChildren (8) in it but refuse GetChildren2 (12); see
MultiOperationRecord and FinalRequestProcessor.

Also how many znodes each of kazoo's requests reads, and which failures may be repeated.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar, overload

import numpy as np
import numpy.typing as npt
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    OperationTimeoutError,
    RequestTimeoutError,
    SessionExpiredError,
    SessionMovedError,
    ThrottledOpError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.serialization import GetChildren, GetData

from auditor.wire import znode_paths
from auditor.wire.znode_paths import LedgerLayout

T = TypeVar("T")

OK: Final = 0
CONNECTION_LOSS: Final = -4
MARSHALLING: Final = -5
NO_NODE: Final = -101
NO_AUTH: Final = -102
AUTH_FAILED: Final = -115
SASL_REQUIRED: Final = -124
"""The values of KeeperException.Code that matter here."""

GET_DATA: Final = 4
GET_CHILDREN: Final = 8
MULTI_READ: Final = 22

_HEADER = struct.Struct("!iBi")
_HEADER_AND_INT = struct.Struct("!iBii")
_INT = struct.Struct("!i")
_STAT = struct.Struct("!qqqqi32x")
"""The fields of a Stat that are decoded: czxid, mzxid, ctime, mtime, version."""
_STATS = np.dtype(
    [*((name, ">i8") for name in ("czxid", "mzxid", "ctime", "mtime")), ("version", ">i4")]
)
"""These fields, as columns."""
_END = _HEADER.pack(-1, 1, -1)


class Znode(NamedTuple):
    """The result of reading one znode. Times are in ms.

    `error` is 0, or a KeeperException code; then all other fields but `path` are empty.
    """

    path: str
    error: int
    data: bytes = b""
    czxid: int = 0
    mzxid: int = 0
    ctime_ms: int = 0
    mtime_ms: int = 0
    version: int = 0


class Children(NamedTuple):
    """The names below one znode, unordered.

    `error` is 0, or a KeeperException code; then there are no names.
    """

    path: str
    error: int
    names: Sequence[str] = ()


Item: TypeAlias = Znode | Children
Numbers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ZnodeColumns:
    """The results of reading many znodes, one row each, as `Znode` has them.

    The data of a row is `buffer[start : start + size]`.
    """

    errors: Numbers
    buffer: bytes
    starts: Numbers
    sizes: Numbers
    czxids: Numbers
    mzxids: Numbers
    ctimes_ms: Numbers
    mtimes_ms: Numbers
    versions: Numbers

    def znode(self, row: int, path: str) -> Znode:
        """Return one row as a value."""
        start = int(self.starts[row])
        data = self.buffer[start : start + int(self.sizes[row])]
        stats = (self.czxids, self.mzxids, self.ctimes_ms, self.mtimes_ms, self.versions)
        return Znode(path, int(self.errors[row]), data, *(int(column[row]) for column in stats))


UNIFORM_MIN: Final = 64
"""At least so many children of one parent are looked at together."""


class UniformNames(Sequence[str]):
    """Names in ASCII, all of one length. A name is made when it is used.

    `letters` has a name in each row.
    """

    def __init__(self, letters: npt.NDArray[np.uint8]) -> None:
        self.letters = letters

    def __len__(self) -> int:
        return len(self.letters)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> UniformNames: ...

    def __getitem__(self, place: int | slice) -> str | UniformNames:
        if isinstance(place, slice):
            return UniformNames(self.letters[place])
        name: bytes = self.letters[place].tobytes()
        return name.decode("ascii")


class LedgerPaths(Sequence[str]):
    """The znodes of ledgers below `root`. A path is made when it is used.

    All `ids` have a place in the layout.
    """

    def __init__(self, root: str, layout: LedgerLayout, ids: Numbers) -> None:
        self.ids = ids
        self._root = root
        self._layout = layout

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> LedgerPaths: ...

    def __getitem__(self, place: int | slice) -> str | LedgerPaths:
        if isinstance(place, slice):
            return LedgerPaths(self._root, self._layout, self.ids[place])
        return self._root + znode_paths.ledger_path(self._layout, int(self.ids[place]))

    @property
    def path_bytes_max(self) -> int:
        """At most so many bytes has a path."""
        return len(self._root.encode()) + znode_paths.LEDGER_PATH_MAX

    def operations(self, head: bytes) -> bytes:
        """Return the operations of a request: `_operation` of each path."""
        paths = znode_paths.ledger_paths(self._layout, self.ids)
        if paths is None:
            return b"".join(_operation(head, path) for path in self)
        sample = np.frombuffer(_operation(head, self[0]), np.uint8)
        operations = np.repeat(sample[None, :], len(self), axis=0)
        operations[:, -1 - paths.shape[1] : -1] = paths
        return operations.tobytes()


class MultiRead:
    """One multiRead request, for kazoo's `_call`.

    The reply stays bytes. The caller decodes it while kazoo's thread reads the next reply.
    """

    type = MULTI_READ

    def __init__(self, operation: int, paths: Sequence[str]) -> None:
        self.operation = operation
        self.paths = paths

    def __repr__(self) -> str:
        return f"MultiRead({len(self.paths)} paths)"

    def serialize(self) -> bytes:
        head = _HEADER.pack(self.operation, 0, -1)
        if isinstance(self.paths, LedgerPaths):
            return self.paths.operations(head) + _END
        return b"".join(_operation(head, path) for path in self.paths) + _END

    @classmethod
    def deserialize(cls, buffer: bytes, offset: int) -> tuple[bytes, int]:
        return buffer, offset


def _operation(head: bytes, path: str) -> bytes:
    """Return one operation of a request: its header, the path, and no watch."""
    name = path.encode()
    return b"%b%b%b\0" % (head, _INT.pack(len(name)), name)


class GarbledReply(KazooException):  # type: ignore[misc]
    """A reply whose layout does not match the request."""


def decode_reply(
    operation: int, paths: Sequence[str], buffer: bytes, offset: int
) -> Sequence[Item]:
    """Return the items of a multiRead reply that starts at `offset`. Raises GarbledReply."""
    return _decode_whole(
        _data_items if operation == GET_DATA else _children_items, paths, buffer, offset
    )


def decode_columns(paths: Sequence[str], buffer: bytes, offset: int) -> ZnodeColumns:
    """Return the results in a multiRead reply that starts at `offset`. Raises GarbledReply."""
    return _decode_whole(_data_columns, paths, buffer, offset)


def _decode_whole(
    decode: Callable[[Sequence[str], bytes, int], tuple[T, int]],
    paths: Sequence[str],
    buffer: bytes,
    offset: int,
) -> T:
    try:
        decoded, offset = decode(paths, buffer, offset)
    except struct.error as error:
        raise GarbledReply(f"a multiRead reply of {len(buffer)} bytes ends too early") from error
    if buffer[offset:] != _END:
        raise GarbledReply(
            f"a multiRead reply of {len(buffer)} bytes has no end after {len(paths)} items"
        )
    return decoded


def _data_items(paths: Sequence[str], buffer: bytes, offset: int) -> tuple[list[Znode], int]:
    items: list[Znode] = []
    head, stat = _HEADER_AND_INT.unpack_from, _STAT.unpack_from
    for path in paths:
        kind, done, _, number = head(buffer, offset)
        offset += 13
        if kind == GET_DATA and not done:
            start, offset = offset, offset + max(number, 0)  # -1 is "no data"
            items.append(Znode(path, OK, buffer[start:offset], *stat(buffer, offset)))
            offset += 68
        elif kind == -1 and not done and number != OK:
            items.append(Znode(path, number))
        else:
            raise GarbledReply(f"a multiRead reply has type {kind} where data was asked for")
    return items, offset


def _data_columns(paths: Sequence[str], buffer: bytes, offset: int) -> tuple[ZnodeColumns, int]:
    """Decode as `_data_items` does: sizes one by one, the stats all at once."""
    errors: list[int] = []
    starts: list[int] = []
    sizes: list[int] = []
    head = _HEADER_AND_INT.unpack_from
    for _ in range(len(paths)):
        kind, done, _, number = head(buffer, offset)
        offset += _HEADER_AND_INT.size
        if kind == GET_DATA and not done:
            errors.append(OK)
            size = number if number > 0 else 0
        elif kind == -1 and not done and number != OK:
            errors.append(number)
            size = 0
        else:
            raise GarbledReply(f"a multiRead reply has type {kind} where data was asked for")
        starts.append(offset)
        sizes.append(size)
        offset += size + (_STAT.size if kind == GET_DATA else 0)
    if offset > len(buffer):
        raise struct.error("the last stat is cut")
    znodes = _with_stats(
        np.array(errors, np.int64), np.array(starts, np.int64), np.array(sizes, np.int64), buffer
    )
    return znodes, offset


def _with_stats(errors: Numbers, starts: Numbers, sizes: Numbers, buffer: bytes) -> ZnodeColumns:
    """Return columns whose stats stand behind the data in the buffer; 0 where there is an error."""
    here = np.flatnonzero(errors == OK)
    columns = [np.zeros(len(errors), np.int64) for _ in _STATS.names or ()]
    if len(here):
        places = len(buffer) - _STATS.itemsize + 1
        at_each: npt.NDArray[np.void] = np.ndarray(places, _STATS, buffer, strides=(1,))
        stats = at_each[(starts + sizes)[here]]
        for name, column in zip(_STATS.names or (), columns, strict=True):
            column[here] = stats[name]
    return ZnodeColumns(errors, buffer, starts, sizes, *columns)


def columns_of(znodes: Sequence[Znode]) -> ZnodeColumns:
    """Return znodes that were read one by one as columns."""
    numbers = np.array(
        [(znode.error, len(znode.data), *znode[3:]) for znode in znodes], np.int64
    ).reshape(len(znodes), 7)
    errors, sizes, *stats = numbers.T
    buffer = b"".join(znode.data for znode in znodes)
    return ZnodeColumns(errors, buffer, np.cumsum(sizes) - sizes, sizes, *stats)


def concatenate(columns: Sequence[ZnodeColumns]) -> ZnodeColumns:
    """Return the rows of all, one after the other. There is at least one."""
    if len(columns) == 1:
        return columns[0]
    before = np.cumsum([0, *(len(one.buffer) for one in columns[:-1])])
    moved = [one.starts + offset for one, offset in zip(columns, before.tolist(), strict=True)]
    errors, sizes, *stats = (
        np.concatenate([getattr(one, name) for one in columns])
        for name in ("errors", "sizes", "czxids", "mzxids", "ctimes_ms", "mtimes_ms", "versions")
    )
    buffer = b"".join(one.buffer for one in columns)
    return ZnodeColumns(errors, buffer, np.concatenate(moved), sizes, *stats)


def _children_items(paths: Sequence[str], buffer: bytes, offset: int) -> tuple[list[Children], int]:
    items: list[Children] = []
    length_at = _INT.unpack_from
    for path in paths:
        kind, done, _, number = _HEADER_AND_INT.unpack_from(buffer, offset)
        offset += 13
        if kind == GET_CHILDREN and not done:
            uniform = _uniform_names(buffer, offset, number)
            if uniform is not None:
                items.append(Children(path, OK, uniform))
                offset += uniform.letters.size + _INT.size * number
                continue
            names: list[str] = []
            for _ in range(number):
                start = offset + 4
                offset = start + length_at(buffer, offset)[0]
                if offset < start:
                    raise GarbledReply("a multiRead reply has a child without a name")
                names.append(buffer[start:offset].decode(errors="replace"))
            items.append(Children(path, OK, names))
        elif kind == -1 and not done and number != OK:
            items.append(Children(path, number))
        else:
            raise GarbledReply(f"a multiRead reply has type {kind} where children were asked for")
    return items, offset


def _uniform_names(buffer: bytes, offset: int, count: int) -> UniformNames | None:
    """Return the names at `offset`; None if they are few, of several lengths, or not ASCII."""
    if count < UNIFORM_MIN:
        return None
    (length,) = _INT.unpack_from(buffer, offset)
    size = _INT.size + length
    if length <= 0 or offset + count * size > len(buffer):
        return None
    names = np.frombuffer(buffer, np.uint8, count * size, offset).reshape(count, size)
    is_uniform = (names[:, : _INT.size] == names[0, : _INT.size]).all()
    letters = names[:, _INT.size :]
    return UniformNames(letters) if is_uniform and (letters < _NOT_ASCII).all() else None


_NOT_ASCII = 0x80


LOSSES: Final = (
    ConnectionLoss,
    ConnectionClosedError,
    KazooTimeoutError,
    OperationTimeoutError,
    RequestTimeoutError,
    SessionExpiredError,
    SessionMovedError,
    ThrottledOpError,
)
"""The exceptions of a read that was not answered but may succeed when it is repeated."""


class Request(Protocol):
    """What kazoo sends: an opcode, the bytes after it, and a decoder for the reply."""

    type: int

    def serialize(self) -> bytes | bytearray: ...

    def deserialize(self, buffer: bytes, offset: int) -> Any: ...


@dataclass(slots=True)
class Repeats:
    """How often one read was repeated after a lost connection."""

    used: int = 0


def count_znodes(request: Request) -> int:
    """Return how many znodes a request reads."""
    if isinstance(request, MultiRead):
        return len(request.paths)
    return int(isinstance(request, GetData | GetChildren))
