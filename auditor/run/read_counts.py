"""Count how many znodes a run read, from what was written.

Each task that reads ZooKeeper writes its counts into the last of its rows. A task that Spark runs
twice therefore counts once. The driver counts its own reads in its process, keeps them in the
journal, and writes them when the run ends.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow.compute as pc

from auditor.evidence.rows import table
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import READ_COUNTS
from auditor.summary.cluster.on_cluster import LISTINGS_AT
from auditor.summary.references.reference_tables import WHERE as REFERENCES_AT
from auditor.zookeeper.ledgers import Listing
from auditor.zookeeper.session import ReadCounts

WHERE = "evidence/zookeeper_reads"
_READ_BY_TASKS = (*LISTINGS_AT.values(), "evidence/ledgers", "evidence/reads", REFERENCES_AT)


def znodes_read(run: Place) -> tuple[int, int]:
    """Return how many znodes the run asked for, and how many of these reads were not answered.

    Costs a scan of two columns of each table that tasks write.
    """
    names = [name for name in (*_READ_BY_TASKS, WHERE) if run.has_table(name)]
    counted = [_counts_in(run, name) for name in names]
    return sum(reads for reads, _ in counted), sum(failed for _, failed in counted)


def write_read_counts(run: Place, counts: ReadCounts) -> None:
    """Write what the driver read, in all its processes."""
    run.write_table(WHERE, table(READ_COUNTS, [(counts.reads, counts.reads_failed)]), "driver")


def count_silent_parents(run: Place, name: str, listing: Listing, counts: ReadCounts) -> None:
    """Add to the driver's counts the parents in which tasks found no ledger: such a task writes no
    row.

    A parent that was listed twice counts twice.
    """
    parents = sum(len(portion.parents) for portion in listing.partitions)
    silent = max(0, parents - _counts_in(run, name)[0])
    counts.add(ReadCounts(reads=silent, reads_ok=silent))


def kept_reads(counts: ReadCounts) -> Mapping[str, int]:
    """Return what the journal keeps of the counts."""
    return {"reads": counts.reads, "reads_ok": counts.reads_ok}


def add_kept_counts(counts: ReadCounts, kept: Mapping[str, int]) -> None:
    """Add what the journal kept of the processes before this one."""
    counts.add(ReadCounts(reads=kept.get("reads", 0), reads_ok=kept.get("reads_ok", 0)))


def _counts_in(run: Place, name: str) -> tuple[int, int]:
    reads = failed = 0
    for batch in run.stream(name, READ_COUNTS, READ_COUNTS.names):
        reads += int(pc.sum(batch["zookeeper_reads"]).as_py() or 0)
        failed += int(pc.sum(batch["zookeeper_reads_failed"]).as_py() or 0)
    return reads, failed
