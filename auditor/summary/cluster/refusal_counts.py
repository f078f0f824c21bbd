"""Count the requests of bookies that answered every request with an error status.

`first_checker.bookies` judges the result.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.schemas import ANSWERS
from auditor.first_checker.bookies import LEDGERS_NAMED_MAX, Refusals
from auditor.model.availability import NOT_ADMITTED, AnswerStatus
from auditor.model.identity import BookieId

REQUESTED = pa.schema(
    [ANSWERS.field(name) for name in ("bookie_id", "ledger_id", "look", "status", "detail")]
)
"""The columns of ANSWERS and of READS that tell how a request ended."""
REFUSED = [AnswerStatus.REFUSED.value, AnswerStatus.FAILED.value]
"""The statuses of a list or a read that ended in an error status. ReadStatus has the same words."""
LOOKS_MIN = 2
"""A ledger counts as refused only after this many looks."""


def refusals(answers: pa.Table, reads: pa.Table) -> dict[BookieId, Refusals]:
    """Return each bookie whose every list and read ended in an error status, with counts.

    Both tables hold the REQUESTED rows of all bookies that refused anything. The reads decide on a
    bookie that cannot list. Reads of ledgers that the bookie was not asked to list do not count,
    because it should hold nothing of them. Of a bookie that did not admit us nothing was requested.
    Costs the rows.
    """
    lists = answers.filter(
        pc.is_valid(pc.field("ledger_id")) & (pc.field("status") != AnswerStatus.UNSUPPORTED.value)
    )
    due = answers.filter(pc.is_valid(pc.field("ledger_id"))).select(["bookie_id", "ledger_id"])
    mine = reads.join(due, ["bookie_id", "ledger_id"], join_type="left semi")
    every = pa.concat_tables([lists.select(REQUESTED.names), mine.select(REQUESTED.names)])
    unasked = pc.starts_with(pc.field("detail"), pattern=NOT_ADMITTED)
    other = set(
        pc.unique(
            every.filter(~pc.field("status").isin(REFUSED) | unasked)["bookie_id"]
        ).to_pylist()
    )
    failing = sorted(set(pc.unique(every["bookie_id"]).to_pylist()) - other)
    return {
        bookie: _count_refusals(
            *(part.filter(pc.field("bookie_id") == bookie) for part in (lists, mine))
        )
        for bookie in failing
    }


def _count_refusals(lists: pa.Table, reads: pa.Table) -> Refusals:
    every = pa.concat_tables([lists.select(REQUESTED.names), reads.select(REQUESTED.names)])
    looks = every.group_by("ledger_id").aggregate([("look", "count_distinct")])
    ledgers = sorted(
        looks.filter(pc.field("look_count_distinct") >= LOOKS_MIN)["ledger_id"].to_pylist()
    )
    names = pc.list_element(pc.split_pattern(every["detail"], ":"), 0)
    counts = {one["values"]: one["counts"] for one in pc.value_counts(names).to_pylist()}
    statuses = tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    return Refusals(
        len(ledgers), tuple(ledgers[:LEDGERS_NAMED_MAX]), lists.num_rows, reads.num_rows, statuses
    )
