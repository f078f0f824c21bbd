"""The page's pictures as SVG, made by small pure functions, with the numbers that they show.

They show how much more may fail (ledgers by the copies they have left, and the worst bookies to
lose), and bookies by location, with what each surely lacks.

Colours come from the style sheet, by class, and therefore follow dark mode. A picture has a text
beside it or in it that says the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, SubElement, tostring

from markupsafe import Markup

from auditor.after.margin_text import Row, limits_of, no_ledger_words, rank_exposure, rank_racks
from auditor.after.page.contents import BookieSeen, MarginSeen
from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.finding import CATALOGUE, Kind, Severity
from auditor.model.summary import Space
from auditor.report.layout import count, moment, of, printable
from auditor.report.surroundings_text import filled

WIDTH = 600
BAR_HEIGHT = 14
CHART_HEIGHT = 120
"""Heights and widths are in the units of the view box; the page scales them."""


class Part(NamedTuple):
    """One part of a stacked bar: its class in the style sheet, and its size."""

    name: str
    size: int


def stacked_bar(parts: Sequence[Part], label: str) -> Markup:
    """Return a bar with the parts side by side. A part that is not empty is at least 3 units
    wide.
    """
    svg = new_picture(WIDTH, BAR_HEIGHT, label, stretch=True)
    widths = _widths([part.size for part in parts], WIDTH, 3.0)
    left = 0.0
    for part, width in zip(parts, widths, strict=True):
        if width:
            add_rectangle(svg, left, 0, width, BAR_HEIGHT, part.name)
        left += width
    return picture_text(svg)


def _widths(sizes: Sequence[int], width: float, least: float) -> list[float]:
    """Share `width` by size. Each size above 0 gets at least `least`, taken from the largest."""
    total = sum(sizes)
    if not total:
        return [0.0 for _ in sizes]
    shares = [max(least, width * size / total) if size else 0.0 for size in sizes]
    largest = shares.index(max(shares))
    shares[largest] -= sum(shares) - width
    return shares


def meter(ratio: float, name: str, label: str) -> Markup:
    """Return a bar that is filled to `ratio`. It is full only if the ratio is 1."""
    svg = new_picture(WIDTH, BAR_HEIGHT, label, stretch=True)
    add_rectangle(svg, 0, 0, WIDTH, BAR_HEIGHT, "track")
    filled = WIDTH if ratio == 1 else min(WIDTH * ratio, WIDTH - 3.0)
    if filled > 0:
        add_rectangle(svg, 0, 0, filled, BAR_HEIGHT, name)
    return picture_text(svg)


def line_chart(
    values: Sequence[float | None],
    name: str,
    label: str,
    *,
    top: float | None = None,
    bottom: float = 0,
) -> Markup:
    """Return the values as a line, from the oldest on the left; None is a gap.

    The axis goes from `bottom` to `top`, by default to the largest value.
    """
    svg = new_picture(WIDTH, CHART_HEIGHT, label)
    highest = max((v for v in values if v is not None), default=0.0) if top is None else top
    span = (highest - bottom) or 1.0
    pad = 8
    height = CHART_HEIGHT - 2 * pad
    for y in (pad, CHART_HEIGHT - pad):
        add_line(svg, "axis", (0, y), (WIDTH, y))
    step = (WIDTH - 2 * pad) / max(1, len(values) - 1)
    points = [
        None if v is None else (pad + step * i, CHART_HEIGHT - pad - (v - bottom) / span * height)
        for i, v in enumerate(values)
    ]
    for before, after in pairwise(points):
        if before and after:
            add_line(svg, name, before, after)
    for point in filter(None, points):
        SubElement(svg, "circle", {"class": name, "cx": _n(point[0]), "cy": _n(point[1]), "r": "4"})
    return picture_text(svg)


def new_picture(width: float, height: float, label: str, *, stretch: bool = False) -> Element:
    """Return a picture. With `stretch` it fills its place, whatever its shape is."""
    svg = Element(
        "svg", {"viewBox": f"0 0 {_n(width)} {_n(height)}", "role": "img", "aria-label": label}
    )
    if stretch:
        svg.set("preserveAspectRatio", "none")
    return svg


def add_line(svg: Element, name: str, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Add a line of the class `name`."""
    (x1, y1), (x2, y2) = start, end
    ends = {"x1": _n(x1), "y1": _n(y1), "x2": _n(x2), "y2": _n(y2)}
    SubElement(svg, "line", {"class": name, **ends})


def add_rectangle(svg: Element, x: float, y: float, width: float, height: float, name: str) -> None:
    """Add a rectangle of the class `name`."""
    SubElement(
        svg,
        "rect",
        {"class": name, "x": _n(x), "y": _n(y), "width": _n(width), "height": _n(height)},
    )


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def picture_text(svg: Element) -> Markup:
    """Return the element as text. ElementTree escapes what is in it."""
    return Markup(tostring(svg, encoding="unicode"))  # noqa: S704


LEDGERS_MAX = 250_000
"""The page of a run with more ledgers has no margin. 500,000 ledgers took 400 MB and 16 s of one
core, too much for the end of every run. `auditor margin` takes any number."""
SHOWN_MAX = 20
"""At most this many bookies, and locations, are in the tables: those whose loss would harm most
ledgers."""
_FEWEST_IN_ORDER = 2
"""If an entry has fewer confirmed copies than this, the loss of one bookie may lose it."""

Json = dict[str, Any]


def margin_view(seen: MarginSeen) -> Json | None:
    """Return the section's sentences, bars and tables.

    None if no ledger that was read is closed and has entries.
    """
    by_copies = seen.cluster.by_copies
    if not by_copies:
        return None
    racks = rank_racks(seen.cluster.by_rack)
    bookies = list(rank_exposure(seen.cluster.exposure))
    return {
        "sentence": _sentence(seen),
        "bars": list(_bars(by_copies)),
        "tables": [
            table
            for table in (_table("Bookie", bookies), _table("Location", racks))
            if table is not None
        ],
        "harmless": "" if bookies else _harmless_sentence(seen),
        "limits": limits_of(seen.basis, seen.cluster),
    }


def _sentence(seen: MarginSeen) -> str:
    basis = seen.basis
    began = moment(basis.started_at)
    of_what = "the ledgers that were named" if basis.is_partial else "the cluster"
    return (
        f"From the evidence of this run, from {began:%Y-%m-%d %H:%M} UTC on, of"
        f" {basis.closed_words(f' of {of_what}')}. The older that is, the less it says: ask again"
        " before you stop a bookie."
    )


def _harmless_sentence(seen: MarginSeen) -> str:
    return (
        f"If one bookie failed, {no_ledger_words(seen.basis)} would have fewer copies of an entry"
        " than its ack quorum."
    )


def _bars(by_copies: Mapping[int, int]) -> Iterator[Json]:
    total = sum(by_copies.values())
    for copies, ledgers in sorted(by_copies.items()):
        words = of(copies, "copy", "copies") if copies else "none confirmed"
        name = "sound" if copies >= _FEWEST_IN_ORDER else "unknown" if copies else "violated"
        label = f"{words}: {of(ledgers, 'ledger')}"
        yield {
            "words": words,
            "count": count(ledgers),
            "bar": meter(ledgers / total, name, label),
        }


def _table(what: str, rows: Sequence[Row]) -> Json | None:
    """Return the worst rows; None if no loss would harm a ledger."""
    harmful = [row for row in rows if any(row[1:])]
    if not harmful:
        return None
    return {
        "what": what,
        "rows": [
            {"name": printable(name), "numbers": [count(number) for number in numbers]}
            for name, *numbers in harmful[:SHOWN_MAX]
        ],
        "left": len(harmful) - len(harmful[:SHOWN_MAX]),
    }


BOOKIES_SHOWN_MAX = 500
"""At most this many bookies are drawn: those that lack entries, have findings or did not answer
first. The rest is counted."""

_STATES: dict[Greeting, str] = {
    Greeting.ANSWERED: "answered",
    Greeting.SILENT: "silent",
    Greeting.REFUSED: "refused",
    Greeting.UNSUPPORTED: "gave no list of entries",
    Greeting.ADDRESS_UNKNOWN: "without a readable address",
    Greeting.AUDITOR_LIMITED: "out of reach of the auditor",
    Greeting.UNREGISTERED: "not registered",
}
_AWAY = "not registered, has a cookie"
_GONE = "gone: neither registered nor known by a cookie"
_READ_ONLY = ", read-only"


def racks_view(
    bookies: Sequence[BookieSeen], found: Mapping[str, Sequence[str]], space: Space | None = None
) -> Json:
    """Return {racks: [{location, disks, bookies}], left}: locations sorted, unknown ones last.

    `found` has, by bookie, the kinds of its findings. `space`: how full the disks are; None for a
    run that did not record it.
    """
    worst_first = sorted(bookies, key=lambda bookie: _badness(bookie, found))
    shown, left = worst_first[:BOOKIES_SHOWN_MAX], worst_first[BOOKIES_SHOWN_MAX:]
    most = max((bookie.lacking.entries for bookie in shown), default=0)
    racks: dict[str | None, list[BookieSeen]] = {}
    for bookie in sorted(shown, key=lambda bookie: natural_key(bookie.bookie_id)):
        racks.setdefault(bookie.location, []).append(bookie)
    order = sorted(racks, key=lambda location: (location is None, natural_key(location or "")))
    return {
        "racks": [
            {
                "location": None if name is None else printable(name),
                "disks": _rack_words(name, space),
                "bookies": [_tile(bookie, most, found, space) for bookie in racks[name]],
            }
            for name in order
        ],
        "left": _left_words(left, found),
    }


def _left_words(left: Sequence[BookieSeen], found: Mapping[str, Sequence[str]]) -> str:
    """Return a text on how many bookies are not drawn, and whether they are healthy; "" for
    none.
    """
    if not left:
        return ""
    head = of(len(left), "bookie is not drawn", "bookies are not drawn")
    if any(_badness(bookie, found)[0] is not Condition.ORDERED for bookie in left):
        return f"{head}; some of them lack entries, have a finding or did not answer."
    return (
        f"{head}; it answered and lacks nothing."
        if len(left) == 1
        else f"{head}; all answered and lack nothing."
    )


class Condition(IntEnum):
    """The worst that is known of a bookie, the worst first."""

    LOST = 0
    UNHEARD = 1
    LACKING = 2
    ORDERED = 3

    @property
    def words(self) -> str:
        """What the card says of it."""
        return _CONDITION_WORDS[self]


_CONDITION_WORDS = {
    Condition.LOST: "has a critical finding",
    Condition.UNHEARD: "needs attention",
    Condition.LACKING: "lacks entries",
    Condition.ORDERED: "nothing found",
}


def condition_of(bookie: BookieSeen, kinds: Sequence[str]) -> Condition:
    """Return the worst that is known of a bookie. `kinds` are those of its findings.

    A bookie with a critical finding lost content or is lost. One with another finding, or that did
    not answer, needs attention. One that lacks single entries is not as bad as either.
    """
    severities = [CATALOGUE[Kind(kind)].severity for kind in kinds]
    if Severity.CRITICAL in severities:
        return Condition.LOST
    if severities or bookie.record.greeting is not Greeting.ANSWERED:
        return Condition.UNHEARD
    return Condition.LACKING if bookie.lacking.entries else Condition.ORDERED


def _badness(bookie: BookieSeen, found: Mapping[str, Sequence[str]]) -> tuple[Any, ...]:
    condition = condition_of(bookie, found.get(bookie.bookie_id, ()))
    return condition, -bookie.lacking.entries, natural_key(bookie.bookie_id)


_DIGITS = re.compile(r"(\d+)")


def natural_key(name: str) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts names by their words and numbers: b2 before b10."""
    return tuple(
        (len(part.lstrip("0")), part.lstrip("0")) if place % 2 else (0, part)
        for place, part in enumerate(_DIGITS.split(name))
    )


def _tile(
    bookie: BookieSeen, most: int, found: Mapping[str, Sequence[str]], space: Space | None
) -> Json:
    lacking, kinds = bookie.lacking, found.get(bookie.bookie_id, ())
    says = (
        f"lacks {of(lacking.entries, 'entry', 'entries')} of {of(lacking.ledgers, 'ledger')}"
        if lacking.entries
        else ""
    )
    condition = condition_of(bookie, kinds)
    return {
        "name": printable(bookie.bookie_id),
        "condition": condition.name.lower(),
        "words": condition.words,
        "state": state_words(bookie),
        "disk": "" if space is None else _disk_words(bookie.record),
        "lacks": says,
        "found": list(kinds),
        "bar": (
            meter(
                lacking.entries / most,
                "violated",
                f"{count(lacking.entries)} of at most {count(most)}",
            )
            if says
            else ""
        ),
    }


def _disk_words(record: BookieRecord) -> str:
    """Return how full the disks of a bookie are; "" if it did not say it."""
    total, free = record.total_bytes, record.free_bytes
    if total is None or free is None:
        return "" if not record.is_registered else "disks not known"
    return f"disks: {filled(total - free, total)}"


def _rack_words(location: str | None, space: Space | None) -> str:
    """Return how full the disks at a location are; "" if only one bookie there, or none, said it:
    its own line says the same.
    """
    for rack in () if space is None else space.racks:
        if rack.location == location and rack.bookies > 1:
            used = rack.total_bytes - rack.free_bytes
            return f"disks of {of(rack.bookies, 'bookie')}: {filled(used, rack.total_bytes)}"
    return ""


def state_words(bookie: BookieSeen) -> str:
    """Return the state of the bookie at its newest look."""
    record = bookie.record
    if not record.is_registered:
        return _AWAY if record.has_cookie else _GONE
    greeting = "registered, not asked" if record.greeting is None else _STATES[record.greeting]
    return greeting + (_READ_ONLY if record.registration is Registration.READONLY else "")
