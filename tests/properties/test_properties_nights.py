"""Findings on bookies, on the cluster and on references, over seeded runs.

Every failure names its seed: `support.night_stories.night(seed)` makes that run again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest
from support.night_stories import Night, night
from support.quick_forms import few_or_all
from support.tables_in_memory import Tables

SWARM, FEW = 600, 50
FOUND_MIN_OF = 50
"""One run in so many, at least, has a finding of each kind, so that the law means something."""


def reordered(one: Night, seed: int) -> Night:
    """Return the run with the rows of each table, and the records of bookies, in another order."""
    draw = Random(f"order {seed}")
    tables = {
        name: rows.take(pa.array(draw.sample(range(rows.num_rows), rows.num_rows), pa.int64()))
        for name, rows in one.run.tables.items()
    }
    records = draw.sample(one.records, len(one.records))
    return replace(one, run=Tables(tables), records=records)


@pytest.mark.parametrize("count", few_or_all(FEW, SWARM))
def test_findings_do_not_depend_on_the_order_of_the_rows(count: int) -> None:
    """Spark writes rows in any order. Each kind occurs often, with renamed bookies among them."""
    found, renamed = Counter[str](), 0
    for seed in range(count):
        done, again = night(seed).concluded(), reordered(night(seed), seed).concluded()
        assert done.findings == again.findings, seed
        assert done.summary.withheld == again.summary.withheld, seed
        found.update(one.kind.value for one in done.findings)
        renamed += sum(one.facts.values.get("renamed_to") is not None for one in done.findings)
    kinds = {
        "BOOKIE_SILENT_YET_REGISTERED", "BOOKIE_LOST_UNNOTICED", "BOOKIE_LOST_CONTENT",
        "BOOKIE_FAILING_REQUESTS",
        "MARK_WITHOUT_LEDGER", "LEDGER_POPULATION_DROPPED", "REFERENCED_LEDGER_MISSING",
        "NEWEST_LEDGER_MISSING",
        "LEDGER_TRUNCATED", "POSITION_BEYOND_END",
        "LEDGER_ORPHANED",
    }  # fmt: skip
    assert kinds == found.keys()
    assert min(*found.values(), renamed) >= count // FOUND_MIN_OF, (found, renamed)
