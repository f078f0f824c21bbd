"""Format numbers, durations, sizes, foreign text and tables, and fit a report to a screen."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from auditor.witness.phrases import span

FOREIGN_CHARS_MAX = 120
"""At most this many characters are shown of a name that others chose, such as an owner or a bookie
id."""

NAMES_SHOWN_MAX = 10
"""Bookies or ledgers that a sentence names. The others are counted."""

_COLORS = {
    "red": "31", "yellow": "33", "green": "32", "purple": "35", "grey": "2", "bold": "1",
}  # fmt: skip
LINES_UNKNOWN = 25
"""Lines of a screen whose height is not known."""


@dataclass(frozen=True, slots=True)
class Screen:
    """Where a text is shown: how many characters a line has, whether there are colours, and how
    many lines fit.
    """

    width: int = 100
    color: bool = False
    height: int = LINES_UNKNOWN

    @property
    def plain(self) -> Screen:
        """This screen without colours, as for a file."""
        return replace(self, color=False)

    def bounded(self, low: int, high: int) -> Screen:
        """Return this screen with a width from `low` to `high`."""
        return replace(self, width=max(low, min(self.width, high)))

    def narrowed(self, chars: int) -> Screen:
        """Return what is left of this screen beside a margin."""
        return replace(self, width=self.width - chars)

    def wrap(
        self, text: str, indent: str = "", lines_max: int | None = None, hang: str = ""
    ) -> Iterator[str]:
        """Yield `text` in lines that fit; later lines begin with `hang`.

        Text beyond `lines_max` lines is cut, and "..." marks the cut.
        """
        lines = textwrap.wrap(
            text,
            self.width,
            initial_indent=indent,
            subsequent_indent=indent + hang,
            break_on_hyphens=False,
        )
        if lines_max is not None and len(lines) > lines_max:
            lines = lines[:lines_max]
            lines[-1] = lines[-1][: self.width - 4] + " ..."
        yield from lines

    def paint(self, text: str, color: str) -> str:
        """Return `text` in a terminal colour if there are colours, else unchanged."""
        return f"\x1b[{_COLORS[color]}m{text}\x1b[0m" if self.color else text


PLAIN = Screen()


def printable(text: object, chars_max: int = FOREIGN_CHARS_MAX) -> str:
    """Return `text` as printable ASCII, cut at `chars_max`; other characters become escapes.

    Any client may write the custom metadata that owners come from. A newline in it must not forge
    the last line, nor an escape sequence reach the terminal.
    """
    shown = "".join(
        c if " " <= c <= "~" else c.encode("unicode_escape").decode("ascii")
        for c in str(text)[: chars_max + 1]
    )
    return shown if len(shown) <= chars_max else shown[: chars_max - 3] + "..."


def count(number: object) -> str:
    """Return the number with commas: 40000 is "40,000"."""
    assert isinstance(number, int), number
    return f"{number:,}"


def name_some(
    names: Sequence[object], number: int | None = None, shown_max: int = NAMES_SHOWN_MAX
) -> str:
    """Return the first `shown_max` names, with a count of the rest.

    `number` is how many there are, if `names` does not have all of them.
    """
    shown = [printable(name) for name in names[:shown_max]]
    more = (len(names) if number is None else number) - len(shown)
    return ", ".join(shown) + (f" and {count(more)} more" if more > 0 else "")


def of(number: int, singular: str, many: str | None = None) -> str:
    """Return a number with its noun: "1 ledger", "40,000 ledgers"."""
    return f"{number:,} {singular if number == 1 else many or singular + 's'}"


def duration(seconds: float) -> str:
    """Return a duration: "0.4 s", "12 s", "14 min 46 s", "3 h 20 min"."""
    return span(round(seconds * 1000), tenths=True)


def size(number: int) -> str:
    """Return a number of bytes: "312 B", "1.5 MiB"."""
    amount = float(number)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            return f"{number} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError("the last unit takes all")


def share(ratio: float) -> str:
    """Return a ratio in per cent, rounded down: less than all is never shown as 100 %."""
    assert 0 <= ratio <= 1, ratio
    return "100 %" if ratio == 1 else f"{int(ratio * 10_000) / 100:.2f} %"


def ranges(pairs: Sequence[Sequence[int]], shown_max: int = 3) -> str:
    """Return inclusive ranges: "0-9, 12, 15-20 ..."."""
    parts = [
        str(first) if first == last else f"{first}-{last}" for first, last in pairs[:shown_max]
    ]
    return ", ".join(parts) + (" ..." if len(pairs) > shown_max else "")


def moment(text: str | None) -> datetime | None:
    """Return the time that an RFC 3339 text gives, in UTC; None for no text."""
    return None if not text else datetime.fromisoformat(text).astimezone(UTC)


def table(rows: Iterable[Sequence[str]], indent: str) -> Iterator[str]:
    """Yield the rows, which have equal lengths, as left-aligned columns two spaces apart."""
    kept = [list(row) for row in rows]
    widths = [max(len(row[i]) for row in kept) for i in range(len(kept[0]))] if kept else []
    for row in kept:
        yield (
            indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        ).rstrip()
