"""Listing ledgers from a real ZooKeeper, in each layout."""

from __future__ import annotations

import pytest
from support.zookeeper_many_znodes import Server
from support.zookeeper_znodes import STEADY, Znodes, uri

from auditor.errors import StoreUnavailable
from auditor.wire import znode_paths
from auditor.wire.znode_paths import LedgerLayout
from auditor.zookeeper.metadata_store import MetadataStore, open_store
from auditor.zookeeper.multi_read import UNIFORM_MIN

pytestmark = pytest.mark.also_in_memory

H, L = LedgerLayout.HIERARCHICAL, LedgerLayout.LONG_HIERARCHICAL
FLAT, LEGACY = LedgerLayout.FLAT, LedgerLayout.LEGACY_HIERARCHICAL


def listed(store: MetadataStore, parents_max: int = 2) -> tuple[list[int], int]:
    """Return all ids in their order, and the number of unexpected znodes, over all partitions."""
    listing = store.listing_partitions(parents_max)
    ids: list[int] = []
    unexpected = listing.unexpected_znodes
    for partition in listing.partitions:
        assert len(partition.parents) <= parents_max
        for parent in store.list_ids(partition):
            ids += parent.ledger_ids
            unexpected += parent.unexpected_znodes
    return ids, unexpected


@pytest.mark.parametrize(
    ("layout", "ids"),
    [
        (FLAT, [0, 1, 9_999, 123_456_789, 2_147_483_647, 12_345_678_901, 2**63 - 1]),
        (LEGACY, [0, 9_999, 10_000, 123_456_789, 2_147_483_646, 2_147_483_647, 9_999_999_999]),
        (
            H,
            [
                0,
                9_999,
                10_000,
                123_456_789,
                2_147_483_646,
                2_147_483_647,
                12_345_678_901,
                2**63 - 1,
            ],
        ),
        (L, [0, 9_999, 10_000, 123_456_789, 2_147_483_647, 12_345_678_901, 2**63 - 1]),
    ],
)
def test_every_id_is_listed_once(
    server: Server, tree: Znodes, layout: LedgerLayout, ids: list[int]
) -> None:
    """In each layout the ids written are the ids listed, and nothing is unexpected."""
    root = f"/once-{layout.value}/ledgers"
    tree.layout(root, layout)
    tree.ledgers(root, layout, ids)
    with open_store(uri(server.hosts, root), STEADY) as store:
        found, unexpected = listed(store)
    assert sorted(ids) == sorted(found)
    assert unexpected == 0


def test_hierarchical_has_two_trees_and_an_id_belongs_to_one(server: Server, tree: Znodes) -> None:
    """An id in the wrong tree is not a ledger: BookKeeper never looks there."""
    root = "/two-trees/ledgers"
    tree.layout(root, H)
    tree.ledgers(root, H, [7, 2_147_483_646, 2_147_483_647])
    tree.put(f"{root}/000/0000/0000/0000/L0008")  # id 8 in the long tree
    tree.put(f"{root}/21/4748/L3647")  # id 2147483647 in the short tree
    with open_store(uri(server.hosts, root), STEADY) as store:
        found, unexpected = listed(store)
    assert sorted(found) == [7, 2_147_483_646, 2_147_483_647]
    assert unexpected == 2


def test_junk_is_counted_and_never_an_id(server: Server, tree: Znodes) -> None:
    """Names that match nothing are counted at every level; BookKeeper's own housekeeping is not."""
    root = "/junk/ledgers"
    tree.layout(root, H)
    tree.ledgers(root, H, [1, 2])
    for housekeeping in (
        "INSTANCEID",
        "idgen/ID-0000000001",
        "idgen-long/HOB-0000000001",
        "disableHealthCheck",
        "ID-0000000007",
    ):
        tree.put(f"{root}/{housekeeping}")
    for junk in (
        "foo",
        "00/foo",
        "00/0000/foo",
        "00/0000/L001",
        "00/0000/L00001",
        "00/0000/0003",
        "0/0000",
    ):
        tree.put(f"{root}/{junk}")
    with open_store(uri(server.hosts, root), STEADY) as store:
        found, unexpected = listed(store)
    assert found == [1, 2]
    assert unexpected == 7  # foo, 00/foo, four in 00/0000, and 0


def test_flat_with_housekeeping_and_junk(server: Server, tree: Znodes) -> None:
    """In the flat layout ledgers, housekeeping and junk are siblings; only ledgers are listed, and
    only junk is counted.
    """
    root = "/flat-junk/ledgers"
    tree.layout(root, FLAT)
    tree.ledgers(root, FLAT, [3, 4])
    for name in ("ID-0000000001", "idgen", "L12", "L00000000005", "00", "L-000000001"):
        tree.put(f"{root}/{name}")
    with open_store(uri(server.hosts, root), STEADY) as store:
        found, unexpected = listed(store)
    assert found == [3, 4]
    assert unexpected == 4


@pytest.mark.parametrize("layout", [FLAT, H])
def test_ten_thousand_ledgers_below_one_parent(
    server: Server, tree: Znodes, layout: LedgerLayout
) -> None:
    """A full leaf parent, and a flat cluster of the same size, are listed at once and in order."""
    root = f"/many-{layout.value}/ledgers"
    tree.layout(root, layout)
    tree.ledgers(root, layout, range(10_000), b"")
    with open_store(uri(server.hosts, root), STEADY) as store:
        assert listed(store) == (list(range(10_000)), 0)


@pytest.mark.parametrize("layout", [FLAT, LEGACY, H, L])
@pytest.mark.parametrize("stray", [None, "L00x7", "M0007", "L00000000x7"])
def test_many_ledgers_of_one_parent_are_listed_together(
    server: Server, tree: Znodes, layout: LedgerLayout, stray: str | None
) -> None:
    """A stray znode beside them, of the length of their names or of another, is not taken for a
    ledger and hides none.
    """
    root = f"/many-{layout.value}-{stray}/ledgers"
    tree.layout(root, layout)
    ids = list(range(7, 2 * UNIFORM_MIN))
    tree.ledgers(root, layout, ids)
    if stray is not None:
        parent = (root + znode_paths.ledger_path(layout, 7)).rpartition("/")[0]
        tree.put(f"{parent}/{stray}")
    with open_store(uri(server.hosts, root), STEADY) as store:
        before = store.counts.received_bytes
        found, unexpected = listed(store)
        assert (ids, int(stray is not None)) == (found, unexpected)
        name = znode_paths.ledger_path(layout, 7).rpartition("/")[2]
        assert store.counts.received_bytes - before >= len(ids) * len(name)


def test_a_parent_that_vanished_is_empty(server: Server, tree: Znodes) -> None:
    """A parent removed between the listing of parents and that of its ledgers has no ledgers; the
    others are listed.
    """
    root = "/vanishing/ledgers"
    tree.layout(root, H)
    tree.ledgers(root, H, [5, 10_005, 20_005])
    with open_store(uri(server.hosts, root), STEADY) as store:
        (partition,) = store.listing_partitions().partitions
        tree.delete(f"{root}/00/0001")
        parents = list(store.list_ids(partition))
    assert [parent.parent for parent in parents] == ["/00/0000", "/00/0001", "/00/0002"]
    assert [parent.ledger_ids for parent in parents] == [(5,), (), (20_005,)]
    assert [parent.unexpected_znodes for parent in parents] == [0, 0, 0]


@pytest.mark.parametrize("layout", [FLAT, H])
def test_a_root_that_vanished_is_not_empty(
    server: Server, tree: Znodes, layout: LedgerLayout
) -> None:
    """If the cluster itself is gone, an empty listing is not an answer."""
    root = f"/vanishing-root-{layout.value}/ledgers"
    tree.layout(root, layout)
    with open_store(uri(server.hosts, root), STEADY) as store:
        tree.delete(root)
        with pytest.raises(StoreUnavailable, match=f"znode {root} does not exist"):
            listed(store)


def test_no_ledgers_is_no_partition(server: Server, tree: Znodes) -> None:
    """A fresh cluster lists nothing, without a problem."""
    root = "/fresh/ledgers"
    tree.layout(root, H)
    with open_store(uri(server.hosts, root), STEADY) as store:
        assert store.listing_partitions().partitions == ()


@pytest.mark.parametrize("shut", ["00", "00/0001"])
def test_a_list_that_may_not_be_read_ends_the_listing(
    server: Server, tree: Znodes, shut: str
) -> None:
    """Ledgers below an unreadable znode would be missed, so the listing fails, and names the
    znode.
    """
    root = f"/shut-{shut.replace('/', '-')}/ledgers"
    tree.layout(root, H)
    tree.ledgers(root, H, [5, 10_005])
    tree.put(f"{root}/{shut}", shut=True)
    with (
        open_store(uri(server.hosts, root), STEADY) as store,
        pytest.raises(StoreUnavailable, match=f"{root}/{shut} may not be"),
    ):
        listed(store)


def test_partitions_are_small_and_cover_all_parents(server: Server, tree: Znodes) -> None:
    """Each parent is in one partition, in order, and no partition has more than requested."""
    root = "/portions/ledgers"
    tree.layout(root, H)
    ids = [number * 10_000 for number in range(7)]
    tree.ledgers(root, H, ids)
    with open_store(uri(server.hosts, root), STEADY) as store:
        partitions = store.listing_partitions(parents_max=3).partitions
    assert [len(partition.parents) for partition in partitions] == [3, 3, 1]
    expected = [znode_paths.ledger_path(H, ledger_id).rsplit("/", 1)[0] for ledger_id in ids]
    assert [parent for partition in partitions for parent in partition.parents] == expected
