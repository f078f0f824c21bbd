"""Decode and encode under-replication marks, their locks and votes for the elected auditor.

A mark is an UnderreplicatedLedgerFormat in text form. A lock (LockDataFormat) and a vote
(AuditorVoteFormat) have the same text form, with one name in it.
"""

from __future__ import annotations

from collections.abc import Iterable

from auditor.errors import MalformedMetadata
from auditor.model.identity import BookieId, is_bookie_id
from auditor.model.ledger import Mark
from auditor.wire import protobuf_forms
from auditor.wire.generated.data_formats_pb2 import LockDataFormat, UnderreplicatedLedgerFormat

NAME_CHARACTERS_MAX = 255
"""Longest name accepted in a lock or a vote. Host names have at most 253 characters, and in
practice bookie ids are not longer."""


def decode(data: bytes, created_ms: int) -> Mark:
    """Return the mark as written.

    `created_ms` is the znode's creation time (Stat.ctime, ms since 1970). Never raises: the ledger
    is marked because the znode exists. If the bytes cannot be read, the mark has a `problem`. The
    list of missing replicas may be empty, as in marks of a placement repair
    (ZkLedgerUnderreplicationManager). Cost: some 20 µs.
    """
    message = UnderreplicatedLedgerFormat()
    try:
        protobuf_forms.merge_text(data, 0, message)
    except MalformedMetadata as error:
        return Mark(created_ms, problem=f"{error.reason} (byte {error.offset} of {len(data)})")
    replicas = tuple(message.replica)
    problem = None if all(map(is_bookie_id, replicas)) else "a missing replica is not a bookie id"
    return Mark(
        created_ms=created_ms,
        changed_ms=message.ctime if message.HasField("ctime") else None,
        missing_replicas=tuple(filter(is_bookie_id, replicas)),
        problem=problem,
    )


def encode(missing_replicas: Iterable[BookieId], ctime_ms: int | None) -> bytes:
    """Return what BookKeeper writes to mark a ledger.

    With `ctime_ms` None there is no ctime, as before 4.8.0.
    """
    return protobuf_forms.write_text(
        UnderreplicatedLedgerFormat(replica=missing_replicas, ctime=ctime_ms)
    )


def decode_name(data: bytes) -> str | None:
    """Return the name in a lock (a worker's host name) or a vote (a bookie id).

    None unless the bytes hold a printable name of at most NAME_CHARACTERS_MAX. Never raises. Cost:
    some 20 µs.
    """
    message = LockDataFormat()
    try:
        protobuf_forms.merge_text(data, 0, message)
    except MalformedMetadata:
        return None
    name = message.bookieId
    return name if name.isprintable() and 0 < len(name) <= NAME_CHARACTERS_MAX else None


def encode_name(name: str) -> bytes:
    """Return the bytes of a lock or a vote, as BookKeeper writes them."""
    return protobuf_forms.write_text(LockDataFormat(bookieId=name))
