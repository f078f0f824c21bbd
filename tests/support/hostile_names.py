"""Names chosen to mislead: control characters, terminal escapes, direction overrides, line
breaks.
"""

from __future__ import annotations

from typing import Any

ESCAPES = "\x1b[2J\x1b]0;title\x07\x1b[201~"
OVERRIDES = "\u202e\u2066\u200f"
FORGED = "\r\nauditor: SOUND run=x listed=1 sound=1 exempt=0 indeterminate=0 violated=0\n"
SEPARATORS = "\u2028\x85\x0b\x1c"
SHELL = "'; touch /tmp/hostile; $(id) `id` \\"
HOSTILE = ESCAPES + OVERRIDES + FORGED + SEPARATORS + "\x00\x7f\x9b31m" + SHELL


def unprintable(text: str, allowed: str = "\n") -> list[str]:
    """Return the characters of an output that a terminal would act on."""
    return sorted({char for char in text if not char.isprintable() and char not in allowed})


def with_hostile_strings(value: Any, kept: frozenset[str], key: str = "") -> Any:
    """Return a JSON value with HOSTILE appended to each string, except below the keys in `kept`.
    Keys that are names get it too.
    """
    if key in kept:
        return value
    if isinstance(value, str):
        return value + HOSTILE
    if isinstance(value, list | tuple):
        return [with_hostile_strings(one, kept) for one in value]
    if isinstance(value, dict):
        named = key in {"missing_on", "answers"}
        return {
            name + HOSTILE if named else name: with_hostile_strings(one, kept, name)
            for name, one in value.items()
        }
    return value
