"""`auditor topology` shows the location of each bookie and its source."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from auditor.clock import now_ms
from auditor.context import EXIT_SOUND, EXIT_UNKNOWN, EXIT_UNREACHABLE, Context
from auditor.errors import StoreUnavailable
from auditor.report import text
from auditor.report.layout import PLAIN, Screen, of, printable, table
from auditor.topology.locating import Topology, locate
from auditor.topology.sources import sources_of
from auditor.wire.locations import depth
from auditor.wire.service_uri import parse as parse_uri
from auditor.zookeeper.metadata_store import open_store

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


def topology(context: Context) -> int:
    """Print the location of every bookie that is registered or has a cookie, and its source.

    Returns 3 if a bookie has no location or there is no bookie at all, 5 if ZooKeeper cannot be
    reached or understood, else 0. Raises ConfigError before anything is contacted, and Interrupted.
    """
    settings = context.settings
    uri = parse_uri(settings.metadata_service_uri or "")
    sources = sources_of(settings)
    try:
        with open_store(uri, settings.zookeeper_limits(1)) as store:
            bookies = store.bookies(0, now_ms)
            found = locate(sources, bookies, store.root, store.raw)
            problems = (*store.problems, *found.problems)
    except StoreUnavailable as error:
        return _unreachable(context, str(error))
    context.stop.check()
    states = {bookie.bookie_id: bookie.registration.value for bookie in bookies}
    if settings.format == "json":
        context.say(json.dumps(_as_json(found, states, problems)) + "\n")
    else:
        context.say(render_topology(found, states, problems, screen=context.screen))
    return EXIT_UNKNOWN if found.unplaced_bookies or not found.located else EXIT_SOUND


def _as_json(
    found: Topology, states: dict[str, str], problems: tuple[str, ...]
) -> dict[str, object]:
    return {
        "bookies": [
            {
                "bookie_id": bookie.bookie_id,
                "registration": states[bookie.bookie_id],
                "location": bookie.location,
                "source": bookie.source or None,
                "matched_by": bookie.matched_by or None,
            }
            for bookie in found.located
        ],
        "unresolved": list(found.unplaced_bookies),
        "usual_depth": found.usual_depth,
        "of_odd_depth": [bookie.bookie_id for bookie in found.of_odd_depth],
        "problems": list(problems),
    }


def _unreachable(context: Context, sentence: str) -> int:
    if context.settings.format == "json":
        context.say(json.dumps({"outcome": "UNREACHABLE", "error": sentence}) + "\n")
    else:
        context.say(text.render_unreachable("topology", sentence, screen=context.screen))
    return EXIT_UNREACHABLE
