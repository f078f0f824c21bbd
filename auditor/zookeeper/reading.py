"""Reading many znodes: a bounded window of batches, by multiRead, or by single reads from servers before ZooKeeper 3.6.

Both ways yield one item per path, in the order asked, an item that could not be read included; nothing here raises for one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from kazoo.exceptions import KazooException, MarshallingError, UnimplementedError
from kazoo.protocol.serialization import GetChildren, GetData

from auditor.zookeeper.multi_read import (
    CONNECTION_LOSS,
    GET_CHILDREN,
    GET_DATA,
    MARSHALLING,
    NO_NODE,
    OK,
    Children,
    Item,
    MultiRead,
    Znode,
    decode_reply,
)
from auditor.zookeeper.session import LOSSES, Repeats, Session

REQUEST_BYTES_MAX: Final = 256 * 2**10
"""Largest request sent: a server closes the connection on more than jute.maxbuffer (1 MiB unless configured) in one."""
_OPERATION_BYTES: Final = 14
"""Header, length and watch flag around a path in a request."""
PROBES_MAX: Final = 2
"""Connections that may drop on a multiRead before it is taken as not supported."""


def read_many(session: Session, paths: Iterable[str]) -> Iterator[Znode]:
    """The data of each path, in order. Holds at most `inflight_max` batches of `batch_paths` znodes; never raises for a znode.

    Costs one request per batch (one per znode before ZooKeeper 3.6). What is not answered at any of `retries_max` repeats has
    error CONNECTION_LOSS.
    """
    return _pipeline(session, GET_DATA, paths)


def children_of_many(session: Session, paths: Iterable[str]) -> Iterator[Children]:
    """The children of each path, in order, otherwise as `read_many`."""
    return _pipeline(session, GET_CHILDREN, paths)


class _Batch:
    """Paths asked together, and what kazoo will answer: one result for all of them, or one for each."""

    def __init__(self, operation: int, paths: Sequence[str]) -> None:
        self.operation = operation
        self.paths = paths
        self.repeats = Repeats()

    def ask(self, session: Session) -> None:
        """Send the request, or requests; before anything else is called."""
        session.pace.take(len(self.paths))
        self._as_one = supports_multi_read(session)
        if self._as_one:
            self._results: list[Any] = [session.submit(MultiRead(self.operation, self.paths))]
        else:
            single = GetData if self.operation == GET_DATA else GetChildren
            self._results = [session.submit(single(path, None)) for path in self.paths]

    def is_lost(self) -> bool:
        return any(isinstance(result.exception, (*LOSSES, UnimplementedError)) for result in self._results)

    def collect(self, session: Session) -> Sequence[Item]:
        """Wait for the answer. Raises one of LOSSES, or UnimplementedError."""
        if not self._as_one:
            return [self._single(path, session, result) for path, result in zip(self.paths, self._results, strict=True)]
        try:
            buffer, offset = session.answer(self._results[0])
            return decode_reply(self.operation, self.paths, buffer, offset)
        except (*LOSSES, UnimplementedError):
            raise
        except KazooException as error:  # the whole request was refused
            return self.failed(_code(error))

    def _single(self, path: str, session: Session, result: Any) -> Item:
        try:
            value = session.answer(result)
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
    code = getattr(error, "code", None)
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
            session.answer(session.submit(MultiRead(GET_DATA, ["/"])))
            session.counts.reads_ok += 1
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
        session.answer(session.submit(GetData("/", None)))
    except LOSSES:
        return False
    except KazooException:
        return True  # refused is answered
    session.counts.reads_ok += 1
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
            items = batch.collect(session)
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
    counts.reads_ok += sum(item.error in (OK, NO_NODE) for item in items)
    for item in items:
        counts.received_bytes += len(item.data) if isinstance(item, Znode) else sum(map(len, item.names))
