"""Read a bookie's cookie: its znode, and the file VERSION in each of its directories.

The first line is a layout version, the rest is protobuf text (DataFormats.CookieFormat). Layouts
older than 4 are not read. A bookie does not start if its configuration differs from its cookie
(org.apache.bookkeeper.bookie.Cookie).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from auditor.errors import MalformedMetadata
from auditor.model.identity import BookieId

_FIELD = re.compile(r'^(\w+): "(.*)"$')
_ESCAPE = re.compile(rb"\\(n|t|r|\"|\\|'|[0-3]?[0-7]{1,2})")
_PLAIN = {b"n": b"\n", b"t": b"\t", b"r": b"\r"}


@dataclass(frozen=True, slots=True)
class Cookie:
    """The contents of a cookie: the bookie, its cluster, and its directories in order.

    `index_directories` is None if the bookie's release does not record them.
    """

    bookie_id: BookieId
    instance_id: str | None
    ledger_directories: tuple[str, ...]
    index_directories: tuple[str, ...] | None


def parse_cookie(text: str) -> Cookie:
    """Return the cookie in the text of a znode or of a VERSION file. Raises MalformedMetadata."""
    version, _, body = text.partition("\n")
    if not version.strip().isdigit():
        raise MalformedMetadata(
            f"a cookie begins with a layout version, this one with {version[:40]!r}"
        )
    fields: dict[str, str] = {}
    for line in body.splitlines():
        match = _FIELD.match(line.strip())
        if match is not None:
            fields[match[1]] = _decode_escapes(match[2])
    if "bookieHost" not in fields or "ledgerDirs" not in fields:
        raise MalformedMetadata(
            "the cookie names no bookie (bookieHost) or no ledger directories (ledgerDirs)"
        )
    indexes = fields.get("indexDirs")
    return Cookie(
        fields["bookieHost"],
        fields.get("instanceId") or None,
        _directories(fields["ledgerDirs"]),
        None if indexes is None else _directories(indexes),
    )


def _directories(value: str) -> tuple[str, ...]:
    """Split `<count> TAB <directory> TAB ...`. Raises MalformedMetadata if the count is wrong."""
    count, *directories = value.split("\t")
    if count != str(len(directories)) or not directories:
        raise MalformedMetadata(
            f"a list of directories is {value!r}: a count and as many directories are expected"
        )
    return tuple(directories)


def _decode_escapes(value: str) -> str:
    """Decode the escapes of a string in protobuf's text format.

    Each escape is a byte, and a character may have several.
    """
    return _ESCAPE.sub(_unescape, value.encode()).decode("utf-8", "replace")


def _unescape(match: re.Match[bytes]) -> bytes:
    escaped = match[1]
    return bytes([int(escaped, 8)]) if escaped.isdigit() else _PLAIN.get(escaped, escaped)
