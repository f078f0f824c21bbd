"""Find the newest time that ZooKeeper wrote among the ledgers and marks that a run read."""

from __future__ import annotations

import pyarrow.compute as pc

from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LEDGERS


def newest_time_ms(run: Place) -> int:
    """Return when the youngest ledger's znode or mark was created or written, in ms; 0 without any.

    Costs a scan of three columns of evidence/ledgers.
    """
    newest = 0
    columns = ["znode_ctime_ms", "znode_mtime_ms", "mark"]
    for batch in run.scan("evidence/ledgers", LEDGERS).batches(columns):
        created = pc.struct_field(batch.column("mark"), "created_ms")
        times = batch.column("znode_ctime_ms"), batch.column("znode_mtime_ms"), created
        newest = max(newest, *(pc.max(one).as_py() or 0 for one in times))
    return newest
