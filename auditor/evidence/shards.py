"""Shards: a run goes through the listed ledgers in ranges of ids, so that what is done is done when the run is killed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from auditor.model.identity import LEDGER_ID_MAX, LedgerId


@dataclass(frozen=True, slots=True)
class Shard:
    """The ledgers from `first` to `last`, inclusive. The shards of a run cover every id there can be, each once."""

    number: int
    first: LedgerId = 0
    last: LedgerId = LEDGER_ID_MAX

    @property
    def is_all(self) -> bool:
        """Whether it is the only shard of its run."""
        return self.first == 0 and self.last == LEDGER_ID_MAX


EVERYTHING = Shard(0)
"""The one shard of a run that is not cut."""


SHARDS_MAX = 1_000
"""Shards of one run; where that is too few, each has more ledgers. Every stage lists the files of all: many are slow."""


def cut(listed: pa.ChunkedArray, ledgers_max: int) -> list[Shard]:
    """The fewest shards of at most `ledgers_max` listed ledgers, nearly equal, in order of ledger id; one where none is listed.

    `listed` are the ids in any order. Costs sorting them: 8 bytes a ledger.
    """
    assert ledgers_max > 0, ledgers_max
    ids = np.unique(listed.to_numpy())
    shards = min(SHARDS_MAX, max(1, -(-len(ids) // ledgers_max)))
    firsts = [0, *(int(ids[len(ids) * number // shards]) for number in range(1, shards))]
    lasts = [first - 1 for first in firsts[1:]] + [LEDGER_ID_MAX]
    return [Shard(number, first, last) for number, (first, last) in enumerate(zip(firsts, lasts, strict=True))]
