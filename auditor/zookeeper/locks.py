"""Read the locks of BookKeeper's replication workers on marked ledgers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Final

from auditor.model.identity import LedgerId
from auditor.model.ledger import Mark, ReplicationLock
from auditor.wire import underreplication_mark, znode_paths
from auditor.zookeeper.multi_read import CONNECTION_LOSS, NO_AUTH, NO_NODE, OK, Znode
from auditor.zookeeper.reading import children_of_many, read_many
from auditor.zookeeper.refusal import refusal_sentence, unavailable_error
from auditor.zookeeper.session import Session

LOCKS_READ_MAX: Final = 10_000
"""Maximum number of locks read. A bookie has one worker, which holds one lock at a time, so no real
cluster has more."""


@dataclass(slots=True)
class Locks:
    """The locks on the given ledgers. `problem` is not empty when some of them are unknown."""

    by_ledger: dict[LedgerId, Znode] = field(default_factory=dict)
    problem: str = ""


def read_locks(session: Session, root: str, marked: Collection[LedgerId]) -> Locks:
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


def with_lock(mark: Mark, znode: Znode) -> Mark:
    """Return the mark with the lock that was read as `znode`; unchanged if there is no lock.

    A lock whose znode names nobody has the holder "". For a lock that cannot be read nothing is
    known, not even its date, so the mark gets a `problem`.
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
