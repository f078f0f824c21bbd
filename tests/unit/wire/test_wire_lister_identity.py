"""Whose index a lister reads: what it says is read as it was written, or not at all."""

from __future__ import annotations

import json
import struct

import pytest

from auditor.wire import bookie_server
from auditor.wire.frames import Status, decode_response
from auditor.wire.lister_fields import (
    ListerIdentity,
    decode_identity,
    with_identity,
    with_lister_field,
)

INFO = bookie_server.encode_info(
    bookie_server.BookieInfo(7, total_disk_capacity=True, free_disk_space=True), Status.EOK, 9, 5
)


def said(**fields: object) -> bytes:
    """What a lister says, with some fields changed."""
    words = {"lister": 1, "bookie_id": "b1", "instance_id": "i", "view_age_ms": 5}
    return json.dumps({**words, **fields}).encode()


@pytest.mark.parametrize(
    "identity", [ListerIdentity("b1", "the-instance", 40), ListerIdentity("b2", None, None)]
)
def test_an_identity_that_is_written_is_read(identity: ListerIdentity) -> None:
    """Behind the response, which stays as it was and whose length counts it."""
    frame = with_identity(INFO, identity)
    assert len(frame) - 4 == struct.unpack(">i", frame[:4])[0]
    assert frame[4:].startswith(INFO[4:])
    decoded = decode_response(frame[4:])
    assert (8, 7, Status.EOK) == (decoded.operation, decoded.txn_id, decoded.status)
    assert identity == decode_identity(decoded.extra)


def test_an_identity_is_written_as_documented() -> None:
    """Other programs may read it: JSON with these names."""
    extra = decode_response(with_identity(INFO, ListerIdentity("b1", "i", 5))[4:]).extra
    assert json.loads(said()) == json.loads(extra)


def test_the_field_is_that_of_the_protocol() -> None:
    """Field 31820, length-delimited: protocol buffers of other languages skip it."""
    assert INFO[4:] + b"\xe2\xc4\x0f\x02ab" == with_lister_field(INFO, b"ab")[4:]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[" * 100_000,
        b"[]",
        said(lister=2),
        said(bookie_id=3),
        said(instance_id=3),
        said(view_age_ms="5"),
        said(bookie_id="b\udcff"),
        said(instance_id="\udcff"),
        said(bookie_id="b\x1b[2J"),
        b'{"lister": 1}',
    ],
)
def test_what_is_no_identity_is_none(data: bytes) -> None:
    """Whatever answers at the port of a lister, the audit does not fail, and can write down what it
    was given.
    """
    assert decode_identity(data) is None
