"""Fields of a message that its schema does not know."""

from __future__ import annotations

import pytest

from auditor.wire.generated import bookkeeper_protocol_pb2 as pb
from auditor.wire.protobuf_forms import unknown_bytes


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        (b"", b""),
        (b"\x52\x02ab", b"ab"),  # field 10, length-delimited
        (b"\x5a\x01x\x52\x02ab\x52\x01y", b"ab"),  # behind field 11, and twice
        (b"\x50\x07\x52\x02ab", b"ab"),  # the first is a number
        (b"\x50\x07", b""),
        (b"\x5a\x01x", b""),
    ],
)
def test_the_first_bytes_under_the_number_are_read(fields: bytes, found: bytes) -> None:
    """Other numbers and other types are skipped; without the field nothing is said."""
    assert found == unknown_bytes(pb.StartTLSResponse.FromString(fields), 10)
