"""Which ledgers there are: the znodes that are parents of ledgers, in handy portions, and the ids below them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from auditor.model.identity import LedgerId
from auditor.wire import znode_paths
from auditor.wire.layout import LedgerLayout
from auditor.zookeeper.multi_read import NO_NODE, OK
from auditor.zookeeper.reading import children_of_many
from auditor.zookeeper.refusal import unavailable
from auditor.zookeeper.session import Session

PARENTS_PER_PARTITION = 32
"""Parents of ledgers in one partition, unless told: at most 320,000 ledgers in the hierarchical layouts."""
SHORT_TREE_DIGITS, SHORT_PARENT_DEPTH = 2, 2
LONG_TREE_DIGITS, LONG_PARENT_DEPTH = 3, 4
"""Digits of a tree's first level, and the depth below ROOT of the parents of its ledgers."""


@dataclass(frozen=True, slots=True)
class ListingPartition:
    """Parents of ledgers to be listed by one reader: paths below ROOT, "" is ROOT itself."""

    parents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """All parents of ledgers, in portions, and how many znodes above them belong to nothing we know."""

    partitions: tuple[ListingPartition, ...]
    unexpected_znodes: int


@dataclass(frozen=True, slots=True)
class ListedParent:
    """The ledgers below one parent, ascending, each once, and how many of its children are none."""

    parent: str
    ledger_ids: tuple[LedgerId, ...]
    unexpected_znodes: int


def find_partitions(session: Session, root: str, layout: LedgerLayout, parents_max: int = PARENTS_PER_PARTITION) -> Listing:
    """Walk the levels above the ledgers' parents. A znode that vanishes meanwhile is empty.

    Costs one list for ROOT and each inner znode (at most 101 for the short tree); nothing but ROOT in the flat layout. Raises
    StoreUnavailable: a list that may not be read would leave ledgers out unnoticed.
    """
    assert parents_max > 0, parents_max
    if layout is LedgerLayout.FLAT:
        return Listing((ListingPartition(("",)),), 0)
    parents: list[str] = []
    unexpected = 0
    level = [""]
    while level:
        found = [znode_paths.tell_apart(layout, parent, names) for parent, names in _children(session, root, level)]
        unexpected += sum(len(children.unexpected) for children in found)
        inner = [path for children in found for path in children.inner]
        parents += filter(_holds_ledgers, inner)
        level = [path for path in inner if not _holds_ledgers(path)]
    parents.sort()
    portions = (parents[start : start + parents_max] for start in range(0, len(parents), parents_max))
    return Listing(tuple(ListingPartition(tuple(portion)) for portion in portions), unexpected)


def list_ids(session: Session, root: str, layout: LedgerLayout, partition: ListingPartition) -> Iterator[ListedParent]:
    """The ledgers below each parent of `partition`, in its order; a vanished parent is empty.

    What is not a ledger of this layout is counted, never an id. Costs one list a parent and about 2 µs a child; holds the names
    of at most `inflight_max` batches of parents (10,000 children each, but all of a flat layout's). Raises StoreUnavailable.
    """
    for parent, names in _children(session, root, partition.parents):
        children = znode_paths.tell_apart(layout, parent, names)
        yield ListedParent(parent, tuple(sorted(children.ledger_ids)), len(children.unexpected))


def _children(session: Session, root: str, parents: list[str] | tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    answers = children_of_many(session, (f"{root}{parent}" for parent in parents))
    for parent, children in zip(parents, answers, strict=True):
        vanished = children.error == NO_NODE and parent != ""
        if children.error != OK and not vanished:
            raise unavailable(children.path, children.error)
        yield parent, tuple(children.names)


def _holds_ledgers(path: str) -> bool:
    first, *rest = path[1:].split("/")
    depth = SHORT_PARENT_DEPTH if len(first) == SHORT_TREE_DIGITS else LONG_PARENT_DEPTH
    return 1 + len(rest) == depth
