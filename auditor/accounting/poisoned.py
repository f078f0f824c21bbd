"""The ledgers of a run that could not be judged, from its verdicts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from auditor.model.verdict import Unknown

NAMED_MAX = 10
"""Ledgers named in the summary; the verdicts have them all."""
DETAIL_MAX = 1_000
"""Characters of why that are told in the summary."""

HAS_DETAIL = pc.field("detail") != ""
"""Rows of VERDICTS that say something beside the verdict: all that were set aside, and few others."""


def poisoned(verdicts: pa.Table) -> list[tuple[int, str]]:
    """The ledgers that VERDICTS rows set aside as poison, each with why, in order of their ids."""
    rows = verdicts.filter(HAS_DETAIL).select(["ledger_id", "unknowns", "detail"]).to_pylist()
    return sorted((row["ledger_id"], row["detail"]) for row in rows if Unknown.POISON.value in row["unknowns"])


def poison_told(verdicts: pa.Table) -> dict[str, Any]:
    """The field `poison` of summary.json: the first NAMED_MAX ledgers that were set aside, each with why."""
    named = poisoned(verdicts)[:NAMED_MAX]
    return {"poison": [{"ledger_id": ledger_id, "detail": detail[:DETAIL_MAX]} for ledger_id, detail in named]}
