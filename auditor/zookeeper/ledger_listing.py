"""List all ledgers: first the znodes that are parents of ledgers, then the ids below them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from auditor.model.identity import LedgerId
from auditor.wire import znode_paths
from auditor.wire.layout import LedgerLayout
from auditor.zookeeper.multi_read import NO_NODE, OK
from auditor.zookeeper.reading import children_of_many
from auditor.zookeeper.refusal import unavailable_error
from auditor.zookeeper.session import Session

PARENTS_PER_PARTITION = 32
"""Default number of parents in one partition: at most 320,000 ledgers in hierarchical layouts."""
SHORT_TREE_DIGITS, SHORT_PARENT_DEPTH = 2, 2
LONG_TREE_DIGITS, LONG_PARENT_DEPTH = 3, 4
"""Number of digits of a tree's first level, and the depth of its ledgers' parents below ROOT."""


@dataclass(frozen=True, slots=True)
class ListingPartition:
    """Parents of ledgers that one reader lists, as paths below ROOT. "" is ROOT itself."""

    parents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """All parents of ledgers, in portions.

    `unexpected_znodes` counts the znodes above them that have no place in the layout.
    """

    partitions: tuple[ListingPartition, ...]
    unexpected_znodes: int


@dataclass(frozen=True, slots=True)
class ListedParent:
    """The ledgers below one parent, ascending, each once.

    `unexpected_znodes` counts its children that are not ledgers.
    """

    parent: str
    ledger_ids: tuple[LedgerId, ...]
    unexpected_znodes: int


def find_partitions(
    session: Session, root: str, layout: LedgerLayout, parents_max: int = PARENTS_PER_PARTITION
) -> Listing:
    """Return the parents of all ledgers, in portions of at most `parents_max`.

    A znode that vanishes meanwhile counts as empty. Costs one list for ROOT and each inner znode
    (at most 101 for the short tree), and nothing in the flat layout. Raises StoreUnavailable when a
    list cannot be read, because ledgers would be missed.
    """
    assert parents_max > 0, parents_max
    if layout is LedgerLayout.FLAT:
        return Listing((ListingPartition(("",)),), 0)
    parents: list[str] = []
    unexpected = 0
    level = [""]
    while level:
        found = [
            znode_paths.tell_apart(layout, parent, names)
            for parent, names in _children(session, root, level)
        ]
        unexpected += sum(len(children.unexpected) for children in found)
        inner = [path for children in found for path in children.inner]
        parents += filter(_holds_ledgers, inner)
        level = [path for path in inner if not _holds_ledgers(path)]
    parents.sort()
    portions = (
        parents[start : start + parents_max] for start in range(0, len(parents), parents_max)
    )
    return Listing(tuple(ListingPartition(tuple(portion)) for portion in portions), unexpected)


def list_ids(
    session: Session, root: str, layout: LedgerLayout, partition: ListingPartition
) -> Iterator[ListedParent]:
    """Yield the ledgers below each parent of `partition`, in its order.

    A parent that vanished is empty. Names that are not ledgers of this layout are counted. Costs
    one list a parent and about 2 µs a child. Holds the names of at most `inflight_max` batches of
    parents: 10,000 children a parent, in the flat layout all ledgers. Raises StoreUnavailable.
    """
    for parent, names in _children(session, root, partition.parents):
        children = znode_paths.tell_apart(layout, parent, names)
        yield ListedParent(parent, tuple(sorted(children.ledger_ids)), len(children.unexpected))


def _children(
    session: Session, root: str, parents: list[str] | tuple[str, ...]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    answers = children_of_many(session, (f"{root}{parent}" for parent in parents))
    for parent, children in zip(parents, answers, strict=True):
        vanished = children.error == NO_NODE and parent != ""
        if children.error != OK and not vanished:
            raise unavailable_error(children.path, children.error)
        yield parent, tuple(children.names)


def _holds_ledgers(path: str) -> bool:
    first, *rest = path[1:].split("/")
    depth = SHORT_PARENT_DEPTH if len(first) == SHORT_TREE_DIGITS else LONG_PARENT_DEPTH
    return 1 + len(rest) == depth
