"""The summary field `odd_lists`: lists that are believed though no bookie is known to send such."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pyarrow.compute as pc

from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS
from auditor.model.identity import BookieId
from auditor.model.summary import OddLists
from auditor.summary.assurance import BOOKIES_NAMED_MAX


def read_odd_lists(run: Place) -> OddLists:
    """Return the odd lists of a run. Costs a scan of one column, mostly false."""
    odd = run.read_table("evidence/answers", ANSWERS, pc.field("non_canonical"), ["bookie_id"])
    return count_odd_lists(odd["bookie_id"].to_pylist())


def count_odd_lists(bookies: Iterable[BookieId]) -> OddLists:
    """Return the odd lists of these bookies, each as often as it sent one."""
    lists = Counter(bookies)
    return OddLists(lists.total(), len(lists), tuple(sorted(lists)[:BOOKIES_NAMED_MAX]))
