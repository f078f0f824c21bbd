"""Encode which entry logs a lister misses: an extra field in the response with a list.

It is the same field as for the lister's identity (`lister_identity`): BookKeeper's own clients skip
it. The list itself leaves out the entries that the index places in these logs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from auditor.errors import MalformedAvailability
from auditor.model.availability import MissingLog
from auditor.model.identity import ENTRY_ID_MAX, EntryId
from auditor.wire.lister_identity import VERSION, with_lister_field

LOGS_MAX = 64
"""Missing entry logs that one answer names. A ledger rarely lies in more than a few."""
RANGES_MAX = 20
"""Ranges of entries that one answer names for each log; the others are counted."""
PATH_CHARACTERS_MAX = 4_096
"""Longest path of an entry log, which is Linux's own bound."""


def with_missing_logs(frame: bytes, logs: Sequence[MissingLog]) -> bytes:
    """Return an encoded list response (with its length) that also names these logs."""
    words = [[one.path, one.entries, one.ranges] for one in logs]
    return with_lister_field(frame, json.dumps({"lister": VERSION, "missing_logs": words}).encode())


def decode_missing_logs(data: bytes) -> tuple[MissingLog, ...]:
    """Return the logs in such a field. Raises MalformedAvailability for anything else."""
    try:
        fields: Any = json.loads(data)
    except (ValueError, RecursionError):
        raise MalformedAvailability("what its lister says beside the list is not JSON") from None
    if not isinstance(fields, dict) or fields.get("lister") != VERSION:
        raise MalformedAvailability("what its lister says beside the list is of another version")
    logs = fields.get("missing_logs")
    if not isinstance(logs, list) or len(logs) > LOGS_MAX:
        raise MalformedAvailability(f"its lister names no missing logs, or more than {LOGS_MAX}")
    return tuple(_missing_log(one) for one in logs)


def _missing_log(words: Any) -> MissingLog:
    match words:
        case [str(path), int(entries), [*ranges]] if (
            len(path) <= PATH_CHARACTERS_MAX
            and type(entries) is int
            and 1 <= len(ranges) <= RANGES_MAX
        ):
            found = tuple(_range(one) for one in ranges)
            if _is_in_order(found) and _count(found) <= entries <= ENTRY_ID_MAX:
                return MissingLog(path.encode("utf-8", "backslashreplace").decode(), entries, found)
    raise MalformedAvailability("its lister names a missing log without its entries")


def _range(words: Any) -> tuple[EntryId, EntryId]:
    match words:
        case [int(first), int(last)] if (
            type(first) is type(last) is int
            and 0 <= first <= last <= ENTRY_ID_MAX  # True is an int
        ):
            return first, last
    raise MalformedAvailability("its lister names a missing log with a range that has no entries")


def _is_in_order(ranges: Sequence[tuple[EntryId, EntryId]]) -> bool:
    return all(last < first for (_, last), (first, _) in pairwise(ranges))


def _count(ranges: Sequence[tuple[EntryId, EntryId]]) -> int:
    return sum(last - first + 1 for first, last in ranges)
