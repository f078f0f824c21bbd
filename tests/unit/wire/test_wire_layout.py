"""ROOT/LAYOUT: the layouts we know by name, and the refusal of the others by name."""

# The expected value comes first, which ruff calls Yoda.
from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.errors import StoreUnavailable
from auditor.wire import znode_paths
from auditor.wire.znode_paths import LedgerLayout

META = "org.apache.bookkeeper.meta."
WRITTEN = b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"
CLASSES = [
    ("FlatLedgerManagerFactory", LedgerLayout.FLAT),
    ("LegacyHierarchicalLedgerManagerFactory", LedgerLayout.LEGACY_HIERARCHICAL),
    ("HierarchicalLedgerManagerFactory", LedgerLayout.HIERARCHICAL),
    ("LongHierarchicalLedgerManagerFactory", LedgerLayout.LONG_HIERARCHICAL),
]


def test_encodes_byte_for_byte_as_bookkeeper() -> None:
    """What a real cluster was initialised with, without a LF at the end."""
    assert WRITTEN == znode_paths.encode_layout(LedgerLayout.HIERARCHICAL)


@pytest.mark.parametrize(("name", "expected"), CLASSES)
@pytest.mark.parametrize("prefix", ["", "dlshade.", "org.example.shaded."])
def test_a_class_is_known_by_its_suffix(name: str, expected: LedgerLayout, prefix: str) -> None:
    """Each factory class is its layout, also where a shaded jar put a prefix before it."""
    assert expected == znode_paths.decode_layout(f"2\n{prefix}{META}{name}:1".encode())


@pytest.mark.parametrize("known", LedgerLayout)
def test_what_is_encoded_decodes_to_itself(known: LedgerLayout) -> None:
    """Each layout comes back, with or without a LF at the end."""
    assert known == znode_paths.decode_layout(znode_paths.encode_layout(known))
    assert known == znode_paths.decode_layout(znode_paths.encode_layout(known) + b"\n")


@pytest.mark.parametrize(
    ("name", "expected"), [("flat", LedgerLayout.FLAT), ("hierarchical", LedgerLayout.HIERARCHICAL)]
)
def test_format_version_1_has_short_names(name: str, expected: LedgerLayout) -> None:
    """Version 1 has `flat` and `hierarchical` in place of a class."""
    assert expected == znode_paths.decode_layout(f"1\n{name}:1".encode())


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ("2\norg.apache.bookkeeper.meta.MSLedgerManagerFactory:1", "MSLedgerManagerFactory"),
        ("1\nms:1", "ms"),
        ("1\nlonghierarchical:1", "longhierarchical"),
        ("1\norg.apache.bookkeeper.meta.FlatLedgerManagerFactory:1", "FlatLedgerManagerFactory"),
        ("2\nflat:1", "flat"),
        ("2\nHierarchicalLedgerManagerFactory:1", "HierarchicalLedgerManagerFactory"),
        ("2\norg.example.HierarchicalLedgerManagerFactory:1",
        "org.example.HierarchicalLedgerManagerFactory"),
        ("2\nxorg.apache.bookkeeper.meta.FlatLedgerManagerFactory:1",
        "xorg.apache.bookkeeper.meta.FlatLedgerManagerFactory"),
        ("2\norg.apache.bookkeeper.meta.FlatLedgerManagerFactory2:1", "FlatLedgerManagerFactory2"),
        ("2\norg.apache.bookkeeper.meta.FlatLedgerManagerFactory:2",
        "version 2 of org.apache.bookkeeper.meta.Flat"),
        ("2\norg.apache.bookkeeper.meta.FlatLedgerManagerFactory:-559038737", "version -559038737"),
        ("3\norg.apache.bookkeeper.meta.FlatLedgerManagerFactory:1", "format version 3"),
        ("0\norg.apache.bookkeeper.meta.FlatLedgerManagerFactory:1", "format version 0"),
    ],
)  # fmt: skip
def test_a_layout_we_do_not_know_is_refused_by_name(data: str, named: str) -> None:
    """A wrong guess would list another tree or none: refused, with what was found."""
    with pytest.raises(StoreUnavailable) as error:
        znode_paths.decode_layout(data.encode())
    assert named in str(error.value)


def test_a_refusal_names_the_layouts_that_are_known() -> None:
    """So that what was found can be compared with them."""
    known = ", ".join(name for name, _ in CLASSES)
    with pytest.raises(StoreUnavailable, match=f"it knows {known}$"):
        znode_paths.decode_layout(b"2\norg.apache.bookkeeper.meta.MSLedgerManagerFactory:1")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"2",
        b"2\n",
        b"2\nflat",
        b"x\nflat:1",
        b"2\na:b:1",
        b"2\na:one",
        b"\xff\xff",
        b"2\na:1\nmore",
    ],
)
def test_a_layout_that_cannot_be_read_is_refused(data: bytes) -> None:
    """Two lines are expected, a version and a factory with its version."""
    with pytest.raises(StoreUnavailable, match="cannot be read"):
        znode_paths.decode_layout(data)


@settings(deadline=None, print_blob=True)
@given(st.binary(max_size=80))
def test_arbitrary_bytes_raise_only_store_unavailable(data: bytes) -> None:
    """No LAYOUT raises anything unforeseen."""
    with pytest.raises(StoreUnavailable):
        znode_paths.decode_layout(data)
