"""What a lister says beside a list: read as it was written, or not at all."""

from __future__ import annotations

import json
import struct

import pytest

from auditor.errors import MalformedAvailability
from auditor.model.availability import MissingLog
from auditor.model.identity import ENTRY_ID_MAX
from auditor.wire import bookie_server
from auditor.wire.frames import Status, decode_response
from auditor.wire.lister_fields import (
    MISSING_LOGS_MAX,
    PATH_CHARACTERS_MAX,
    RANGES_MAX,
    decode_missing_logs,
    with_missing_logs,
)

LOGS = (
    MissingLog("/data/current/1f.log", 12, ((0, 3), (5, 9))),
    MissingLog("/data/current/20.log", 1, ((4, 4),)),
)


def response(logs: tuple[MissingLog, ...]) -> bytes:
    """The body of a frame with a list and these logs."""
    request = bookie_server.ListEntries(7, 5)
    frame = with_missing_logs(bookie_server.encode_list(request, Status.EOK, bytes(64)), logs)
    assert len(frame) - 4 == struct.unpack(">i", frame[:4])[0]
    return frame[4:]


def test_what_is_written_is_read() -> None:
    """Beside the list, which stays as it was."""
    decoded = decode_response(response(LOGS))
    assert (7, 5, bytes(64)) == (decoded.txn_id, decoded.ledger_id, decoded.payload)
    assert LOGS == decode_missing_logs(decoded.extra)


def test_a_list_without_the_field_says_nothing_beside() -> None:
    """As bookies send it."""
    frame = bookie_server.encode_list(bookie_server.ListEntries(7, 5), Status.EOK, bytes(64))
    assert b"" == decode_response(frame[4:]).extra


def lister_field(*logs: object, **more: object) -> bytes:
    return json.dumps({"lister": 1, "missing_logs": logs, **more}).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[" * 100_000,
        b"[]",
        lister_field(lister=2),
        lister_field(missing_logs={}),
        lister_field(*[["a", 1, [[0, 0]]]] * (MISSING_LOGS_MAX + 1)),
        lister_field(["a", 1, [[0, 0]], 1]),
        lister_field([1, 1, [[0, 0]]]),
        lister_field(["a", "1", [[0, 0]]]),
        lister_field(["a", 1, []]),
        lister_field(["a", 9, [[0, 9]]]),
        lister_field(["a", 2**63, [[0, 9]]]),
        lister_field(["a", 9, [[3, 2]]]),
        lister_field(["a", 9, [[-1, 2]]]),
        lister_field(["a", 9, [[0, 2**63]]]),
        lister_field(["a", 9, [[0, 2], [2, 3]]]),
        lister_field(["a", 9, [[0, 2.5]]]),
        lister_field(["a", True, [[0, 0]]]),
        lister_field(["a", 2, [[0, True]]]),
        lister_field(["a", 2, [[False, 1]]]),
        lister_field(["a", 99, [[n, n] for n in range(0, 2 * RANGES_MAX + 2, 2)]]),
        lister_field(["a" * (PATH_CHARACTERS_MAX + 1), 1, [[0, 0]]]),
    ],
)
def test_what_is_no_word_on_logs_is_malformed(data: bytes) -> None:
    """Nothing of it is kept: the whole answer is invalid then."""
    with pytest.raises(MalformedAvailability):
        decode_missing_logs(data)


@pytest.mark.parametrize(
    "logs",
    [
        [MissingLog("a", 1, ((0, 0),))] * MISSING_LOGS_MAX,
        [MissingLog("a" * PATH_CHARACTERS_MAX, 1, ((0, 0),))],
        [MissingLog("a", RANGES_MAX, tuple((2 * n, 2 * n) for n in range(RANGES_MAX)))],
        [MissingLog("a", ENTRY_ID_MAX, ((ENTRY_ID_MAX, ENTRY_ID_MAX),))],
    ],
)
def test_each_bound_itself_is_taken(logs: list[MissingLog]) -> None:
    """Exactly the maximum is read; one more of anything is not."""
    assert tuple(logs) == decode_missing_logs(decode_response(response(tuple(logs))).extra)


def test_a_path_that_is_no_text_is_kept_as_text() -> None:
    """Names of files are bytes; evidence is written in UTF-8."""
    (log,) = decode_missing_logs(lister_field(["/data/\udcff.log", 1, [[0, 0]]]))
    assert "/data/\\udcff.log" == log.path
