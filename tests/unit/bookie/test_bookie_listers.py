"""Where listers are, as the settings say."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.bookie.listers import (
    MAP_BYTES_MAX,
    Listers,
    find_unknown_bookies,
    parse_map,
    read_listers,
)
from auditor.errors import ConfigError


def test_settings_that_name_none_name_none() -> None:
    """Port 0 and no file: no bookie has a lister."""
    assert read_listers(0, None, "i") is None


def test_a_port_is_that_of_every_lister() -> None:
    """On the host of its bookie."""
    assert Listers("i", 3182) == read_listers(3182, None, "i")
    assert Listers(None, 3182) == read_listers(3182, None, None)


def test_a_map_without_a_port_names_all_the_listers(tmp_path: Path) -> None:
    """Other bookies have none."""
    (tmp_path / "map").write_text("b1 h:1\n")
    found = read_listers(0, str(tmp_path / "map"), "i")
    assert Listers("i", None, {"b1": ("h", 1)}) == found
    assert found is not None and found.address_of("b2", "h") is None


def test_a_map_and_a_port_name_both(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 are in nobody's way where they are in a comment."""
    (tmp_path / "map").write_bytes(b"b1 h:1 # caf\xe9\n")
    assert Listers("i", 3182, {"b1": ("h", 1)}) == read_listers(3182, str(tmp_path / "map"), "i")


def test_an_empty_map_is_a_map(tmp_path: Path) -> None:
    """Whoever names a file wants listers to be asked for."""
    (tmp_path / "map").write_text("")
    assert Listers("i") == read_listers(0, str(tmp_path / "map"), "i")


def test_a_map_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    """It is not there, or too large; either is said of the map of listers."""
    with pytest.raises(ConfigError, match=r"the map of listers .*nothing cannot be read"):
        read_listers(0, str(tmp_path / "nothing"), "i")
    (tmp_path / "map").write_bytes(b"#" * (MAP_BYTES_MAX + 1))
    with pytest.raises(ConfigError, match=r"the map of listers .*map is larger than 4194304 bytes"):
        read_listers(0, str(tmp_path / "map"), "i")
    (tmp_path / "map").write_bytes(b"#" * MAP_BYTES_MAX)
    assert Listers("i") == read_listers(0, str(tmp_path / "map"), "i")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("b1", "line 1 of the map of listers there is not of the form"),
        ("# a\nb1 host", "line 2 of the map of listers there is not of the form"),
        ("\n\nb1 host:1 more", "line 3 of the map of listers there is not of the form"),
        ("b1 h:1\nb1 h:2", "line 2 of the map of listers there names bookie b1 again"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(text: str, says: str) -> None:
    """Counted from 1, comments and blank lines included."""
    with pytest.raises(ConfigError, match=says):
        parse_map(text, "there")


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """As it was given."""
    (tmp_path / "map").write_text("b1")
    with pytest.raises(
        ConfigError, match=r"line 1 of the map of listers /.*/map is not of the form"
    ):
        read_listers(0, str(tmp_path / "map"), "i")


def test_a_line_names_a_bookie_and_where_its_lister_is() -> None:
    """Comments and blank lines are nobody's; an id may have a port in it."""
    text = "# all\nb1 10.0.0.1:4000 # here\n\nb2:3181\t[::1]:4001\n#b3 h:1\n"
    assert {"b1": ("10.0.0.1", 4000), "b2:3181": ("::1", 4001)} == parse_map(text, "map")


def test_the_map_goes_before_the_port() -> None:
    """A bookie that it does not name has its lister beside it."""
    listers = Listers("i", 3182, {"b1": ("l", 4)})
    assert (("l", 4), ("h", 3182)) == (listers.address_of("b1", "h"), listers.address_of("b2", "h"))
    assert Listers("i").address_of("b1", "h") is None


def test_a_bookie_of_the_map_that_nobody_knows_is_said() -> None:
    """A slip in an id would leave a bookie without its lister, and nobody would know."""
    listers = Listers("i", addresses={"b1": ("h", 1), "bi": ("h", 2), "b9": ("h", 3)})
    problems = find_unknown_bookies(listers, ["b1", "b2"])
    assert ["b9", "bi"] == [sentence.split()[5].rstrip(",") for sentence in problems]
    assert [] == find_unknown_bookies(None, []) == find_unknown_bookies(Listers("i", 3182), ["b1"])
