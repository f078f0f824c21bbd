"""The summary field `odd_lists`: lists that are believed though no bookie is known to send such."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow.compute as pc

from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS
from auditor.model.identity import BookieId
from auditor.summary.assurance import BOOKIES_NAMED_MAX


def read_odd_lists(run: Place) -> dict[str, Any]:
    """Return the field for the lists of a run. Costs a scan of one column, mostly false."""
    odd = run.read_table("evidence/answers", ANSWERS, pc.field("non_canonical"), ["bookie_id"])
    return odd_lists_json(odd["bookie_id"].to_pylist())


def odd_lists_json(bookies: Iterable[BookieId]) -> dict[str, Any]:
    """Return the field for the bookies of such lists, each as often as it sent one."""
    lists = Counter(bookies)
    return {
        "lists": lists.total(),
        "bookies": len(lists),
        "some_bookies": sorted(lists)[:BOOKIES_NAMED_MAX],
    }
