"""Draws the pictures of docs/how-it-judges.md.

    python docs/site/pictures.py

Each is one SVG file that loads nothing. It brings its own light background, so that it can be read
on a dark page too. `tests/house/test_house_site.py` holds the files against this code.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "pictures"
WIDTH = 520
"""Of every picture: on a phone 400 pixels wide the letters are still 10 pixels high."""
INK, QUIET, LINE, PAPER = "#1c2733", "#55616d", "#b8c2cc", "#ffffff"
GREEN, GREY, AMBER, RED = "#1b7f4b", "#5f6b76", "#9a5b00", "#b3261e"
PALE = {GREEN: "#e3f3ea", GREY: "#eceff2", AMBER: "#fdf0dc", RED: "#fbe6e4"}
ENSEMBLE, WRITE_QUORUM, ENTRIES = 4, 3, 10
LOST = (5, 2)
"""The copy that is missing in the picture of a segment: an entry, and its bookie's place."""

WRITTEN = (
    ("SOUND", GREEN, "All bookies answered, and no entry asked for is missing."),
    ("EXEMPT", GREY, "There is a reason not to judge it: open, empty, in repair."),
    ("INDETERMINATE", AMBER, "Nothing is proven wrong, and something is not known."),
    ("VIOLATED", RED, "At least one finding, warning or critical, with its witness."),
)
LOOKS = (
    ("First look", "every ledger", ("marks", "metadata", "lists", "confirming reads")),
    ("Second look", "suspects only", ("sync, mark", "metadata", "lists", "confirming reads")),
    ("Closing look", "suspects only", ("sync, mark", "metadata")),
)
GAPS = ("5 minutes", "at once")


def text(x: float, y: float, said: str, **style: str | int) -> str:
    """Return words that begin at x, or are centred on it with `anchor="middle"`."""
    size, fill = style.get("size", 14), style.get("fill", INK)
    weight = f' font-weight="{style["weight"]}"' if "weight" in style else ""
    anchor = f' text-anchor="{style["anchor"]}"' if "anchor" in style else ""
    place = f'x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}"'
    return f"<text {place}{weight}{anchor}>{escape(said)}</text>"


def box(x: float, y: float, width: float, height: float, fill: str, edge: str) -> str:
    """Return a rectangle with round corners."""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5"'
        f' fill="{fill}" stroke="{edge}"/>'
    )


def arrow(x: float, y: float, length: float) -> str:
    """Return an arrow to the right."""
    tip = x + length
    return (
        f'<path d="M{x:g} {y:g}H{tip:g}m-6-5l6 5l-6 5" fill="none" stroke="{QUIET}"'
        ' stroke-width="1.5"/>'
    )


def picture(height: int, title: str, shapes: list[str]) -> str:
    """Return a whole file. `title` is what a screen reader says."""
    font = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' font-family="{font}">'
    )
    paper = f'<rect width="{WIDTH}" height="{height}" rx="8" fill="{PAPER}" stroke="{LINE}"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", paper, *shapes, "</svg>\n"])


def belongs(entry: int, place: int) -> bool:
    """Return whether an entry belongs on the bookie at this place of the ensemble."""
    return (place - entry) % ENSEMBLE < WRITE_QUORUM


def cell(entry: int, place: int, x: float, y: float) -> list[str]:
    """Return one square of the segment: a copy, a missing copy, or nothing to hold."""
    if not belongs(entry, place):
        return [box(x, y, 32, 28, PAPER, LINE)]
    color = RED if (entry, place) == LOST else GREEN
    sign = "✕" if color == RED else "✓"
    return [
        box(x, y, 32, 28, PALE[color], color),
        text(x + 16, y + 19, sign, fill=color, weight=700, anchor="middle"),
    ]


def segment() -> str:
    """Return the picture of a segment striped over its ensemble."""
    shapes = [text(20, 32, "Which bookie should hold which entry", size=17, weight=600)]
    shapes.append(text(20, 54, "ensemble size 4, write quorum 3, ack quorum 2", fill=QUIET))
    shapes.append(text(20, 88, "entry", fill=QUIET))
    left, top = 102, 98
    for entry in range(ENTRIES):
        shapes.append(text(left + entry * 40 + 16, 88, str(entry), fill=QUIET, anchor="middle"))
    for place in range(ENSEMBLE):
        y = top + place * 36
        shapes.append(text(20, y + 19, f"bookie b{place + 1}"))
        for entry in range(ENTRIES):
            shapes += cell(entry, place, left + entry * 40, y)
    y = top + ENSEMBLE * 36 + 20
    shapes.append(text(20, y, "copies"))
    for entry in range(ENTRIES):
        lacking = entry == LOST[0]
        copies = str(WRITE_QUORUM - lacking)
        color = RED if lacking else INK
        x = left + entry * 40 + 16
        shapes.append(
            text(x, y, copies, fill=color, weight=700 if lacking else 400, anchor="middle")
        )
    said = (
        "✓  it belongs here, and the bookie lists it",
        "✕  it belongs here, and is not listed: it is read to make sure",
    )
    for number, (line, color) in enumerate(zip(said, (GREEN, RED), strict=True)):
        shapes.append(text(20, y + 34 + number * 22, line, fill=color))
    title = (
        f"A segment of {ENTRIES} entries striped over {ENSEMBLE} bookies,"
        f" {WRITE_QUORUM} copies each"
    )
    return picture(y + 74, f"{title}; entry {LOST[0]} lacks its copy on b{LOST[1] + 1}", shapes)


def looks() -> str:
    """Return the looks of a run on a time line."""
    shapes = [text(20, 32, "No accusation on one look", size=17, weight=600)]
    shapes.append(text(20, 54, "what is read at each look, in this order", fill=QUIET))
    wide, step = 132, 174
    for number, (name, whom, reads) in enumerate(LOOKS):
        x = 20 + number * step
        shapes += [text(x, 90, name, weight=600), text(x, 108, whom, fill=QUIET, size=13)]
        for row, said in enumerate(reads):
            shapes += [box(x, 122 + row * 38, wide, 30, PALE[GREY], LINE)]
            shapes.append(text(x + wide / 2, 142 + row * 38, said, size=13, anchor="middle"))
        shapes.append(f'<circle cx="{x + 6}" cy="296" r="6" fill="{INK}"/>')
        if number < len(GAPS):
            shapes.append(arrow(x + 18, 296, step - 24))
            shapes.append(
                text(x + step / 2 + 6, 286, GAPS[number], size=13, fill=QUIET, anchor="middle")
            )
    shapes.append(
        text(20, 330, "Unchanged at the closing look: the finding is reported.", fill=RED)
    )
    shapes.append(
        text(
            20,
            352,
            "Changed: what was seen before does not count, and it is asked again.",
            size=13,
            fill=QUIET,
        )
    )
    return picture(372, "First look, second look after five minutes, closing look", shapes)


def standings() -> str:
    """Return the four standings, from the best to the worst."""
    shapes = [text(20, 32, "Each ledger has one standing: the worst wins", size=17, weight=600)]
    for number, (name, color, claim) in enumerate(WRITTEN):
        y = 52 + number * 66
        shapes.append(box(20, y, WIDTH - 40, 56, PALE[color], color))
        shapes.append(f'<rect x="20" y="{y}" width="8" height="56" rx="4" fill="{color}"/>')
        shapes.append(text(42, y + 23, name, fill=color, weight=700))
        shapes.append(text(42, y + 44, claim))
    return picture(
        326, "SOUND, EXEMPT, INDETERMINATE, VIOLATED, from the best to the worst", shapes
    )


PICTURES = {"segment.svg": segment, "looks.svg": looks, "standings.svg": standings}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw(), encoding="utf-8")
