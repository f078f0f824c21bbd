"""Read which bookies exist: those that are registered, and those that only have a cookie."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from auditor.errors import MalformedMetadata
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.identity import BookieId, is_bookie_id
from auditor.wire import bookie_registration, znode_paths
from auditor.zookeeper.multi_read import NO_AUTH, NO_NODE, OK, Znode
from auditor.zookeeper.reading import children_of_many, read_many
from auditor.zookeeper.refusal import refusal_sentence, unavailable_error
from auditor.zookeeper.session import Session

READONLY_NAME: Final = "readonly"
"""The only child of `available` that is not a bookie."""


def read_bookies(
    session: Session, root: str, look: int, now_ms: Callable[[], int]
) -> list[BookieRecord]:
    """Return every bookie that is registered or has a cookie, once, sorted by id.

    A bookie that turns read-only is registered in both places for a moment, and a listing may miss
    a bookie that turns back. So each known id is looked up in both places, and writable wins, as in
    BookKeeper's own address lookup. Costs three lists, and two reads a bookie. Raises
    StoreUnavailable when a list cannot be read or the connection is lost.
    """
    available, readonly, cookies = _list_registrations(session, root)
    ids = sorted(available | readonly | cookies)
    znodes = read_many(session, _registration_paths(root, ids))
    records = []
    for bookie_id in ids:
        writable_znode, readonly_znode = next(znodes), next(znodes)
        records.append(
            _record(bookie_id, look, now_ms(), writable_znode, readonly_znode, bookie_id in cookies)
        )
    return records


def read_cookies(session: Session, root: str) -> frozenset[BookieId]:
    """Return the ids of all bookies that have a cookie. Raises StoreUnavailable.

    A bookie gets its cookie at its first start and loses it when it is decommissioned.
    """
    return _list_registrations(session, root)[2]


def _list_registrations(
    session: Session, root: str
) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    paths = [
        root + name for name in (znode_paths.AVAILABLE, znode_paths.READONLY, znode_paths.COOKIES)
    ]
    lists = []
    for children in children_of_many(session, paths):
        if children.error not in (OK, NO_NODE):
            raise unavailable_error(children.path, children.error)
        lists.append(frozenset(children.names) - {READONLY_NAME})
    available, readonly, cookies = lists
    return available, readonly, cookies


def _registration_paths(root: str, ids: list[BookieId]) -> Iterator[str]:
    for bookie_id in ids:
        yield f"{root}{znode_paths.AVAILABLE}/{bookie_id}"
        yield f"{root}{znode_paths.READONLY}/{bookie_id}"


def _record(
    bookie_id: BookieId,
    look: int,
    read_at_ms: int,
    writable: Znode,
    readonly: Znode,
    has_cookie: bool,
) -> BookieRecord:
    for znode in (writable, readonly):
        if znode.error not in (OK, NO_NODE, NO_AUTH):
            raise unavailable_error(znode.path, znode.error)
    # A bookie whose registration we may not read is registered all the same.
    if writable.error != NO_NODE:
        registration, (host, port, problem) = Registration.WRITABLE, _address(bookie_id, writable)
    elif readonly.error != NO_NODE:
        registration, (host, port, problem) = Registration.READONLY, _address(bookie_id, readonly)
    else:
        registration, (host, port, problem) = Registration.NONE, (None, None, "")
    return BookieRecord(bookie_id, look, read_at_ms, registration, host, port, has_cookie, problem)


def _address(bookie_id: BookieId, znode: Znode) -> tuple[str | None, int | None, str]:
    if znode.error != OK:
        return None, None, refusal_sentence(znode.path, znode.error)
    if not is_bookie_id(bookie_id):
        return None, None, f"znode {znode.path} is registered under a name that is not a bookie id"
    try:
        endpoint = bookie_registration.decode(bookie_id, znode.data)
    except MalformedMetadata as error:
        return None, None, f"the registration {znode.path} cannot be read: {error.reason}"
    return endpoint.host, endpoint.port, ""
