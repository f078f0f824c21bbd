"""ZooKeeper's multiRead (opcode 22, since 3.6): many znodes per request. kazoo does not have it.

The layout is that of `multi`: a header (type, done, error) before each operation, and a last header
with done set. In the reply a failed operation has type -1 and its error code as an int. Servers
accept GetData (4) and GetChildren (8) in it but refuse GetChildren2 (12); see MultiOperationRecord
and FinalRequestProcessor.

Also how many znodes each of kazoo's requests reads, and which failures may be repeated.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

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
        parts = []
        for path in self.paths:
            name = path.encode()
            parts.append(b"%b%b%b\0" % (head, _INT.pack(len(name)), name))
        parts.append(_END)
        return b"".join(parts)

    @classmethod
    def deserialize(cls, buffer: bytes, offset: int) -> tuple[bytes, int]:
        return buffer, offset


class GarbledReply(KazooException):  # type: ignore[misc]
    """A reply whose layout does not match the request."""


def decode_reply(
    operation: int, paths: Sequence[str], buffer: bytes, offset: int
) -> Sequence[Item]:
    """Return the items of a multiRead reply that starts at `offset`. Raises GarbledReply."""
    try:
        items, offset = (_data_items if operation == GET_DATA else _children_items)(
            paths, buffer, offset
        )
    except struct.error as error:
        raise GarbledReply(f"a multiRead reply of {len(buffer)} bytes ends too early") from error
    if buffer[offset:] != _END:
        raise GarbledReply(
            f"a multiRead reply of {len(buffer)} bytes has no end after {len(paths)} items"
        )
    return items


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
        elif kind == -1 and not done:
            items.append(Znode(path, number))
        else:
            raise GarbledReply(f"a multiRead reply has type {kind} where data was asked for")
    return items, offset


def _children_items(paths: Sequence[str], buffer: bytes, offset: int) -> tuple[list[Children], int]:
    items: list[Children] = []
    length_at = _INT.unpack_from
    for path in paths:
        kind, done, _, number = _HEADER_AND_INT.unpack_from(buffer, offset)
        offset += 13
        if kind == GET_CHILDREN and not done:
            names: list[str] = []
            for _ in range(number):
                start = offset + 4
                offset = start + length_at(buffer, offset)[0]
                if offset < start:
                    raise GarbledReply("a multiRead reply has a child without a name")
                names.append(buffer[start:offset].decode(errors="replace"))
            items.append(Children(path, OK, names))
        elif kind == -1 and not done:
            items.append(Children(path, number))
        else:
            raise GarbledReply(f"a multiRead reply has type {kind} where children were asked for")
    return items, offset


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
