"""The znode that marks a ledger as under-replicated: UnderreplicatedLedgerFormat in text form ↔ `Mark`."""

from __future__ import annotations

from collections.abc import Iterable

from auditor.errors import MalformedMetadata
from auditor.model.identity import BookieId, is_bookie_id
from auditor.model.ledger import Mark
from auditor.wire import text_form
from auditor.wire.generated.data_formats_pb2 import UnderreplicatedLedgerFormat


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
