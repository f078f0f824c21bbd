"""Count from the verdicts the copies that were verified."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.table_scan import TableScan
from auditor.judging.copies import JUDGED, copies_json
from auditor.model.verdict import CopyCounts

Json = dict[str, Any]

_JUDGED = pa.array([standing.word for standing in JUDGED])
_WIDE = pa.decimal128(38, 0)
"""The type of sums of copies: many ledgers together may have more than 2^63."""


def copies_of_verdicts(verdicts: TableScan) -> Json:
    """Return `copies` and `verified_ratio` over the judged rows of VERDICTS that promise any
    copy.
    """
    names = ("copies_expected", "copies_listed", "copies_read", "copies_assumed")
    totals = dict.fromkeys(names, 0)
    for batch in verdicts.batches(names, pc.field("standing").isin(_JUDGED)):
        for name in names:
            totals[name] += _total(batch[name])
    return copies_json(CopyCounts(*totals.values()))


def _total(values: pa.Array) -> int:
    return int(pc.sum(values.cast(_WIDE)).as_py() or 0)
