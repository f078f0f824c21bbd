"""Hold the clear ledgers of a shard in columns, some 130 bytes each.

What a healthy bookie says of a clear ledger is known before it is asked
(docs/decisions/0062). No clear ledger becomes a Python value here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.ids import Ids
from auditor.evidence.rows import rows_of
from auditor.judging.healthy_ledgers import is_clear
from auditor.model.identity import BookieId

Numbers = npt.NDArray[np.int64]
DENSE_MAX = 8
"""Where ids are at most so far apart on average, a table has the row of each: 64 bytes a ledger."""


@dataclass(frozen=True, slots=True)
class ClearColumns:
    """Clear ledgers by ascending id. Each names as many bookies as its ensemble size, each once.

    `last` is the last entry of each ledger. `sizes` and `quorums` are its ensemble size and its
    write quorum. Its bookies are the numbers in `ensembles` from the place in `starts` on, as many
    as the ensemble size. `bookies` has the bookie of each number.
    """

    ids: Ids
    last: Numbers
    sizes: Numbers
    quorums: Numbers
    starts: Numbers
    ensembles: npt.NDArray[np.int32]
    bookies: Sequence[BookieId]
    _row_of: Numbers = field(init=False)
    """The row of each id from the first one on, or -1; empty if the ids are far apart."""

    def __post_init__(self) -> None:
        row_of = np.empty(0, np.int64)
        if len(self.ids) and self.ids[-1] - self.ids[0] < DENSE_MAX * len(self.ids):
            row_of = np.full(self.ids[-1] - self.ids[0] + 1, -1)
            row_of[self.ids - self.ids[0]] = np.arange(len(self.ids))
        object.__setattr__(self, "_row_of", row_of)

    @classmethod
    def of(cls, records: pa.Table) -> ClearColumns:
        """Return the clear ledgers among records of a first look, each ledger once.

        `records` have the CLEAR_COLUMNS and the ledger id. Costs a sort, and some operations on
        whole columns.
        """
        numbers: dict[BookieId, int] = {}
        parts = [_clear_part(batch, numbers) for batch in records.to_batches()]
        ids, last, sizes, quorums, ensembles = (
            np.concatenate(cells) if cells else np.empty(0, np.int64)
            for cells in (zip(*parts, strict=True) if parts else ((),) * 5)
        )
        begins = np.cumsum(sizes) - sizes
        order = np.argsort(ids, kind="stable")
        sizes = sizes[order]
        starts = np.cumsum(sizes) - sizes
        moved = np.repeat(begins[order] - starts, sizes)
        ensembles = ensembles[np.arange(len(moved)) + moved].astype(np.int32)
        bookies = list(numbers)
        return cls(ids[order], last[order], sizes, quorums[order], starts, ensembles, bookies)

    def rows_of(self, ledger_ids: Ids) -> Numbers:
        """Return the row number of each of these ledgers; -1 for one that is not clear.

        Costs a look into a table, or a search if the ids are far apart.
        """
        if not len(self.ids):
            return np.full(len(ledger_ids), -1)
        if len(self._row_of):
            at = ledger_ids - self.ids[0]
            is_within = (at >= 0) & (at < len(self._row_of))
            return np.where(is_within, self._row_of[np.where(is_within, at, 0)], -1)
        rows = np.searchsorted(self.ids, ledger_ids)
        rows[rows == len(self.ids)] = 0
        return np.where(self.ids[rows] == ledger_ids, rows, -1)

    def positions_of(self, rows: Numbers, numbers: Numbers) -> Numbers:
        """Return the position of a bookie in the ensemble of a ledger, for each pair; -1 if it is
        not in it.

        `rows` are numbers of ledgers, `numbers` those of bookies.
        """
        chosen, place_of = np.unique(rows, return_inverse=True)
        sizes = self.sizes[chosen]
        ends = np.cumsum(sizes)
        positions = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - sizes, sizes)
        named = self.ensembles[np.repeat(self.starts[chosen], sizes) + positions]
        count = max(1, len(self.bookies))
        keys = np.repeat(np.arange(len(chosen)), sizes) * count + named
        order = np.argsort(keys)
        wanted = place_of * count + numbers
        at = np.minimum(np.searchsorted(keys, wanted, sorter=order), max(0, len(keys) - 1))
        if not len(keys):
            return np.full(len(rows), -1)
        is_named = (numbers >= 0) & (keys[order[at]] == wanted)
        return np.where(is_named, positions[order[at]], -1)


def _clear_part(batch: pa.RecordBatch, known: dict[BookieId, int]) -> tuple[Numbers, ...]:
    """Return the ids of the clear ledgers of a batch, their last entries, ensemble sizes and write
    quorums, and the numbers of their bookies, one ensemble after the other.

    `known` has the numbers of bookies. Adds those that it lacks.
    """
    rows = pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))
    rows = rows_of(rows, is_clear(rows))
    segments = pc.struct_field(rows, "segments").flatten()
    named = pc.struct_field(segments, "ensemble")
    lengths = pc.list_value_length(named).fill_null(0).to_numpy(zero_copy_only=False)
    names = named.flatten().dictionary_encode()
    bookies = [known.setdefault(name, len(known)) for name in names.dictionary.to_pylist()]
    numbers = names.indices.fill_null(len(bookies)).to_numpy(zero_copy_only=False)
    numbers = np.array([*bookies, -1])[numbers]
    ids, last, sizes, quorums = (
        pc.struct_field(rows, name).to_numpy(zero_copy_only=False).astype(np.int64)
        for name in ("ledger_id", "last_entry_id", "ensemble_size", "write_quorum")
    )
    first = pc.struct_field(segments, "first_entry_id").fill_null(-1)
    is_kept = (first.to_numpy(zero_copy_only=False) == 0) & (lengths == sizes)
    owners = np.repeat(np.arange(len(ids)), lengths)
    is_kept[owners[numbers < 0]] = False
    places = np.sort(owners * max(1, len(known)) + numbers)
    twice = places[1:][places[1:] == places[:-1]]
    is_kept[twice // max(1, len(known))] = False
    of_kept = numbers[is_kept[owners]]
    return ids[is_kept], last[is_kept], sizes[is_kept], quorums[is_kept], of_kept
