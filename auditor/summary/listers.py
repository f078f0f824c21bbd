"""The summary field `listers`: whose lists came from a lister, and which listers did not list."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from auditor.model.availability import LISTED_BY_LISTER, LISTER_CONTRADICTED, LISTER_SILENT
from auditor.model.cluster import BookieRecord
from auditor.model.identity import BookieId
from auditor.summary.assurance import BOOKIES_NAMED_MAX

Json = dict[str, Any]


def listed_by_lister(records: Iterable[BookieRecord]) -> dict[BookieId, str]:
    """Return the bookies that a lister listed for at any look, with its address at the last one."""
    ordered = sorted(records, key=lambda record: record.read_at_ms)
    said = [
        (one.bookie_id, one.greeting_detail)
        for one in ordered
        if one.greeting_detail.startswith(LISTED_BY_LISTER)
    ]
    return {bookie: detail.removeprefix(LISTED_BY_LISTER) for bookie, detail in said}


def listers_json(records: Iterable[BookieRecord]) -> Json:
    """Return the field `listers` of a summary.

    `silent` names bookies whose lister gave no list at the last look. `not_believed` names those
    that denied their lister's list at any look. Each has the reason, and at most BOOKIES_NAMED_MAX
    are named. `unindexed` is filled from the answers (`unindexed_entries`).
    """
    seen = list(records)
    denied: dict[BookieId, str] = {}
    for record in seen:
        if record.greeting_detail.startswith(LISTER_CONTRADICTED):
            denied[record.bookie_id] = record.greeting_detail.removeprefix(LISTER_CONTRADICTED)
    return {
        "listed": len(listed_by_lister(seen)),
        "silent": _name_some(_last_details(seen, LISTER_SILENT)),
        "not_believed": _name_some(denied),
        "unindexed": [],
    }


def _name_some(details: dict[BookieId, str]) -> list[Json]:
    return [{"bookie_id": b, "detail": details[b]} for b in sorted(details)[:BOOKIES_NAMED_MAX]]


def _last_details(records: Iterable[BookieRecord], prefix: str) -> dict[BookieId, str]:
    last: dict[BookieId, BookieRecord] = {}
    for record in records:
        if record.greeting is not None:
            last[record.bookie_id] = max(
                record, last.get(record.bookie_id, record), key=lambda one: one.read_at_ms
            )
    return {
        b: r.greeting_detail.removeprefix(prefix)
        for b, r in last.items()
        if r.greeting_detail.startswith(prefix)
    }
