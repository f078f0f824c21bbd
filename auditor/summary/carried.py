"""What a run with a period (`--within`) carried over from earlier runs: which verdicts, how old."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.ids import Ids, are_among
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import CARRIED, CARRIED_TABLE, DUE, DUE_TABLE, LEDGERS
from auditor.evidence.table_scan import TableScan
from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord
from auditor.model.identity import BookieId, LedgerId
from auditor.model.summary import Carried, CarriedFrom, CarriedLedger
from auditor.model.verdict import Standing
from auditor.summary.about import About
from auditor.witness.phrases import moment

RUNS_NAMED_MAX = 100
"""At most this many runs are named from which verdicts are carried, those that began first."""


def read_carried_ids(run: Place) -> Ids:
    """Return the ledgers whose verdicts a run carried over, ascending. Costs 8 bytes each."""
    if not run.has_table(CARRIED_TABLE):
        return np.empty(0, np.int64)
    rows = run.scan(CARRIED_TABLE, CARRIED)
    ids: Ids = np.empty(rows.count(), np.int64)
    end = 0
    for batch in rows.batches(["ledger_id"]):
        ids[end : end + len(batch)] = batch["ledger_id"].to_numpy()
        end += len(batch)
    ids.sort()
    return ids


def carried_from(run: Place, ledger_id: LedgerId) -> CarriedLedger | None:
    """Return from which run the verdict on a ledger was carried over; None if it was not."""
    if not run.has_table(CARRIED_TABLE):
        return None
    rows = run.read_table(CARRIED_TABLE, CARRIED, pc.field("ledger_id") == ledger_id).to_pylist()
    return CarriedLedger(rows[0]["run_id"], moment(rows[0]["listed_at_ms"])) if rows else None


class Named(NamedTuple):
    """For each ledger, whether its ensembles name all, or any, of some bookies."""

    all_named: npt.NDArray[np.bool_]
    any_named: npt.NDArray[np.bool_]


def bookies_named(ledgers: pa.RecordBatch, bookies: Collection[BookieId]) -> Named:
    """Return whether each bookie that a ledger names is one of `bookies`, and whether any is.

    `ledgers` has the column `segments`. Costs one comparison for each bookie, and some operations
    on whole columns.
    """
    row_of_segment = pc.list_parent_indices(ledgers["segments"])
    ensembles = pc.struct_field(ledgers["segments"].flatten(), "ensemble")
    rows = row_of_segment.take(pc.list_parent_indices(ensembles)).to_numpy()
    codes = ensembles.flatten().dictionary_encode()
    is_mine = np.array([name in bookies for name in codes.dictionary.to_pylist()], np.bool_)
    flags = is_mine[codes.indices.to_numpy()]
    named = np.bincount(rows, minlength=ledgers.num_rows)
    mine = np.bincount(rows[flags], minlength=ledgers.num_rows)
    return Named(mine == named, mine > 0)


def carried_on(run: Place, bookies: Collection[BookieId]) -> pa.Array:
    """Return the carried ledgers whose metadata names one of these bookies.

    Costs a scan of the metadata.
    """
    found = [pa.array([], pa.int64())]
    for rows in _segments_of(run, read_carried_ids(run)):
        named = pa.array(bookies_named(rows, bookies).any_named)
        found.append(rows["ledger_id"].filter(named))
    return pa.concat_arrays(found)


def unheard_of_carried(
    run: Place, records: Iterable[BookieRecord], ids: Ids
) -> dict[BookieId, Ids]:
    """Return, by bookie that answered at no look, those of these ledgers that are carried and name
    it. It may have no record. Bookies that answer and cannot list are left out.

    Costs a scan of the metadata if some are carried.
    """
    answers = (Greeting.ANSWERED, Greeting.UNSUPPORTED)
    answered = {record.bookie_id for record in records if record.greeting in answers}
    mine: Ids = np.intersect1d(ids, read_carried_ids(run), assume_unique=True)
    found: dict[BookieId, list[Ids]] = {}
    if len(mine):
        for rows in _segments_of(run, mine):
            ensembles = pc.struct_field(rows["segments"].flatten(), "ensemble")
            for bookie in set(pc.unique(ensembles.flatten()).to_pylist()) - answered:
                hit = rows["ledger_id"].to_numpy()[bookies_named(rows, [bookie]).any_named]
                found.setdefault(bookie, []).append(hit)
    joined = {bookie: np.unique(np.concatenate(parts)) for bookie, parts in found.items()}
    return {bookie: hit for bookie, hit in joined.items() if len(hit)}


def carried_by_bookie(run: Place) -> Counter[BookieId]:
    """Return how many carried ledgers name each bookie. Costs a scan of the metadata."""
    ids, counts = read_carried_ids(run), Counter[BookieId]()
    if not len(ids):
        return counts
    for rows in _segments_of(run, ids):
        ensembles = pc.struct_field(rows["segments"].flatten(), "ensemble")
        for one in pc.value_counts(ensembles.flatten()).to_pylist():
            counts[one["values"]] += one["counts"]
    return counts


def _segments_of(run: Place, ids: Ids) -> Iterator[pa.RecordBatch]:
    """Yield the ids and the segments of these ledgers, batch by batch."""
    for batch in run.stream("evidence/ledgers", LEDGERS, ["ledger_id", "segments"]):
        yield batch.filter(pa.array(are_among(batch["ledger_id"].to_numpy(), ids)))


def carried_of(run: Place, about: About, verdicts: TableScan) -> Carried | None:
    """Return what a run carried over; None if it asked about every ledger.

    Costs a scan of evidence/carried, and of the ids of the verdicts that are not sound.
    """
    if not about.within_ms:
        return None
    base, due = about.base, {}
    if run.has_table(DUE_TABLE):
        due = dict(zip(*run.read_table(DUE_TABLE, DUE).to_pydict().values(), strict=True))
    counts: Counter[tuple[str, int]] = Counter()
    if run.has_table(CARRIED_TABLE):
        for batch in run.stream(CARRIED_TABLE, CARRIED, ["run_id", "listed_at_ms"]):
            rows = pa.Table.from_batches([batch]).group_by(["run_id", "listed_at_ms"])
            for row in rows.aggregate([([], "count_all")]).to_pylist():
                counts[row["run_id"], row["listed_at_ms"]] += row["count_all"]
    unsound = verdicts.table(["ledger_id"], pc.field("standing") != Standing.SOUND.word)
    withheld = are_among(unsound["ledger_id"].to_numpy(), read_carried_ids(run))
    runs = sorted(counts, key=lambda one: (one[1], one[0]))
    return Carried(
        within_s=about.within_ms / 1000,
        base=base.run_id,
        problem=base.problem,
        ledgers=counts.total(),
        withheld=int(withheld.sum()),
        oldest_listed_at=moment(runs[0][1]) if runs else None,
        due=due,
        runs=tuple(
            CarriedFrom(run_id, moment(at), counts[run_id, at])
            for run_id, at in runs[:RUNS_NAMED_MAX]
        ),
    )
