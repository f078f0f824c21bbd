"""Many znodes per request: ZooKeeper's multiRead (opcode 22, since 3.6), with single reads for older servers.

Both ways yield one item per path, in the order asked, an item that could not be read included; nothing here raises for one.
A multiRead request is laid out like `multi`: a header (type, done, error) before each operation and one with done at the
end. In the reply a failed operation has type -1 and its error code as an int. Servers take GetData (4) and GetChildren (8)
in it; GetChildren2 (12) they refuse (MultiOperationRecord, FinalRequestProcessor).
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from kazoo.exceptions import KazooException, MarshallingError, UnimplementedError
from kazoo.protocol.serialization import GetChildren, GetData

from auditor.zookeeper.session import LOSSES, Repeats, Session

OK: Final = 0
CONNECTION_LOSS: Final = -4
MARSHALLING: Final = -5
NO_NODE: Final = -101
NO_AUTH: Final = -102
"""KeeperException.Code of the items that matter here."""

GET_DATA: Final = 4
GET_CHILDREN: Final = 8
MULTI_READ: Final = 22

REQUEST_BYTES_MAX: Final = 256 * 2**10
"""Largest request sent: a server closes the connection on more than jute.maxbuffer (1 MiB unless configured) in one."""
_OPERATION_BYTES: Final = 14
"""Header, length and watch flag around a path in a request."""
PROBES_MAX: Final = 2
"""Connections that may drop on a multiRead before it is taken as not supported."""

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


def read_many(session: Session, paths: Iterable[str]) -> Iterator[Znode]:
    """The data of each path, in order. Holds at most `inflight_max` batches of `batch_paths` znodes; never raises for a znode.

    Costs one request per batch (one per znode before ZooKeeper 3.6). What is not answered at any of `retries_max` repeats has
    error CONNECTION_LOSS.
    """
    return _pipeline(session, GET_DATA, paths)


def children_of_many(session: Session, paths: Iterable[str]) -> Iterator[Children]:
    """The children of each path, in order, otherwise as `read_many`."""
    return _pipeline(session, GET_CHILDREN, paths)


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
                names.append(buffer[start:offset].decode(errors="replace"))
            items.append(Children(path, OK, names))
        elif kind == -1 and not done:
            items.append(Children(path, number))
        else:
            raise GarbledReply(f"a multiRead reply has type {kind} where children were asked for")
    return items, offset


class _Batch:
    """Paths asked together, and what kazoo will answer: one result for all of them, or one for each."""

    def __init__(self, operation: int, paths: Sequence[str]) -> None:
        self.operation = operation
        self.paths = paths
        self.repeats = Repeats()
        self._as_one = True
        self._results: list[Any] = []

    def ask(self, session: Session) -> None:
        session.pace.take(len(self.paths))
        self._as_one = supports_multi_read(session)
        if self._as_one:
            self._results = [session.submit(MultiRead(self.operation, self.paths))]
        else:
            single = GetData if self.operation == GET_DATA else GetChildren
            self._results = [session.submit(single(path, None)) for path in self.paths]

    def is_lost(self) -> bool:
        return any(result.ready() and isinstance(result.exception, (*LOSSES, UnimplementedError)) for result in self._results)

    def collect(self, timeout_s: float) -> Sequence[Item]:
        """Wait for the answer. Raises one of LOSSES, or UnimplementedError."""
        if not self._as_one:
            return [self._single(path, result, timeout_s) for path, result in zip(self.paths, self._results, strict=True)]
        try:
            buffer, offset = self._results[0].get(timeout=timeout_s)
            return decode_reply(self.operation, self.paths, buffer, offset)
        except (*LOSSES, UnimplementedError):
            raise
        except KazooException as error:  # the whole request was refused
            return self.failed(_code(error))

    def _single(self, path: str, result: Any, timeout_s: float) -> Item:
        try:
            value = result.get(timeout=timeout_s)
        except LOSSES:
            raise
        except KazooException as error:
            return Znode(path, _code(error)) if self.operation == GET_DATA else Children(path, _code(error))
        if self.operation == GET_CHILDREN:
            return Children(path, OK, value)
        data, stat = value
        return Znode(path, OK, data or b"", stat.czxid, stat.mzxid, stat.ctime, stat.mtime, stat.version)

    def failed(self, error: int) -> Sequence[Item]:
        """The same failure for each path."""
        return [Znode(path, error) if self.operation == GET_DATA else Children(path, error) for path in self.paths]


def _code(error: KazooException) -> int:
    code = getattr(error, "code", MARSHALLING)
    return code if isinstance(code, int) and code != OK else MARSHALLING


def supports_multi_read(session: Session) -> bool:
    """Whether the server knows multiRead: asked once and remembered by the session.

    A server before 3.6 answers Unimplemented and closes the connection. One that only drops it, twice, yet answers a single
    read in between, is taken as not supporting it too.
    """
    if session.multi_read is None:
        session.multi_read = _probe(session)
    return session.multi_read is not False


def _probe(session: Session) -> bool | None:
    repeats = Repeats()
    drops = 0
    while True:
        try:
            session.submit(MultiRead(GET_DATA, ["/"])).get(timeout=session.reply_timeout_s)
            return True
        except (UnimplementedError, MarshallingError):
            await_close_by_server(session)
            return False
        except LOSSES:
            drops += 1
            if not session.may_repeat(repeats):
                return None
            if drops >= PROBES_MAX and _answers_single_reads(session):
                return False


def await_close_by_server(session: Session) -> None:
    """After Unimplemented the server closes the connection; any answer to this comes over the next one."""
    _answers_single_reads(session)
    session.await_connected()


def _answers_single_reads(session: Session) -> bool:
    try:
        session.submit(GetData("/", None)).get(timeout=session.reply_timeout_s)
    except LOSSES:
        return False
    except KazooException:
        return True  # refused is answered
    return True


def _pipeline(session: Session, operation: int, paths: Iterable[str]) -> Iterator[Any]:
    window: deque[_Batch] = deque()
    for batch in _batches(session.limits.batch_paths, operation, paths):
        while len(window) >= session.limits.inflight_max:
            yield from _first_answer(session, window)
        batch.ask(session)
        window.append(batch)
    while window:
        yield from _first_answer(session, window)


def _batches(batch_paths: int, operation: int, paths: Iterable[str]) -> Iterator[_Batch]:
    batch: list[str] = []
    request_bytes = 0
    for path in paths:
        path_bytes = 4 * len(path) + _OPERATION_BYTES  # a character takes up to 4 bytes
        if batch and (len(batch) >= batch_paths or request_bytes + path_bytes > REQUEST_BYTES_MAX):
            yield _Batch(operation, batch)
            batch, request_bytes = [], 0
        batch.append(path)
        request_bytes += path_bytes
    if batch:
        yield _Batch(operation, batch)


def _first_answer(session: Session, window: deque[_Batch]) -> Sequence[Item]:
    """Take the oldest batch out of the window with its answer, asking again what was lost, at most `retries_max` times."""
    batch = window[0]
    items: Sequence[Item] | None = None
    while items is None:
        try:
            items = batch.collect(session.reply_timeout_s)
            session.given_up = False
        except UnimplementedError:  # we were moved to an older server, which closes the connection now
            session.multi_read = False
            await_close_by_server(session)
            _ask_lost_again(session, window)
        except LOSSES:
            if session.may_repeat(batch.repeats):
                _ask_lost_again(session, window)
            else:
                items = batch.failed(CONNECTION_LOSS)
    window.popleft()
    _count(session, items)
    return items


def _ask_lost_again(session: Session, window: deque[_Batch]) -> None:
    """The oldest batch, and with it all that the same loss has taken, so that each does not wait by itself."""
    for position, batch in enumerate(window):
        if position == 0 or batch.is_lost():
            batch.ask(session)


def _count(session: Session, items: Sequence[Item]) -> None:
    counts = session.counts
    failed = sum(item.error not in (OK, NO_NODE) for item in items)
    counts.reads_failed += failed
    counts.reads_ok += len(items) - failed
    for item in items:
        counts.received_bytes += len(item.data) if isinstance(item, Znode) else sum(map(len, item.names))
