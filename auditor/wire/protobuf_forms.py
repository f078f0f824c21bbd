"""Protobuf beyond its library: fields in bytes, unknown fields, and BookKeeper's text form.

protobuf decodes messages, but its errors do not say at which byte. `fields` walks the same bytes
once, after a failure. In the text form, protobuf's errors quote the line on which they fail, and
one line of a ledger's text form has its password. The errors here name only the place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from google.protobuf import text_format
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from auditor.errors import MalformedMetadata

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

    It stays inside `auditor.wire`, which raises `MalformedMetadata` instead.
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


LISTER_FIELD = 31_820
"""Field of Response in which a lister tells more than a bookie: whom it lists for, and which entry
logs are missing (`lister_fields`)."""


def unknown_bytes(message: Message, number: int) -> bytes:
    """Return the bytes of an unknown field of a message, or b"" if it does not have the field."""
    unknown = UnknownFieldSet(message)
    for index in range(len(unknown)):
        field = unknown[index]
        if field.field_number == number and isinstance(field.data, bytes):
            return field.data
    return b""


def count_unknown_fields(message: Message) -> int:
    """Return how many fields of a message and of its nested messages its schema does not know."""
    found = len(UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.message_type is not None:
            inner = (value,) if isinstance(value, Message) else value
            found += sum(map(count_unknown_fields, inner))
    return found


def merge_text(data: bytes, start: int, message: Message) -> None:
    """Parse `data[start:]` into `message`.

    As in Java, the last value of a singular field wins, and unknown fields are errors. Raises
    `MalformedMetadata`, with an offset from the beginning of `data`. Cost: pure Python, some 100 µs
    for a ledger.
    """
    problem = _merge(data, start, message)
    if problem is not None:
        # Raised here, so that protobuf's error with the quoted line is not kept as its context.
        raise problem


def _merge(data: bytes, start: int, message: Message) -> MalformedMetadata | None:
    body = data[start:]
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        return MalformedMetadata("the text form is not UTF-8", start + error.start)
    try:
        text_format.Merge(text, message)
    except text_format.ParseError as error:
        return _locate_error(text, start, error.GetLine() or 1, error.GetColumn() or 1)
    except Exception:  # arbitrary bytes: whatever protobuf raises means that it cannot read them
        return MalformedMetadata("the text form cannot be parsed", start)
    return missing_fields_error(message, len(data))


def _locate_error(text: str, start: int, line: int, column: int) -> MalformedMetadata:
    before = text.split("\n")[:line]
    before[-1] = before[-1][: column - 1]
    offset = start + len("\n".join(before).encode())
    return MalformedMetadata(
        f"the text form cannot be parsed at line {line}, column {column}", offset
    )


def write_text(message: Message) -> bytes:
    """Return `message` in text form as BookKeeper writes it.

    Each field is on its own line, indented by two spaces a level. All but printable ASCII is
    escaped.
    """
    return text_format.MessageToString(message, as_utf8=False).encode("ascii")


def missing_fields_error(message: Message, end: int) -> MalformedMetadata | None:
    """Return an error at byte `end` that names missing required fields; None if there are none."""
    if message.IsInitialized():
        return None
    missing: list[str] = message.FindInitializationErrors()  # type: ignore[attr-defined]  # not in the stubs
    return MalformedMetadata(f"required fields are missing: {', '.join(missing)}", end)
