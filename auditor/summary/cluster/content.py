"""Read what each bookie said of the entries that it holds, and how much it lacks by the verdicts.

`first_checker.bookies` judges the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.ids import Ids, distinct_numbers
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, READS
from auditor.evidence.table_scan import TableScan
from auditor.first_checker.bookies import LEDGERS_NAMED_MAX, Content
from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord
from auditor.model.identity import BookieId
from auditor.model.verdict import Standing
from auditor.summary.last_words import (
    SPOKEN,
    LastWords,
    by_word,
    last_words,
    probed_ledgers,
    unjudged_by_reason,
)

LACKS = pa.schema(
    [
        ("bookie_id", pa.string()),
        ("ledger_id", pa.int64()),
        ("expected", pa.int64()),
        ("absent", pa.int64()),
    ],
)
"""How many entries of a violated ledger a bookie should hold, and how many it surely lacks.

Key: (bookie_id, ledger_id)."""


IS_VIOLATED = pc.field("standing") == Standing.VIOLATED.word


def lacks_of(verdicts: TableScan, keep: pc.Expression | None = IS_VIOLATED) -> pa.Table:
    """Return the LACKS rows of the violated ledgers, which had at least two looks.

    With `keep`, return those that it selects instead (None: of all).
    """
    rows = verdicts.batches(["ledger_id", "lacks"], keep)
    batches = [_flat(batch) for batch in rows]
    return pa.Table.from_batches(batches, schema=LACKS)


def _flat(batch: pa.RecordBatch) -> pa.RecordBatch:
    lacks = batch["lacks"].flatten()
    ids = batch["ledger_id"].take(pc.list_parent_indices(batch["lacks"]))
    columns = [lacks.field("bookie_id"), ids, lacks.field("expected"), lacks.field("absent")]
    return pa.RecordBatch.from_arrays(
        [column.cast(f.type) for column, f in zip(columns, LACKS, strict=True)], schema=LACKS
    )


def lacking_by_bookie(lacks: pa.Table) -> dict[BookieId, Ids]:
    """Return the ledgers of which each bookie lacks at least one entry."""
    return {
        bookie: distinct_numbers(ids)
        for bookie, ids in by_word(lacks["bookie_id"], lacks["ledger_id"])
    }


def lacking_most(lacks: pa.Table) -> pa.Table:
    """Return the rows of the ledgers of which a bookie lacks more than half of its entries."""
    return lacks.filter(pc.greater(pc.multiply(lacks["absent"], 2), lacks["expected"]))


def contents(
    lacks: pa.Table, asked: Mapping[BookieId, int], probed: Mapping[BookieId, Ids]
) -> dict[BookieId, Content]:
    """Return the counts of each bookie that lacks more than half of its entries of some ledger.

    `asked` counts the ledgers that a bookie answered for. `probed` has the ledgers that a bookie
    that cannot list let us read.
    """
    most = lacking_most(lacks)
    sums = (
        most.group_by("bookie_id").aggregate([("expected", "sum"), ("absent", "sum")]).to_pylist()
    )
    entries = {row["bookie_id"]: (row["expected_sum"], row["absent_sum"]) for row in sums}
    found = {}
    for bookie, ids in by_word(most["bookie_id"], most["ledger_id"]):
        some = tuple(np.sort(ids)[:LEDGERS_NAMED_MAX].tolist())
        found[bookie] = Content(
            asked.get(bookie, 0), len(ids), *entries[bookie], some, bookie in probed
        )
    return found


@dataclass(frozen=True, slots=True)
class Heard:
    """What bookies said about the content that they hold. `lacks` holds LACKS rows."""

    lacks: pa.Table
    words: LastWords
    contents: Mapping[BookieId, Content]


def gather_heard(run: Place, verdicts: TableScan, bookies: Sequence[BookieRecord]) -> Heard:
    """Return counts of what the bookies said of ledgers.

    Costs a scan of the answers, and one of the reads if some bookie cannot list.
    """
    unsupported = {
        record.bookie_id for record in bookies if record.greeting is Greeting.UNSUPPORTED
    }
    probed = probed_ledgers(run.stream("evidence/reads", READS, SPOKEN), unsupported)
    later = pc.is_valid(pc.field("ledger_id")) & (pc.field("look") > 1)
    again = pc.unique(
        run.read_table("evidence/answers", ANSWERS, later, ["ledger_id"])["ledger_id"]
    )
    unjudged = [pa.array(ids) for ids in unjudged_by_reason(verdicts).values()]
    words = last_words(
        run.stream("evidence/answers", ANSWERS, SPOKEN),
        again,
        pa.concat_arrays([pa.array([], pa.int64()), *unjudged]),
        {bookie: ids for bookie, ids in probed.items() if len(ids)},
    )
    lacks = lacks_of(verdicts)
    return Heard(lacks, words, contents(lacks, words.asked, probed))
