"""Read from the verdicts which ledgers a fault of the auditor left unjudged."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from auditor.model.verdict import Unknown

NAMED_MAX = 10
"""At most this many ledgers are named in the summary. The verdicts have all of them."""
DETAIL_MAX = 1_000
"""At most this many characters of a ledger's detail are in the summary."""

HAS_DETAIL = pc.field("detail") != ""
"""Selects the rows of VERDICTS with a detail: all ledgers that were set aside, and few others."""


def poisoned_ledgers(verdicts: pa.Table) -> list[tuple[int, str]]:
    """Return the ledgers that were set aside as poison, each with the reason, sorted by id."""
    return _ledgers_set_aside(verdicts, Unknown.POISON)


def disputed_ledgers(verdicts: pa.Table) -> list[tuple[int, str]]:
    """Return the ledgers on which the checkers differ, each with what both say, sorted by id."""
    return _ledgers_set_aside(verdicts, Unknown.CHECKERS_DISAGREE)


def poison_json(verdicts: pa.Table) -> dict[str, Any]:
    """Return the fields `poison` and `checkers_disagree` of summary.json.

    Each names the first NAMED_MAX ledgers with their details.
    """
    both = {
        Unknown.POISON: poisoned_ledgers(verdicts),
        Unknown.CHECKERS_DISAGREE: disputed_ledgers(verdicts),
    }
    return {
        why.value: [
            {"ledger_id": ledger_id, "detail": detail[:DETAIL_MAX]}
            for ledger_id, detail in rows[:NAMED_MAX]
        ]
        for why, rows in both.items()
    }


def _ledgers_set_aside(verdicts: pa.Table, why: Unknown) -> list[tuple[int, str]]:
    rows = verdicts.filter(HAS_DETAIL).select(["ledger_id", "unknowns", "detail"]).to_pylist()
    return sorted((row["ledger_id"], row["detail"]) for row in rows if why.value in row["unknowns"])
