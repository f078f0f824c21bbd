"""Whose index a lister reads: what it says is read as it was written, or not at all."""

from __future__ import annotations

import json
import struct
from dataclasses import replace

import pytest

from auditor.model.scrub import CANDIDATES_MAX, Candidate, ScrubPass, ScrubReport, Suspicion
from auditor.wire import bookie_server
from auditor.wire.frames import Status, decode_response
from auditor.wire.lister_fields import (
    ListerIdentity,
    decode_identity,
    decode_scrub,
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


REPORT = ScrubReport(
    99,
    ScrubPass(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12),
    ScrubPass(3),
    (Candidate(7, 2**62, Suspicion.DIGEST), Candidate(8, 0, Suspicion.LOG_MISSING)),
)


@pytest.mark.parametrize(
    "report",
    [REPORT, ScrubReport(0), replace(REPORT, finished=None), replace(REPORT, current=None)],
)
@pytest.mark.parametrize("lists", [True, False])
def test_a_scrubs_report_that_is_written_is_read(report: ScrubReport, lists: bool) -> None:
    identity = ListerIdentity("b1", "i", None, report, lists)
    frame = with_identity(INFO, identity)
    assert identity == decode_identity(decode_response(frame[4:]).extra)


def test_a_lister_of_an_earlier_version_lists_and_does_not_scrub() -> None:
    found = decode_identity(said())
    assert found is not None and (None, True) == (found.scrub, found.lists)


@pytest.mark.parametrize(
    "scrub",
    [None, 7, [], {}, {"written_at_ms": -1}, {"written_at_ms": True}, {"written_at_ms": 2**48}],
    ids=repr,
)
def test_what_is_no_report_is_none_and_the_lister_still_lists(scrub: object) -> None:
    found = decode_identity(said(scrub=scrub))
    assert found is not None and (None, True) == (found.scrub, found.lists)


@pytest.mark.parametrize(
    "part",
    [
        {"began_at_ms": "1"},
        {"began_at_ms": 1, "logs": -1},
        {"began_at_ms": 1, "ended_at_ms": 1.5},
        {"began_at_ms": 2**48},
        {"began_at_ms": 1, "ended_at_ms": 2**62},
    ],
    ids=repr,
)
def test_a_pass_with_impossible_numbers_is_none(part: object) -> None:
    """A time beyond the year 9999 cannot be shown."""
    found = decode_scrub({"written_at_ms": 1, "finished": part, "current": 3})
    assert ScrubReport(1) == found


def test_candidates_that_no_bookie_can_hold_are_left_out_and_few_are_kept() -> None:
    odd = [[7, -1, "digest"], [2**63, 1, "digest"], [7, True, "digest"], [7, 1], 7, [7, 1, "new"]]
    many = [[ledger, 1, "digest"] for ledger in range(2 * CANDIDATES_MAX)]
    found = decode_scrub({"written_at_ms": 1, "candidates": [*odd, *many]})
    assert found is not None
    assert list(range(CANDIDATES_MAX)) == [one.ledger_id for one in found.candidates]


def test_a_report_fits_a_frame_of_bookkeepers_clients() -> None:
    """Even with the longest ids."""
    most = tuple(Candidate(2**63 - 1, n, Suspicion.OTHER_RECORD) for n in range(CANDIDATES_MAX))
    frame = with_identity(INFO, ListerIdentity("b1", "i", 1, replace(REPORT, candidates=most)))
    assert len(frame) < 16 * 2**10
