"""Read many znodes in a bounded window of batches.

Batches use multiRead, or single reads with servers before ZooKeeper 3.6. Both yield one item per
path, in order, even for a znode that could not be read. Nothing here raises for a single znode: a
sentence says why a read returned no data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

import numpy as np
from kazoo.exceptions import (
    AuthFailedError,
    KazooException,
    MarshallingError,
    SessionClosedRequireSaslError,
    UnimplementedError,
)
from kazoo.protocol.serialization import GetChildren, GetData

from auditor.errors import StoreUnavailable
from auditor.zookeeper.multi_read import (
    AUTH_FAILED,
    CONNECTION_LOSS,
    GET_CHILDREN,
    GET_DATA,
    LOSSES,
    MARSHALLING,
    NO_AUTH,
    NO_NODE,
    OK,
    SASL_REQUIRED,
    Children,
    Item,
    LedgerPaths,
    MultiRead,
    Repeats,
    UniformNames,
    Znode,
    ZnodeColumns,
    columns_of,
    decode_columns,
    decode_reply,
)
from auditor.zookeeper.session import ReadCounts, Session

A = TypeVar("A")

_SAYS: Final = {
    CONNECTION_LOSS: (
        "was not answered: the connection to ZooKeeper was lost and not restored in time"
    ),
    MARSHALLING: "was answered with something that cannot be decoded",
    NO_NODE: "does not exist",
    NO_AUTH: (
        "may not be read by this session: give it read permission in the znode's ACL, or log in as"
        " the bookies do (--zookeeper-sasl, --zookeeper-digest-file)"
    ),
    AUTH_FAILED: (
        "was not answered: ZooKeeper refused our login (--zookeeper-sasl, --zookeeper-digest-file)"
    ),
    SASL_REQUIRED: (
        "was not answered: ZooKeeper serves sessions with a SASL login only (--zookeeper-sasl"
        " digest-md5)"
    ),
}


def refusal_sentence(path: str, error: int) -> str:
    """Return a sentence on why `path` has no data. `error` is a KeeperException code."""
    assert error != OK, path
    return f"znode {path} {_SAYS.get(error, f'could not be read: ZooKeeper error {error}')}"


def unavailable_error(path: str, error: int) -> StoreUnavailable:
    """Return the exception for a znode without which nothing can be said about the cluster."""
    return StoreUnavailable(
        f"the cluster's metadata could not be read: {refusal_sentence(path, error)}"
    )


REQUEST_BYTES_MAX: Final = 256 * 2**10
"""Largest request sent, in bytes. A server closes the connection on a request larger than
jute.maxbuffer (default 1 MiB)."""
_OPERATION_BYTES: Final = 14
"""Size of the header, length and watch flag around a path in a request."""
PROBES_MAX: Final = 2
"""Connections that may drop on a multiRead before we assume that the server does not support it."""


def read_columns(
    session: Session, blocks: Iterable[LedgerPaths]
) -> Iterator[tuple[LedgerPaths, ZnodeColumns]]:
    """Yield the ledgers of each block and their znodes. Otherwise like `read_many`.

    The rows of a block are cut into batches: a pair has the ledgers of one batch.
    """
    parts = (part for block in blocks for part in _cut(session, block))
    for batch, columns in _answers(session, map(_ColumnBatch, parts)):
        assert isinstance(batch, _ColumnBatch), batch
        yield batch.ledgers, columns


def _cut(session: Session, block: LedgerPaths) -> Iterator[LedgerPaths]:
    """Yield a block in parts that fit into one request each."""
    most = max(1, REQUEST_BYTES_MAX // (block.path_bytes_max + _OPERATION_BYTES))
    step = min(session.limits.zookeeper_batch_paths, most)
    for start in range(0, len(block), step):
        yield block[start : start + step]


def read_many(session: Session, paths: Iterable[str]) -> Iterator[Znode]:
    """Yield the data of each path, in order. Never raises for a znode.

    Holds at most `zookeeper_inflight` batches of `zookeeper_batch_paths` znodes. Costs one request
    per batch, or one per znode before ZooKeeper 3.6. A znode that is still unanswered after
    `zookeeper_retries` repeats has the error CONNECTION_LOSS, or that of a session that was
    refused.
    """
    return _pipeline(session, GET_DATA, paths)


def children_of_many(session: Session, paths: Iterable[str]) -> Iterator[Children]:
    """Yield the children of each path, in order. Otherwise like `read_many`."""
    return _pipeline(session, GET_CHILDREN, paths)


class _Batch(ABC, Generic[A]):
    """Paths requested together, and kazoo's pending results: one for all paths, or one for each.

    `A` is the form in which the results are returned.
    """

    def __init__(self, operation: int, paths: Sequence[str]) -> None:
        self.operation = operation
        self.paths = paths
        self.repeats = Repeats()

    def ask(self, session: Session) -> None:
        """Send the request or requests. Call this before any other method."""
        session.pace.take(len(self.paths))
        self._as_one = supports_multi_read(session)
        if self._as_one:
            self._results: list[Any] = [session.submit(MultiRead(self.operation, self.paths))]
        else:
            single = GetData if self.operation == GET_DATA else GetChildren
            self._results = [session.submit(single(path, None)) for path in self.paths]

    def is_lost(self) -> bool:
        return any(
            isinstance(result.exception, (*LOSSES, UnimplementedError)) for result in self._results
        )

    def collect(self, session: Session) -> A:
        """Wait for the replies and return them. Raises one of LOSSES, or UnimplementedError."""
        if not self._as_one:
            return self._gather(
                [
                    self._single(path, session, result)
                    for path, result in zip(self.paths, self._results, strict=True)
                ]
            )
        try:
            return self._decode(*session.answer(self._results[0]))
        except (*LOSSES, UnimplementedError):
            raise
        except KazooException as error:  # the whole request was refused
            return self.fail_all(_code(error))

    def _single(self, path: str, session: Session, result: Any) -> Item:
        try:
            value = session.answer(result)
        except LOSSES:
            raise
        except KazooException as error:
            return (
                Znode(path, _code(error))
                if self.operation == GET_DATA
                else Children(path, _code(error))
            )
        if self.operation == GET_CHILDREN:
            return Children(path, OK, value)
        data, stat = value
        return Znode(
            path, OK, data or b"", stat.czxid, stat.mzxid, stat.ctime, stat.mtime, stat.version
        )

    def fail_all(self, error: int) -> A:
        """Return the results of which each has this error."""
        return self._gather(
            [
                Znode(path, error) if self.operation == GET_DATA else Children(path, error)
                for path in self.paths
            ]
        )

    @abstractmethod
    def _decode(self, buffer: bytes, offset: int) -> A:
        """Return the results in a multiRead reply. Raises GarbledReply."""

    @abstractmethod
    def _gather(self, items: Sequence[Item]) -> A:
        """Return results that came one by one."""

    @abstractmethod
    def count(self, answer: A, counts: ReadCounts) -> None:
        """Add what was read."""


class _ItemBatch(_Batch[Sequence[Item]]):
    def _decode(self, buffer: bytes, offset: int) -> Sequence[Item]:
        return decode_reply(self.operation, self.paths, buffer, offset)

    def _gather(self, items: Sequence[Item]) -> Sequence[Item]:
        return items

    def count(self, answer: Sequence[Item], counts: ReadCounts) -> None:
        counts.reads_ok += sum(item.error in (OK, NO_NODE) for item in answer)
        counts.received_bytes += sum(map(_size, answer))


def _size(item: Item) -> int:
    if isinstance(item, Znode):
        return len(item.data)
    names = item.names
    return names.letters.size if isinstance(names, UniformNames) else sum(map(len, names))


class _ColumnBatch(_Batch[ZnodeColumns]):
    def __init__(self, ledgers: LedgerPaths) -> None:
        super().__init__(GET_DATA, ledgers)
        self.ledgers = ledgers

    def _decode(self, buffer: bytes, offset: int) -> ZnodeColumns:
        return decode_columns(self.paths, buffer, offset)

    def _gather(self, items: Sequence[Item]) -> ZnodeColumns:
        return columns_of([item for item in items if isinstance(item, Znode)])

    def count(self, answer: ZnodeColumns, counts: ReadCounts) -> None:
        errors = answer.errors
        counts.reads_ok += int(np.count_nonzero((errors == OK) | (errors == NO_NODE)))
        counts.received_bytes += int(answer.sizes.sum())


def _code(error: KazooException) -> int:
    code = getattr(error, "code", None)
    return code if isinstance(code, int) and code != OK else MARSHALLING


def supports_multi_read(session: Session) -> bool:
    """Return whether the server supports multiRead. The session probes once and remembers it.

    A server before 3.6 replies Unimplemented and closes the connection. A server that drops the
    connection twice but answers a single read also counts as not supporting it. While that is still
    undecided, the result is True.
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
            _await_close_by_server(session)
            return False
        except (AuthFailedError, SessionClosedRequireSaslError):
            return None  # The batch gets the same reply, and reports it.
        except LOSSES:
            drops += 1
            if not session.may_repeat(repeats):
                return None
            if drops >= PROBES_MAX and _answers_single_reads(session):
                return False


def _await_close_by_server(session: Session) -> None:
    """Wait until the server has closed the connection, as it does after Unimplemented, and a new
    connection stands."""
    _answers_single_reads(session)
    session.await_connected()


def _answers_single_reads(session: Session) -> bool:
    try:
        session.answer(session.submit(GetData("/", None)))
    except LOSSES:
        return False
    except KazooException:
        return True  # A refusal is a reply.
    session.counts.reads_ok += 1
    return True


def _pipeline(session: Session, operation: int, paths: Iterable[str]) -> Iterator[Any]:
    batches = _batches(session.limits.zookeeper_batch_paths, operation, paths)
    for _, items in _answers(session, batches):
        yield from items


def _answers(session: Session, batches: Iterable[_Batch[A]]) -> Iterator[tuple[_Batch[A], A]]:
    """Yield each batch with its results, in order. At most `zookeeper_inflight` are pending."""
    window: deque[_Batch[A]] = deque()
    for batch in batches:
        while len(window) >= session.limits.zookeeper_inflight:
            yield _first_answer(session, window)
        batch.ask(session)
        window.append(batch)
    while window:
        yield _first_answer(session, window)


def _batches(batch_paths: int, operation: int, paths: Iterable[str]) -> Iterator[_ItemBatch]:
    batch: list[str] = []
    request_bytes = 0
    for path in paths:
        path_bytes = 4 * len(path) + _OPERATION_BYTES  # a character takes up to 4 bytes
        if batch and (len(batch) >= batch_paths or request_bytes + path_bytes > REQUEST_BYTES_MAX):
            yield _ItemBatch(operation, batch)
            batch, request_bytes = [], 0
        batch.append(path)
        request_bytes += path_bytes
    if batch:
        yield _ItemBatch(operation, batch)


def _first_answer(session: Session, window: deque[_Batch[A]]) -> tuple[_Batch[A], A]:
    """Remove the oldest batch from the window and return it with its results.

    A lost batch is requested again at most `zookeeper_retries` times.
    """
    batch = window[0]
    while True:
        try:
            answer = batch.collect(session)
            session.given_up = False
            break
        except UnimplementedError:  # We moved to an older server, which closes the connection now.
            session.multi_read = False
            _await_close_by_server(session)
            _ask_lost_again(session, window)
        except LOSSES:
            if session.may_repeat(batch.repeats):
                _ask_lost_again(session, window)
            else:
                answer = batch.fail_all(session.refusals.loss_code)
                break
    window.popleft()
    batch.count(answer, session.counts)
    return batch, answer


def _ask_lost_again(session: Session, window: deque[_Batch[A]]) -> None:
    """Request the oldest batch again, and every other batch that the same loss hit.

    Otherwise each of them would wait by itself.
    """
    for position, batch in enumerate(window):
        if position == 0 or batch.is_lost():
            batch.ask(session)
