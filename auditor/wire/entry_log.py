"""Split an entry log into its records, and check them without the ledger's metadata.

Every storage of BookKeeper keeps entries in such files. A log begins with a header of 1,024 bytes.
Then come records: a size (int32, big-endian) and a body, which begins with ledger id and entry id.
A log that was closed ends with records of ledger -1, which say how many bytes each ledger has in
it. DirectEntryLogger fills up blocks of 4,096 bytes with a negative size.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

import google_crc32c

from auditor.model.ledger import DigestType
from auditor.wire.digest import DIGEST_BYTES, HEADER_BYTES

LOG_HEADER_BYTES = 1_024
BLOCK_BYTES = 4_096
SIZE_BYTES = 4
IDS_BYTES = 16
RECORD_BYTES_MAX = 64 * 2**20
"""Longest record that is believed. Entries are at most 5 MiB by BookKeeper's default."""

_MAGIC = b"BKLO"
_LOG_HEADER = struct.Struct(">4siqi")
_SIZE = struct.Struct(">i")
_IDS = struct.Struct(">qq")


class LogHeader(NamedTuple):
    """The header of a log. `ledgers_map_at` is 0 unless the log was closed."""

    version: int
    ledgers_map_at: int
    ledgers: int


def read_log_header(data: bytes) -> LogHeader | None:
    """Return the header at the beginning of an entry log, None if this is not one."""
    if len(data) < LOG_HEADER_BYTES:
        return None
    magic, *fields = _LOG_HEADER.unpack_from(data)
    return LogHeader(*fields) if magic == _MAGIC else None


class Record(NamedTuple):
    """A record of a log. `position` is that of the body in the file, which indexes name."""

    position: int
    ledger_id: int
    entry_id: int
    body: bytes


class Split(NamedTuple):
    """The whole records of some bytes. Reading goes on at `next_at` in the file.

    `is_broken`: no record begins there. `needed` is the length of the record that begins there, if
    only its beginning was given.
    """

    records: list[Record]
    next_at: int
    is_broken: bool = False
    needed: int = 0


def split_records(data: bytes, begins_at: int) -> Split:
    """Return the records in consecutive bytes of a log, of which the first is at `begins_at`."""
    records: list[Record] = []
    at, end = 0, len(data)
    while at + SIZE_BYTES <= end:
        (size,) = _SIZE.unpack_from(data, at)
        if size < 0:
            behind = (begins_at + at) // BLOCK_BYTES * BLOCK_BYTES + BLOCK_BYTES - begins_at
            if behind > end:
                break
            at = behind
            continue
        if size < IDS_BYTES or size > RECORD_BYTES_MAX:
            return Split(records, begins_at + at, is_broken=True)
        body_at = at + SIZE_BYTES
        if body_at + size > end:
            return Split(records, begins_at + at, needed=SIZE_BYTES + size)
        body = data[body_at : body_at + size]
        ledger_id, entry_id = _IDS.unpack_from(body)
        records.append(Record(begins_at + body_at, ledger_id, entry_id, body))
        at = body_at + size
    return Split(records, begins_at + at)


def encode_record(body: bytes) -> bytes:
    """Return the record of a body."""
    return _SIZE.pack(len(body)) + body


def find_digest(body: bytes, known: DigestType | None = None) -> DigestType | None:
    """Return CRC32C or CRC32, whichever digest the body has and passes; None if it passes neither.

    `known` is the only type tried, if the ledger's is known. A wrong body passes with a probability
    of 2**-32 a type. HMAC cannot be checked without the ledger's password; DUMMY has no digest.
    """
    if known is not DigestType.CRC32:
        behind = HEADER_BYTES + DIGEST_BYTES[DigestType.CRC32C]
        if len(body) >= behind:
            crc = google_crc32c.extend(google_crc32c.value(body[:HEADER_BYTES]), body[behind:])
            if crc == int.from_bytes(body[HEADER_BYTES:behind]):
                return DigestType.CRC32C
    if known is not DigestType.CRC32C:
        behind = HEADER_BYTES + DIGEST_BYTES[DigestType.CRC32]
        if len(body) >= behind and body[HEADER_BYTES : HEADER_BYTES + 4] == bytes(4):
            crc = zlib.crc32(body[behind:], zlib.crc32(body[:HEADER_BYTES]))
            if crc == int.from_bytes(body[HEADER_BYTES:behind]):
                return DigestType.CRC32
    return None
