"""Reads from the evidence of a run which bookies refused every request."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, READS
from auditor.first_checker.bookies import Refusals
from auditor.model.availability import VALID_ANSWERS, ReadStatus
from auditor.model.identity import BookieId
from auditor.summary.cluster.refusal_counts import REFUSED, REQUESTED, refusals

_VALID = [status.value for status in VALID_ANSWERS]


def refusals_of(run: Place) -> dict[BookieId, Refusals]:
    """Return the bookies that answered every request with an error status.

    Empty if no bookie served any request: then our credentials are at fault. Costs a scan of two
    columns, and the rows of bookies that refused something.
    """
    refused = pc.field("status").isin(REFUSED)
    some = {
        bookie
        for name, schema in (("evidence/answers", ANSWERS), ("evidence/reads", READS))
        for bookie in pc.unique(
            run.read_table(
                name, schema, refused & pc.is_valid(pc.field("ledger_id")), ["bookie_id"]
            )["bookie_id"]
        ).to_pylist()
    }
    serving = _serving_bookies(run) if some else set()
    some = {bookie for bookie in some if serving - {bookie}}
    if not some:
        return {}
    theirs = pc.field("bookie_id").isin(pa.array(sorted(some)))
    return refusals(
        run.read_table("evidence/answers", ANSWERS, theirs, REQUESTED.names),
        run.read_table(
            "evidence/reads", READS, theirs & ~pc.field("is_search").isin([True]), REQUESTED.names
        ),
    )


def _serving_bookies(run: Place) -> set[BookieId]:
    """Return the bookies that gave a list or an entry."""
    lists = run.read_table(
        "evidence/answers", ANSWERS, pc.field("status").isin(_VALID), ["bookie_id"]
    )
    reads = run.read_table(
        "evidence/reads", READS, pc.field("status") == ReadStatus.PRESENT.value, ["bookie_id"]
    )
    return {
        bookie for rows in (lists, reads) for bookie in pc.unique(rows["bookie_id"]).to_pylist()
    }
