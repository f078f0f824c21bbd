"""Where bookies are, as text."""

from pathlib import Path

from auditor.commands.topology import render_topology
from auditor.topology.locating import Topology
from auditor.topology.location_table import Located

PAGE = Path(__file__).parents[3] / "docs" / "topology.md"
RACK_MAP = "zookeeper /bookies"


def rendered(*located: Located, problems: tuple[str, ...] = ()) -> str:
    return render_topology(Topology(located), {one.bookie_id: "none" for one in located}, problems)


def test_the_page_shows_what_the_command_prints():
    """It equals the example in docs/topology.md to the letter."""
    by_id = (
        Located("10.0.0.1:3181", "/r1", RACK_MAP, "bookie id"),
        Located("10.0.0.2:3181", "/r2", RACK_MAP, "bookie id"),
    )
    text = rendered(
        *by_id, Located("10.0.0.3:3181"), Located("bookie-4", "/r1", RACK_MAP, "address")
    )
    assert f"```text\n{text}```" in PAGE.read_text(encoding="utf-8")


def test_another_depth_than_the_others_is_shown_last():
    """Which bookies, how deep, and how deep the others are."""
    text = rendered(
        Located("a", "/r/1", "s", "m"), Located("b", "/r/2", "s", "m"), Located("c", "/r", "s", "m")
    )
    assert (
        "which have 2 parts" in text and ["c", "/r", "1", "part"] == text.splitlines()[-1].split()
    )


def test_foreign_text_is_printable_and_a_long_source_keeps_its_end():
    """Names of bookies and racks are foreign text: no escape reaches the terminal. A long path is
    cut at its beginning.
    """
    text = rendered(
        Located("b\x1b[31m", "/rück", "/very" * 30 + "/racks.txt", "bookie id"),
        problems=("odd\nthing",),
    )
    assert text.replace("\n", "").isprintable() and text.isascii()
    assert "/very/very/racks.txt  " in text and "  ...ry/very" in text and "odd\\nthing" in text


def test_no_bookie_is_said():
    """The text is a sentence, not "0 bookies, 0 with a location"."""
    assert "There is no bookie: none is registered and none has a cookie.\n" == rendered()
