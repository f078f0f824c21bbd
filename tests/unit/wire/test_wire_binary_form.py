"""The positions of a message's fields. The tests of the ledger's metadata cover what cannot be
read, and at which byte.
"""

from __future__ import annotations

import pytest

from auditor.wire.protobuf_forms import Field, fields


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("08 9601", Field(1, False, 1, 3)),  # a varint of two bytes
        ("11 0102030405060708", Field(2, False, 1, 9)),
        ("1d 01020304", Field(3, False, 1, 5)),
        ("22 03 616263", Field(4, True, 2, 5)),  # behind its length
        ("8201 00", Field(16, True, 3, 3)),  # behind a tag of two bytes
    ],
)
def test_a_value_is_where_its_field_says(message: str, expected: Field) -> None:
    """From its first byte to the one behind its last, without its tag and, of bytes, without their
    length.
    """
    data = bytes.fromhex(message)
    assert [expected] == list(fields(data, 0, len(data)))


def test_fields_stand_in_the_order_of_their_bytes() -> None:
    """Counted from the beginning of the data, wherever the message lies in it."""
    data = bytes.fromhex("ffff 0801 1200 ff")
    assert [Field(1, False, 3, 4), Field(2, True, 6, 6)] == list(fields(data, 2, 6))
