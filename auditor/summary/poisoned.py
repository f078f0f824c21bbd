"""The ledgers of a run that could not be judged through a fault of ours, from its verdicts."""

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
    return _set_aside(verdicts, Unknown.POISON)


def disagreed_on(verdicts: pa.Table) -> list[tuple[int, str]]:
    """Those on which the two checkers differ, each with what either says, in order of their ids."""
    return _set_aside(verdicts, Unknown.CHECKERS_DISAGREE)


def poison_told(verdicts: pa.Table) -> dict[str, Any]:
    """The fields `poison` and `checkers_disagree` of summary.json: the first NAMED_MAX ledgers of each, each with why."""
    both = {Unknown.POISON: poisoned(verdicts), Unknown.CHECKERS_DISAGREE: disagreed_on(verdicts)}
    return {
        why.value: [{"ledger_id": ledger_id, "detail": detail[:DETAIL_MAX]} for ledger_id, detail in rows[:NAMED_MAX]]
        for why, rows in both.items()
    }


def _set_aside(verdicts: pa.Table, why: Unknown) -> list[tuple[int, str]]:
    rows = verdicts.filter(HAS_DETAIL).select(["ledger_id", "unknowns", "detail"]).to_pylist()
    return sorted((row["ledger_id"], row["detail"]) for row in rows if why.value in row["unknowns"])
