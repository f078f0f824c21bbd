"""Who is at work on a marked ledger: the locks of BookKeeper's replication workers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Final

from auditor.model.identity import LedgerId
from auditor.model.ledger import Mark, ReplicationLock
from auditor.wire import underreplication_mark, znode_paths
from auditor.zookeeper.multi_read import CONNECTION_LOSS, NO_AUTH, NO_NODE, OK, Znode
from auditor.zookeeper.reading import children_of_many, read_many
from auditor.zookeeper.refusal import refusal, unavailable
from auditor.zookeeper.session import Session

LOCKS_READ_MAX: Final = 10_000
"""Locks read at once, in znodes: a worker holds one at a time, and there is one worker a bookie, so more is no real cluster."""


@dataclass(slots=True)
class Locks:
    """The locks on ledgers asked for. `problem` is not empty when some of them are not known."""

    by_ledger: dict[LedgerId, Znode] = field(default_factory=dict)
    problem: str = ""


def read_locks(session: Session, root: str, marked: Collection[LedgerId]) -> Locks:
    """The locks on the ledgers of `marked`, listed and read at once. No such znode is no locks.

    Costs nothing where nothing is marked, else one list and a read a lock, LOCKS_READ_MAX at most. Raises StoreUnavailable when
    the connection is lost.
    """
    locks = Locks()
    if not marked:
        return locks
    (listed,) = children_of_many(session, [root + znode_paths.LOCKS])
    if listed.error not in (OK, NO_NODE):
        if listed.error != NO_AUTH:
            raise unavailable(listed.path, listed.error)
        locks.problem = f"who replicates the marked ledgers is not known: {refusal(listed.path, listed.error)}"
        return locks
    named = (znode_paths.lock_id_of(name) for name in listed.names)
    ids = sorted(ledger_id for ledger_id in named if ledger_id is not None and ledger_id in marked)
    if len(ids) > LOCKS_READ_MAX:
        locks.problem = (
            f"{len(ids)} marked ledgers are locked by replication workers: the first {LOCKS_READ_MAX} locks are read"
        )
    read = ids[:LOCKS_READ_MAX]
    paths = (root + znode_paths.lock_path(ledger_id) for ledger_id in read)
    for ledger_id, znode in zip(read, read_many(session, paths), strict=True):
        if znode.error == CONNECTION_LOSS:
            raise unavailable(znode.path, znode.error)
        locks.by_ledger[ledger_id] = znode
    return locks


def locked(mark: Mark, znode: Znode) -> Mark:
    """The mark with the lock that `znode` was read as; as it is where there is none.

    The znode is the lock: one that names nobody, or may not be read, has no holder in words. Of one that may not be read not
    even the date is known, so it is a `problem` of the mark.
    """
    if znode.error == NO_NODE:
        return mark
    if znode.error != OK:
        return replace(mark, problem=mark.problem or f"whether it is locked is not known: {refusal(znode.path, znode.error)}")
    holder = underreplication_mark.decode_name(znode.data)
    return replace(mark, lock=ReplicationLock(holder or "", znode.ctime_ms))
