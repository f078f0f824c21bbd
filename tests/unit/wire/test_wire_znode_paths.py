"""Paths below ROOT: each id has one path, and only that path leads back to it."""

# The expected value comes first, which ruff calls Yoda.
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.model.identity import LEDGER_ID_MAX
from auditor.wire import znode_paths
from auditor.wire.znode_paths import Branch, LedgerLayout

F, H = LedgerLayout.FLAT, LedgerLayout.LEGACY_HIERARCHICAL
D, L = LedgerLayout.HIERARCHICAL, LedgerLayout.LONG_HIERARCHICAL
DEPTHS = {F: (1,), D: (3, 5), H: (3,), L: (5,)}
"""How many levels below ROOT a layout's ledgers lie: one number for each tree that it walks."""

# Ledger id; path in F, H and L; which of them the default layout uses.
TABLE = [
    (0, "/L0000000000", "/00/0000/L0000", "/000/0000/0000/0000/L0000", H),
    (9999, "/L0000009999", "/00/0000/L9999", "/000/0000/0000/0000/L9999", H),
    (10000, "/L0000010000", "/00/0001/L0000", "/000/0000/0000/0001/L0000", H),
    (123456789, "/L0123456789", "/01/2345/L6789", "/000/0000/0001/2345/L6789", H),
    (2147483646, "/L2147483646", "/21/4748/L3646", "/000/0000/0021/4748/L3646", H),
    (2147483647, "/L2147483647", "/21/4748/L3647", "/000/0000/0021/4748/L3647", L),
    (9999999999, "/L9999999999", "/99/9999/L9999", "/000/0000/0099/9999/L9999", L),
    (12345678901, "/L12345678901", None, "/000/0000/0123/4567/L8901", L),
    (2**63 - 1, "/L9223372036854775807", None, "/922/3372/0368/5477/L5807", L),
]


@pytest.mark.parametrize(("ledger_id", "flat", "short", "long", "default"), TABLE)
def test_the_table_of_paths(
    ledger_id: int, flat: str, short: str | None, long: str, default: LedgerLayout
) -> None:
    """Each id has the path that BookKeeper computes, in each layout, and the path leads back."""
    expected = {F: flat, L: long, D: short if default is H else long} | (
        {H: short} if short else {}
    )
    assert expected == {layout: znode_paths.ledger_path(layout, ledger_id) for layout in expected}
    assert dict.fromkeys(expected, ledger_id) == {
        layout: znode_paths.ledger_id_of(layout, path) for layout, path in expected.items() if path
    }


@pytest.mark.parametrize(
    ("layout", "ledger_id"), [(H, 10_000_000_000), (H, -1), (F, -1), (D, 2**63), (L, -1)]
)
def test_an_id_without_a_place_is_refused(layout: LedgerLayout, ledger_id: int) -> None:
    """An eleventh digit would be lost in the 2-4-4 split, and there are no negative ids."""
    with pytest.raises(ValueError, match=str(ledger_id)):
        znode_paths.ledger_path(layout, ledger_id)


@pytest.mark.parametrize(
    ("layout", "path"),
    [
        (D, "/21/4748/L3647"),  # belongs in the long tree
        (D, "/000/0000/0021/4748/L3646"),  # belongs in the short tree
        (D, "/00/0000/foo"),  # BookKeeper's listing would read it as ledger 0
        (D, "/00/0000/L00000"),
        (D, "/00/0000/L000"),
        (D, "/00/0000/0000"),
        (D, "/00/0000/l0000"),
        (D, "/00/0000/L0000 "),
        (D, "/00/0000/L0000\n"),
        (D, "/00/0000"),
        (D, "/00/000/L0000"),
        (D, "00/0000/L0000"),
        (D, "/\N{FULLWIDTH DIGIT ZERO}0/0000/L0000"),
        (D, "/L0000000000"),
        (D, "/available"),
        (D, ""),
        (L, "/00/0000/L0000"),
        (L, "/922/3372/0368/5477/L5808"),  # 2^63
        (L, "/999/9999/9999/9999/L9999"),
        (H, "/000/0000/0000/0000/L0000"),
        (F, "/L000000000"),
        (F, "/L00000000000"),  # the path of no id: zero has ten digits
        (F, "/L9223372036854775808"),
        (F, "/ID-0000000000"),
        (F, "/00/0000/L0000"),
    ],
)
def test_a_path_that_no_id_has_is_no_ledger(layout: LedgerLayout, path: str) -> None:
    """A name must match the layout's pattern and be the very path computed from its id."""
    assert znode_paths.ledger_id_of(layout, path) is None


IDS = (
    st.integers(0, 20_000)
    | st.integers(2**31 - 10, 2**31 + 10)
    | st.integers(0, 10**10)
    | st.integers(0, LEDGER_ID_MAX)
)


@settings(deadline=None, print_blob=True)
@given(IDS, st.sampled_from(LedgerLayout))
def test_an_id_goes_to_its_path_and_back(ledger_id: int, layout: LedgerLayout) -> None:
    """Path and id are one to one, at the depth the layout has."""
    if layout is H and ledger_id >= 10**10:
        return
    path = znode_paths.ledger_path(layout, ledger_id)
    assert ledger_id == znode_paths.ledger_id_of(layout, path)
    assert path.count("/") in DEPTHS[layout]


@settings(deadline=None, print_blob=True)
@given(st.sampled_from(LedgerLayout), st.text("/0129L", max_size=28))
def test_only_the_computed_path_is_a_ledger(layout: LedgerLayout, path: str) -> None:
    """Whatever the path, if it is taken for a ledger it is that ledger's own."""
    ledger_id = znode_paths.ledger_id_of(layout, path)
    assert ledger_id is None or path == znode_paths.ledger_path(layout, ledger_id)


# --- walking the tree ---

HOUSEKEEPING = [
    "LAYOUT",
    "INSTANCEID",
    "available",
    "cookies",
    "underreplication",
    "idgen",
    "idgen-long",
    "ms-idgen",
]
ROOT_CHILDREN = [
    *HOUSEKEEPING,
    "disableHealthCheck",
    "ID-0000000007",
    "00",
    "21",
    "000",
    "922",
    "L0000000012",
    "schemas",
    "0",
    "0000",
]


PARENTS = st.sampled_from(
    ["", "/00/0000", "/21/4748", "/99/9999", "/000/0000/0021/4748", "/922/3372/0368/5477", "/x"]
)
LETTERS = st.text("0123456789Lx/", min_size=1, max_size=12)


@settings(deadline=None)
@given(st.sampled_from(LedgerLayout), PARENTS, st.integers(0, 10**10), LETTERS, st.data())
def test_children_are_known_together_as_they_are_alone(
    layout: LedgerLayout, parent: str, first: int, letters: str, data: st.DataObject
) -> None:
    """Either each child is the ledger that it is alone, or one of them is no ledger."""
    width = data.draw(st.sampled_from([4, 10, 11, 19]))
    names = [f"L{number % 10**width:0{width}d}" for number in range(first, first + 3)]
    if data.draw(st.booleans()):
        names[data.draw(st.integers(0, 2))] = (letters * len(names[0]))[: len(names[0])]
    alone = [znode_paths.ledger_id_of(layout, f"{parent}/{name}") for name in names]
    rows = np.array([list(name.encode()) for name in names], np.uint8)
    together = znode_paths.ledger_ids_of(layout, parent, rows)
    assert (None if None in alone else alone) == (
        together if together is None else together.tolist()
    )


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (F, Branch([], [12], ["00", "21", "000", "922", "schemas", "0", "0000"])),
        (H, Branch(["/00", "/21"], [], ["000", "922", "L0000000012", "schemas", "0", "0000"])),
        (D, Branch(["/00", "/21", "/000", "/922"], [], ["L0000000012", "schemas", "0", "0000"])),
        (L, Branch(["/000", "/922"], [], ["00", "21", "L0000000012", "schemas", "0", "0000"])),
    ],
)
def test_the_children_of_root_are_distinguished(layout: LedgerLayout, expected: Branch) -> None:
    """Housekeeping is passed over, the layout's own names are followed or taken, all else is
    unexpected.
    """
    assert expected == znode_paths.classify_children(layout, "", ROOT_CHILDREN)


@pytest.mark.parametrize(
    ("layout", "parent", "names", "expected"),
    [
        (D, "/00", ["0000", "9999", "000", "cookies"],
        Branch(["/00/0000", "/00/9999"], [], ["000", "cookies"])),
        (D, "/00/0001", ["L0000", "L9999", "foo", "0000", "LAYOUT"],
        Branch([], [10000, 19999], ["foo", "0000", "LAYOUT"])),
        (D, "/21/4748", ["L3646", "L3647"], Branch([], [2147483646], ["L3647"])),
        (D, "/000/0000/0021/4748", ["L3646", "L3647"], Branch([], [2147483647], ["L3646"])),
        (L, "/000/0000/0000", ["0000", "L0000"], Branch(["/000/0000/0000/0000"], [], ["L0000"])),
        (L, "/922/3372/0368/5477", ["L5807", "L5808"], Branch([], [2**63 - 1], ["L5808"])),
        (F, "", [], Branch([], [], [])),
    ],
)  # fmt: skip
def test_the_children_of_a_level_are_distinguished(
    layout: LedgerLayout, parent: str, names: list[str], expected: Branch
) -> None:
    """Below ROOT nothing is housekeeping, and a ledger counts only in the tree it belongs to."""
    assert expected == znode_paths.classify_children(layout, parent, names)


@settings(deadline=None, print_blob=True)
@given(st.sets(IDS, max_size=20), st.sampled_from(LedgerLayout))
def test_a_walk_from_root_finds_each_ledger_once(ids: set[int], layout: LedgerLayout) -> None:
    """Following `inner` from ROOT, down to the layout's depth, meets every ledger exactly once and
    nothing unexpected.
    """
    ids = {ledger_id for ledger_id in ids if layout is not H or ledger_id < 10**10}
    tree: dict[str, set[str]] = {"": {"available", "LAYOUT"}}
    for ledger_id in ids:
        *parents, leaf = znode_paths.ledger_path(layout, ledger_id)[1:].split("/")
        for depth, name in enumerate([*parents, leaf]):
            tree.setdefault("".join(f"/{parent}" for parent in parents[:depth]), set()).add(name)
    found: list[int] = []
    level = [""]
    for _ in range(max(DEPTHS[layout])):
        children = [znode_paths.classify_children(layout, parent, tree[parent]) for parent in level]
        assert not any(child.unexpected for child in children)
        found += [ledger_id for child in children for ledger_id in child.ledger_ids]
        level = [path for child in children for path in child.inner]
    assert (sorted(ids), []) == (sorted(found), level)


# --- marks ---

MARK_TABLE = [
    (0, "/underreplication/ledgers/0000/0000/0000/0000/urL0000000000"),
    (9999, "/underreplication/ledgers/0000/0000/0000/270f/urL0000009999"),
    (123456789, "/underreplication/ledgers/0000/0000/075b/cd15/urL0123456789"),
    (12345678901, "/underreplication/ledgers/0000/0002/dfdc/1c35/urL12345678901"),
    (2**63 - 1, "/underreplication/ledgers/7fff/ffff/ffff/ffff/urL9223372036854775807"),
]


@pytest.mark.parametrize(("ledger_id", "path"), MARK_TABLE)
def test_the_table_of_marks(ledger_id: int, path: str) -> None:
    """A mark lies under the four hex parts of its ledger's id, and its name has the id in
    decimal.
    """
    assert path == znode_paths.mark_path(ledger_id)
    assert ledger_id == znode_paths.mark_id_of(path)


@pytest.mark.parametrize(
    "path",
    [
        "/underreplication/ledgers/0000/0000/0000/0001/urL0000009999",  # another ledger's place
        "/underreplication/ledgers/0000/0000/0000/270F/urL0000009999",
        "/underreplication/ledgers/0000/0000/0000/270f/urL9999",
        "/underreplication/ledgers/0000/0000/0000/270f/urL00000009999",
        "/underreplication/ledgers/0000/0000/0000/270f/L0000009999",
        "/underreplication/ledgers/0000/0000/270f/urL0000009999",
        "/underreplication/ledgers/8000/0000/0000/0000/urL9223372036854775808",
        "/underreplication/locks/urL0000009999",
        "/0000/0000/0000/270f/urL0000009999",
        "",
    ],
)
def test_a_mark_elsewhere_is_no_mark(path: str) -> None:
    """Marks are trusted only at the path computed from their id."""
    assert znode_paths.mark_id_of(path) is None


@pytest.mark.parametrize("ledger_id", [-1, 2**63])
def test_a_mark_needs_a_ledger_id(ledger_id: int) -> None:
    """A number that is not a ledger id has no path."""
    with pytest.raises(ValueError, match=str(ledger_id)):
        znode_paths.mark_path(ledger_id)


@settings(deadline=None, print_blob=True)
@given(IDS)
def test_a_mark_goes_to_its_path_and_back(ledger_id: int) -> None:
    """Mark path and id are one to one, and the path is found by following `inner` from MARKS."""
    path = znode_paths.mark_path(ledger_id)
    assert ledger_id == znode_paths.mark_id_of(path)
    *parents, leaf = path.removeprefix(znode_paths.MARKS + "/").split("/")
    level = znode_paths.MARKS
    for name in parents:
        assert Branch([f"{level}/{name}"], [], []) == znode_paths.classify_mark_children(
            level, [name]
        )
        level = f"{level}/{name}"
    assert Branch([], [ledger_id], ["junk", "urLx"]) == znode_paths.classify_mark_children(
        level, ["junk", leaf, "urLx"]
    )
    assert znode_paths.MARK_DEPTH == len(parents) + 1


# --- locks and votes ---


@settings(deadline=None, print_blob=True)
@given(IDS)
def test_a_lock_goes_to_its_path_and_back(ledger_id: int) -> None:
    """The name has the id in decimal, ten digits at least, directly below LOCKS."""
    path = znode_paths.lock_path(ledger_id)
    assert f"/underreplication/locks/urL{ledger_id:010d}" == path
    assert ledger_id == znode_paths.lock_id_of(path.rpartition("/")[2])


@pytest.mark.parametrize(
    ("ledger_id", "name"), [(0, "urL0000000000"), (2**63 - 1, "urL9223372036854775807")]
)
def test_the_first_and_the_last_ledger_can_be_locked(ledger_id: int, name: str) -> None:
    """The ids from 0 to the largest int64 are ledger ids."""
    assert f"/underreplication/locks/{name}" == znode_paths.lock_path(ledger_id)
    assert ledger_id == znode_paths.lock_id_of(name)


@pytest.mark.parametrize(
    "name", ["urL7", "urL00000000007", "L0000000007", "urL9223372036854775808", "urL000000000x", ""]
)
def test_a_name_that_locks_nothing(name: str) -> None:
    """Trusted only as BookKeeper would write it."""
    assert znode_paths.lock_id_of(name) is None


@pytest.mark.parametrize("ledger_id", [-1, 2**63])
def test_a_lock_needs_a_ledger_id(ledger_id: int) -> None:
    """A number that is not a ledger id has no path."""
    with pytest.raises(ValueError, match=str(ledger_id)):
        znode_paths.lock_path(ledger_id)


def test_votes_are_ordered_by_number() -> None:
    """ZooKeeper's counter outgrows its ten digits; names that are no votes are left out."""
    names = ["V_10000000000", "V_9999999999", "junk", "V_", "V_x", "V_0000000003"]
    assert ["V_0000000003", "V_9999999999", "V_10000000000"] == znode_paths.votes_in_order(names)
