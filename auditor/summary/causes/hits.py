"""Which ledgers are affected, by family of finding, and which bookies, racks and workers may be
why.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from auditor.evidence.ids import Ids, distinct_numbers
from auditor.model.finding import CATALOGUE, Family
from auditor.model.identity import BookieId

UNJUDGED = "unjudged"
"""The family of ledgers that a bookie's silence left unjudged: they have a reason, no finding."""

_FAMILIES = {kind.value: facts.family.value for kind, facts in CATALOGUE.items()}


class Via(StrEnum):
    """How a bookie is related to a ledger that is hit."""

    LACKING = "lacking"
    UNHEARD = "unheard"
    MARKED = "marked"
    MISPLACED = "misplaced"


VIAS: Mapping[str, tuple[Via, ...]] = {
    Family.ENTRY.value: (Via.LACKING,),
    Family.MARK.value: (Via.MARKED, Via.LACKING),
    Family.PLACEMENT.value: (Via.MISPLACED,),
    UNJUDGED: (Via.UNHEARD,),
}
"""By family, the relations that make a bookie a candidate. Other families have only periods."""


@dataclass(frozen=True, slots=True)
class Hits:
    """Which ledgers are affected, and by what.

    `by_kind`: the ledgers by kind of finding, or by the reason that left them unjudged. `via`: the
    ledgers by relation and bookie. `crowds`: by rack, the ledgers with a segment that fails
    placement and has two bookies of the rack. `locked`: marked ledgers, with or without a finding,
    by the worker that holds their lock. `marked`: how many ledgers are marked, with or without a
    finding.
    """

    by_kind: Mapping[str, Ids]
    via: Mapping[Via, Mapping[BookieId, Ids]]
    crowds: Mapping[str, Ids] = field(default_factory=dict)
    locked: Mapping[str, Ids] = field(default_factory=dict)
    marked: int = 0

    def affected_ledgers(self) -> Ids:
        """Return every ledger hit by anything."""
        return union(self.by_kind.values())

    def families(self) -> list[str]:
        """Return the families that hit any ledger, in order of their names."""
        return sorted({family_of(word) for word in self.by_kind})

    def of_family(self, family: str) -> Ids:
        """Return the ledgers with a finding of that family."""
        return union(ids for word, ids in self.by_kind.items() if family_of(word) == family)

    def by_bookie(self, family: str) -> dict[BookieId, Ids]:
        """Return the ledgers of that family that each bookie may have affected."""
        ids = self.of_family(family)
        parts = [self.via.get(via, {}) for via in VIAS.get(family, ())]
        bookies = sorted(set().union(*parts))
        hit = {
            b: np.intersect1d(union(part[b] for part in parts if b in part), ids) for b in bookies
        }
        return {bookie: mine for bookie, mine in hit.items() if len(mine)}


def family_of(word: str) -> str:
    """Return the family of a finding's kind, or UNJUDGED for a reason."""
    return _FAMILIES.get(word, UNJUDGED)


def union(parts: Iterable[Ids]) -> Ids:
    """Return the ledgers of all parts, ascending, each once."""
    kept = list(parts)
    return distinct_numbers(np.concatenate(kept)) if kept else np.empty(0, np.int64)
