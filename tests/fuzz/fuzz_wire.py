"""Fuzz targets: what bookies, listers and clients of a lister send."""

from __future__ import annotations

import contextlib
import struct

from targets import Target, check_storable

from auditor.errors import MalformedAvailability, PeerProtocolError
from auditor.model.availability import MissingLog, SequenceGroup
from auditor.model.ledger import DigestType
from auditor.wire import bookie_server, entry_availability, frames
from auditor.wire.bookie_connection import Answered, BookieConnection
from auditor.wire.digest import check_body
from auditor.wire.lister_fields import (
    ListerIdentity,
    decode_identity,
    decode_missing_logs,
    with_identity,
    with_missing_logs,
)

FRAME_BYTES_MAX = 65_536
GROUPS_MAX = 1_000
ENTRIES_COMPARED_MAX = 2_000
"""Lists of at most so many runs and entries are enumerated and compared."""
_GROUP = struct.Struct(">qqii")


def read_responses(data: bytes) -> None:
    """Read responses. The first byte is the size of the pieces in which the rest arrives, 0 for all
    at once.
    """
    connection = BookieConnection(FRAME_BYTES_MAX)
    connection.ask_list(7)
    connection.ask_read(7, 3)
    connection.ask_info()
    connection.ask_list(8)
    piece = (data[0] if data else 0) or len(data) or 1
    for start in range(1, len(data), piece):
        for event in connection.receive(data[start : start + piece]):
            if isinstance(event, Answered):
                with contextlib.suppress(MalformedAvailability):
                    entry_availability.decode(event.payload, GROUPS_MAX)
                check_body(event.payload, 7, 3, DigestType.CRC32C, None)
                _read_extra(event.extra)


def read_list(data: bytes) -> None:
    """Check that an accepted list is the same set of entries in canonical form, and is unchanged
    when read again.
    """
    found = entry_availability.decode(data, GROUPS_MAX)
    groups = entry_availability.groups_of(found.groups)
    again = struct.pack(">ii56x", 0, len(groups)) + found.groups
    assert found.groups == entry_availability.decode(again, max(len(groups), 1)).groups
    written = [
        SequenceGroup._make(one)
        for one in _GROUP.iter_unpack(data[entry_availability.HEADER_BYTES :])
    ]
    one, other = _entries(written), _entries(groups)
    assert one is None or other is None or one == other


def _entries(groups: list[SequenceGroup] | tuple[SequenceGroup, ...]) -> set[int] | None:
    """Return the entries one by one, None if there are too many."""
    found: set[int] = set()
    for first, last, size, period in groups:
        runs = (last - first) // period + 1 if period else 1
        if runs * size + len(found) > ENTRIES_COMPARED_MAX:
            return None
        for start in range(first, last + 1, period or 1):
            found.update(range(start, start + size))
    return found


def read_requests(data: bytes) -> None:
    """Check that a lister decodes each request and can answer it."""
    for body in bookie_server.RequestBuffer(FRAME_BYTES_MAX).feed(data):
        request = bookie_server.decode_request(body)
        if isinstance(request, bookie_server.WrongVersion):
            bookie_server.encode_wrong_version(request)
        elif isinstance(request, bookie_server.ListEntries):
            bookie_server.encode_list(request, frames.Status.ENOLEDGER)
        elif isinstance(request, bookie_server.BookieInfo):
            bookie_server.encode_info(request, frames.Status.EOK, 1, 1)
        else:
            bookie_server.encode_status(request, frames.Status.EBADREQ)


def _read_extra(data: bytes) -> None:
    identity = decode_identity(data)
    if identity is not None:
        check_storable(f"{identity.bookie_id} {identity.instance_id}")
    with contextlib.suppress(MalformedAvailability):
        for log in decode_missing_logs(data):
            check_storable(log.path)


def _list(*groups: tuple[int, int, int, int]) -> bytes:
    return struct.pack(">ii56x", 0, len(groups)) + b"".join(_GROUP.pack(*group) for group in groups)


_LISTS = [
    _list(),
    _list((0, 0, 10, 0)),
    _list((0, 90, 5, 10), (200, 200, 1, 0)),
    _list((5, 5, 3, 0), (0, 0, 7, 0)),
]


def _responses() -> list[bytes]:
    info = bookie_server.encode_info(
        bookie_server.BookieInfo(3, True, True), frames.Status.EOK, 9, 4
    )
    listed = [
        bookie_server.encode_list(bookie_server.ListEntries(1, 7), frames.Status.EOK, one)
        for one in _LISTS
    ]
    logs = [MissingLog("/data/current/1f.log", 3, ((0, 1), (7, 7)))]
    read = bookie_server.ReadEntry(2, 7, 3)
    answers = [
        *listed,
        with_missing_logs(listed[1], logs),
        info,
        with_identity(info, ListerIdentity("b1:3181", "inst", 5)),
        bookie_server.encode_read(
            read, frames.Status.EOK, struct.pack(">qqqq", 7, 3, 2, 1) + bytes(8)
        ),
        bookie_server.encode_list(bookie_server.ListEntries(4, 8), frames.Status.ENOLEDGER),
    ]
    return [b"\0" + b"".join(answers[3:]), *(b"\5" + answer for answer in answers)]


_REQUESTS = [
    frames.encode_get_list(1, 7),
    frames.encode_read(2, 7, 3),
    frames.encode_get_info(3),
    frames.encode_auth(4, "sasl", b"token"),
    frames.encode_start_tls(5),
    frames.encode_get_list(6, 8) + frames.encode_get_info(7),
]
_EXTRA = [
    b'{"lister": 1, "bookie_id": "b1:3181", "instance_id": "inst", "view_age_ms": 5}',
    b'{"lister": 1, "missing_logs": [["/data/1f.log", 3, [[0, 1], [7, 7]]]]}',
]

TARGETS = (
    Target("bookie-responses", read_responses, _responses(), (PeerProtocolError,)),
    Target("entry-list", read_list, _LISTS, (MalformedAvailability,)),
    Target("lister-requests", read_requests, _REQUESTS, (PeerProtocolError,)),
    Target("lister-extra", _read_extra, _EXTRA),
)
