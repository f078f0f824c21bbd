"""Network locations as BookKeeper writes them: `/rack`, `/region/rack`, `/zone/upgradeDomain`."""

from __future__ import annotations

import re

LOCATION_CHARS_MAX = 255
"""Characters of one location, at most: names of racks are short, and locations are written with every run."""
_PARTS = re.compile(r"(?:/[^/\s]+)+")


def normal(text: str) -> str | None:
    """A location without slashes at its end, or None for none at all: an empty one, or `/` alone (NodeBase.normalize).

    Raises ValueError with half a sentence where it does not begin with `/`, has an empty part, or cannot be printed.
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
    """Parts of a location: 1 for `/rack`, 2 for `/region/rack`."""
    return location.count("/")


def is_within(location: str, place: str) -> bool:
    """Whether a location is `place` or below it."""
    return location == place or location.startswith(place + "/")
