"""Find the ledgers that rest on lists of a lister that its bookie contradicted during the run."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS
from auditor.model.availability import LISTED_BY_LISTER, LISTER_CONTRADICTED, AnswerStatus


def contradicting_bookies(run: Place) -> pa.Array:
    """Return the ids of the bookies that contradicted their lister. Costs a scan of the
    greetings.
    """
    contradicted = pc.is_null(pc.field("ledger_id")) & pc.starts_with(
        pc.field("detail"), LISTER_CONTRADICTED
    )
    return pc.unique(
        run.read_table("evidence/answers", ANSWERS, contradicted, ["bookie_id"])["bookie_id"]
    )


def spoiled_ledgers(run: Place) -> pa.Array:
    """Return the ids of these ledgers, from the written answers. Costs a scan of the greetings.

    Lists that such a lister gave after the contradiction are `answer_invalid` already.
    """
    bookies = contradicting_bookies(run)
    if not len(bookies):
        return pa.array([], pa.int64())
    listed = pc.starts_with(pc.field("detail"), LISTED_BY_LISTER) & (
        pc.field("status") == AnswerStatus.HELD.value
    )
    theirs = pc.field("bookie_id").isin(bookies) & pc.is_valid(pc.field("ledger_id")) & listed
    return pc.unique(
        run.read_table("evidence/answers", ANSWERS, theirs, ["ledger_id"])["ledger_id"]
    )
