"""Find the newest time that ZooKeeper wrote, among a few znodes that are young in most clusters.

No znode is younger than now. A clock that lies behind one is therefore late, or ZooKeeper's is
early.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from auditor.model.identity import BookieId
from auditor.wire import znode_paths
from auditor.zookeeper.mark_listing import marked_ledgers
from auditor.zookeeper.multi_read import OK
from auditor.zookeeper.reading import children_of_many, read_many
from auditor.zookeeper.session import Session

BOOKIES_READ_MAX = 1_000
"""Bookies whose registrations and cookies are read."""
MARKS_READ_MAX = 1_000
"""Under-replication marks that are read: their ages are what a clock matters for."""
VOTES_READ_MAX = 16
"""Votes for BookKeeper's auditor that are read."""


class NewestWrite(NamedTuple):
    """A znode, and when ZooKeeper created it or wrote it last."""

    path: str
    at_ms: int


def find_newest_write(
    session: Session, root: str, bookies: Iterable[BookieId]
) -> NewestWrite | None:
    """Return the newest write among registrations, cookies, votes and marks; None without any.

    Costs a read for each of these znodes, as many as the limits say, and a list for each parent of
    marks. Raises StoreUnavailable.
    """
    newest: NewestWrite | None = None
    for znode in read_many(session, _paths(session, root, bookies)):
        at_ms = max(znode.ctime_ms, znode.mtime_ms)
        if znode.error == OK and (newest is None or at_ms > newest.at_ms):
            newest = NewestWrite(znode.path, at_ms)
    return newest


def _paths(session: Session, root: str, bookies: Iterable[BookieId]) -> Iterator[str]:
    election = root + znode_paths.ELECTION
    (votes,) = children_of_many(session, [election])
    marks = list(islice(marked_ledgers(session, root), MARKS_READ_MAX))
    for bookie in islice(bookies, BOOKIES_READ_MAX):
        for parent in (znode_paths.AVAILABLE, znode_paths.READONLY, znode_paths.COOKIES):
            yield f"{root}{parent}/{bookie}"
    if votes.error == OK:
        yield from (f"{election}/{name}" for name in votes.names[:VOTES_READ_MAX])
    yield from (root + znode_paths.mark_path(ledger_id) for ledger_id in marks)
