"""What Pulsar writes of a partitioned topic: how many partitions it has."""

from __future__ import annotations

import pytest

from auditor.errors import MalformedMetadata
from auditor.pulsar.metadata import PARTITIONED_BYTES_MAX, PARTITIONS_MAX, decode_partitions


@pytest.mark.parametrize(
    ("data", "partitions"),
    [
        (b'{"partitions":0}', 0),
        (b'{"partitions":4,"deleted":false,"properties":{"a":"b"}}', 4),
        (b'{"partitions":4,"deleted":true}', 0),
        (b'{"partitions":%d}' % PARTITIONS_MAX, PARTITIONS_MAX),
        (b'{"partitions":7}'.ljust(PARTITIONED_BYTES_MAX), 7),
    ],
)
def test_the_number_of_partitions_is_read(data: bytes, partitions: int) -> None:
    """None of a topic that is being deleted."""
    assert partitions == decode_partitions(data)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"\xff", b"{", b"{}", b'{"partitions":true}', b'{"partitions":-1}',
        b'{"partitions":1.0}', b'{"partitions":"3"}', b"[" * 100_000,
        b'{"partitions":%d}' % (PARTITIONS_MAX + 1),
        b'{"partitions":1}' + b" " * PARTITIONED_BYTES_MAX,
    ],
)  # fmt: skip
def test_anything_else_is_malformed(data: bytes) -> None:
    """Also a number that nobody believes, and what is too long to be parsed."""
    with pytest.raises(MalformedMetadata):
        decode_partitions(data)
