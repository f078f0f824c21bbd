"""What fits on a screen of few lines."""

import random

import pytest

from auditor.report.first_screen import LABEL_CHARS, Section, fill

ROW = ["x"]


def section(label: str, items: int, lines: int = 1, weight: int = 1) -> Section:
    return Section(
        label, [[f"{label} {number}"] * lines for number in range(items)], "item", "items", weight
    )


def text_of(lines: list[str]) -> list[str]:
    return [line[LABEL_CHARS:] for line in lines]


def test_everything_is_shown_where_it_fits():
    """In order, each section with its label once."""
    assert ["a         a 0", "          a 1", "b         b 0"] == fill(
        [section("a", 2), section("none", 0), section("b", 1)], 3
    )


def test_what_is_left_out_is_counted():
    """No item disappears in silence."""
    assert ["a 0", "a 1", "3 more items"] == text_of(fill([section("a", 5)], 3))
    two = [section("a", 5), section("b", 2)]
    assert ["a 0", "a 1", "b 0", "3 more items, 1 more item"] == text_of(fill(two, 4))
    assert ["1 item"] == text_of(fill([section("a", 1, lines=3)], 2)), (
        "an item is whole or not there"
    )


def test_names_of_what_is_left_out_are_given_as_far_as_they_fit():
    """The reader sees which kinds there are, though not their rows."""
    names = [f"KIND_{number}" for number in range(9)]
    cut = Section("found", [ROW] * 9, "kind", "kinds", names=names, width=40)
    last = fill([cut], 3)[-1][LABEL_CHARS:]
    assert "7 more kinds: KIND_2, KIND_3, ..." == last
    names[2] = "A" * 40
    assert "7 more kinds: ..." == fill([cut], 3)[-1][LABEL_CHARS:], "a name is whole or not there"
    few = Section("found", [ROW] * 4, "kind", "kinds", names=["A", "B", "C", "D"], width=40)
    assert "2 more kinds: C, D" == fill([few], 3)[-1][LABEL_CHARS:]


def test_the_last_sections_share_a_line_where_nothing_else_is_left():
    """They are named with how much there is of each."""
    assert ["a 0", "1 item, 1 item"] == text_of(
        fill([section("a", 1), section("b", 1), section("c", 1)], 2)
    )


def test_each_that_shares_the_last_line_is_named_whole_or_not_there():
    """A word that is cut off reads like another word."""
    long = [Section(str(n), [ROW], f"line on cluster and time {n}", "lines") for n in range(1, 5)]
    (line,) = fill(long, 1)
    assert "also      1 line on cluster and time 1, 1 line on cluster and time 2, ..." == line
    (line,) = fill(long[:2], 1)
    assert "also      1 line on cluster and time 1, 1 line on cluster and time 2" == line


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_holds_and_room_is_used(seed: int):
    """There are at most `lines_max` lines, and everything is shown as soon as it fits."""
    draw = random.Random(seed)
    print("seed", seed)
    sections = [
        section("abcdefgh"[n], draw.randint(0, 9), draw.randint(1, 4), draw.randint(1, 4))
        for n in range(8)
    ]
    whole = sum(len(block) for one in sections for block in one.blocks)
    for lines_max in range(1, whole + 3):
        lines = fill(sections, lines_max)
        assert len(lines) <= lines_max
        assert (
            len(lines) == whole and not any(line.startswith("also") for line in lines)
        ) or lines_max < whole
