"""Read which ledgers are marked under-replicated: the whole tree of marks, and the locks.

The locks are those of BookKeeper's replication workers on marked ledgers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from auditor.model.identity import LedgerId
from auditor.model.ledger import Mark, ReplicationLock
from auditor.wire import underreplication_mark, znode_paths
from auditor.zookeeper.multi_read import CONNECTION_LOSS, NO_AUTH, NO_NODE, OK, Znode
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
