"""Network locations as BookKeeper writes them: `/rack`, `/region/rack`, `/zone/upgradeDomain`."""

from __future__ import annotations

import re

LOCATION_CHARS_MAX = 255
"""Longest location, in characters. Names of racks are short, and every run stores locations."""
_PARTS = re.compile(r"(?:/[^/\s]+)+")


def normal(text: str) -> str | None:
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
