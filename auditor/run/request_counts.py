"""Count what a run asked of ZooKeeper and the bookies, from what was written.

Each task that reads ZooKeeper writes its counts into the last of its rows. A task that Spark runs
twice therefore counts once. The driver counts its own reads in its process, keeps them in the
journal, and writes them when the run ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.rows import numbers_of, table
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, READ_COUNTS, READS, RENAMES, with_pace
from auditor.findings.on_cluster import LISTINGS_AT
from auditor.findings.reference_tables import WHERE as REFERENCES_AT
from auditor.findings.renaming import RENAMES_TABLE
from auditor.model.availability import ABSENT_READS, VALID_ANSWERS, Greeting, ReadStatus
from auditor.model.identity import BookieId
from auditor.summary.costs import Costs, LowPaces
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


@dataclass
class _Requests:
    """Requests added up over one table of evidence: `sums` of the columns `_SUMS`.

    `unanswered` requests were sent and got no valid response.
    """

    sums: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    unanswered: int = 0
    bookies: set[str] = field(default_factory=set)

    def add(self, rows: pa.RecordBatch, answered: Mapping[str, int]) -> None:
        """Add rows with the columns `_COUNTED`. `answered`: the statuses of valid responses.

        A greeting, which has no ledger, costs the requests that were sent. The last request to a
        silent bookie is unanswered. A request that was never sent did not fail.
        """
        self.rows += rows.num_rows
        for column in _SUMS:
            self.sums[column] += int(pc.sum(rows[column]).as_py() or 0)
        was_sent = pc.fill_null(pc.greater(rows["requests"], 0), False)
        was_sent = was_sent.to_numpy(zero_copy_only=False)
        statuses, is_greeting = rows["status"], pc.is_null(rows["ledger_id"])
        of_ledger = ~is_greeting.to_numpy(zero_copy_only=False)
        is_answered = numbers_of(statuses, answered) > 0
        self.unanswered += int((of_ledger & was_sent & ~is_answered).sum())
        if not of_ledger.all():
            is_silent = numbers_of(statuses, {Greeting.SILENT.value: 1}) > 0
            self.unanswered += int((~of_ledger & was_sent & is_silent).sum())
        named = rows["bookie_id"] if of_ledger.all() else rows["bookie_id"].filter(of_ledger)
        self.bookies.update(pc.unique(named).to_pylist())


_SUMS = ("requests", "retries", "received_bytes")
_COUNTED = ["bookie_id", "ledger_id", "status", *_SUMS]
_LIST_ANSWERED = {status.value: 1 for status in VALID_ANSWERS}
_READ_ANSWERED = {
    status.value: 1 for status in (*ABSENT_READS, ReadStatus.PRESENT, ReadStatus.CORRUPT)
}


def count_requests(run: Place, carried_on: Collection[BookieId] = ()) -> Costs:
    """Return the requests of a run to ZooKeeper and bookies. Costs a scan of the tables of
    answers.

    `carried_on` are the bookies that carried ledgers name. They count as named, and were perhaps
    not asked.
    """
    lists, reads, renames, paces = _Requests(), _Requests(), _Requests(), LowPaces()
    for rows in _stream(run, "evidence/answers", with_pace(ANSWERS), "look", "asked_at_ms", "pace"):
        lists.add(rows, _LIST_ANSWERED)
        paces.add(rows)
    for rows in _stream(run, "evidence/reads", with_pace(READS), "look", "asked_at_ms", "pace"):
        reads.add(rows, _READ_ANSWERED)
        paces.add(rows)
    named = run.count("evidence/reads", READS, pc.field("is_named"))
    spots = run.count("evidence/reads", READS, pc.field("is_spot")) - named
    if run.has_table(RENAMES_TABLE):
        for rows in _stream(run, RENAMES_TABLE, RENAMES):
            renames.add(rows, _LIST_ANSWERED | _READ_ANSWERED)
    tables = (lists, reads, renames)
    znodes, unread = znodes_read(run)
    sums = sum((table.sums for table in tables), Counter[str]())
    return Costs(
        zookeeper_reads=znodes,
        zookeeper_reads_failed=unread,
        bookie_requests=sums["requests"],
        bookie_bytes=sums["received_bytes"],
        retries=sums["retries"],
        confirming_reads=reads.rows - spots - named,
        spot_reads=spots,
        scrub_reads=named,
        doubt_reads=run.count("evidence/reads", READS, pc.field("is_denser")),
        unanswered=sum(table.unanswered for table in tables) + sums["retries"],
        bookies_named=len(lists.bookies.union(carried_on)),
        paces=paces.result(),
    )


def _stream(run: Place, name: str, schema: pa.Schema, *more: str) -> Iterator[pa.RecordBatch]:
    """Yield the columns `_COUNTED` of a table, and more of them."""
    return run.scan(name, schema, ["bookie_id", "status"]).batches([*_COUNTED, *more])
