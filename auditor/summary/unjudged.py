"""Name the ledgers that could not be judged, wholly or in part, by reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow.compute as pc

from auditor.evidence.ids import Ids
from auditor.evidence.table_scan import TableScan
from auditor.model.verdict import Standing, Unknown

EXAMPLES_MAX = 3
"""At most this many ledgers are named in the summary for each reason; the files have all."""
FILES = "unjudged/REASON.txt"
"""The file of a reason, below the run's directory. Its name is the reason's."""
Json = dict[str, Any]


@dataclass(slots=True)
class Unjudged:
    """The ledgers that have a reason to be unknown.

    `by_reason` has their ids, sorted. `ledgers` counts each ledger once, `in_part` those that have
    another standing than indeterminate, `several_reasons` those that have more than one reason.
    """

    by_reason: dict[Unknown, Ids] = field(default_factory=dict)
    ledgers: int = 0
    in_part: int = 0
    several_reasons: int = 0

    def as_json(self) -> Json:
        """Return the field `unjudged` of a summary."""
        return {
            "ledgers": self.ledgers,
            "in_part": self.in_part,
            "several_reasons": self.several_reasons,
            "some": {
                reason.value: ids[:EXAMPLES_MAX].tolist() for reason, ids in self.by_reason.items()
            },
        }

    @property
    def files(self) -> dict[str, Ids]:
        """The file of each reason, with one id a line."""
        return {
            FILES.replace("REASON", reason.value): ids for reason, ids in self.by_reason.items()
        }


def unjudged_ledgers(verdicts: TableScan) -> Unjudged:
    """Return the ledgers with a reason to be unknown. Holds one id for each such ledger and reason.

    `verdicts` has the schema VERDICTS.
    """
    found = Unjudged()
    parts: dict[Unknown, list[Ids]] = {}
    for batch in verdicts.batches(["ledger_id", "standing", "unknowns"]):
        number = pc.fill_null(pc.list_value_length(batch["unknowns"]), 0)
        has_reason = pc.greater(number, 0)
        found.ledgers += int(pc.sum(has_reason).as_py() or 0)
        found.several_reasons += int(pc.sum(pc.greater(number, 1)).as_py() or 0)
        is_judged = pc.not_equal(batch["standing"], Standing.INDETERMINATE.word)
        found.in_part += int(pc.sum(pc.and_(has_reason, is_judged)).as_py() or 0)
        ids = batch["ledger_id"].take(pc.list_parent_indices(batch["unknowns"]))
        words = batch["unknowns"].flatten()
        for word in pc.unique(words).to_pylist():
            of_reason = ids.filter(pc.equal(words, word)).to_numpy(zero_copy_only=False)
            parts.setdefault(Unknown(word), []).append(of_reason)
    found.by_reason = {
        reason: np.sort(np.concatenate(parts[reason])) for reason in Unknown if reason in parts
    }
    return found
