"""Read facts about the whole cluster from ZooKeeper.

They are ROOT, the ledger layout, the settings of auto-recovery, the bookies that are registered or
have a cookie, BookKeeper's elected auditor (without it nobody marks or checks ledgers), and the
newest time that ZooKeeper wrote.

The newest write is looked for among a few znodes that are young in most clusters. If it is later
than our clock, our clock is late or ZooKeeper's is early.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, NamedTuple

from auditor.errors import MalformedMetadata, StoreUnavailable
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.identity import BookieId, is_bookie_id
from auditor.wire import bookie_registration, underreplication_mark, znode_paths
from auditor.wire.cookie import parse_cookie
from auditor.wire.service_uri import ServiceUri
from auditor.wire.znode_paths import LedgerLayout
from auditor.zookeeper.ledgers import marked_ledgers
from auditor.zookeeper.multi_read import NO_AUTH, NO_NODE, OK, Znode
from auditor.zookeeper.reading import (
    children_of_many,
    read_many,
    refusal_sentence,
    unavailable_error,
)
from auditor.zookeeper.session import Session

VOTES_READ_MAX: Final = 16
"""Maximum number of votes read, lowest sequence number first.

If a vote vanishes between list and read, the next vote is the elected one.
"""
NOT_KNOWN: Final = "not known"
"""Stands for the auditor's id if it could not be read. None would mean that no auditor is elected,
which would wrongly explain a loss."""


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


READONLY_NAME: Final = "readonly"
"""The only child of `available` that does not stand for a bookie."""


def read_bookies(
    session: Session, root: str, look: int, now_ms: Callable[[], int]
) -> list[BookieRecord]:
    """Return every bookie that is registered or has a cookie, once, sorted by id.

    A bookie that turns read-only is registered in both places for a moment, and a listing may miss
    a bookie that turns back. Therefore each known id is looked up in both places, and writable
    wins, as in BookKeeper's own address lookup. Costs three lists, two reads a bookie, and one a
    cookie. Raises StoreUnavailable when a list cannot be read or the connection is lost.
    """
    available, readonly, cookies = _list_registrations(session, root)
    ids = sorted(available | readonly | cookies)
    znodes = read_many(session, _bookie_paths(root, ids, cookies))
    records = []
    for bookie_id in ids:
        writable_znode, readonly_znode = next(znodes), next(znodes)
        has_cookie = bookie_id in cookies
        record = _record(bookie_id, look, now_ms(), writable_znode, readonly_znode, has_cookie)
        records.append(_with_cookie(record, next(znodes)) if has_cookie else record)
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


def _bookie_paths(root: str, ids: list[BookieId], cookies: frozenset[str]) -> Iterator[str]:
    for bookie_id in ids:
        yield f"{root}{znode_paths.AVAILABLE}/{bookie_id}"
        yield f"{root}{znode_paths.READONLY}/{bookie_id}"
        if bookie_id in cookies:
            yield f"{root}{znode_paths.COOKIES}/{bookie_id}"


def _with_cookie(record: BookieRecord, znode: Znode) -> BookieRecord:
    """Return the record with what the cookie says; unchanged if it cannot be read.

    A cookie in an old layout, or in one that is not understood, has a creation and no contents.
    """
    if znode.error not in (OK, NO_NODE, NO_AUTH):
        raise unavailable_error(znode.path, znode.error)
    if znode.error != OK:
        return record
    instance_id, directories = None, None
    with suppress(MalformedMetadata):
        cookie = parse_cookie(znode.data.decode("utf-8", "replace"))
        instance_id, directories = cookie.instance_id, cookie.ledger_directories
    return replace(
        record,
        cookie_czxid=znode.czxid,
        cookie_created_ms=znode.ctime_ms,
        cookie_instance_id=instance_id,
        cookie_directories=directories,
    )


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


BOOKIES_READ_MAX = 1_000
"""Bookies whose registrations and cookies are read."""
MARKS_READ_MAX = 1_000
"""Under-replication marks that are read: a late clock falsifies their ages."""


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


INSTANCE_ID_CHARACTERS_MAX = 100
"""Longest instance id accepted (BookKeeper writes a UUID of 36 characters)."""
_INSTANCE_ID = re.compile(rb"[\x21-\x7e]{1,%d}" % INSTANCE_ID_CHARACTERS_MAX)
_SECONDS = re.compile(rb"[+-]?[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class Place:
    """ROOT and its layout. `problems` are sentences on anything odd in the znodes that were
    read.
    """

    root: str
    layout: LedgerLayout
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """The cluster's settings below ROOT. `problems` are sentences on odd or unreadable znodes."""

    instance_id: str | None
    replication_disabled: bool
    lost_bookie_recovery_delay_s: int | None
    problems: tuple[str, ...] = ()


def find_root(session: Session, uri: ServiceUri) -> Place:
    """Return the first candidate of `uri.roots` that has a LAYOUT znode. Costs one request.

    LAYOUT decides the layout. A URI that names another layout is a problem, not an error. Raises
    StoreUnavailable when no candidate has a LAYOUT, when a LAYOUT cannot be read, or when it names
    a layout that cannot be listed.
    """
    assert uri.roots, uri
    paths = [f"{root}{znode_paths.LAYOUT}" for root in uri.roots]
    found = list(read_many(session, paths))
    for root, znode in zip(uri.roots, found, strict=True):
        if znode.error not in (OK, NO_NODE):
            raise unavailable_error(znode.path, znode.error)
        if znode.error == OK:
            layout = _layout(znode)
            return Place(root, layout, tuple(_oddities(uri, root, layout, found)))
    raise StoreUnavailable(
        f"no BookKeeper cluster at {uri.text_without_secrets}: there is no znode"
        f" {' and no '.join(paths)}. Check the path of the metadata service URI, and that the"
        " cluster was initialised"
    )


def read_settings(session: Session, root: str) -> Settings:
    """Return the instance id, the auto-recovery switch and the recovery delay. Costs one request.

    Raises StoreUnavailable when a read fails for any reason but a missing znode or its ACL.
    """
    names = (
        znode_paths.INSTANCE_ID,
        znode_paths.REPLICATION_DISABLED,
        znode_paths.LOST_BOOKIE_RECOVERY_DELAY,
    )
    instance, disable, delay = read_many(session, [root + name for name in names])
    problems: list[str] = []
    for znode in (instance, disable, delay):
        if znode.error not in (OK, NO_NODE, NO_AUTH):
            raise unavailable_error(znode.path, znode.error)
        if znode.error == NO_AUTH:
            problems.append(refusal_sentence(znode.path, znode.error))
    return Settings(
        instance_id=_instance_id(instance, problems),
        replication_disabled=disable.error != NO_NODE,  # A znode that we may not read exists.
        lost_bookie_recovery_delay_s=_seconds(delay, problems),
        problems=tuple(problems),
    )


def _layout(znode: Znode) -> LedgerLayout:
    try:
        return znode_paths.decode_layout(znode.data)
    except StoreUnavailable as error:
        raise StoreUnavailable(
            f"the cluster's layout at {znode.path} is not understood: {error}"
        ) from error


def _oddities(uri: ServiceUri, root: str, layout: LedgerLayout, found: list[Znode]) -> list[str]:
    oddities = []
    if uri.layout_hint is not None and uri.layout_hint != layout.value:
        oddities.append(
            f"the metadata service URI says {uri.layout_hint}, {root}{znode_paths.LAYOUT} says"
            f" {layout.value}: the ledgers are read as {layout.value}"
        )
    others = [z.path for z in found if z.error == OK and z.path != f"{root}{znode_paths.LAYOUT}"]
    if others:
        oddities.append(
            f"another BookKeeper cluster has its layout at {', '.join(others)}: only {root} is"
            " audited"
        )
    return oddities


def _instance_id(znode: Znode, problems: list[str]) -> str | None:
    if znode.error != OK:
        return None
    text = znode.data.strip()
    if _INSTANCE_ID.fullmatch(text) is None:
        problems.append(
            f"znode {znode.path} does not hold an instance id: {len(znode.data)} bytes that are no"
            " such text"
        )
        return None
    return text.decode("ascii")


def _seconds(znode: Znode, problems: list[str]) -> int | None:
    if znode.error != OK:
        return None
    if _SECONDS.fullmatch(znode.data) is None:
        problems.append(
            f"znode {znode.path} does not hold a number of seconds: the recovery delay is not known"
        )
        return None
    return int(znode.data)
