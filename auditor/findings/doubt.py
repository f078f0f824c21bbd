"""Count the copies that only a bookie in doubt lists.

A bookie is in doubt if it surely lacks an entry of a violated ledger, or could not send an entry at
two looks. What it lists besides may be as wrong: copies that only a bookie in doubt lists are not
counted as verified. Copies that a read brought count as ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.ids import Ids, Shard, newest_rows
from auditor.evidence.portions import LedgerTable
from auditor.evidence.rows import numbers_of, one_batch
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, LEDGERS, READS
from auditor.evidence.table_scan import TableScan
from auditor.findings.lost_content import lacks_of
from auditor.findings.unreadable_entries import TELLING
from auditor.model.availability import (
    ABSENT_READS,
    AnswerStatus,
)
from auditor.model.identity import BookieId
from auditor.model.summary import DoubtCounts, Summary
from auditor.model.verdict import JUDGED, verified_ratio
from auditor.summary.carried import read_carried_ids
from auditor.summary.due_copies import SHARE_COLUMNS, shares_in

BOOKIES_NAMED_MAX = 10
"""At most this many bookies are named in the field; the rest is only counted."""


LEDGERS_AT_ONCE = 100_000
"""Ledgers whose metadata, answers and reads are held in memory at a time, in columns."""
PAIRS_AT_ONCE = 16_000_000
"""At most so many pairs of such a ledger and a bookie in doubt: each takes four bytes. With many
bookies in doubt fewer ledgers are held."""


_PAIR = ["bookie_id", "ledger_id"]


_WAS_READ = pc.field("status").isin(
    sorted(status.value for status in TELLING - ABSENT_READS)
) & ~pc.field("is_search").isin([True])
"""Selects the reads whose copies are not among what the bookie lacks."""
_COUNTS = pc.field("standing").isin([standing.word for standing in JUDGED]) & pc.is_valid(
    pc.field("copies_expected")
)
"""Selects the verdicts whose copies count."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """The bookies in doubt that list what was not read, each with how many copies in judged ledgers
    these are.

    `due` counts the copies that bookies in doubt should hold of the judged ledgers that they list,
    and `read` those of them that were read.
    """

    by_bookie: Mapping[BookieId, int] = field(default_factory=dict)
    due: int = 0
    read: int = 0

    @property
    def copies(self) -> int:
        """How many copies only these bookies list."""
        return sum(self.by_bookie.values())

    @property
    def counts(self) -> DoubtCounts:
        """The counts, with some of the bookies by name."""
        some = tuple(sorted(self.by_bookie)[:BOOKIES_NAMED_MAX])
        return DoubtCounts(len(self.by_bookie), some, self.copies, self.due, self.read)


def add_doubt(summary: Summary, doubt: Doubt) -> Summary:
    """Return the summary with the field `doubt`. Copies in doubt no longer count as listed."""
    assert summary.copies is not None, "a run counts its copies"
    copies = replace(summary.copies, listed=max(0, summary.copies.listed - doubt.copies))
    return replace(
        summary, doubt=doubt.counts, copies=copies, verified_ratio=verified_ratio(copies)
    )


def doubt_of(run: Place, verdicts: TableScan, unreadable: Collection[BookieId]) -> Doubt:
    """Return what rests on the word of bookies in doubt. `unreadable` could not send entries.

    Costs nothing where there is none, else a scan of each table of evidence.
    """
    lacks = lacks_of(verdicts)
    bookies = sorted({*unreadable, *pc.unique(lacks["bookie_id"]).to_pylist()})
    if not bookies:
        return Doubt()
    evidence = _Evidence.of(run, verdicts, bookies, lacks)
    copies, due, read = Counter[BookieId](), 0, 0
    for portion in evidence.ledgers.portions(min(LEDGERS_AT_ONCE, PAIRS_AT_ONCE // len(bookies))):
        found = _doubt_among(evidence, portion)
        copies.update(found.by_bookie)
        due, read = due + found.due, read + found.read
    return Doubt(dict(copies), due, read)


@dataclass(frozen=True, slots=True)
class _Evidence:
    """The tables of a run, and the numbers of the bookies in doubt.

    An earlier run asked about the ledgers that are `carried`. `lacks` has the ledger and the bookie
    of LACKS rows, and how much the bookie lacks.
    """

    ledgers: LedgerTable
    answers: LedgerTable
    reads: LedgerTable
    verdicts: LedgerTable
    carried: Ids
    number_of: Mapping[BookieId, int]
    lacks: tuple[_Numbers, _Numbers, _Numbers]

    @classmethod
    def of(
        cls, run: Place, verdicts: TableScan, bookies: Sequence[BookieId], lacks: pa.Table
    ) -> _Evidence:
        """Return the tables of a run."""

        def table(name: str, schema: pa.Schema, *words: str) -> LedgerTable:
            return LedgerTable.of(run.scan(f"evidence/{name}", schema, words))

        number_of = {bookie: number for number, bookie in enumerate(bookies)}
        return cls(
            table("ledgers", LEDGERS, "segments"),
            table("answers", ANSWERS, "bookie_id", "status"),
            table("reads", READS, "bookie_id"),
            LedgerTable.of(verdicts),
            read_carried_ids(run),
            number_of,
            (
                lacks["ledger_id"].to_numpy(),
                numbers_of(lacks["bookie_id"], number_of),
                lacks["absent"].to_numpy(),
            ),
        )


_Numbers: TypeAlias = npt.NDArray[np.int64]
_HELD = {AnswerStatus.HELD.value: 1}


def _doubt_among(evidence: _Evidence, portion: Shard) -> Doubt:
    """Return what of the ledgers of a portion rests on the word of bookies in doubt."""
    counted = evidence.verdicts.table(["ledger_id"], portion, _COUNTS)["ledger_id"].to_numpy()
    if not len(counted):
        return Doubt()
    pairs = _Pairs.of(_newest(evidence.ledgers, portion), evidence.number_of)
    if not len(pairs.copies):
        return Doubt()
    # An earlier run asked for the lists of the carried: each bookie listed what it should hold.
    is_listed = pairs.are_of(_listed(evidence, portion))
    is_listed |= pairs.are_of_ledgers(portion.part_of(evidence.carried))
    is_due = is_listed & pairs.are_of_ledgers(counted)
    columns = [*_PAIR, "entry_id"]
    rows = evidence.reads.table(columns, portion, _WAS_READ)
    read = pairs.places(*_numbers(rows, evidence))
    entries = rows["entry_id"].to_numpy()
    is_copy = (read >= 0) & (entries >= 0)
    is_copy &= is_due[read] & (entries <= pairs.last_entries[read])
    copies_read = np.unique(np.column_stack([read[is_copy], entries[is_copy]]), axis=0)[:, 0]
    rest = pairs.copies.copy()
    np.subtract.at(rest, copies_read, 1)
    ledgers, bookies, absent = evidence.lacks
    is_here = (portion.first <= ledgers) & (ledgers <= portion.last)
    places = pairs.places(ledgers[is_here], bookies[is_here])
    np.subtract.at(rest, places[places >= 0], absent[is_here][places >= 0])
    copies = Counter[BookieId]()
    is_left = is_due & (rest > 0)
    for name, number in evidence.number_of.items():
        if total := _sum_of(rest[is_left & (pairs.bookies == number)]):
            copies[name] = total
    return Doubt(copies, _sum_of(pairs.copies[is_due]), len(copies_read))


def _listed(evidence: _Evidence, portion: Shard) -> tuple[_Numbers, _Numbers]:
    """Return the ledgers and the bookies in doubt of the lists that were given."""
    rows = evidence.answers.table([*_PAIR, "status"], portion)
    is_held = numbers_of(rows["status"], _HELD) > 0
    ledgers, bookies = _numbers(rows, evidence)
    return ledgers[is_held], bookies[is_held]


def _numbers(rows: pa.Table, evidence: _Evidence) -> tuple[_Numbers, _Numbers]:
    return rows["ledger_id"].to_numpy(), numbers_of(rows["bookie_id"], evidence.number_of)


def _sum_of(copies: _Numbers) -> int:
    """Return the sum. Metadata may claim almost 2^63 copies of each ledger."""
    is_small = not len(copies) or copies.max() < 2**63 // len(copies)
    return int(copies.sum()) if is_small else sum(copies.tolist())


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The ledgers that bookies in doubt should hold, by the newest metadata that was read.

    `place_of` has for each ledger of the ascending `ids`, and each bookie, the place of the pair in
    the columns, or -1.
    """

    ids: Ids
    place_of: npt.NDArray[np.int32]
    ledgers: _Numbers
    bookies: _Numbers
    copies: _Numbers
    last_entries: _Numbers

    @classmethod
    def of(cls, rows: pa.RecordBatch, number_of: Mapping[BookieId, int]) -> _Pairs:
        """Return the pairs of ledgers with the SHARE_COLUMNS, by ascending ledger id."""
        shares = shares_in(rows)
        known = np.array([number_of.get(name, -1) for name in shares.names], np.int64)
        mine = np.flatnonzero(known[shares.bookies] >= 0) if len(known) else shares.rows
        ledgers, bookies = shares.rows[mine], known[shares.bookies[mine]]
        place_of = np.full((len(rows), len(number_of)), -1, np.int32)
        place_of[ledgers, bookies] = np.arange(len(mine))
        return cls(
            *(rows["ledger_id"].to_numpy(), place_of, ledgers, bookies),
            *(shares.copies[mine], shares.last_entries[mine]),
        )

    def places(self, ledgers: _Numbers, bookies: _Numbers) -> _Numbers:
        """Return the place of each pair, or -1. Bookies that are not in doubt are -1."""
        if not len(self.ids):
            return np.full(len(ledgers), -1, np.int64)
        rows = np.minimum(np.searchsorted(self.ids, ledgers), len(self.ids) - 1)
        is_there = (self.ids[rows] == ledgers) & (bookies >= 0)
        return np.where(is_there, self.place_of[rows, bookies], -1)

    def are_of(self, pairs: tuple[_Numbers, _Numbers]) -> npt.NDArray[np.bool_]:
        """Return which are among these pairs of ledgers and bookies."""
        found = np.zeros(len(self.ledgers), np.bool_)
        places = self.places(*pairs)
        found[places[places >= 0]] = True
        return found

    def are_of_ledgers(self, ledgers: _Numbers) -> npt.NDArray[np.bool_]:
        """Return which are of these ledgers."""
        is_named = np.zeros(len(self.ids), np.bool_)
        rows = np.searchsorted(self.ids, ledgers)
        is_there = rows < len(self.ids)
        rows, ledgers = rows[is_there], ledgers[is_there]
        is_named[rows[self.ids[rows] == ledgers]] = True
        return is_named[self.ledgers]


def _newest(ledgers: LedgerTable, portion: Shard) -> pa.RecordBatch:
    """Return the SHARE_COLUMNS of each of these ledgers, by its newest metadata that was read."""
    has_metadata = pc.is_valid(pc.field("format_version"))
    rows = newest_rows(ledgers.table([*SHARE_COLUMNS, "look"], portion, has_metadata))
    return one_batch(rows.select(SHARE_COLUMNS))
