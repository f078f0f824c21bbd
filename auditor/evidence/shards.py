"""Shards: ranges of ledger ids that a run handles one by one. A killed run keeps what is done."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from auditor.evidence.ids import distinct_numbers
from auditor.model.identity import LEDGER_ID_MAX, LedgerId


@dataclass(frozen=True, slots=True)
class Shard:
    """The ledgers from `first` to `last`, inclusive.

    The shards of a run cover every possible ledger id exactly once.
    """

    number: int
    first: LedgerId = 0
    last: LedgerId = LEDGER_ID_MAX

    @property
    def is_all(self) -> bool:
        """Whether this is the only shard of its run."""
        return self.first == 0 and self.last == LEDGER_ID_MAX


EVERYTHING = Shard(0)
"""The only shard of a run that is not divided."""


SHARDS_MAX = 1_000
"""Maximum number of shards of one run. A larger cluster gets larger shards.

Every stage lists the files of all shards, which is slow for many shards."""


def cut_shards(listed: pa.ChunkedArray, ledgers_max: int) -> list[Shard]:
    """Return the fewest shards of at most `ledgers_max` listed ledgers, in order of ledger id.

    The shards have nearly equal numbers of ledgers. Without listed ledgers there is one shard. At
    SHARDS_MAX shards they may hold more than `ledgers_max`. `listed` has the ids in any order.
    Costs sorting them: 8 bytes a ledger.
    """
    assert ledgers_max > 0, ledgers_max
    ids = distinct_numbers(listed.to_numpy())
    shards = min(SHARDS_MAX, max(1, -(-len(ids) // ledgers_max)))
    firsts = [0, *(int(ids[len(ids) * number // shards]) for number in range(1, shards))]
    lasts = [first - 1 for first in firsts[1:]] + [LEDGER_ID_MAX]
    return [
        Shard(number, first, last)
        for number, (first, last) in enumerate(zip(firsts, lasts, strict=True))
    ]
