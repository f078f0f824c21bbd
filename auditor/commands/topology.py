"""`auditor topology` shows the location of each bookie and its source."""

from __future__ import annotations

import json

from auditor.clock import now_ms
from auditor.context import EXIT_SOUND, EXIT_UNKNOWN, EXIT_UNREACHABLE, Context
from auditor.errors import StoreUnavailable
from auditor.report import text
from auditor.report.topology_text import render_topology
from auditor.topology.locating import Topology, locate
from auditor.topology.sources import sources_of
from auditor.wire.service_uri import parse as parse_uri
from auditor.zookeeper.metadata_store import open_store


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
