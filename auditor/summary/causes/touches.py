"""Counts the ledgers that each bookie and rack touches: those whose metadata names it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.ids import Ids, distinct_numbers
from auditor.model.identity import BookieId

TOUCHING = ["ledger_id", "look", "segments"]
"""The columns of LEDGERS that say which bookies a ledger names."""

_Ints = npt.NDArray[np.int64]
_NONE: Ids = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Touches:
    """Counts of ledgers as of the first look. `ledgers` counts all of them.

    `by_bookie` counts the ledgers that name a bookie, `by_rack` those that name a bookie of a rack.
    `named` has, by bookie, the affected ledgers that name it.
    """

    ledgers: int = 0
    by_bookie: Mapping[BookieId, int] = field(default_factory=dict)
    by_rack: Mapping[str, int] = field(default_factory=dict)
    named: Mapping[BookieId, Ids] = field(default_factory=dict)

    def of_bookie(self, bookie: BookieId, hit: Ids) -> int:
        """Return how many ledgers the bookie touches.

        Ledgers in `hit` count even if they name the bookie only at a later look.
        """
        return self.by_bookie.get(bookie, 0) + _outside(hit, self.affected_naming([bookie]))

    def of_rack(self, rack: str, members: Iterable[BookieId], hit: Ids) -> int:
        """Return how many ledgers the rack touches, like `of_bookie`. `members`: its bookies."""
        return self.by_rack.get(rack, 0) + _outside(hit, self.affected_naming(members))

    def affected_naming(self, bookies: Iterable[BookieId]) -> Ids:
        """Return the affected ledgers that name any of these bookies."""
        parts = [self.named[bookie] for bookie in bookies if bookie in self.named]
        return distinct_numbers(np.concatenate([_NONE, *parts]))


def count_touches(
    ledgers: Iterable[pa.RecordBatch], locations: Mapping[BookieId, str], affected: Ids
) -> Touches:
    """Return the counts, from batches with TOUCHING columns.

    Holds one batch, two numbers a bookie, and the bookies of the affected ledgers (16 bytes each).
    Costs one scan, and a sort of each batch's (ledger, bookie) pairs.
    """
    tally = _Tally(locations, affected)
    for batch in ledgers:
        tally.add(batch.filter(pc.equal(batch["look"], 1)))
    return tally.result()


@dataclass(slots=True)
class _Tally:
    locations: Mapping[BookieId, str]
    affected: Ids
    ledgers: int = 0
    bookies: dict[BookieId, int] = field(default_factory=dict)
    """The number of each bookie, in order of appearance."""
    racks: dict[str, int] = field(default_factory=dict)
    rack_of: list[int] = field(default_factory=list)
    """The number of each bookie's rack, or -1 if its location is unknown."""
    per_bookie: _Ints = field(default_factory=lambda: _NONE)
    per_rack: _Ints = field(default_factory=lambda: _NONE)
    pairs: list[tuple[Ids, _Ints]] = field(default_factory=list)
    """By batch, two parallel arrays: affected ledgers, and numbers of bookies that they name."""

    def add(self, rows: pa.RecordBatch) -> None:
        self.ledgers += rows.num_rows
        ensembles = pc.struct_field(pc.list_flatten(rows["segments"]), "ensemble")
        place = pc.list_parent_indices(rows["segments"]).take(pc.list_parent_indices(ensembles))
        place, bookie = _distinct_pairs(place.to_numpy(), self._numbers(pc.list_flatten(ensembles)))
        self.per_bookie = _plus(self.per_bookie, bookie)
        rack = np.array(self.rack_of, np.int64)[bookie]
        self.per_rack = _plus(self.per_rack, _distinct_pairs(place[rack >= 0], rack[rack >= 0])[1])
        ids = rows["ledger_id"].to_numpy()[place]
        is_affected = np.isin(ids, self.affected)
        self.pairs.append((ids[is_affected], bookie[is_affected]))

    def _numbers(self, names: pa.Array) -> _Ints:
        encoded = names.dictionary_encode()
        numbers = np.array(
            [self._number(name) for name in encoded.dictionary.to_pylist()], np.int64
        )
        found: _Ints = numbers[encoded.indices.to_numpy()]
        return found

    def _number(self, bookie: BookieId) -> int:
        if bookie not in self.bookies:
            self.bookies[bookie] = len(self.bookies)
            rack = self.locations.get(bookie)
            self.rack_of.append(
                -1 if rack is None else self.racks.setdefault(rack, len(self.racks))
            )
        return self.bookies[bookie]

    def result(self) -> Touches:
        ids = np.concatenate([_NONE, *(part for part, _ in self.pairs)])
        numbers = np.concatenate([_NONE, *(part for _, part in self.pairs)])
        order = np.argsort(numbers)
        ends = np.cumsum(np.bincount(numbers, minlength=len(self.bookies)))
        parts = np.split(ids[order], ends[:-1]) if len(ends) else []
        return Touches(
            self.ledgers,
            dict(zip(self.bookies, self.per_bookie.tolist(), strict=True)),
            dict(zip(self.racks, self.per_rack.tolist(), strict=True)),
            {
                bookie: distinct_numbers(part)
                for bookie, part in zip(self.bookies, parts, strict=True)
                if len(part)
            },
        )


def _distinct_pairs(places: _Ints, numbers: _Ints) -> tuple[_Ints, _Ints]:
    """Return each (place, number) once: several segments of a ledger may name the same bookie."""
    width = int(numbers.max(initial=0)) + 1
    keys = distinct_numbers(places.astype(np.int64) * width + numbers)
    return keys // width, keys % width


def _plus(counts: _Ints, numbers: _Ints) -> _Ints:
    more = np.bincount(numbers, minlength=len(counts)).astype(np.int64)
    more[: len(counts)] += counts
    return more


def _outside(ids: Ids, others: Ids) -> int:
    return len(np.setdiff1d(ids, others))
