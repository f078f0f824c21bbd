"""The znode that marks a ledger as under-replicated: UnderreplicatedLedgerFormat in text form ↔ `Mark`; and who is at it.

A lock (LockDataFormat) and a vote for the auditor (AuditorVoteFormat) have one text form, with one name in it.
"""

from __future__ import annotations

from collections.abc import Iterable

from auditor.errors import MalformedMetadata
from auditor.model.identity import BookieId, is_bookie_id
from auditor.model.ledger import Mark
from auditor.wire import text_form
from auditor.wire.generated.data_formats_pb2 import LockDataFormat, UnderreplicatedLedgerFormat

NAME_CHARACTERS_MAX = 255
"""Longest name taken out of a lock or a vote: a host name has at most 253 characters, a bookie id is no longer in practice."""


def decode(data: bytes, created_ms: int) -> Mark:
    """The mark as written, with the znode's creation time `created_ms` (Stat.ctime, ms since 1970).

    Never raises: a mark stands because its znode is there, so bytes that cannot be read make a mark with a `problem`. Its list
    of missing replicas may be empty (ZkLedgerUnderreplicationManager; marks by a placement repair name none). Cost: some 20 µs.
    """
    message = UnderreplicatedLedgerFormat()
    try:
        text_form.merge(data, 0, message)
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
    """The bytes BookKeeper writes when it marks a ledger; None leaves the ctime out, as before 4.8.0."""
    return text_form.write(UnderreplicatedLedgerFormat(replica=missing_replicas, ctime=ctime_ms))


def decode_name(data: bytes) -> str | None:
    """The one name in a lock (a worker's host name) or a vote (a bookie id): printable, at most NAME_CHARACTERS_MAX long.

    None where the bytes hold no such name. Never raises. Cost: some 20 µs.
    """
    message = LockDataFormat()
    try:
        text_form.merge(data, 0, message)
    except MalformedMetadata:
        return None
    name = message.bookieId
    return name if name.isprintable() and 0 < len(name) <= NAME_CHARACTERS_MAX else None


def encode_name(name: str) -> bytes:
    """The bytes of a lock or a vote, as BookKeeper writes them."""
    return text_form.write(LockDataFormat(bookieId=name))
