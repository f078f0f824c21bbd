"""Records of entry logs, and digests that are found without metadata."""

from __future__ import annotations

import pytest
from support.entry_logs import log_header
from support.raw_bookie import entry_body

from auditor.model.ledger import DigestType
from auditor.wire.entry_log import (
    LOG_HEADER_BYTES,
    encode_record,
    find_digest,
    read_log_header,
    split_records,
)

CRC32, CRC32C, HMAC, DUMMY = (
    DigestType.CRC32, DigestType.CRC32C, DigestType.HMAC, DigestType.DUMMY,
)  # fmt: skip


def test_records_are_split_where_their_sizes_say() -> None:
    """Each has the position of its body, which indexes name."""
    bodies = [entry_body(7, entry, CRC32C, b"") for entry in (0, 1, 5)]
    data = b"".join(map(encode_record, bodies))
    split = split_records(data, LOG_HEADER_BYTES)
    assert [(7, 0), (7, 1), (7, 5)] == [(r.ledger_id, r.entry_id) for r in split.records]
    assert [1_028, 1_028 + len(encode_record(bodies[0]))] == [
        record.position for record in split.records[:2]
    ]
    assert (LOG_HEADER_BYTES + len(data), False, 0) == split[1:]


def test_a_record_that_is_given_in_part_is_asked_for_in_whole() -> None:
    data = encode_record(entry_body(7, 0, CRC32C, b""))
    first, second = split_records(data + data[:-1], 0), split_records(data[:3], 0)
    assert (1, len(data), False, len(data)) == (len(first.records), *first[1:])
    assert (0, 0, False, 0) == (len(second.records), *second[1:])


@pytest.mark.parametrize("size", [0, 1, 15, 2**26 + 1, 2**31 - 1])
def test_no_record_has_this_size(size: int) -> None:
    data = encode_record(entry_body(7, 0, CRC32C, b""))
    split = split_records(data + size.to_bytes(4) + bytes(100), 0)
    assert (1, len(data), True) == (len(split.records), split.next_at, split.is_broken)


def test_a_negative_size_fills_up_the_block() -> None:
    """DirectEntryLogger writes whole blocks, counted from the beginning of the file."""
    record = encode_record(entry_body(7, 0, CRC32C, b""))
    block = record.ljust(4_096 - LOG_HEADER_BYTES, b"\xf0")
    split = split_records(block + record, LOG_HEADER_BYTES)
    assert [1_028, 4_100] == [record.position for record in split.records]
    split = split_records(block[:-1], LOG_HEADER_BYTES)
    assert (1, LOG_HEADER_BYTES + len(record), False) == (
        len(split.records), split.next_at, split.is_broken,
    )  # fmt: skip


def test_a_log_begins_with_its_header() -> None:
    assert (1, 5_000, 3) == read_log_header(log_header(5_000, 3))
    assert read_log_header(b"BKLE".ljust(1_024, b"\0")) is None
    assert read_log_header(log_header()[:-1]) is None


@pytest.mark.parametrize("digest", [CRC32, CRC32C])
def test_a_checksum_is_found_and_every_flipped_bit_fails_it(digest: DigestType) -> None:
    body = entry_body(7, 3, digest, b"")
    assert digest is find_digest(body) is find_digest(body, digest)
    other = CRC32 if digest is CRC32C else CRC32C
    assert find_digest(body, other) is None
    for at in range(len(body)):
        flipped = bytearray(body)
        flipped[at] ^= 4
        assert find_digest(bytes(flipped)) is None, at


@pytest.mark.parametrize("digest", [HMAC, DUMMY])
def test_a_digest_with_a_password_or_none_cannot_be_found(digest: DigestType) -> None:
    assert find_digest(entry_body(7, 3, digest, b"secret")) is None


@pytest.mark.parametrize("size", range(40))
def test_a_body_that_is_too_short_passes_nothing(size: int) -> None:
    assert find_digest(bytes(size)) is None
