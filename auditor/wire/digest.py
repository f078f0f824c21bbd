"""Check the ids and the digest of a stored entry (BookKeeper's DigestManager).

A body is ledgerId, entryId, lastAddConfirmed and length (int64 each, big-endian), the digest, and
the payload. The digest covers the first 32 bytes and the payload.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
import zlib
from enum import Enum
from typing import NamedTuple

import google_crc32c

from auditor.model.identity import EntryId, LedgerId
from auditor.model.ledger import DigestType

HEADER_BYTES = 32
DIGEST_BYTES = {DigestType.CRC32: 8, DigestType.HMAC: 20, DigestType.CRC32C: 4, DigestType.DUMMY: 0}

_IDS = struct.Struct(">qq")
_HEADER = struct.Struct(">qqqq")


class EntryHeader(NamedTuple):
    """The fields before an entry's digest.

    `last_confirmed`: the last entry that the writer knew to be acknowledged. `length_bytes`: the
    ledger's payload up to and including this entry.
    """

    ledger_id: LedgerId
    entry_id: EntryId
    last_confirmed: EntryId
    length_bytes: int


def read_header(body: bytes) -> EntryHeader | None:
    """Return the header of a stored entry, None if the body is too short for one."""
    return EntryHeader._make(_HEADER.unpack_from(body)) if len(body) >= HEADER_BYTES else None


class BodyCheck(Enum):
    """The result of `check_body`. UNVERIFIED: the ids are right, but the digest cannot be
    checked.
    """

    OK = "ok"
    UNVERIFIED = "unverified"
    WRONG_IDS = "wrong ids"
    WRONG_DIGEST = "wrong digest"
    TOO_SHORT = "too short"


def check_body(
    body: bytes,
    ledger_id: LedgerId,
    entry_id: EntryId,
    digest_type: DigestType | None,
    password: bytes | None,
) -> BodyCheck:
    """Check that `body` is entry `entry_id` of `ledger_id`, undamaged. Never raises; one pass.

    Returns UNVERIFIED when metadata names no digest type, or names HMAC and there is no password.
    DUMMY has no digest: only its ids and length are checked.
    """
    digest_bytes = DIGEST_BYTES[digest_type] if digest_type is not None else 0
    if len(body) < HEADER_BYTES + digest_bytes:
        return BodyCheck.TOO_SHORT
    if _IDS.unpack_from(body) != (ledger_id, entry_id):
        return BodyCheck.WRONG_IDS
    if digest_type is None or (digest_type is DigestType.HMAC and password is None):
        return BodyCheck.UNVERIFIED
    covered = body[:HEADER_BYTES] + body[HEADER_BYTES + digest_bytes :]
    stored = body[HEADER_BYTES : HEADER_BYTES + digest_bytes]
    return (
        BodyCheck.OK
        if stored == digest_of(covered, digest_type, password or b"")
        else BodyCheck.WRONG_DIGEST
    )


def digest_of(covered: bytes, digest_type: DigestType, password: bytes) -> bytes:
    """Return the digest of `covered` (header and payload) as stored. Only HMAC uses `password`."""
    if digest_type is DigestType.CRC32:
        return zlib.crc32(covered).to_bytes(8, "big")
    if digest_type is DigestType.CRC32C:
        return int(google_crc32c.value(covered)).to_bytes(4, "big")
    if digest_type is DigestType.HMAC:
        key = hashlib.sha1(b"mac" + password, usedforsecurity=False).digest()
        return hmac.digest(key, covered, "sha1")
    return b""
