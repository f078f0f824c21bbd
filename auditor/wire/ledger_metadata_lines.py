"""Decode and encode the lines of metadata format 1 (LedgerMetadataSerDe.parseVersion1Config).

The lines after the header are: write quorum, ensemble size, length, a line for each segment, and a
closing line unless the ledger is open. A segment is `firstEntryId TAB bookie TAB bookie ...`. The
closing line is `lastEntryId TAB CLOSED`, with -102 for a ledger in recovery. The ack quorum equals
the write quorum. There is no password, digest, creation time or custom metadata.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from auditor.errors import MalformedMetadata
from auditor.model.identity import BookieId, is_bookie_id
from auditor.model.ledger import LedgerMetadata, LedgerState, Segment

IN_RECOVERY_ENTRY_ID = -102
_CLOSED = b"CLOSED"
_NUMBER = re.compile(rb"[+-]?0*[0-9]{1,19}")


class _Line(NamedTuple):
    offset: int
    text: bytes


def decode(data: bytes, body: int) -> LedgerMetadata:
    """Return the metadata whose lines begin at byte `body` of `data`.

    `last_entry_id` is None unless the ledger is closed. Raises `MalformedMetadata` with the offset
    of the wrong line or bookie. Cost: some 10 µs.
    """
    lines = _lines(data, body)
    write_quorum = _size_line(lines, data, 32, "the write quorum")
    ensemble_size = _size_line(lines, data, 32, "the ensemble size")
    length = _size_line(lines, data, 64, "the length")
    state, last_entry_id = LedgerState.OPEN, None
    segments: list[Segment] = []
    for line in lines:
        fields = line.text.rstrip(b"\t").split(b"\t")
        if len(fields) < 2:
            raise MalformedMetadata("a line is neither a segment nor the closing line", line.offset)
        entry_id = _number(fields[0], line.offset, 64, "an entry id")
        if fields[1] == _CLOSED:
            state = (
                LedgerState.IN_RECOVERY if entry_id == IN_RECOVERY_ENTRY_ID else LedgerState.CLOSED
            )
            last_entry_id = entry_id if state is LedgerState.CLOSED else None
            break
        segments.append(Segment(entry_id, tuple(_members(fields, line.offset))))
    return LedgerMetadata(
        format_version=1,
        state=state,
        ensemble_size=ensemble_size,
        write_quorum=write_quorum,
        ack_quorum=write_quorum,
        last_entry_id=last_entry_id,
        length=length,
        segments=tuple(segments),
    )


def encode(metadata: LedgerMetadata) -> bytes:
    """Return the lines of `metadata`, without what has no place in format 1.

    That is the ack quorum, digest, creation time and custom metadata.
    """
    sizes = (metadata.write_quorum, metadata.ensemble_size, metadata.length)
    segments = (
        "\t".join((str(segment.first_entry_id), *segment.ensemble)) for segment in metadata.segments
    )
    text = "".join(f"{line}\n" for line in (*sizes, *segments))
    if metadata.state is LedgerState.OPEN:
        return text.encode("ascii")
    closing = (
        IN_RECOVERY_ENTRY_ID
        if metadata.state is LedgerState.IN_RECOVERY
        else metadata.last_entry_id
    )
    assert closing is not None, "format 1 cannot say CLOSED without a last entry id"
    return f"{text}{closing}\tCLOSED".encode("ascii")


def _lines(data: bytes, start: int) -> Iterator[_Line]:
    """Yield the lines, which LF separates. A final LF begins no further line."""
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end == -1 else end
        yield _Line(start, data[start:end])
        start = end + 1


def _size_line(lines: Iterator[_Line], data: bytes, bits: int, what: str) -> int:
    line = next(lines, None)
    if line is None:
        raise MalformedMetadata(f"truncated: the line with {what} is missing", len(data))
    return _number(line.text, line.offset, bits, what)


def _number(text: bytes, offset: int, bits: int, what: str) -> int:
    value = int(text) if _NUMBER.fullmatch(text) else None
    if value is None or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise MalformedMetadata(f"{what} is not a {bits}-bit number", offset)
    return value


def _members(fields: list[bytes], offset: int) -> Iterator[BookieId]:
    offset += len(fields[0]) + 1
    for position, field in enumerate(fields[1:]):
        member = field.decode("ascii", "replace")
        if not is_bookie_id(member):
            raise MalformedMetadata(
                f"ensemble position {position} of a segment is not a bookie id", offset
            )
        yield member
        offset += len(field) + 1
