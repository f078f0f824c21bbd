"""Since when bookies have not been registered: what one run tells the next in summary.json (contract 8.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from auditor.first_checker.reachability import BookieLook
from auditor.model.cluster import Registration
from auditor.model.identity import BookieId
from auditor.witness.phrases import moment

UNREGISTERED = "bookies_unregistered"
"""The field of summary.json."""
UNREGISTERED_MAX = 10_000
"""Bookies in it, those that are gone longest: more than any cluster has, and ledgers may name any number."""


def unregistered_since(looks: Sequence[BookieLook], before: Mapping[BookieId, int]) -> dict[BookieId, int]:
    """Return since when, in ms, each bookie that is not registered has not been, as far as this run and those before saw.

    `before` is what the last whole run left. A bookie that was registered at some look of this run counts from the first look
    behind that. One without a record at the last look is as it was when it was seen last.
    """
    since: dict[BookieId, int] = {}
    registered: set[BookieId] = set()
    for look in looks:
        for bookie, record in look.items():
            if record.registration is not Registration.NONE:
                registered.add(bookie)
                since.pop(bookie, None)
            elif bookie not in since:
                known = record.read_at_ms if bookie in registered else before.get(bookie, record.read_at_ms)
                since[bookie] = min(known, record.read_at_ms)
    return dict(sorted(since.items()))


def unregistered_json(since: Mapping[BookieId, int]) -> list[dict[str, str]]:
    """Return the field's value, sorted by id. `since` in ms."""
    longest = sorted(since, key=lambda bookie: (since[bookie], bookie))[:UNREGISTERED_MAX]
    return [{"bookie_id": bookie, "since": moment(since[bookie])} for bookie in sorted(longest)]


def absences_json(since: Mapping[BookieId, int], renamed: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the fields of summary.json on bookies that are not registered. `since` in ms; `renamed` as it is told."""
    return {UNREGISTERED: [*unregistered_json(since)], "bookies_renamed": renamed}


def since_from(rows: Any) -> dict[BookieId, int]:
    """Return what `unregistered_json` told of each bookie, in ms; rows that it did not write are left out."""
    found = {}
    for row in rows if isinstance(rows, list) else ():
        try:
            found[str(row["bookie_id"])] = round(datetime.fromisoformat(row["since"]).timestamp() * 1000)
        except (KeyError, TypeError, ValueError, OverflowError):
            continue
    return found
