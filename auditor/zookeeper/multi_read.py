"""Many znodes per request: ZooKeeper's multiRead (opcode 22, since 3.6), which kazoo does not have.

A multiRead request is laid out like `multi`: a header (type, done, error) before each operation and one with done at the
end. In the reply a failed operation has type -1 and its error code as an int. Servers take GetData (4) and GetChildren (8)
in it; GetChildren2 (12) they refuse (MultiOperationRecord, FinalRequestProcessor).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from kazoo.exceptions import KazooException

OK: Final = 0
CONNECTION_LOSS: Final = -4
MARSHALLING: Final = -5
NO_NODE: Final = -101
NO_AUTH: Final = -102
"""KeeperException.Code of the items that matter here."""

GET_DATA: Final = 4
GET_CHILDREN: Final = 8
MULTI_READ: Final = 22

_HEADER = struct.Struct("!iBi")
_HEADER_AND_INT = struct.Struct("!iBii")
_INT = struct.Struct("!i")
_STAT = struct.Struct("!qqqqi32x")
"""Of a Stat: czxid, mzxid, ctime, mtime, version."""
_END = _HEADER.pack(-1, 1, -1)


class Znode(NamedTuple):
    """What reading one znode gave: `error` is 0, or the KeeperException code and the rest is empty. Times in ms."""

    path: str
    error: int
    data: bytes = b""
    czxid: int = 0
    mzxid: int = 0
    ctime_ms: int = 0
    mtime_ms: int = 0
    version: int = 0


class Children(NamedTuple):
    """The names below one znode, unordered; `error` is 0, or the KeeperException code and there are no names."""

    path: str
    error: int
    names: Sequence[str] = ()


Item: TypeAlias = Znode | Children


class MultiRead:
    """One multiRead request, for kazoo's `_call`. The reply is left as bytes: it is decoded by who waits for it, while kazoo's
    thread reads the next one."""

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
    """A reply that is not laid out as one to what we asked."""


def decode_reply(operation: int, paths: Sequence[str], buffer: bytes, offset: int) -> Sequence[Item]:
    """The items of a multiRead reply that starts at `offset`. Raises GarbledReply."""
    try:
        items, offset = (_data_items if operation == GET_DATA else _children_items)(paths, buffer, offset)
    except struct.error as error:
        raise GarbledReply(f"a multiRead reply of {len(buffer)} bytes ends too early") from error
    if buffer[offset:] != _END:
        raise GarbledReply(f"a multiRead reply of {len(buffer)} bytes has no end after {len(paths)} items")
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
