"""The report of `auditor topology`: where each bookie is, and which source says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from auditor.report.layout import PLAIN, Screen, of, printable, table
from auditor.topology.locating import Topology
from auditor.wire.locations import depth

_SOURCE_CHARS_MAX = 60
"""At most this many characters of a source's name are shown. A longer name is cut at the beginning,
which says less."""


def render_topology(
    found: Topology, states: Mapping[str, str], problems: Sequence[str], *, screen: Screen = PLAIN
) -> str:
    """Return the report as printable ASCII. Pure.

    It has a row per bookie, then the bookies without a location or with a location of unusual
    depth, then the problems. `states` has the registration of each bookie by id.
    """
    return "\n".join(_lines(found, states, problems, screen)) + "\n"


def _lines(
    found: Topology, states: Mapping[str, str], problems: Sequence[str], screen: Screen
) -> Iterator[str]:
    resolved = len(found.located) - len(found.unplaced_bookies)
    if not found.located:
        yield "There is no bookie: none is registered and none has a cookie."
    else:
        yield f"{of(len(found.located), 'bookie')}, {resolved} with a location."
        yield ""
        yield from table(_rows(found), "  ")
    if found.unplaced_bookies:
        yield ""
        yield (
            f"Without a location: {of(len(found.unplaced_bookies), 'bookie')}. Segments with one of"
            " them cannot be judged."
        )
        yield from table(([printable(b), _state(states[b])] for b in found.unplaced_bookies), "  ")
    if found.of_odd_depth:
        yield ""
        parts = of(found.usual_depth or 0, "part")
        yield (
            f"Of another depth than the others, which have {parts}: BookKeeper itself would not"
            " take them."
        )
        odd = found.of_odd_depth
        yield from table(
            (
                [
                    printable(located.bookie_id),
                    printable(located.location),
                    _depth(located.location),
                ]
                for located in odd
            ),
            "  ",
        )
    for problem in problems:
        yield ""
        yield from screen.wrap(printable(problem, 2_000), hang="  ")


def _rows(found: Topology) -> Iterator[list[str]]:
    yield ["bookie", "location", "source", "matched by"]
    for located in found.located:
        source = (
            located.source
            if len(located.source) <= _SOURCE_CHARS_MAX
            else f"...{located.source[3 - _SOURCE_CHARS_MAX :]}"
        )
        cells = (
            located.bookie_id,
            located.location or "-",
            source or "-",
            located.matched_by or "-",
        )
        yield [printable(cell) for cell in cells]


def _state(registration: str) -> str:
    return "not registered" if registration == "none" else registration


def _depth(location: str | None) -> str:
    return of(depth(location or ""), "part")
