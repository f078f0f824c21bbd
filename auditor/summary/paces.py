"""Read from the evidence which bookies were asked less than the limits allow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, PACE
from auditor.model.identity import BookieId

BOOKIES_NAMED_MAX = 10
"""Bookies named, the slowest first. A screen has little room; the table of answers has all of
them.
"""
NO_PACES: Mapping[str, Any] = {"bookies": 0, "slowest": []}
"""The field if each bookie was asked as the limits allow."""
_PACES = pa.schema([ANSWERS.field("bookie_id"), PACE])
_TABLES = ("evidence/answers", "evidence/reads")


def paces_json(run: Place) -> dict[str, Any]:
    """Return how many bookies were asked less than the limits allow after some of their answers,
    and the lowest pace of each.

    Costs a scan of two columns of the answers and reads.
    """
    lowest: dict[BookieId, tuple[int, float]] = {}
    for name in _TABLES:
        for batch in run.stream(name, _PACES, _PACES.names):
            for row in batch.filter(pc.struct_field(batch["pace"], "is_low")).to_pylist():
                pace = (row["pace"]["inflight"], row["pace"]["requests_per_second"])
                lowest[row["bookie_id"]] = min(lowest.get(row["bookie_id"], pace), pace)
    slowest = sorted(lowest.items(), key=lambda one: (one[1], one[0]))
    return {
        "bookies": len(lowest),
        "slowest": [
            {"bookie_id": bookie, "inflight": inflight, "requests_per_second": round(rate, 1)}
            for bookie, (inflight, rate) in slowest[:BOOKIES_NAMED_MAX]
        ],
    }
