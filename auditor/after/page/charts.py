"""The page's charts of what people look at rather than read: findings by night, marks by age,
copies by location, bytes by namespace.

Each has its numbers beside it in words. Colours come from the style sheet, by the name of a hue.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from auditor.after.page.contents import NamespaceBytes, PastRun, RackCopies
from auditor.after.page.pictures import (
    WIDTH,
    Part,
    add_line,
    add_rectangle,
    meter,
    natural_key,
    new_picture,
    picture_text,
    stacked_bar,
)
from auditor.model.finding import Severity
from auditor.model.summary import Summary
from auditor.report.layout import count, of, printable, share, size
from auditor.report.outcome_text import SEVERITY_HUES
from auditor.witness.phrases import span

Json = dict[str, Any]

HEIGHT = 120
_WORST_FIRST = sorted(Severity, reverse=True)


def findings_by_night(runs: Sequence[PastRun]) -> Json:
    """Return a chart with a column for each run: its findings by severity, the worst at the
    bottom.
    """
    totals = [sum(run.findings.values()) for run in runs]
    most = max(totals, default=0)
    said = _severity_words(runs[-1].findings) if runs else ""
    label = (
        f"Findings: {of(len(runs), 'run')}, from {count(min(totals, default=0))} to {count(most)},"
        f" last {count(totals[-1] if totals else 0)}{f' ({said})' if said else ''}"
    )
    picture = new_picture(WIDTH, HEIGHT, label)
    step = WIDTH / max(1, len(runs))
    for place, run in enumerate(runs):
        top = float(HEIGHT)
        for severity in _WORST_FIRST:
            number = run.findings.get(severity.word, 0)
            high = (HEIGHT - 8) * number / most if most else 0.0
            top -= high
            if number:
                hue = SEVERITY_HUES[severity]
                add_rectangle(picture, step * place + 1, top, max(1.0, step - 2), high, hue)
    add_line(picture, "axis", (0, HEIGHT - 0.5), (WIDTH, HEIGHT - 0.5))
    return {
        "title": "Findings",
        "svg": picture_text(picture),
        "last": count(totals[-1] if totals else 0),
        "top": count(most),
        "bottom": said,
    }


def _severity_words(findings: Mapping[str, int]) -> str:
    parts = ((severity.word, findings.get(severity.word, 0)) for severity in _WORST_FIRST)
    return ", ".join(f"{count(number)} {word}" for word, number in parts if number)


_HOUR_MS = 3_600_000
AGE_BOUNDS_MS = (_HOUR_MS / 60, _HOUR_MS, 24 * _HOUR_MS, 7 * 24 * _HOUR_MS, 17 * 7 * 24 * _HOUR_MS)
"""Where the age classes of marks begin on the axis, and where it ends. Within a class the axis is
logarithmic."""
_AGES = {
    "under_1h": "under 1 h",
    "under_1d": "1 h to 1 d",
    "under_1w": "1 d to 1 w",
    "older": "older",
}


def age_place(age_ms: float) -> float:
    """Return where an age lies on the axis of the four classes: 0 for its start, 1 for its end."""
    last = len(_AGES) - 1
    at = next((place for place in range(last) if age_ms < AGE_BOUNDS_MS[place + 1]), last)
    low, high = AGE_BOUNDS_MS[at], AGE_BOUNDS_MS[at + 1]
    within = math.log(max(age_ms, low) / low) / math.log(high / low)
    return (at + min(1.0, within)) / len(_AGES)


def marks_by_age(summary: Summary, grace_ms: int | None) -> Json:
    """Return a column for each age class, and where grace ends if that is known."""
    ages = summary.marks_by_age
    most = max((ages.get(name, 0) for name in _AGES), default=0)
    words = ", ".join(f"{count(ages.get(name, 0))} {text}" for name, text in _AGES.items())
    grace = "" if grace_ms is None else f"; grace ends at {span(grace_ms)}"
    picture = new_picture(WIDTH, HEIGHT, f"Marks by age: {words}{grace}")
    step = WIDTH / len(_AGES)
    for place, name in enumerate(_AGES):
        number = ages.get(name, 0)
        if number:
            high = max(3.0, (HEIGHT - 8) * number / most)
            add_rectangle(picture, step * place + 12, HEIGHT - high, step - 24, high, "yellow")
    add_line(picture, "axis", (0, HEIGHT - 0.5), (WIDTH, HEIGHT - 0.5))
    if grace_ms is not None:
        x = WIDTH * age_place(grace_ms)
        add_line(picture, "grace", (x, 0), (x, HEIGHT))
    return {
        "svg": picture_text(picture),
        "columns": [
            {"words": text, "count": count(ages.get(name, 0))} for name, text in _AGES.items()
        ],
        "grace": ""
        if grace_ms is None
        else f"The dashed line is the end of grace: {span(grace_ms)}.",
    }


RACKS_SHOWN_MAX = 50
"""At most this many locations are in the matrix, those with the smallest confirmed share first."""


def copies_by_rack(racks: Sequence[RackCopies]) -> Json | None:
    """Return a row for each location; None if no copy is promised."""
    promised = [rack for rack in racks if rack.promised]
    if not promised:
        return None
    worst_first = sorted(
        promised, key=lambda rack: (rack.confirmed / rack.promised, -rack.promised)
    )
    shown = sorted(
        worst_first[:RACKS_SHOWN_MAX],
        key=lambda rack: (rack.location is None, natural_key(rack.location or "")),
    )
    return {
        "rows": [_rack_row(rack) for rack in shown],
        "left": len(promised) - len(shown),
    }


def _rack_row(rack: RackCopies) -> Json:
    name = "not known" if rack.location is None else printable(rack.location)
    ratio = rack.confirmed / rack.promised
    return {
        "name": name,
        "bookies": count(rack.bookies),
        "promised": count(rack.promised),
        "confirmed": count(rack.confirmed),
        "share": share(ratio),
        "bar": meter(ratio, "green", f"{name}: {share(ratio)} confirmed"),
    }


NAMESPACES_SHOWN_MAX = 20
"""At most this many namespaces are drawn, those with most bytes in ledgers in violation first."""


def bytes_by_namespace(namespaces: Sequence[NamespaceBytes]) -> Json | None:
    """Return a bar for each namespace; None without any."""
    if not any(one.total for one in namespaces):
        return None
    worst_first = sorted(
        namespaces, key=lambda one: (-one.violated, -one.unjudged, -one.total, one.name)
    )
    shown = worst_first[:NAMESPACES_SHOWN_MAX]
    return {"rows": [_namespace_row(one) for one in shown], "left": len(namespaces) - len(shown)}


def _namespace_row(one: NamespaceBytes) -> Json:
    rest = one.total - one.violated - one.unjudged
    name = printable(one.name) if one.name else "no namespace"
    numbers = {"in violation": one.violated, "not judged": one.unjudged, "other": rest}
    said = ", ".join(f"{size(number)} {words}" for words, number in numbers.items() if number)
    parts = [Part("red", one.violated), Part("yellow", one.unjudged), Part("green", rest)]
    return {
        "name": name,
        "total": size(one.total),
        "says": said,
        "bar": stacked_bar(parts, f"{name}: {said}") if one.total else Markup(""),
    }
