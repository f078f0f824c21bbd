"""List all ledgers, and read their metadata and their marks of under-replication.

The znodes that are parents of ledgers are listed first, then the ids below them. Reading yields one
record for each ledger, even if it fails. The whole tree of marks is read too, with the locks of
BookKeeper's replication workers on marked ledgers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np

from auditor.errors import MalformedMetadata, UnknownMetadataFormat, WireError
from auditor.model.identity import LedgerId
from auditor.model.ledger import LedgerRecord, Mark, RecordStatus, ReplicationLock, ZnodeStamp
from auditor.wire import ledger_metadata, underreplication_mark, znode_paths
from auditor.wire.znode_paths import LedgerLayout
from auditor.zookeeper.multi_read import CONNECTION_LOSS, NO_AUTH, NO_NODE, OK, UniformNames, Znode
from auditor.zookeeper.reading import (
    children_of_many,
    read_many,
    refusal_sentence,
    unavailable_error,
)
from auditor.zookeeper.session import Session

LOCKS_READ_MAX: Final = 10_000
"""Maximum number of locks read. A bookie has one worker, which holds one lock at a time, so no real
cluster has more."""


@dataclass(slots=True)
class Locks:
    """The locks on the given ledgers. `problem` is not empty when some of them are unknown."""

    by_ledger: dict[LedgerId, Znode] = field(default_factory=dict)
    problem: str = ""


def _read_locks(session: Session, root: str, marked: Collection[LedgerId]) -> Locks:
    """Return the locks on the ledgers of `marked`. A missing parent znode means no locks.

    Costs nothing if nothing is marked, else one list and one read a lock, at most LOCKS_READ_MAX.
    Raises StoreUnavailable when the connection is lost.
    """
    locks = Locks()
    if not marked:
        return locks
    (listed,) = children_of_many(session, [root + znode_paths.LOCKS])
    if listed.error not in (OK, NO_NODE):
        if listed.error != NO_AUTH:
            raise unavailable_error(listed.path, listed.error)
        locks.problem = (
            "who replicates the marked ledgers is not known:"
            f" {refusal_sentence(listed.path, listed.error)}"
        )
        return locks
    named = (znode_paths.lock_id_of(name) for name in listed.names)
    ids = sorted(ledger_id for ledger_id in named if ledger_id is not None and ledger_id in marked)
    if len(ids) > LOCKS_READ_MAX:
        locks.problem = (
            f"{len(ids)} marked ledgers are locked by replication workers: the first"
            f" {LOCKS_READ_MAX} locks are read"
        )
    read = ids[:LOCKS_READ_MAX]
    paths = (root + znode_paths.lock_path(ledger_id) for ledger_id in read)
    for ledger_id, znode in zip(read, read_many(session, paths), strict=True):
        if znode.error == CONNECTION_LOSS:
            raise unavailable_error(znode.path, znode.error)
        locks.by_ledger[ledger_id] = znode
    return locks


def add_lock(mark: Mark, znode: Znode) -> Mark:
    """Return the mark with the lock that was read as `znode`; unchanged if there is no lock.

    If the lock's znode names no holder, its holder is "". If the lock cannot be read, its date is
    not known either, and the mark gets a `problem`.
    """
    if znode.error == NO_NODE:
        return mark
    if znode.error != OK:
        return replace(
            mark,
            problem=mark.problem
            or f"whether it is locked is not known: {refusal_sentence(znode.path, znode.error)}",
        )
    holder = underreplication_mark.decode_name(znode.data)
    return replace(mark, lock=ReplicationLock(holder or "", znode.ctime_ms))


MALFORMED_MAX = 1_000
"""Paths of znodes in the wrong place among the marks: at most this many are kept, the rest is
counted."""
INNER_LEVELS = znode_paths.MARK_DEPTH - 1


@dataclass(slots=True)
class Marks:
    """The marks that lie at the path computed from their ledger's id.

    `unexpected_znodes` counts names that are no mark or a mark in the wrong place; `malformed` has
    the paths of at most MALFORMED_MAX of them. `problem` is not empty when a part of the tree
    cannot be read: a ledger missing from `by_ledger` may still be marked. `lock_problem` is not
    empty when some locks on marked ledgers are unknown.
    """

    by_ledger: dict[LedgerId, Mark] = field(default_factory=dict)
    unexpected_znodes: int = 0
    malformed: list[str] = field(default_factory=list)
    problem: str = ""
    lock_problem: str = ""


def read_marks(session: Session, root: str) -> Marks:
    """Return all marks, with the locks of the workers that replicate their ledgers.

    A mark that vanishes meanwhile is left out. A missing tree means no marks. Costs about one list
    and one read a mark, plus one list and one read a lock. Holds all marks. Raises StoreUnavailable
    when the connection is lost.
    """
    marks = Marks()
    paths: Iterable[str] = [root + znode_paths.MARKS]
    for _ in range(INNER_LEVELS):
        paths = _inner(session, root, paths, marks)
    ids = _marked_ids(session, root, paths, marks)
    for znode in read_many(session, (root + znode_paths.mark_path(ledger_id) for ledger_id in ids)):
        ledger_id = znode_paths.mark_id_of(znode.path[len(root) :])
        assert ledger_id is not None, znode.path
        if znode.error == OK:
            marks.by_ledger[ledger_id] = underreplication_mark.decode(znode.data, znode.ctime_ms)
        elif znode.error != NO_NODE:
            _record_refusal(marks, znode.path, znode.error)
    locks = _read_locks(session, root, marks.by_ledger)
    marks.lock_problem = locks.problem
    for ledger_id, znode in locks.by_ledger.items():
        marks.by_ledger[ledger_id] = add_lock(marks.by_ledger[ledger_id], znode)
    return marks


def marked_ledgers(session: Session, root: str) -> Iterator[LedgerId]:
    """Yield the ids of marked ledgers as the tree is listed. What cannot be listed is left out."""
    unread = Marks()
    paths: Iterable[str] = [root + znode_paths.MARKS]
    for _ in range(INNER_LEVELS):
        paths = _inner(session, root, paths, unread)
    yield from _marked_ids(session, root, paths, unread)


def _inner(session: Session, root: str, parents: Iterable[str], marks: Marks) -> Iterator[str]:
    for children in _sort_children(session, root, parents, marks):
        yield from (root + path for path in children.inner)


def _marked_ids(
    session: Session, root: str, parents: Iterable[str], marks: Marks
) -> Iterator[LedgerId]:
    for children in _sort_children(session, root, parents, marks):
        yield from children.ledger_ids


def _sort_children(
    session: Session, root: str, parents: Iterable[str], marks: Marks
) -> Iterator[znode_paths.Branch]:
    for children in children_of_many(session, parents):
        if children.error == OK:
            found = znode_paths.classify_mark_children(children.path[len(root) :], children.names)
            marks.unexpected_znodes += len(found.unexpected)
            room = MALFORMED_MAX - len(marks.malformed)
            marks.malformed += [f"{children.path}/{name}" for name in found.unexpected[:room]]
            yield found
        elif children.error != NO_NODE:
            _record_refusal(marks, children.path, children.error)


def _record_refusal(marks: Marks, path: str, error: int) -> None:
    if error != NO_AUTH:
        raise unavailable_error(path, error)
    marks.problem = marks.problem or f"the marks are not all known: {refusal_sentence(path, error)}"


PARENTS_PER_PARTITION = 32
"""Default number of parents in one partition: at most 320,000 ledgers in hierarchical layouts."""
SHORT_TREE_DIGITS, SHORT_PARENT_DEPTH = 2, 2
LONG_TREE_DIGITS, LONG_PARENT_DEPTH = 3, 4
"""Number of digits of a tree's first level, and the depth of its ledgers' parents below ROOT."""


@dataclass(frozen=True, slots=True)
class ListingPartition:
    """Parents of ledgers that one reader lists, as paths below ROOT. "" is ROOT itself."""

    parents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """All parents of ledgers, in portions.

    `unexpected_znodes` counts the znodes above them that have no place in the layout.
    """

    partitions: tuple[ListingPartition, ...]
    unexpected_znodes: int


@dataclass(frozen=True, slots=True)
class ListedParent:
    """The ledgers below one parent, ascending, each once.

    `unexpected_znodes` counts its children that are not ledgers.
    """

    parent: str
    ledger_ids: tuple[LedgerId, ...]
    unexpected_znodes: int


def find_partitions(
    session: Session, root: str, layout: LedgerLayout, parents_max: int = PARENTS_PER_PARTITION
) -> Listing:
    """Return the parents of all ledgers, in portions of at most `parents_max`.

    A znode that vanishes meanwhile counts as empty. Costs one list for ROOT and each inner znode
    (at most 101 for the short tree), and nothing in the flat layout. Raises StoreUnavailable when a
    list cannot be read, because ledgers would be missed.
    """
    assert parents_max > 0, parents_max
    if layout is LedgerLayout.FLAT:
        return Listing((ListingPartition(("",)),), 0)
    parents: list[str] = []
    unexpected = 0
    level = [""]
    while level:
        found = [
            znode_paths.classify_children(layout, parent, names)
            for parent, names in _children(session, root, level)
        ]
        unexpected += sum(len(children.unexpected) for children in found)
        inner = [path for children in found for path in children.inner]
        parents += filter(_holds_ledgers, inner)
        level = [path for path in inner if not _holds_ledgers(path)]
    parents.sort()
    portions = (
        parents[start : start + parents_max] for start in range(0, len(parents), parents_max)
    )
    return Listing(tuple(ListingPartition(tuple(portion)) for portion in portions), unexpected)


def list_ids(
    session: Session, root: str, layout: LedgerLayout, partition: ListingPartition
) -> Iterator[ListedParent]:
    """Yield the ledgers below each parent of `partition`, in its order.

    A parent that vanished is empty. Names that are not ledgers of this layout are counted. Costs
    one list a parent and about 0.2 µs a child, or 2 µs if one of the parent's is not a ledger.
    Holds the names of at most `zookeeper_inflight` batches of parents: 10,000 children a parent, in
    the flat layout all ledgers. Raises StoreUnavailable.
    """
    for parent, names in _children(session, root, partition.parents):
        ids = _uniform_ids(layout, parent, names)
        if ids is not None:
            yield ListedParent(parent, ids, 0)
            continue
        children = znode_paths.classify_children(layout, parent, names)
        yield ListedParent(parent, tuple(sorted(children.ledger_ids)), len(children.unexpected))


def _uniform_ids(
    layout: LedgerLayout, parent: str, names: Sequence[str]
) -> tuple[LedgerId, ...] | None:
    """Return the ledgers, if all children are ledgers and are known together."""
    if not isinstance(names, UniformNames):
        return None
    ids = znode_paths.ledger_ids_of(layout, parent, names.letters)
    return None if ids is None else tuple(np.sort(ids).tolist())


def _children(
    session: Session, root: str, parents: list[str] | tuple[str, ...]
) -> Iterator[tuple[str, Sequence[str]]]:
    answers = children_of_many(session, (f"{root}{parent}" for parent in parents))
    for parent, children in zip(parents, answers, strict=True):
        vanished = children.error == NO_NODE and parent != ""
        if children.error != OK and not vanished:
            raise unavailable_error(children.path, children.error)
        yield parent, children.names


def _holds_ledgers(path: str) -> bool:
    first, *rest = path[1:].split("/")
    depth = SHORT_PARENT_DEPTH if len(first) == SHORT_TREE_DIGITS else LONG_PARENT_DEPTH
    return 1 + len(rest) == depth


BESIDE: Final = (znode_paths.mark_path, znode_paths.lock_path)
"""The paths that are read just before a ledger's metadata when its mark is wanted."""


class LedgerReader:
    """Reads ledgers below `root`. Costs one read a ledger, or three with marks.

    Holds only what the session has in flight.
    """

    def __init__(self, session: Session, root: str, layout: LedgerLayout) -> None:
        self._session = session
        self._root = root
        self._layout = layout

    def records(
        self, ids: Iterable[LedgerId], look: int, now_ms: Callable[[], int], with_marks: bool
    ) -> Iterator[LedgerRecord]:
        """Yield one record for each of `ids`, in order. Never raises for a ledger.

        A ledger that could not be read has a record that says so. With marks, the mark is read
        before the metadata. A replication worker writes the metadata first and removes the mark
        afterwards, so a ledger seen without a mark is seen repaired. If the mark cannot be read,
        the record is NOT_AUTHORISED or UNREADABLE, because the ledger may be marked. The mark's
        lock is read between the two. Without marks, `mark` is None.
        """
        placed = _PlacedIds(ids, self._root, self._layout)
        znodes = read_many(self._session, placed.paths(BESIDE if with_marks else ()))
        for znode in znodes:
            marking = _Marking(znode, next(znodes)) if with_marks else None
            znode = next(znodes) if with_marks else znode
            yield from _unplaced_records(placed.take_unplaced(), look, now_ms)
            yield record_of(placed.next_id(), look, now_ms(), marking, znode)
        yield from _unplaced_records(placed.take_unplaced(), look, now_ms)

    def changed(
        self,
        known: Iterable[tuple[LedgerId, int, int]],
        look: int,
        now_ms: Callable[[], int],
    ) -> Iterator[LedgerRecord]:
        """Yield a record for each ledger whose znode has changed. Never raises for a ledger.

        `known` has ledgers with the czxid and the version that were read before. A czxid that no
        znode has stands for a ledger that was not read before. Costs one read a ledger; metadata
        that has not changed is not decoded.
        """
        before: deque[tuple[int, int]] = deque()

        def ids() -> Iterator[LedgerId]:
            for ledger_id, czxid, version in known:
                before.append((czxid, version))
                yield ledger_id

        placed = _PlacedIds(ids(), self._root, self._layout)
        for znode in read_many(self._session, placed.paths()):
            for unplaced in _unplaced_records(placed.take_unplaced(), look, now_ms):
                before.popleft()
                yield unplaced
            ledger_id, stamp = placed.next_id(), before.popleft()
            if znode.error != OK or (znode.czxid, znode.version) != stamp:
                yield record_of(ledger_id, look, now_ms(), None, znode)
        yield from _unplaced_records(placed.take_unplaced(), look, now_ms)

    def passwords(self, ids: Iterable[LedgerId]) -> dict[LedgerId, bytes | None]:
        """Return the ledgers' passwords, for checking the HMAC of read entries only.

        Do not keep, log or write them. None for a ledger that has none or cannot be read.
        """
        placed = _PlacedIds(ids, self._root, self._layout)
        passwords: dict[LedgerId, bytes | None] = {}
        for znode in read_many(self._session, placed.paths()):
            passwords.update((ledger_id, None) for ledger_id, _ in placed.take_unplaced())
            passwords[placed.next_id()] = _password(znode)
        passwords.update((ledger_id, None) for ledger_id, _ in placed.take_unplaced())
        return passwords


class _Marking(NamedTuple):
    """The results of reading a ledger's mark and its lock."""

    mark: Znode
    lock: Znode

    def decode_mark(self) -> Mark | None:
        if self.mark.error != OK:
            return None
        return add_lock(underreplication_mark.decode(self.mark.data, self.mark.ctime_ms), self.lock)


class _PlacedIds:
    """Remembers the order of ids between request and reply.

    An id that has no path in the layout is not requested.
    """

    def __init__(self, ids: Iterable[LedgerId], root: str, layout: LedgerLayout) -> None:
        self._ids = ids
        self._root = root
        self._layout = layout
        self._asked: deque[tuple[LedgerId, str]] = deque()
        """Each id, and why it is not requested ("" if it is)."""

    def paths(self, beside: Iterable[Callable[[LedgerId], str]] = ()) -> Iterator[str]:
        for ledger_id in self._ids:
            try:
                path = znode_paths.ledger_path(self._layout, ledger_id)
            except ValueError as error:
                self._asked.append((ledger_id, str(error)))
                continue
            self._asked.append((ledger_id, ""))
            yield from (self._root + path_of(ledger_id) for path_of in beside)
            yield self._root + path

    def take_unplaced(self) -> Iterator[tuple[LedgerId, str]]:
        while self._asked and self._asked[0][1]:
            yield self._asked.popleft()

    def next_id(self) -> LedgerId:
        ledger_id, why = self._asked.popleft()
        assert not why, (ledger_id, why)
        return ledger_id


def _unplaced_records(
    unplaced: Iterator[tuple[LedgerId, str]], look: int, now_ms: Callable[[], int]
) -> Iterator[LedgerRecord]:
    for ledger_id, why in unplaced:
        yield unplaced_record(ledger_id, look, now_ms(), why)


def unplaced_record(ledger_id: LedgerId, look: int, at_ms: int, why: str) -> LedgerRecord:
    """Return the record of a ledger whose id has no place in the layout."""
    return LedgerRecord(ledger_id, look, at_ms, RecordStatus.GONE, detail=why)


def record_of(
    ledger_id: LedgerId, look: int, read_at_ms: int, marking: _Marking | None, znode: Znode
) -> LedgerRecord:
    """Return what reading a ledger's znode, and its mark if it was read, says of the ledger."""
    mark = marking.decode_mark() if marking else None
    if znode.error == NO_NODE:
        return LedgerRecord(ledger_id, look, read_at_ms, RecordStatus.GONE, mark=mark)
    for read in (znode, marking.mark) if marking else (znode,):
        if read.error not in (OK, NO_NODE):
            status = (
                RecordStatus.NOT_AUTHORISED if read.error == NO_AUTH else RecordStatus.UNREADABLE
            )
            return LedgerRecord(
                ledger_id,
                look,
                read_at_ms,
                status,
                mark=mark,
                detail=refusal_sentence(read.path, read.error),
            )
    return _decode_record(ledger_id, look, read_at_ms, mark, znode)


def _decode_record(
    ledger_id: LedgerId, look: int, read_at_ms: int, mark: Mark | None, znode: Znode
) -> LedgerRecord:
    stamp = ZnodeStamp(znode.czxid, znode.version, znode.ctime_ms, znode.mtime_ms)
    try:
        metadata = ledger_metadata.decode(znode.data)
    except MalformedMetadata as error:
        malformed = ledger_metadata.describe_malformed(znode.data, error)
        return LedgerRecord(
            ledger_id,
            look,
            read_at_ms,
            RecordStatus.MALFORMED,
            stamp,
            malformed=malformed,
            mark=mark,
            detail=error.reason,
        )
    except UnknownMetadataFormat as error:
        return LedgerRecord(
            ledger_id,
            look,
            read_at_ms,
            RecordStatus.UNREADABLE,
            stamp,
            mark=mark,
            detail=str(error),
        )
    except Exception as error:
        # A fault of the auditor that concerns this ledger only. The error's text is left out: it
        # may quote bytes, and these contain the password.
        detail = f"the auditor failed to decode the metadata: {type(error).__name__}"
        return LedgerRecord(
            ledger_id, look, read_at_ms, RecordStatus.UNREADABLE, stamp, mark=mark, detail=detail
        )
    return LedgerRecord(ledger_id, look, read_at_ms, RecordStatus.FOUND, stamp, metadata, mark=mark)


def _password(znode: Znode) -> bytes | None:
    if znode.error != OK:
        return None
    try:
        return ledger_metadata.password(znode.data)
    except WireError:
        return None
