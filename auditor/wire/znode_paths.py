"""Paths of ledgers, marks and locks below ROOT, and the znodes that are listed to find them.

ROOT/LAYOUT says how the ledgers are laid out below ROOT (BookKeeper's LedgerLayout). All paths are
relative to ROOT and begin with a slash.

A znode is a ledger only at the exact path computed from its id: a stray znode `foo` beside the
ledgers is not a ledger. BookKeeper itself ignores all but the digits of a name, and reads `foo` as
ledger 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from auditor.errors import StoreUnavailable
from auditor.model.identity import LEDGER_ID_MAX, LedgerId

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


def decode_layout(data: bytes) -> LedgerLayout:
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


def encode_layout(layout: LedgerLayout) -> bytes:
    """Return what BookKeeper writes to initialise a cluster with this layout (format version 2)."""
    return f"2\n{_PACKAGE}{_CLASSES[layout]}:{MANAGER_VERSION}".encode()


def _by_class(factory: str) -> LedgerLayout | None:
    for layout, name in _CLASSES.items():
        if factory == _PACKAGE + name or factory.endswith(f".{_PACKAGE}{name}"):
            return layout
    return None


LAYOUT = "/LAYOUT"
INSTANCE_ID = "/INSTANCEID"
AVAILABLE = "/available"
READONLY = "/available/readonly"
COOKIES = "/cookies"
UNDERREPLICATION = "/underreplication"
MARKS = "/underreplication/ledgers"
LOCKS = "/underreplication/locks"
ELECTION = "/underreplication/auditorelection"
REPLICATION_DISABLED = "/underreplication/disable"
LOST_BOOKIE_RECOVERY_DELAY = "/underreplication/lostBookieRecoveryDelay"

RESERVED = frozenset(
    {
        "LAYOUT",
        "INSTANCEID",
        "available",
        "cookies",
        "underreplication",
        "idgen",
        "idgen-long",
        "ms-idgen",
        "disableHealthCheck",
    }
)
"""Children of ROOT that BookKeeper uses itself. So is every name that begins with `ID-`."""
ID_GENERATION_PREFIX = "ID-"

LONG_ID_MIN = 2**31 - 1
"""Lowest id that `hierarchical` keeps in the long tree: HierarchicalLedgerManager tests
id < Integer.MAX_VALUE."""
LEGACY_ID_MAX = 9_999_999_999
"""Largest id whose ten digits fit the 2-4-4 split."""
LEDGER_PATH_MAX = len("/000/0000/0000/0000/L0000")
"""The longest path of a ledger, in bytes."""
MARK_DEPTH = 5
"""Levels below MARKS: four of hex digits, one of marks."""

_FLAT = re.compile(r"/L([0-9]{10,19})")
_SHORT = re.compile(r"/([0-9]{2})/([0-9]{4})/L([0-9]{4})")
_LONG = re.compile(r"/([0-9]{3})/([0-9]{4})/([0-9]{4})/([0-9]{4})/L([0-9]{4})")
_MARK = re.compile(r"/underreplication/ledgers(?:/[0-9a-f]{4}){4}/urL([0-9]{10,19})")
_LOCK = re.compile(r"urL([0-9]{10,19})")
_VOTE = re.compile(r"V_([0-9]{1,19})")
_INNER = re.compile(r"/[0-9]{2}|/[0-9]{2}/[0-9]{4}|/[0-9]{3}(?:/[0-9]{4}){0,3}")
_MARK_INNER = re.compile(r"/underreplication/ledgers(?:/[0-9a-f]{4}){1,4}")

_TREES = {
    LedgerLayout.FLAT: (_FLAT,),
    LedgerLayout.LEGACY_HIERARCHICAL: (_SHORT,),
    LedgerLayout.HIERARCHICAL: (_SHORT, _LONG),
    LedgerLayout.LONG_HIERARCHICAL: (_LONG,),
}
_FIRST_LEVEL_DIGITS = {
    LedgerLayout.FLAT: (),
    LedgerLayout.LEGACY_HIERARCHICAL: (2,),
    LedgerLayout.HIERARCHICAL: (2, 3),
    LedgerLayout.LONG_HIERARCHICAL: (3,),
}


class Branch(NamedTuple):
    """The children of one znode, classified.

    `inner` are paths to list next; `unexpected` are names that lead nowhere.
    """

    inner: list[str]
    ledger_ids: list[LedgerId]
    unexpected: list[str]


def ledger_path(layout: LedgerLayout, ledger_id: LedgerId) -> str:
    """Return the path of a ledger's znode. Raises `ValueError` for an id the layout cannot hold."""
    if not 0 <= ledger_id <= _id_max(layout):
        raise ValueError(no_place(layout, ledger_id))
    if layout is LedgerLayout.FLAT:
        return f"/L{ledger_id:010d}"
    if layout is LedgerLayout.LONG_HIERARCHICAL or (
        layout is LedgerLayout.HIERARCHICAL and ledger_id >= LONG_ID_MIN
    ):
        d = f"{ledger_id:019d}"
        return f"/{d[:3]}/{d[3:7]}/{d[7:11]}/{d[11:15]}/L{d[15:]}"
    d = f"{ledger_id:010d}"
    return f"/{d[:2]}/{d[2:6]}/L{d[6:]}"


def _id_max(layout: LedgerLayout) -> LedgerId:
    return LEGACY_ID_MAX if layout is LedgerLayout.LEGACY_HIERARCHICAL else LEDGER_ID_MAX


def no_place(layout: LedgerLayout, ledger_id: LedgerId) -> str:
    """Return the sentence on an id that the layout cannot hold."""
    return f"ledger {ledger_id} has no place in the {layout.value} layout"


def have_place(layout: LedgerLayout, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which ids the layout can hold."""
    return (ids >= 0) & (ids <= _id_max(layout))


def ledger_paths(layout: LedgerLayout, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8] | None:
    """Return the paths of ledgers as bytes, one row each; None if their lengths differ.

    There is at least one id, and each has a place in the layout. Equals `ledger_path` of each, at a
    tenth of its cost.
    """
    first, last = (ledger_path(layout, int(number)) for number in (ids.min(), ids.max()))
    if len(first) != len(last):
        return None
    sample = np.frombuffer(first.encode(), np.uint8)
    places = np.flatnonzero((sample >= _ZERO) & (sample <= _ZERO + 9))
    paths = np.repeat(sample[None, :], len(ids), axis=0)
    rest = ids
    for place in places[::-1].tolist():
        rest, digit = np.divmod(rest, 10)
        paths[:, place] = digit + _ZERO
    return paths


_ZERO = ord("0")
_ID_DIGITS_MAX = 19


def ledger_ids_of(
    layout: LedgerLayout, parent: str, names: npt.NDArray[np.uint8]
) -> npt.NDArray[np.int64] | None:
    """Return the ledgers whose znodes are children of `parent`; None if any child is no ledger.

    `names` has a name in each row, as bytes. Equals `ledger_id_of` each, at a fortieth of its cost.
    """
    before = np.frombuffer(f"{parent}/".encode(), np.uint8)
    paths = np.concatenate([np.repeat(before[None, :], len(names), axis=0), names], axis=1)
    places = np.flatnonzero((paths[0] >= _ZERO) & (paths[0] <= _ZERO + 9))
    if not 0 < len(places) <= _ID_DIGITS_MAX:
        return None
    # The sum of 19 digits and more is below 2**64. What is no digit fails the comparison below.
    powers = np.uint64(10) ** np.arange(len(places) - 1, -1, -1, dtype=np.uint64)
    ids = ((paths[:, places] - np.uint8(_ZERO)).astype(np.uint64) * powers).sum(axis=1)
    if ids.max() > LEDGER_ID_MAX:
        return None
    found = ids.astype(np.int64)
    if not have_place(layout, found).all():
        return None
    computed = ledger_paths(layout, found)
    is_each = computed is not None and np.array_equal(computed, paths)
    return found if is_each else None


def ledger_id_of(layout: LedgerLayout, path: str) -> LedgerId | None:
    """Return the ledger whose metadata is at `path` in this layout; None if there is none."""
    for pattern in _TREES[layout]:
        match = pattern.fullmatch(path)
        if match is not None:
            ledger_id = int("".join(match.groups()))
            return (
                ledger_id
                if ledger_id <= LEDGER_ID_MAX and ledger_path(layout, ledger_id) == path
                else None
            )
    return None


def classify_children(layout: LedgerLayout, parent: str, names: Iterable[str]) -> Branch:
    """Classify the children of `parent` ("" for ROOT, else a path from `inner`).

    Reserved names below ROOT are left out (`_is_reserved`). `hierarchical` follows both its trees,
    and takes each id only from the tree it belongs to. Cost: some 2 µs a child.
    """
    children = Branch([], [], [])
    for name in names:
        path = f"{parent}/{name}"
        ledger_id = ledger_id_of(layout, path)
        if ledger_id is not None:
            children.ledger_ids.append(ledger_id)
        elif _leads_on(layout, path):
            children.inner.append(path)
        elif parent or not _is_reserved(name):
            children.unexpected.append(name)
    return children


def _is_reserved(name: str) -> bool:
    """Return whether BookKeeper uses this child of ROOT itself, so that listers ignore it."""
    return name in RESERVED or name.startswith(ID_GENERATION_PREFIX)


def mark_path(ledger_id: LedgerId) -> str:
    """Return the path of a ledger's under-replication mark. Raises `ValueError` for a wrong id."""
    if not 0 <= ledger_id <= LEDGER_ID_MAX:
        raise ValueError(f"{ledger_id} is not a ledger id")
    h = f"{ledger_id:016x}"
    return f"{MARKS}/{h[:4]}/{h[4:8]}/{h[8:12]}/{h[12:]}/urL{ledger_id:010d}"


def mark_id_of(path: str) -> LedgerId | None:
    """Return the ledger that the znode at `path` marks.

    None if it is not a mark, or not at the path computed from its ledger's id.
    """
    match = _MARK.fullmatch(path)
    if match is None:
        return None
    ledger_id = int(match[1])
    return ledger_id if ledger_id <= LEDGER_ID_MAX and mark_path(ledger_id) == path else None


def lock_path(ledger_id: LedgerId) -> str:
    """Return the path of the lock of a ledger's worker. Raises `ValueError` for a wrong id."""
    if not 0 <= ledger_id <= LEDGER_ID_MAX:
        raise ValueError(f"{ledger_id} is not a ledger id")
    return f"{LOCKS}/urL{ledger_id:010d}"


def lock_id_of(name: str) -> LedgerId | None:
    """Return the ledger that the child `name` of `LOCKS` locks; None if it is not a lock."""
    match = _LOCK.fullmatch(name)
    if match is None:
        return None
    ledger_id = int(match[1])
    return (
        ledger_id
        if ledger_id <= LEDGER_ID_MAX and lock_path(ledger_id) == f"{LOCKS}/{name}"
        else None
    )


def votes_in_order(names: Iterable[str]) -> list[str]:
    """Return the children of `ELECTION` that are votes, oldest first.

    The first belongs to the elected auditor (AuditorElector).
    """
    votes = ((int(match[1]), name) for name in names if (match := _VOTE.fullmatch(name)))
    return [name for _, name in sorted(votes)]


def classify_mark_children(parent: str, names: Iterable[str]) -> Branch:
    """Classify names like `classify_children`, for the tree of marks.

    `parent` is `MARKS` or a path from `inner`.
    """
    children = Branch([], [], [])
    for name in names:
        path = f"{parent}/{name}"
        ledger_id = mark_id_of(path)
        if ledger_id is not None:
            children.ledger_ids.append(ledger_id)
        elif _MARK_INNER.fullmatch(path):
            children.inner.append(path)
        else:
            children.unexpected.append(name)
    return children


def _leads_on(layout: LedgerLayout, path: str) -> bool:
    return (
        _INNER.fullmatch(path) is not None
        and len(path.split("/", 2)[1]) in _FIRST_LEVEL_DIGITS[layout]
    )
