"""Decode ROOT/LAYOUT: how the ledgers are laid out below ROOT (BookKeeper's LedgerLayout)."""

from __future__ import annotations

import re
from enum import StrEnum

from auditor.errors import StoreUnavailable

FORMAT_VERSIONS = (1, 2)
MANAGER_VERSION = 1
_PACKAGE = "org.apache.bookkeeper.meta."
_TEXT = re.compile(r"(?P<format>[0-9]{1,9})\n(?P<factory>[^\s:]+):(?P<manager>-?[0-9]{1,10})\n?")


class LedgerLayout(StrEnum):
    """How ledger ids become paths (`znode_paths`). The values are BookKeeper's names for them."""

    FLAT = "flat"
    LEGACY_HIERARCHICAL = "legacyhierarchical"
    HIERARCHICAL = "hierarchical"
    LONG_HIERARCHICAL = "longhierarchical"


_CLASSES = {
    LedgerLayout.FLAT: "FlatLedgerManagerFactory",
    LedgerLayout.LEGACY_HIERARCHICAL: "LegacyHierarchicalLedgerManagerFactory",
    LedgerLayout.HIERARCHICAL: "HierarchicalLedgerManagerFactory",
    LedgerLayout.LONG_HIERARCHICAL: "LongHierarchicalLedgerManagerFactory",
}
_SHORT_NAMES = {name.value: name for name in (LedgerLayout.FLAT, LedgerLayout.HIERARCHICAL)}


def decode(data: bytes) -> LedgerLayout:
    """Return the layout that ROOT/LAYOUT names: `<format version>\\n<factory>:<manager version>`.

    Format version 2 has the factory's class, possibly with the prefix of a shaded jar; version 1
    has a short name. Raises `StoreUnavailable` for another factory, with its name (`ms` keeps
    ledgers in another store), for another version, and for bytes that cannot be read.
    """
    match = _TEXT.fullmatch(data.decode("utf-8", "replace"))
    if match is None:
        raise StoreUnavailable(
            "the LAYOUT znode cannot be read: two lines were expected, a version and <factory"
            " class>:<version>"
        )
    factory, manager_version = match["factory"], int(match["manager"])
    version = int(match["format"])
    if version not in FORMAT_VERSIONS:
        raise StoreUnavailable(
            f"the LAYOUT znode has format version {version}; this auditor reads 1 and 2"
        )
    layout = _SHORT_NAMES.get(factory) if version == 1 else _by_class(factory)
    if layout is None:
        known = ", ".join(_CLASSES.values())
        raise StoreUnavailable(
            f"the ledgers are laid out by {factory}, which this auditor cannot list; it knows"
            f" {known}"
        )
    if manager_version != MANAGER_VERSION:
        raise StoreUnavailable(
            f"the ledgers are laid out by version {manager_version} of {factory}; this auditor"
            " knows version 1"
        )
    return layout


def encode(layout: LedgerLayout) -> bytes:
    """Return what BookKeeper writes to initialise a cluster with this layout (format version 2)."""
    return f"2\n{_PACKAGE}{_CLASSES[layout]}:{MANAGER_VERSION}".encode()


def _by_class(factory: str) -> LedgerLayout | None:
    for layout, name in _CLASSES.items():
        if factory == _PACKAGE + name or factory.endswith(f".{_PACKAGE}{name}"):
            return layout
    return None
