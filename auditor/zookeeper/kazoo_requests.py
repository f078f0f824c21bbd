"""Requests that kazoo sends: how many znodes each reads, and which failures may be repeated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    OperationTimeoutError,
    RequestTimeoutError,
    SessionExpiredError,
    SessionMovedError,
    ThrottledOpError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.serialization import GetChildren, GetData

from auditor.zookeeper.multi_read import MultiRead

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
