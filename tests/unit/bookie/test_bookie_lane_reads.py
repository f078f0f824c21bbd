"""Reading single entries: what is present, what is absent, and what says neither."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from support.lanes import (
    LOOK,
    NOW_MS,
    ledgers,
    statuses,
)
from support.scripted_bookie import (
    READ,
    Connection,
    ScriptedBookie,
    entry_body,
    read_answer,
)
from support.virtual_time import virtual_lane

from auditor.bookie.lane import ReadQuestion
from auditor.model.availability import HIGHEST_STORED, EntryRead, ReadStatus
from auditor.model.ledger import DigestType
from auditor.sandbox.bookie import with_wrong_digest
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb


def read(bookie: ScriptedBookie, *questions: ReadQuestion, **changes: float) -> list[EntryRead]:
    with virtual_lane(bookie, **changes) as asker:
        reads = asker.reads(questions)
        assert [(q.ledger_id, q.entry_id) for q in questions] == [
            (r.ledger_id, r.entry_id) for r in reads
        ]
        return reads


def reading(body: bytes | None, status: int = 0) -> Callable[[Connection, pb.Request], bool]:
    """A bookie that answers every read with this."""

    def act(connection: Connection, request: pb.Request) -> bool:
        if request.header.operation != READ:
            return False
        asked = request.readRequest
        connection.send(
            read_answer(request.header.txnId, asked.ledgerId, asked.entryId, body, status)
        )
        return True

    return act


@pytest.mark.parametrize("digest_type", DigestType)
def test_an_entry_that_is_there_and_right_is_present(digest_type: DigestType) -> None:
    """Ids and digest match; the read has the look, the time, the cost, and what the header says
    where a digest proves it.
    """
    body = entry_body(5, 6, digest_type, b"pw")
    with ScriptedBookie(act=reading(body)) as bookie:
        (found,) = read(bookie, ReadQuestion(5, 6, digest_type, b"pw"))
    size = len(read_answer(2, 5, 6, body))
    made = EntryRead("b1:3181", 5, 6, LOOK, NOW_MS, ReadStatus.PRESENT, "", 1, 0, size)
    _, _, confirmed, length = struct.unpack_from(">qqqq", body)
    proven = replace(made, last_confirmed=confirmed, length_bytes=length)
    assert (made if digest_type is DigestType.DUMMY else proven) == found


@pytest.mark.parametrize(
    ("stored", "status", "entry"),
    [
        (entry_body(5, 6), ReadStatus.PRESENT, 6),
        (with_wrong_digest(entry_body(5, 6)), ReadStatus.CORRUPT, 6),
        (entry_body(4, 6), ReadStatus.INVALID, None),
        (entry_body(5, 6)[:30], ReadStatus.INVALID, None),
        (struct.pack(">qqqq", 5, -1, -1, 0) + bytes(8), ReadStatus.INVALID, None),
    ],
)
def test_the_highest_stored_entry_is_the_one_that_came(
    stored: bytes, status: ReadStatus, entry: int | None
) -> None:
    """The request names no entry. The body says which it is, unless it is of another ledger."""
    with ScriptedBookie(act=reading(stored)) as bookie:
        (found,) = read(bookie, ReadQuestion(5, HIGHEST_STORED, DigestType.CRC32C))
    assert (HIGHEST_STORED, status, entry) == (found.entry_id, found.status, found.stored_entry_id)
    assert (5 if status is ReadStatus.PRESENT else None) == found.last_confirmed


def test_hmac_without_its_password_is_present_by_its_ids() -> None:
    """The ids suffice, and the read has the doubt; wrong ids do not suffice."""
    with ScriptedBookie(act=reading(entry_body(5, 6, DigestType.HMAC, b"pw"))) as bookie:
        right, wrong = read(
            bookie, ReadQuestion(5, 6, DigestType.HMAC), ReadQuestion(5, 7, DigestType.HMAC)
        )
    assert (ReadStatus.PRESENT, "digest unverified") == (right.status, right.detail)
    assert (ReadStatus.INVALID, True) == (wrong.status, "wrong ids" in wrong.detail)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (entry_body(5, 7), "wrong ids"),
        (entry_body(4, 6), "wrong ids"),
        (entry_body(5, 7)[:-1] + b"?", "wrong ids"),
        (b"", "too short"),
        (entry_body(5, 6)[:35], "too short"),
    ],
)
def test_what_is_not_the_entry_is_invalid_and_never_absent(body: bytes, says: str) -> None:
    """Another entry, a torn one: INVALID, with what is wrong and no byte of it."""
    with ScriptedBookie(act=reading(body)) as bookie:
        (found,) = read(bookie, ReadQuestion(5, 6, DigestType.CRC32C))
    assert (ReadStatus.INVALID, True) == (found.status, found.detail.endswith(says))


CHECKED = [digest for digest in DigestType if digest is not DigestType.DUMMY]
"""Digests that can be wrong."""


@pytest.mark.parametrize("digest_type", CHECKED)
@pytest.mark.parametrize("at", [-1, 20, 33])
def test_the_right_entry_with_a_changed_byte_is_corrupt(digest_type: DigestType, at: int) -> None:
    """The byte is in its payload, its last confirmed id or the digest itself: CORRUPT, and no byte
    of it is in the evidence.
    """
    body = bytearray(entry_body(5, 6, digest_type, b"pw"))
    body[at] ^= 0x40
    with ScriptedBookie(act=reading(bytes(body))) as bookie:
        (found,) = read(bookie, ReadQuestion(5, 6, digest_type, b"pw"))
    assert ReadStatus.CORRUPT is found.status
    assert (
        found.detail == f"this entry, {len(body)} bytes, does not match the digest stored with it"
    )


def test_a_digest_of_another_kind_than_the_metadata_names_is_corrupt() -> None:
    """The metadata says CRC32C, the entry carries a CRC32."""
    with ScriptedBookie(act=reading(entry_body(5, 6, DigestType.CRC32))) as bookie:
        (found,) = read(bookie, ReadQuestion(5, 6, DigestType.CRC32C))
    assert ReadStatus.CORRUPT is found.status


def test_without_a_digest_nothing_can_be_corrupt() -> None:
    """DUMMY: the ids alone tell."""
    with ScriptedBookie(act=reading(entry_body(5, 6, DigestType.DUMMY)[:-1] + b"?")) as bookie:
        (found,) = read(bookie, ReadQuestion(5, 6, DigestType.DUMMY))
    assert ReadStatus.PRESENT is found.status


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (pb.ENOENTRY, ReadStatus.NO_ENTRY),
        (pb.ENOLEDGER, ReadStatus.NO_LEDGER),
        (pb.EIO, ReadStatus.FAILED),
        (pb.EUNKNOWNLEDGERSTATE, ReadStatus.FAILED),
        (pb.EBADREQ, ReadStatus.REFUSED),
    ],
)
def test_only_enoentry_and_enoledger_are_absence(status: int, expected: ReadStatus) -> None:
    """Every other status leaves it unknown."""
    with ScriptedBookie(act=reading(None, status)) as bookie:
        assert [expected] == statuses(read(bookie, ReadQuestion(5, 6, DigestType.CRC32C)))


def test_too_many_requests_is_asked_again_after_a_pause() -> None:
    """A full read queue is not an answer: the read is repeated until there is one, and the tries
    are counted.
    """
    tries: Counter[int] = Counter()

    def busy(connection: Connection, request: pb.Request) -> bool:
        entry_id = request.readRequest.entryId
        tries[entry_id] += request.header.operation == READ
        if request.header.operation != READ or tries[entry_id] > 2:
            return False
        connection.send(read_answer(request.header.txnId, 1, entry_id, None, pb.ETOOMANYREQUESTS))
        return True

    with ScriptedBookie(ledgers(3), busy) as bookie:
        reads = read(bookie, *(ReadQuestion(1, n, DigestType.CRC32C) for n in range(6)))
        assert 1 == len(bookie.connections)
    assert [(ReadStatus.PRESENT, 3, 2)] * 6 == [(r.status, r.requests, r.retries) for r in reads]


def test_too_many_requests_for_ever_is_a_refusal() -> None:
    """After bookie_retries more tries it is REFUSED, with BookKeeper's name."""
    with ScriptedBookie(act=reading(None, pb.ETOOMANYREQUESTS)) as bookie:
        (found,) = read(bookie, ReadQuestion(1, 1), bookie_retries=2)
    assert (ReadStatus.REFUSED, 3, 2) == (found.status, found.requests, found.retries)
    assert found.detail.startswith("ETOOMANYREQUESTS")
