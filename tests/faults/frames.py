"""What a proxy reads in the frames it forwards: those between an auditor and a bookie, and those of
ZooKeeper.

Both put 4 bytes of length, big-endian, before each frame. They are read here only with protobuf and
`struct`, without the code under test. A frame that cannot be read is an empty `Said`, and is
forwarded all the same.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from typing import Protocol

from google.protobuf.message import DecodeError

from auditor.wire.generated import bookkeeper_protocol_pb2 as pb

LIST_HEADER_BYTES = 64
GROUP_BYTES = 24
ENTRIES_MAX = 100_000
"""A list with more entries than this was not written by a test."""
OPERATIONS = {1: "read", 2: "add", 8: "info", 11: "list"}
"""BookKeeper's OperationTypes that are distinguished."""
OPCODES = {
    3: "exists",
    4: "data",
    8: "children",
    9: "sync",
    11: "ping",
    12: "children",
    22: "multi_read",
    -11: "close",
}
"""ZooKeeper's OpCodes; the first frame of a connection is "connect"."""
STATUSES = {0: "held", 402: "no_such_ledger"}
"""The two answers to a list that state which entries exist; all others are "other"."""
READ_STATUSES = {0: "present", 402: "no_ledger", 403: "no_entry"}
"""The answers to a read that state whether the entry exists."""
METADATA = re.compile(rb"/ledgers/(\d{2})/(\d{4})/L(\d{4})(?!\d)")
"""The znode of a ledger's metadata in hierarchical layouts."""
MARK = re.compile(rb"/underreplication/ledgers(?:/[0-9a-f]{4}){4}/urL(\d{10,19})")
"""The znode that marks a ledger as under-replicated."""


@dataclass(frozen=True)
class Said:
    """The contents of one frame. `about` is a ledger of a bookie, or the bytes of a ZooKeeper
    request (with its paths).

    `entries`: in an answer to a list, what is held. `status`: only in answers, see STATUSES,
    READ_STATUSES, or "other". `body`: in an answer to a read, the stored entry. `metadata_of`:
    ledgers whose metadata a request reads, in order. `marks_of`: ledgers whose mark it reads.
    """

    operation: str = ""
    txn_id: int = 0
    ledger_id: int | None = None
    entry_id: int | None = None
    status: str = ""
    entries: frozenset[int] | None = None
    about: bytes = b""
    body: bytes = b""
    metadata_of: tuple[int, ...] = ()
    marks_of: tuple[int, ...] = ()


class Dialect(Protocol):
    """Reads the frames of one connection, both ways, in their order."""

    def request(self, body: bytes) -> Said:
        """Return the contents of a client's frame."""

    def reply(self, body: bytes) -> Said:
        """Return the contents of a server's frame."""


class BookieFrames:
    """Protocol version 3: each frame is one protobuf message."""

    def request(self, body: bytes) -> Said:
        try:
            message = pb.Request.FromString(body)
        except DecodeError:
            return Said()
        operation = OPERATIONS.get(message.header.operation, "other")
        txn_id = message.header.txnId
        if operation == "list":
            return Said(operation, txn_id, message.getListOfEntriesOfLedgerRequest.ledgerId)
        if operation == "read":
            return Said(
                operation, txn_id, message.readRequest.ledgerId, message.readRequest.entryId
            )
        return Said(operation, txn_id)

    def reply(self, body: bytes) -> Said:
        try:
            message = pb.Response.FromString(body)
        except DecodeError:
            return Said()
        operation, txn_id = OPERATIONS.get(message.header.operation, "other"), message.header.txnId
        if operation == "list":
            listed = message.getListOfEntriesOfLedgerResponse
            status = STATUSES.get(message.status or listed.status, "other")
            entries = (
                entries_of(listed.availabilityOfEntriesOfLedger)
                if status == "held"
                else frozenset()
            )
            return Said(operation, txn_id, listed.ledgerId, None, status, entries)
        if operation == "read":
            read = message.readResponse
            status = READ_STATUSES.get(message.status or read.status, "other")
            return Said(operation, txn_id, read.ledgerId, read.entryId, status, body=read.body)
        return Said(operation, txn_id, status=STATUSES.get(message.status, "other"))


def entries_of(payload: bytes) -> frozenset[int] | None:
    """Return the entries of a bookie's list, header included; None if it is not a list. For small
    ledgers: one by one.
    """
    if len(payload) < LIST_HEADER_BYTES:
        return None
    return entries_of_groups(payload[LIST_HEADER_BYTES:])


def entries_of_groups(groups: bytes) -> frozenset[int] | None:
    """Return the entries of sequence groups: first, last, size, period (8, 8, 4 and 4 bytes); None
    if they are not groups.
    """
    if len(groups) % GROUP_BYTES:
        return None
    found: set[int] = set()
    for first, last, size, period in struct.iter_unpack(">qqii", groups):
        starts = range(first, last + 1, period) if period > 0 else range(first, first + 1)
        if size < 0 or len(starts) * size > ENTRIES_MAX:
            return None
        for start in starts:
            found.update(range(start, start + size))
    return frozenset(found)


@dataclass
class ZooKeeperFrames:
    """A client's requests carry their number and their type; a reply carries only the number."""

    _connecting: bool = True
    _connected: bool = False
    _asked: dict[int, tuple[str, bytes]] = field(default_factory=dict)

    def request(self, body: bytes) -> Said:
        if self._connecting:
            self._connecting = False
            return Said("connect")
        if len(body) < 8:
            return Said()
        xid, opcode = struct.unpack_from("!ii", body)
        operation = OPCODES.get(opcode, "other")
        self._asked[xid] = (operation, body)
        if operation not in ("multi_read", "data"):
            return Said(operation, xid, about=body)
        ledgers = tuple(int(b"".join(parts)) for parts in METADATA.findall(body))
        return Said(
            operation,
            xid,
            None,
            None,
            about=body,
            metadata_of=ledgers,
            marks_of=tuple(map(int, MARK.findall(body))),
        )

    def reply(self, body: bytes) -> Said:
        if not self._connected:
            self._connected = True
            return Said("connect")
        if len(body) < 4:
            return Said()
        (xid,) = struct.unpack_from("!i", body)
        operation, about = self._asked.pop(xid, ("other", b""))
        return Said(operation, xid, about=about)
