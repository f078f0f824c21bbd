"""Locate the fields of a protobuf message in its bytes, to say at which byte decoding failed.

protobuf itself decodes, but its errors do not say where. This module walks the same bytes once,
after a failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

VARINT_BYTES_MAX = 10
GROUPS_OPEN_MAX = 100
_VARINT, _FIXED64, _BYTES, _GROUP, _END_GROUP, _FIXED32 = range(6)
_FIXED_WIDTH = {_FIXED64: 8, _FIXED32: 4}


class Field(NamedTuple):
    """One field of a message. Its value is `data[start:end]`; `is_bytes`: wire type 2."""

    number: int
    is_bytes: bool
    start: int
    end: int


class NotProtobufError(ValueError):
    """The bytes stop being protobuf at `offset`.

    Stays inside `auditor.wire`, which raises `MalformedMetadata` instead.
    """

    def __init__(self, offset: int) -> None:
        super().__init__(f"not protobuf at byte {offset}")
        self.offset = offset


def varint(data: bytes, offset: int, end: int) -> tuple[int, int]:
    """Return the unsigned varint at `offset`, and the offset behind it.

    Raises `NotProtobufError` if it does not end before `end` or within VARINT_BYTES_MAX bytes.
    """
    value = shift = 0
    for position in range(offset, min(end, offset + VARINT_BYTES_MAX)):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
        shift += 7
    raise NotProtobufError(offset)


def fields(data: bytes, start: int, end: int) -> Iterator[Field]:
    """Yield the fields of the message in `data[start:end]`, in order.

    Raises `NotProtobufError` at the first field that cannot be read.
    """
    position, open_groups = start, 0
    while position < end:
        offset = position
        tag, position = varint(data, position, end)
        number, wire_type = tag >> 3, tag & 7
        value_start = position
        if number == 0 or number >= 1 << 29:
            raise NotProtobufError(offset)
        if wire_type == _VARINT:
            _, position = varint(data, position, end)
        elif wire_type == _BYTES:
            length, value_start = varint(data, position, end)
            position = value_start + length
        elif wire_type in _FIXED_WIDTH:
            position += _FIXED_WIDTH[wire_type]
        elif wire_type in (_GROUP, _END_GROUP):
            open_groups += 1 if wire_type == _GROUP else -1
        else:
            raise NotProtobufError(offset)
        if position > end or not 0 <= open_groups <= GROUPS_OPEN_MAX:
            raise NotProtobufError(offset)
        yield Field(number, wire_type == _BYTES, value_start, position)
    if open_groups:
        raise NotProtobufError(end)
