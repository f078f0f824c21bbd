"""Collect from findings and verdicts what `Hits` holds: affected ledgers, and bookies that may be
the cause.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.ids import Ids, distinct_numbers
from auditor.evidence.table_scan import TableScan
from auditor.model.finding import CATALOGUE, Family, Kind, Severity, Subject
from auditor.model.identity import BookieId, LedgerId
from auditor.model.verdict import Unknown
from auditor.summary.causes.hits import Hits, Via
from auditor.summary.causes.periods import Births
from auditor.summary.last_words import by_word

SILENCES = (Unknown.BOOKIE_SILENT, Unknown.BOOKIE_REFUSED, Unknown.ADDRESS_UNKNOWN)
"""Reasons that blame a bookie as a whole for what is unknown."""
BIRTHS = ["ledger_id", "look", "znode_ctime_ms"]
"""The columns of LEDGERS that say when a ledger was created."""

_GROUPED = {
    kind.value
    for kind, facts in CATALOGUE.items()
    if facts.subject is Subject.LEDGER
    and facts.severity > Severity.INFO
    and facts.family is not Family.REFERENCE
}
"""Kinds whose ledgers may have a common cause. No bookie causes a fault of the metadata alone."""


@dataclass(slots=True)
class Clues:
    """Collects findings one by one. Keeps only ledger ids, by kind, bookie and rack."""

    locations: Mapping[BookieId, str]
    by_kind: dict[str, array[int]] = field(default_factory=lambda: defaultdict(lambda: array("q")))
    missing_on: dict[BookieId, array[int]] = field(
        default_factory=lambda: defaultdict(lambda: array("q"))
    )
    failing: dict[BookieId, array[int]] = field(
        default_factory=lambda: defaultdict(lambda: array("q"))
    )
    """By bookie, the ledgers with a segment that fails placement and names the bookie."""
    crowds: dict[str, array[int]] = field(default_factory=lambda: defaultdict(lambda: array("q")))
    """By rack, the ledgers with a segment that fails placement and has two bookies of the rack."""

    def add(self, finding: Mapping[str, Any]) -> None:
        """Add a finding as contract section 4 writes it.

        Ignores findings on bookies and those of severity INFO: they hit no ledger.
        """
        kind = str(finding["kind"])
        if kind not in _GROUPED:
            return
        ledger = int(finding["ledger_id"])
        self.by_kind[kind].append(ledger)
        for bookie in finding.get("missing_on") or ():
            self.missing_on[bookie].append(ledger)
        if kind == Kind.PLACEMENT_FAILED.value and finding.get("segment"):
            self._add_failing(ledger, set(finding["segment"]["ensemble"]))

    def _add_failing(self, ledger: LedgerId, ensemble: set[BookieId]) -> None:
        for bookie in ensemble:
            self.failing[bookie].append(ledger)
        racks = Counter(self.locations[bookie] for bookie in ensemble if bookie in self.locations)
        for rack, bookies in racks.items():
            if bookies > 1:
                self.crowds[rack].append(ledger)

    def hits(
        self,
        verdicts: TableScan,
        *,
        lacking: Mapping[BookieId, Ids],
        unheard: Mapping[BookieId, Ids],
        marks: pa.Table,
        marked: Ids,
        locked: Mapping[str, Ids],
    ) -> Hits:
        """Return what hit which ledgers.

        `marks` are the rows of `newest_marks` for the ledgers with a finding on their mark.
        `marked_ledgers` are all marked ledgers. `locked` has, by worker, all ledgers whose lock it
        held at any look (`ledgers_by_locker`).
        """
        by_kind = {kind: _ids(ids) for kind, ids in self.by_kind.items()} | unjudged_by_reason(
            verdicts
        )
        # If a run died after one look, a ledger without findings may still have `lacks`.
        hit = distinct_numbers(np.concatenate([_ids(()), *by_kind.values()]))
        known = {bookie: np.intersect1d(ids, hit) for bookie, ids in lacking.items()}
        via: dict[Via, Mapping[BookieId, Ids]] = {
            Via.LACKING: _unite(_all_ids(self.missing_on), _without_empty(known)),
            Via.UNHEARD: unheard,
            Via.MARKED: _of_each(marks, "missing_replicas"),
            Via.MISPLACED: _all_ids(self.failing),
        }
        found = {holder: distinct_numbers(ids) for holder, ids in by_word(*_where(marks, "holder"))}
        beside = {
            holder: np.setdiff1d(ids, marks["ledger_id"].to_numpy())
            for holder, ids in locked.items()
        }
        locks = dict(sorted(_without_empty(_unite(found, beside)).items()))
        return Hits(by_kind, via, _all_ids(self.crowds), locks, len(marked))

    def marked_ledgers(self) -> Ids:
        """Return the ledgers with a finding on their mark."""
        kinds = (Kind.UNDERREPLICATED_UNRECOVERABLE.value, Kind.UNDERREPLICATED_BEYOND_GRACE.value)
        return _ids(ledger for kind in kinds for ledger in self.by_kind.get(kind, ()))


def unjudged_by_reason(verdicts: TableScan) -> dict[str, Ids]:
    """Return the ledgers that a bookie's silence left unjudged, by the reason in SILENCES."""
    found: dict[str, Ids] = {}
    for batch in verdicts.batches(["ledger_id", "unknowns"]):
        ids = batch["ledger_id"].take(pc.list_parent_indices(batch["unknowns"]))
        for reason, hit in by_word(batch["unknowns"].flatten(), ids):
            if reason in SILENCES:
                found[reason] = np.union1d(found.get(reason, _ids(())), hit)
    return found


MARKS = pa.schema(
    [
        ("ledger_id", pa.int64()),
        ("look", pa.int32()),
        ("missing_replicas", pa.list_(pa.string())),
        ("holder", pa.string()),
    ]
)
"""What a ledger's mark said: the missing replicas, and the holder of its lock. Key: (ledger_id,
look)."""


def newest_marks(ledgers: pa.Table) -> pa.Table:
    """Return the newest MARKS row of each marked ledger.

    `ledgers` are rows of LEDGERS with `ledger_id`, `look` and `mark`.
    """
    batches = [_mark_rows(batch) for batch in ledgers.to_batches()]
    rows = pa.Table.from_batches(batches, schema=MARKS).sort_by(
        [("ledger_id", "ascending"), ("look", "ascending")]
    )
    ids = rows["ledger_id"].to_numpy()
    is_last = np.append(ids[1:] != ids[:-1], True)[: len(ids)]
    return rows.filter(pa.array(is_last))


def ledgers_by_locker(marked: Iterable[pa.RecordBatch]) -> dict[str, Ids]:
    """Return, by worker, the ledgers whose lock it held at any look.

    `marked_ledgers` are rows of LEDGERS with `ledger_id` and `mark`.
    """
    found: dict[str, Ids] = {}
    for batch in marked:
        kept = batch.filter(pc.is_valid(batch["mark"]))
        rows = pa.table(
            {
                "ledger_id": kept["ledger_id"],
                "holder": pc.struct_field(kept["mark"], ["lock", "holder"]),
            }
        )
        for holder, ids in by_word(*_where(rows, "holder")):
            found[holder] = np.union1d(found.get(holder, _ids(())), ids)
    return found


def _mark_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    kept = batch.filter(pc.is_valid(batch["mark"]))
    mark = kept["mark"]
    holder = pc.struct_field(mark, ["lock", "holder"])
    columns = [kept["ledger_id"], kept["look"], pc.struct_field(mark, ["missing_replicas"]), holder]
    return pa.RecordBatch.from_arrays(columns, schema=MARKS)


def births(ledgers: Iterable[pa.RecordBatch], affected: Ids) -> Births:
    """Return when the affected ledgers were created, from BIRTHS columns. Costs one scan."""
    ids, times = [_ids(())], [_ids(())]
    for batch in ledgers:
        kept = _born(batch)
        kept = kept.filter(pc.is_in(kept["ledger_id"], pa.array(affected)))
        ids.append(kept["ledger_id"].to_numpy())
        times.append(kept["znode_ctime_ms"].to_numpy())
    return Births(np.concatenate(ids), np.concatenate(times))


def count_created(ledgers: Iterable[pa.RecordBatch], edges: Ids) -> Ids:
    """Return how many of all ledgers were created before the first edge, from each to the next, and
    after the last. Costs one scan."""
    counts = np.zeros(len(edges) + 1, np.int64)
    for batch in ledgers:
        bins = np.searchsorted(edges, _born(batch)["znode_ctime_ms"].to_numpy(), side="right")
        counts += np.bincount(bins, minlength=len(counts))
    return counts


def _born(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of the first look that have a creation time. Each ledger then counts once."""
    return batch.filter(pc.and_(pc.equal(batch["look"], 1), pc.is_valid(batch["znode_ctime_ms"])))


def _where(rows: pa.Table, column: str) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    kept = rows.filter(pc.and_(pc.is_valid(rows[column]), pc.not_equal(rows[column], "")))
    return kept[column], kept["ledger_id"]


def _of_each(rows: pa.Table, column: str) -> dict[str, Ids]:
    """Return the ledgers by each value in a list column."""
    found: dict[str, Ids] = {}
    for batch in rows.select(["ledger_id", column]).to_batches():
        for word, ids in by_word(
            batch[column].flatten(), batch["ledger_id"].take(pc.list_parent_indices(batch[column]))
        ):
            found[word] = np.union1d(found.get(word, _ids(())), ids)
    return found


def _all_ids(by_name: Mapping[str, Iterable[LedgerId]]) -> dict[str, Ids]:
    return {name: _ids(ledgers) for name, ledgers in by_name.items()}


def _unite(some: Mapping[str, Ids], others: Mapping[str, Ids]) -> dict[str, Ids]:
    """Return, by name, the ids that either of the two has, ascending."""
    none = _ids(())
    return {
        name: np.union1d(some.get(name, none), others.get(name, none)) for name in {*some, *others}
    }


def _without_empty(by_name: Mapping[str, Ids]) -> dict[str, Ids]:
    return {name: ids for name, ids in by_name.items() if len(ids)}


def _ids(ledgers: Iterable[LedgerId]) -> Ids:
    """Return the ids ascending, each once."""
    return distinct_numbers(np.fromiter(ledgers, np.int64))
