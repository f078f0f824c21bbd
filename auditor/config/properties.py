"""Parses Java properties files, such as bookkeeper.conf and broker.conf. Pure."""

from __future__ import annotations


def parse_properties(text: str) -> dict[str, str]:
    """Return the keys and values of a Java properties file. A later key replaces an earlier one.

    Understands comments, `=`, `:` or a space between key and value, and lines continued by a
    backslash. Escapes other than a doubled backslash are kept as they are.
    """
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        cut = min((at for at in map(line.find, "=: \t") if at >= 0), default=len(line))
        key, rest = line[:cut], line[cut:].strip()
        value = rest[1:].strip() if rest[:1] in ("=", ":") else rest
        found[key] = value.replace("\\\\", "\\")
    return found


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    is_continued = False
    for raw in text.splitlines():
        line = raw.strip()
        if not is_continued and (not line or line[0] in "#!"):
            continue
        ends_open = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        part = line[:-1] if ends_open else line
        if is_continued:
            lines[-1] += part
        else:
            lines.append(part)
        is_continued = ends_open
    return lines
