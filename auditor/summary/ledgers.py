"""Check that every listed ledger has exactly one standing. Otherwise there is no report."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from auditor.errors import AccountingError

NAMED_MAX = 5
"""At most this many ledgers are named in an accounting error."""


def account(listed: pa.ChunkedArray, judged: pa.ChunkedArray) -> int:
    """Return the number of ledgers if exactly those of `listed` (ids) are judged, each once.

    Otherwise raises AccountingError with the ids of some of the ledgers. Costs a sort of both: 8
    bytes a ledger.
    """
    ids, id_counts = np.unique(listed.to_numpy(), return_counts=True)
    rows, row_counts = np.unique(judged.to_numpy(), return_counts=True)
    for wrong, what in (
        (ids[id_counts > 1], "listed more than once"),
        (rows[row_counts > 1], "judged more than once"),
        (np.setdiff1d(ids, rows, assume_unique=True), "listed and never judged"),
        (np.setdiff1d(rows, ids, assume_unique=True), "judged and never listed"),
    ):
        if len(wrong):
            some = ", ".join(str(one) for one in wrong[:NAMED_MAX])
            raise AccountingError(
                f"the ledgers do not add up: {len(wrong)} {what} (such as {some}); no counts are"
                " published. This is a fault of the auditor: please report it with the run's"
                " directory"
            )
    return len(ids)
