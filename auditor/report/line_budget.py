"""Choose what fits on a screen of few lines. Each section says what it had to leave out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LABEL_CHARS = 10
"""Characters before the text of a line. On the first line of a section its label takes their
place."""

ALSO_CHARS_MAX = 70
"""Characters of the line that names what did not fit: one line at the least width."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a screen, with a label of at most LABEL_CHARS - 1 characters.

    `blocks` are the lines of its items, the most important first. An item is shown whole or not at
    all. `one` and `many` name the items in the line that counts those left out. A section with a
    greater `weight` gets more items. `names` are short names of the items: the line that counts
    those left out has as many of them as fit in `width` columns.
    """

    label: str
    blocks: Sequence[Sequence[str]]
    one: str
    many: str
    weight: int = 1
    names: Sequence[str] = ()
    width: int = 0

    def cost(self, shown: int) -> int:
        """Return how many lines the section takes with its first `shown` items."""
        return sum(map(len, self.blocks[:shown])) + (shown < len(self.blocks))

    def count(self, shown: int) -> str:
        """Return how many items are left out after the first `shown`: "3 more kinds"."""
        left = len(self.blocks) - shown
        return f"{left:,} {'more ' if shown else ''}{self.one if left == 1 else self.many}"

    def lines(self, shown: int) -> list[str]:
        """Return these lines. If items are left out, the last line counts them."""
        lines = [line for block in self.blocks[:shown] for line in block]
        if shown < len(self.blocks):
            lines.append(self._left_out(shown))
        labels = [self.label, *[""] * len(lines)]
        return [f"{label:<{LABEL_CHARS}}{line}" for label, line in zip(labels, lines, strict=False)]

    def _left_out(self, shown: int) -> str:
        if not self.names:
            return f"{self.count(shown)} in the full report"
        counted = f"{self.count(shown)}: "
        return counted + _as_fits(self.names[shown:], self.width - len(counted))


def _as_fits(names: Sequence[str], width: int) -> str:
    """Return as many names as fit, each whole; "..." stands for the others."""
    line = ""
    for place, name in enumerate(names):
        longer = f"{line}{', ' if place else ''}{name}"
        if len(longer) > width - (len(", ...") if place + 1 < len(names) else 0):
            return f"{line}{', ' if place else ''}..."
        line = longer
    return line


def fill(sections: Sequence[Section], lines_max: int) -> list[str]:
    """Return at most `lines_max` lines of the sections, in their order.

    Sections without items have no line. Sections of which nothing fits share the last line.
    """
    assert lines_max >= 1, lines_max
    wanted = [section for section in sections if section.blocks]
    shown = _share(wanted, lines_max)
    lines = [
        line
        for section, number in zip(wanted, shown, strict=True)
        if number
        for line in section.lines(number)
    ]
    if not all(shown):
        named = [
            section.count(0) for section, number in zip(wanted, shown, strict=True) if not number
        ]
        lines.append(f"{'also':<{LABEL_CHARS}}{_as_fits(named, ALSO_CHARS_MAX)}")
    return lines


def _share(sections: Sequence[Section], lines_max: int) -> list[int]:
    """Return how many items of each section are shown. They take turns until nothing more fits."""
    shown = [0] * len(sections)
    has_grown = True
    while has_grown:
        has_grown = False
        for place, section in enumerate(sections):
            for _ in range(section.weight):
                grown = [*shown[:place], shown[place] + 1, *shown[place + 1 :]]
                if shown[place] < len(section.blocks) and _cost(sections, grown) <= lines_max:
                    shown, has_grown = grown, True
    return shown


def _cost(sections: Sequence[Section], shown: Sequence[int]) -> int:
    """Return how many lines they take. Sections of which nothing is shown share one line."""
    own = sum(
        section.cost(number) for section, number in zip(sections, shown, strict=True) if number
    )
    return own + (not all(shown))
