"""Count the requests of a run to ZooKeeper and the bookies, from what was written."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, READS, RENAMES
from auditor.model.availability import ABSENT_READS, VALID_ANSWERS, Greeting, ReadStatus
from auditor.run.read_counts import znodes_read
from auditor.summary.cluster.bookies import NAME as RENAMES_NAME
from auditor.summary.costs import Costs, paces_json


@dataclass
class _Requests:
    """Requests added up over one table of evidence: `sums` of the columns `_SUMS`.

    `unanswered` requests were sent and got no valid response.
    """

    sums: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    unanswered: int = 0
    bookies: set[str] = field(default_factory=set)


_SUMS = ("requests", "retries", "received_bytes")
_LIST_ANSWERED = pa.array([status.value for status in VALID_ANSWERS])
_READ_ANSWERED = pa.array(
    [status.value for status in (*ABSENT_READS, ReadStatus.PRESENT, ReadStatus.CORRUPT)]
)
_ANSWERED = pa.concat_arrays([_LIST_ANSWERED, _READ_ANSWERED])


def count_requests(run: Place) -> Costs:
    """Return the requests of a run to ZooKeeper and bookies. Costs a scan of the tables of
    answers.
    """
    lists = _requests_in(run, "evidence/answers", ANSWERS, _LIST_ANSWERED)
    reads = _requests_in(run, "evidence/reads", READS, _READ_ANSWERED)
    spots = run.count("evidence/reads", READS, pc.field("is_spot"))
    renames = _Requests()
    if run.has_table(RENAMES_NAME):
        renames = _requests_in(run, RENAMES_NAME, RENAMES, _ANSWERED)
    tables = (lists, reads, renames)
    znodes, unread = znodes_read(run)
    sums = sum((one.sums for one in tables), Counter[str]())
    return Costs(
        zookeeper_reads=znodes,
        zookeeper_reads_failed=unread,
        bookie_requests=sums["requests"],
        bookie_bytes=sums["received_bytes"],
        retries=sums["retries"],
        confirming_reads=reads.rows - spots,
        spot_reads=spots,
        doubt_reads=run.count("evidence/reads", READS, pc.field("is_denser")),
        unanswered=sum(one.unanswered for one in tables) + sums["retries"],
        bookies_named=len(lists.bookies),
        paces=paces_json(run),
    )


def _requests_in(run: Place, name: str, schema: pa.Schema, answered: pa.Array) -> _Requests:
    """Add up a table.

    A greeting, which has no ledger, costs the requests that were sent. The last request to a silent
    bookie is unanswered.
    """
    total = _Requests()
    columns = ["bookie_id", "ledger_id", "status", *_SUMS]
    for batch in run.stream(name, schema, columns):
        total.rows += batch.num_rows
        for column in _SUMS:
            total.sums[column] += _sum_of(batch[column])
        on_ledgers = batch.filter(pc.is_valid(batch["ledger_id"]))
        greetings = batch.filter(pc.is_null(batch["ledger_id"]))
        total.unanswered += _count_failed(on_ledgers, answered) + _count_silent(greetings)
        total.bookies.update(pc.unique(on_ledgers["bookie_id"]).to_pylist())
    return total


def _count_failed(batch: pa.RecordBatch, answered: pa.Array) -> int:
    """Return how many requests were sent and not answered with one of these statuses.

    A request that was never sent did not fail.
    """
    sent = batch.filter(pc.greater(batch["requests"], 0))
    return int(sent.num_rows) - _sum_of(pc.is_in(sent["status"], answered))


def _count_silent(greetings: pa.RecordBatch) -> int:
    """Return how many bookies accepted a connection and stayed silent."""
    was_sent = pc.greater(greetings["requests"], 0)
    return _sum_of(pc.and_(was_sent, pc.equal(greetings["status"], Greeting.SILENT.value)))


def _sum_of(values: pa.Array) -> int:
    return int(pc.sum(values).as_py() or 0)
