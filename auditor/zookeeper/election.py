"""Read which bookie is BookKeeper's elected auditor. Without it nobody marks or checks ledgers."""

from __future__ import annotations

from itertools import islice
from typing import Final, NamedTuple

from auditor.wire import underreplication_mark, znode_paths
from auditor.zookeeper.multi_read import NO_AUTH, NO_NODE, OK
from auditor.zookeeper.reading import children_of_many, read_many
from auditor.zookeeper.refusal import refusal_sentence, unavailable_error
from auditor.zookeeper.session import Session

VOTES_READ_MAX: Final = 16
"""Maximum number of votes read, lowest sequence number first.

If a vote vanishes between list and read, the next vote is the elected one.
"""
NOT_KNOWN: Final = "not known"
"""Stands for the auditor's id if it could not be read. None would mean that nobody is elected,
which would explain a loss.
"""


class Elected(NamedTuple):
    """The elected auditor's bookie id.

    None if nobody is elected, NOT_KNOWN (with a `problem`) if that could not be read.
    """

    bookie_id: str | None
    problem: str = ""


def read_elected(session: Session, root: str) -> Elected:
    """Return the bookie with the vote of the smallest sequence number, as AuditorElector does.

    Costs one list, and one request for at most VOTES_READ_MAX reads. Raises StoreUnavailable when
    the connection is lost.
    """
    path = root + znode_paths.ELECTION
    (listed,) = children_of_many(session, [path])
    if listed.error == NO_NODE:
        return Elected(None)
    if listed.error != OK:
        return _refused_election(listed.path, listed.error)
    votes = islice(znode_paths.votes_in_order(listed.names), VOTES_READ_MAX)
    for znode in read_many(session, [f"{path}/{vote}" for vote in votes]):
        if znode.error == NO_NODE:
            continue
        if znode.error != OK:
            return _refused_election(znode.path, znode.error)
        name = underreplication_mark.decode_name(znode.data)
        if name is None:
            return Elected(
                NOT_KNOWN, f"the elected auditor is not known: znode {znode.path} names no bookie"
            )
        return Elected(name)
    return Elected(None)


def _refused_election(path: str, error: int) -> Elected:
    if error != NO_AUTH:
        raise unavailable_error(path, error)
    return Elected(NOT_KNOWN, f"the elected auditor is not known: {refusal_sentence(path, error)}")
