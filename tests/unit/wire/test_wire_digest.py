"""Checks that what was read is the requested entry: ids first, then the digest."""

from __future__ import annotations

import hashlib
import struct

import pytest

from auditor.model.ledger import DigestType
from auditor.wire.digest import DIGEST_BYTES, BodyCheck, check_body, digest_of

REAL = {
    DigestType.CRC32: (3, "0000000079928c43", None),
    DigestType.CRC32C: (4, "b95ab802", None),
    DigestType.HMAC: (5, "85437898c7a8f41f5cbb003f6e7d3b49b5cde62a", b"pw"),
}


def body(ledger_id: int, digest: bytes, payload: bytes = b"e0") -> bytes:
    """Entry 0 as a real client wrote it: lastAddConfirmed -1, length 2."""
    return struct.pack(">qqqq", ledger_id, 0, -1, 2) + digest + payload


@pytest.mark.parametrize("digest_type", REAL)
def test_digests_of_real_entries_are_right(digest_type: DigestType) -> None:
    """The three digests, as BookKeeper's own client computed them over "e0"."""
    ledger_id, digest, password = REAL[digest_type]
    assert BodyCheck.OK is check_body(
        body(ledger_id, bytes.fromhex(digest)), ledger_id, 0, digest_type, password
    )


@pytest.mark.parametrize("digest_type", REAL)
@pytest.mark.parametrize("at", [16, 24, 32, -1])
def test_one_changed_byte_is_a_wrong_digest(digest_type: DigestType, at: int) -> None:
    """Header, digest and payload are all covered."""
    ledger_id, digest, password = REAL[digest_type]
    changed = bytearray(body(ledger_id, bytes.fromhex(digest)))
    changed[at] ^= 1
    assert BodyCheck.WRONG_DIGEST is check_body(bytes(changed), ledger_id, 0, digest_type, password)


@pytest.mark.parametrize("digest_type", [*DigestType, None])
def test_wrong_ids_are_found_whatever_the_digest(digest_type: DigestType | None) -> None:
    """Another ledger's or another entry's bytes are not this entry, even with a right digest."""
    digest = (
        digest_of(struct.pack(">qqqq", 3, 0, -1, 2) + b"e0", digest_type, b"pw")
        if digest_type
        else b""
    )
    found = body(3, digest)
    assert BodyCheck.WRONG_IDS is check_body(found, 4, 0, digest_type, b"pw")
    assert BodyCheck.WRONG_IDS is check_body(found, 3, 1, digest_type, b"pw")


def test_hmac_without_a_password_is_unverified() -> None:
    """The ids are right and the key is not known: no claim either way. An empty password is a
    password.
    """
    ledger_id, digest, _ = REAL[DigestType.HMAC]
    found = body(ledger_id, bytes.fromhex(digest))
    assert BodyCheck.UNVERIFIED is check_body(found, ledger_id, 0, DigestType.HMAC, None)
    assert BodyCheck.WRONG_DIGEST is check_body(found, ledger_id, 0, DigestType.HMAC, b"")
    assert BodyCheck.WRONG_DIGEST is check_body(found, ledger_id, 0, DigestType.HMAC, b"other")


def test_an_hmac_is_verified_where_sha1_is_kept_from_security(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A FIPS policy refuses SHA-1 unless the caller says that it is not for security. Here it finds
    damage, not attackers.
    """
    ledger_id, digest, password = REAL[DigestType.HMAC]
    sha1 = hashlib.sha1

    def under_policy(data: bytes, *, usedforsecurity: bool = True) -> object:
        if usedforsecurity:
            raise ValueError("disabled for FIPS")
        return sha1(data, usedforsecurity=False)

    monkeypatch.setattr(hashlib, "sha1", under_policy)
    assert BodyCheck.OK is check_body(
        body(ledger_id, bytes.fromhex(digest)), ledger_id, 0, DigestType.HMAC, password
    )


def test_an_empty_password_is_a_password() -> None:
    """An entry written with none given is verified with none given."""
    digest = digest_of(struct.pack(">qqqq", 3, 0, -1, 2) + b"e0", DigestType.HMAC, b"")
    assert BodyCheck.OK is check_body(body(3, digest), 3, 0, DigestType.HMAC, b"")


def test_an_unknown_digest_type_is_unverified() -> None:
    """Old metadata names no digest: the ids alone are checked, of a body that has at least its
    header.
    """
    assert BodyCheck.UNVERIFIED is check_body(body(3, b""), 3, 0, None, None)
    assert BodyCheck.UNVERIFIED is check_body(body(3, b"", b""), 3, 0, None, None)
    assert BodyCheck.TOO_SHORT is check_body(body(3, b"", b"")[:-1], 3, 0, None, None)


def test_dummy_has_no_digest_to_be_wrong() -> None:
    """DUMMY entries carry none."""
    assert BodyCheck.OK is check_body(body(3, b""), 3, 0, DigestType.DUMMY, None)


@pytest.mark.parametrize("digest_type", DigestType)
def test_a_body_shorter_than_its_header_and_digest_is_too_short(digest_type: DigestType) -> None:
    """An empty payload is an entry; one byte less is not."""
    head = struct.pack(">qqqq", 3, 0, -1, 0)
    whole = head + digest_of(head, digest_type, b"pw")
    assert 32 + DIGEST_BYTES[digest_type] == len(whole)
    assert BodyCheck.OK is check_body(whole, 3, 0, digest_type, b"pw")
    assert BodyCheck.TOO_SHORT is check_body(whole[:-1], 3, 0, digest_type, b"pw")
    assert BodyCheck.TOO_SHORT is check_body(b"", 3, 0, digest_type, b"pw")
