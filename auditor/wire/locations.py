"""Network locations as BookKeeper writes them, and Pulsar's rack map, which names some.

A location is `/rack`, `/region/rack` or `/zone/upgradeDomain`. The rack map is the znode
`/bookies`; BookieRackAffinityMapping reads it:

    {"<group>": {"<bookie id>": {"rack": "<rack>", "hostname": "<host>"}}}

`hostname` is only informational and is not used here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

LOCATION_CHARS_MAX = 255
"""Longest location, in characters. Names of racks are short, and every run stores locations."""
_PARTS = re.compile(r"(?:/[^/\s]+)+")


def normalize_location(text: str) -> str | None:
    """Return a location without trailing slashes; None if nothing is left (NodeBase.normalize).

    Raises ValueError with half a sentence if it does not begin with `/`, has an empty part or a
    space, is longer than LOCATION_CHARS_MAX, or is not printable.
    """
    if not text.isprintable():
        raise ValueError("holds characters that cannot be printed")
    location = text.strip().rstrip("/")
    if not location:
        return None
    if not location.startswith("/"):
        raise ValueError("does not begin with /")
    if len(location) > LOCATION_CHARS_MAX:
        raise ValueError(f"is longer than {LOCATION_CHARS_MAX} characters")
    if _PARTS.fullmatch(location) is None:
        raise ValueError("has an empty part or a space in it")
    return location


def depth(location: str) -> int:
    """Return the number of parts of a location: 1 for `/rack`, 2 for `/region/rack`."""
    return location.count("/")


def is_within(location: str, place: str) -> bool:
    """Return whether a location is `place` or below it."""
    return location == place or location.startswith(place + "/")


RACK_MAP_ENTRIES_MAX = 20_000
"""At most this many bookies are read from one map. No cluster is so large, and every run stores the
locations."""
RACK_MAP_PROBLEMS_MAX = 20
"""At most this many sentences are kept on what could not be read; one more says how many were left
out."""


@dataclass(frozen=True, slots=True)
class RackMap:
    """Locations by bookie id as written, and sentences on what could not be read.

    `locations` leaves out bookies without a rack.
    """

    locations: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def decode_rack_map(data: bytes) -> RackMap:
    """Return the locations in the map, as Pulsar reads it.

    Groups are read by name; the first that gives a bookie a rack wins. A rack without a leading `/`
    gets one. Never raises: what cannot be read becomes a problem, and the rest counts.
    """
    if not data.strip():
        return RackMap()
    try:
        groups = json.loads(data)
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        return RackMap(
            problems=(
                f"the rack map is not JSON ({len(data)} bytes): no bookie has a rack from it",
            )
        )
    if not isinstance(groups, dict):
        return RackMap(
            problems=("the rack map is not a JSON object of groups: no bookie has a rack from it",)
        )
    locations: dict[str, str] = {}
    problems: list[str] = []
    for number, (group, bookie_id, info) in enumerate(_entries(groups, problems)):
        if number >= RACK_MAP_ENTRIES_MAX:
            problems.insert(
                0,
                f"the rack map names more than {RACK_MAP_ENTRIES_MAX} bookies:"
                " the others are not read",
            )
            break
        location = _location(group, bookie_id, info, problems)
        if location is None:
            continue
        first = locations.setdefault(bookie_id, location)
        if location != first:
            problems.append(
                f"the rack map has {bookie_id!a} at {first} and, in group {group!a}, at {location}:"
                " the first counts"
            )
    if len(problems) > RACK_MAP_PROBLEMS_MAX:
        problems[RACK_MAP_PROBLEMS_MAX:] = [
            f"and {len(problems) - RACK_MAP_PROBLEMS_MAX} more of this kind"
        ]
    return RackMap(locations, tuple(problems))


def encode_rack_map(locations: Mapping[str, str], group: str = "default") -> bytes:
    """Return the map that Pulsar would write for these racks."""
    bookies = {bookie_id: {"rack": rack, "hostname": ""} for bookie_id, rack in locations.items()}
    return json.dumps({group: bookies} if bookies else {}).encode()


def _entries(groups: dict[str, Any], problems: list[str]) -> Iterator[tuple[str, str, Any]]:
    for group in sorted(groups):
        bookies = groups[group]
        if isinstance(bookies, dict):
            yield from ((group, bookie_id, bookies[bookie_id]) for bookie_id in sorted(bookies))
        elif bookies is not None:
            problems.append(f"group {group!a} of the rack map is not a JSON object of bookies")


def _location(group: str, bookie_id: str, info: Any, problems: list[str]) -> str | None:
    rack = info.get("rack") if isinstance(info, dict) else info
    if rack is None:
        return None
    where = f"the rack of {bookie_id!a} in group {group!a} of the rack map"
    if not isinstance(rack, str) or not isinstance(info, dict):
        problems.append(f"{where} is not text")
        return None
    if not bookie_id.isprintable():  # JSON can have a lone surrogate, which no file can hold
        problems.append(f"{where} is left out: a bookie id has no character that cannot be printed")
        return None
    rack = rack.strip()
    try:
        return normalize_location(rack if rack.startswith("/") or not rack else f"/{rack}")
    except ValueError as error:
        problems.append(f"{where} {error}")
        return None
