"""The second checker on bookies that did not admit us: no request was made, and none failed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from auditor.evidence.run_directory import place
from auditor.evidence.schemas import ANSWERS, READS
from auditor.model.availability import NOT_ADMITTED
from auditor.summary.cluster.bookie_cross_check import _refusals

EIO = "EIO: the bookie's storage failed"


def table(schema: pa.Schema, details: list[str]) -> pa.Table:
    """Return rows of b1 for ledgers 1, 2, ..., refused with these details. Other columns are
    null.
    """
    given = {
        "bookie_id": ["b1"] * len(details),
        "ledger_id": list(range(1, len(details) + 1)),
        "look": [1] * len(details),
        "status": ["refused"] * len(details),
        "detail": details,
    }
    columns = [
        pa.array(given.get(field.name, [None] * len(details)), field.type) for field in schema
    ]
    return pa.table(columns, schema=schema)


@pytest.mark.parametrize(
    ("lists", "reads", "counted"),
    [
        ([EIO, EIO], [EIO], 3),
        ([EIO, f"{NOT_ADMITTED}wrong password"], [EIO], 0),
        ([EIO, EIO], [f"{NOT_ADMITTED}no TLS"], 0),
    ],
)
def test_one_request_that_could_not_be_made_and_no_refusal_counts(
    tmp_path: Path, lists: list[str], reads: list[str], counted: int
) -> None:
    """If one request could not be made, our own certificate or password may be at fault."""
    run = place(str(tmp_path))
    run.write_table("evidence/answers", table(ANSWERS, lists), "part")
    run.write_table("evidence/reads", table(READS, reads), "part")
    assert len(_refusals(run, "b1")) == counted
