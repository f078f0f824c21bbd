"""Read the copies of carried ledgers that are due for `--verify-within`.

A run with a period reads the arc of each bookie over all ledgers, as a whole run does. On the
ledgers that it asks about, the reads that test lists do that. Here are the others: their entries
are read before it is chosen which ledgers are asked about. A ledger of which a read says anything
else than that the entry is there, or whose last entry has another length in its header than the
metadata says, is asked about, and judged with that read.

What is read follows from the metadata of the base. Whoever calls must know that it did not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.ids import Ids, are_among
from auditor.evidence.rows import Row, rows_of, table
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LISTING, READS
from auditor.first_checker.circle import Arc
from auditor.first_checker.spot_reads import CopyOfLedger, Density, ListTests, spot_copies
from auditor.judging.tested_ledgers import TESTED_COLUMNS, may_have_reads
from auditor.model.availability import ReadStatus
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import LedgerMetadata, LedgerState, Segment
from auditor.stages.asking import WANTED
from auditor.stages.local import QUESTIONS_AT_ONCE
from auditor.stages.selection import first_asked
from auditor.summary.due_copies import Due
from auditor.summary.reading_plan import ReadingPlan
from auditor.summary.verification import SAYS_OF_ENTRY

Reader: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Reads entries: a batch of COUNTED_READS rows for each batch of WANTED rows."""
RECORDS_AT_ONCE = 1_000
"""Ledgers that are values at a time. Most have a kilobyte, and those with many segments more."""
COPY_COLUMNS = [*TESTED_COLUMNS, "digest_type", "length_bytes"]
"""The columns of LEDGERS that say which copies of ledgers are read, and what their ends say."""


def arcs_of(
    plan: ReadingPlan, due: Mapping[BookieId, Due], asked_share: float, spot_reads: int
) -> dict[BookieId, Arc]:
    """Return what is read on each bookie. `due`: what each should hold, of all ledgers.

    It is what a whole run would read that takes as long as the lists that this run asks for:
    `asked_share` of them all.
    """
    asked = {
        bookie: share._replace(segments=share.segments * asked_share)
        for bookie, share in due.items()
    }
    return dict(plan.for_bookies(asked, 1, spot_reads).arcs)


class _Part(TypedDict):
    """A segment in the column of segments."""

    first_entry_id: EntryId
    ensemble: list[BookieId]


class _Record(TypedDict):
    """The cells of a closed ledger."""

    ledger_id: LedgerId
    ensemble_size: int
    write_quorum: int
    last_entry_id: EntryId
    segments: list[_Part]
    digest_type: int | None
    length_bytes: int | None


Lengths: TypeAlias = dict[LedgerId, tuple[EntryId, int | None]]
"""By ledger, its last entry and its length, as the metadata has them."""


def draw_copies(
    ledgers: Iterable[tuple[pa.RecordBatch, Ids]],
    plan: ReadingPlan,
    arcs: Mapping[BookieId, Arc],
    lengths: Lengths,
) -> Iterator[pa.RecordBatch]:
    """Yield WANTED rows for the copies of ledgers in the arcs, all of a ledger in one batch.

    Each batch of metadata, with the COPY_COLUMNS, comes with ids: the ledgers among them count. A
    batch of WANTED has QUESTIONS_AT_ONCE rows, and those of its last ledger may be more. Sets the
    lengths of the ledgers of which the last entry is read. Costs some operations on whole columns.
    """
    tests = ListTests(plan.starts, {bookie: Density(arc) for bookie, arc in arcs.items()})
    rows: list[Row] = []
    for batch, ids in ledgers:
        mine = rows_of(batch, pa.array(are_among(batch["ledger_id"].to_numpy(), ids)))
        records = pa.StructArray.from_arrays(mine.columns, names=COPY_COLUMNS)
        chosen = np.flatnonzero(may_have_reads(records, tests))
        for record in _records_at(records, chosen):
            wanted, last = list(_wanted(record, tests)), record["last_entry_id"]
            rows += wanted
            if any(row[2] == last for row in wanted):
                lengths[record["ledger_id"]] = last, record["length_bytes"]
            if len(rows) >= QUESTIONS_AT_ONCE:
                yield table(WANTED, rows)
                rows = []
    if rows:
        yield table(WANTED, rows)


def _records_at(records: pa.StructArray, places: npt.NDArray[np.int64]) -> Iterator[_Record]:
    """Yield the records at these places."""
    for start in range(0, len(places), RECORDS_AT_ONCE):
        some = records.take(pa.array(places[start : start + RECORDS_AT_ONCE]))
        yield from some.to_pylist()


def _wanted(record: _Record, tests: ListTests) -> Iterator[Row]:
    """Yield the WANTED rows of a closed ledger."""
    segments = tuple(
        Segment(one["first_entry_id"], tuple(one["ensemble"])) for one in record["segments"]
    )
    size, quorum, last = record["ensemble_size"], record["write_quorum"], record["last_entry_id"]
    closed = LedgerState.CLOSED
    metadata = LedgerMetadata(3, closed, size, quorum, quorum, last, 0, segments)
    ledger, digest = record["ledger_id"], record["digest_type"]
    for bookie, entry in spot_copies(metadata, ledger, tests.starts, tests.arcs):
        yield bookie, ledger, entry, digest, False, True, False, False


def refuted_ledgers(reads: pa.RecordBatch, lengths: Lengths) -> Ids:
    """Return the ledgers of which a bookie did not send an entry, although it answered, or sent a
    last entry whose header has another length than the metadata.
    """
    says = sorted({status.value for status in SAYS_OF_ENTRY} - {ReadStatus.PRESENT.value})
    refuted = set(reads["ledger_id"].filter(pc.is_in(reads["status"], pa.array(says))).to_pylist())
    columns = ("ledger_id", "entry_id", "length_bytes")
    for ledger, entry, proven in zip(*(reads[name].to_pylist() for name in columns), strict=True):
        last, length = lengths.get(ledger, (None, None))
        if entry == last and proven is not None and proven != length:
            refuted.add(ledger)
    return np.array(sorted(refuted), np.int64)


def copies_read_before(run: Place) -> frozenset[CopyOfLedger]:
    """Return the copies that were read of ledgers which the run asks about: nothing else was read
    yet.
    """
    columns = ["ledger_id", "bookie_id", "entry_id"]
    reads = run.read_table("evidence/reads", READS, None, columns)
    if not len(reads):
        return frozenset()
    asked = np.sort(run.read_table(first_asked(run), LISTING)["ledger_id"].to_numpy())
    mine = reads.filter(pa.array(are_among(reads["ledger_id"].to_numpy(), asked)))
    return frozenset(zip(*mine.to_pydict().values(), strict=True))
