"""The page's pictures as SVG, made by small pure functions.

Colours come from the style sheet, by class, and therefore follow dark mode. A picture has a text
beside it or in it that says the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement, tostring

from markupsafe import Markup

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
    svg = _svg(WIDTH, BAR_HEIGHT, label, stretch=True)
    widths = _widths([part.size for part in parts], WIDTH, 3.0)
    left = 0.0
    for part, width in zip(parts, widths, strict=True):
        if width:
            _rect(svg, left, 0, width, BAR_HEIGHT, part.name)
        left += width
    return _text_of(svg)


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
    svg = _svg(WIDTH, BAR_HEIGHT, label, stretch=True)
    _rect(svg, 0, 0, WIDTH, BAR_HEIGHT, "track")
    filled = WIDTH if ratio == 1 else min(WIDTH * ratio, WIDTH - 3.0)
    if filled > 0:
        _rect(svg, 0, 0, filled, BAR_HEIGHT, name)
    return _text_of(svg)


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
    svg = _svg(WIDTH, CHART_HEIGHT, label)
    highest = max((v for v in values if v is not None), default=0.0) if top is None else top
    span = (highest - bottom) or 1.0
    pad = 8
    height = CHART_HEIGHT - 2 * pad
    for y in (pad, CHART_HEIGHT - pad):
        SubElement(
            svg, "line", {"class": "axis", "x1": "0", "x2": str(WIDTH), "y1": str(y), "y2": str(y)}
        )
    step = (WIDTH - 2 * pad) / max(1, len(values) - 1)
    points = [
        None if v is None else (pad + step * i, CHART_HEIGHT - pad - (v - bottom) / span * height)
        for i, v in enumerate(values)
    ]
    for before, after in pairwise(points):
        if before and after:
            (x1, y1), (x2, y2) = before, after
            SubElement(
                svg, "line", {"class": name, "x1": _n(x1), "y1": _n(y1), "x2": _n(x2), "y2": _n(y2)}
            )
    for point in filter(None, points):
        SubElement(svg, "circle", {"class": name, "cx": _n(point[0]), "cy": _n(point[1]), "r": "4"})
    return _text_of(svg)


def _svg(width: float, height: float, label: str, *, stretch: bool = False) -> Element:
    svg = Element(
        "svg", {"viewBox": f"0 0 {_n(width)} {_n(height)}", "role": "img", "aria-label": label}
    )
    if stretch:
        svg.set("preserveAspectRatio", "none")
    return svg


def _rect(svg: Element, x: float, y: float, width: float, height: float, name: str) -> None:
    SubElement(
        svg,
        "rect",
        {"class": name, "x": _n(x), "y": _n(y), "width": _n(width), "height": _n(height)},
    )


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def _text_of(svg: Element) -> Markup:
    """Return the element as text. ElementTree escapes what is in it."""
    return Markup(tostring(svg, encoding="unicode"))  # noqa: S704
