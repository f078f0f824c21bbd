"""Reads fields of a message that its schema does not know."""

from __future__ import annotations

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

LISTER_FIELD = 31_820
"""Field of Response in which a lister says more than a bookie: who it is (`lister_identity`), and
which entry logs are missing (`missing_logs`)."""


def unknown_bytes(message: Message, number: int) -> bytes:
    """Return the bytes of an unknown field of a message, b"" where it has none."""
    unknown = UnknownFieldSet(message)
    for index in range(len(unknown)):
        field = unknown[index]
        if field.field_number == number and isinstance(field.data, bytes):
            return field.data
    return b""


def count_unknown_fields(message: Message) -> int:
    """Return how many fields of a message, and of the messages in it, its schema does not know."""
    found = len(UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.message_type is not None:
            inner = (value,) if isinstance(value, Message) else value
            found += sum(map(count_unknown_fields, inner))
    return found
