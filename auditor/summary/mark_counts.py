"""Count under-replication marks by age, and how many of them are stale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from auditor.evidence.ids import Ids
from auditor.evidence.table_scan import TableScan
from auditor.model.verdict import Exempt

Json = dict[str, Any]

MARK_STATES = ("total", "within_grace", "beyond_grace", "stale", "without_ledger")
"""The counts of marks. `within_grace` and `beyond_grace` add up to `total`; the others do not."""
_HOUR_MS = 3_600_000
AGES_MS = {"under_1h": _HOUR_MS, "under_1d": 24 * _HOUR_MS, "under_1w": 7 * 24 * _HOUR_MS}
"""Age classes and their exclusive upper bounds. A mark counts in the first class that it fits."""
OLDER = "older"


class UnlistedMark(NamedTuple):
    """A mark whose ledger was not listed.

    `has_metadata` is as it was read last, or None if unknown.
    """

    age_ms: int
    has_metadata: bool | None


def marks_of(verdicts: TableScan, unlisted: Sequence[UnlistedMark], grace_ms: int) -> Json:
    """Return the fields `marks` and `marks_by_age` of a summary. `verdicts` has the schema
    VERDICTS.
    """
    listed = verdicts.table(["mark_age_ms"], _IS_MARKED)["mark_age_ms"].to_numpy()
    ages = np.concatenate([listed, np.array([one.age_ms for one in unlisted], np.int64)])
    beyond = int((ages > grace_ms).sum())
    gone = verdicts.count(_IS_GONE & _IS_MARKED)
    marks = {
        "total": len(ages),
        "within_grace": len(ages) - beyond,
        "beyond_grace": beyond,
        "stale": len(stale_ledgers(verdicts)),
        "without_ledger": gone + sum(one.has_metadata is False for one in unlisted),
    }
    return {"marks": marks, "marks_by_age": _by_age(ages)}


def stale_ledgers(verdicts: TableScan) -> Ids:
    """Return the marked ledgers whose copies are all where the metadata says, sorted."""
    ids: Ids = np.sort(
        verdicts.table(["ledger_id"], pc.field("is_mark_stale"))["ledger_id"].to_numpy()
    )
    return ids


def oldest_mark_s(verdicts: TableScan) -> float:
    """Return the age in seconds of the oldest mark of a ledger with metadata; 0 without marks."""
    oldest: int | None = pc.max(
        verdicts.table(["mark_age_ms"], ~_IS_GONE & _IS_MARKED)["mark_age_ms"]
    ).as_py()
    return 0.0 if oldest is None else float(oldest / 1000)


_IS_MARKED = pc.is_valid(pc.field("mark_age_ms"))
_IS_GONE = pc.coalesce(pc.field("exempt"), pc.scalar("")) == Exempt.DELETED.value
"""Selects the rows of VERDICTS of ledgers that were listed but no longer have metadata."""


def _by_age(ages: Ids) -> dict[str, int]:
    below = [0, *(int((ages < end).sum()) for end in AGES_MS.values()), len(ages)]
    return {name: below[place + 1] - below[place] for place, name in enumerate((*AGES_MS, OLDER))}
