"""Keep since when bookies are not registered. summary.json passes it from one run to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from auditor.first_checker.bookies import BookieLook
from auditor.model.cluster import Registration
from auditor.model.identity import BookieId
from auditor.witness.phrases import moment

UNREGISTERED = "bookies_unregistered"
"""The field of summary.json."""
UNREGISTERED_MAX = 10_000
"""At most this many bookies are in the field, those unregistered longest. No cluster has so many,
but ledgers may name any number."""


def unregistered_since(
    looks: Sequence[BookieLook], before: Mapping[BookieId, int]
) -> dict[BookieId, int]:
    """Return since when each unregistered bookie is not registered, in ms, as far as runs saw.

    `before` is what the last whole run recorded. For a bookie that was registered at some look of
    this run, it is the first look after that. A bookie without a record at the last look keeps the
    state of its newest record.
    """
    since: dict[BookieId, int] = {}
    registered: set[BookieId] = set()
    for look in looks:
        for bookie, record in look.items():
            if record.registration is not Registration.NONE:
                registered.add(bookie)
                since.pop(bookie, None)
            elif bookie not in since:
                known = (
                    record.read_at_ms
                    if bookie in registered
                    else before.get(bookie, record.read_at_ms)
                )
                since[bookie] = min(known, record.read_at_ms)
    return dict(sorted(since.items()))


def unregistered_json(since: Mapping[BookieId, int]) -> list[dict[str, str]]:
    """Return the value of the field UNREGISTERED, sorted by bookie id. `since` is in ms."""
    longest = sorted(since, key=lambda bookie: (since[bookie], bookie))[:UNREGISTERED_MAX]
    return [{"bookie_id": bookie, "since": moment(since[bookie])} for bookie in sorted(longest)]


def absences_json(
    since: Mapping[BookieId, int], renamed: list[dict[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    """Return the fields of summary.json on bookies that are not registered.

    `since` is in ms. `renamed` is the value of `bookies_renamed`.
    """
    return {UNREGISTERED: [*unregistered_json(since)], "bookies_renamed": renamed}


def since_from(rows: Any) -> dict[BookieId, int]:
    """Return the times in the rows of `unregistered_json`, in ms. Other rows are skipped."""
    found = {}
    for row in rows if isinstance(rows, list) else ():
        try:
            found[str(row["bookie_id"])] = round(
                datetime.fromisoformat(row["since"]).timestamp() * 1000
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            continue
    return found
