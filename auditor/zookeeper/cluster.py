"""Read facts about the whole cluster: ROOT, the ledger layout, the settings of auto-recovery."""

from __future__ import annotations

import re
from dataclasses import dataclass

from auditor.errors import StoreUnavailable
from auditor.wire import layout as layout_wire
from auditor.wire import znode_paths
from auditor.wire.layout import LedgerLayout
from auditor.wire.service_uri import ServiceUri
from auditor.zookeeper.multi_read import NO_AUTH, NO_NODE, OK, Znode
from auditor.zookeeper.reading import read_many
from auditor.zookeeper.refusal import refusal_sentence, unavailable_error
from auditor.zookeeper.session import Session

INSTANCE_ID_CHARACTERS_MAX = 100
"""Longest instance id accepted (BookKeeper writes a UUID of 36 characters)."""
_INSTANCE_ID = re.compile(rb"[\x21-\x7e]{1,%d}" % INSTANCE_ID_CHARACTERS_MAX)
_SECONDS = re.compile(rb"[+-]?[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class Place:
    """ROOT and its layout. `problems` are sentences on what was odd about finding them."""

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
        return layout_wire.decode(znode.data)
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
