"""Count the copies that only a bookie in doubt lists.

A bookie is in doubt if it surely lacks an entry of a violated ledger, or could not send an entry at
two looks. What it lists besides may be as wrong: copies that only a bookie in doubt lists are not
counted as verified. Copies that a read brought count as ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.ids import Ids, Shard, distinct_numbers, newest_rows
from auditor.evidence.portions import LedgerTable
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
from auditor.summary.due_copies import SHARE_COLUMNS, shares_of

BOOKIES_NAMED_MAX = 10
"""At most this many bookies are named in the field; the rest is only counted."""


LEDGERS_AT_ONCE = 100_000
"""Ledgers whose metadata, answers and reads are held in memory at a time, in columns."""


_PAIR = ["bookie_id", "ledger_id"]


_COPY = [*_PAIR, "entry_id"]


_WAS_READ = pc.field("status").isin(sorted(status.value for status in TELLING - ABSENT_READS))
"""Selects the reads whose copies are not among what the bookie lacks."""


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
    bookies = frozenset(unreadable) | frozenset(pc.unique(lacks["bookie_id"]).to_pylist())
    if not bookies:
        return Doubt()
    judged = pc.field("standing").isin([standing.word for standing in JUDGED])
    counted = verdicts.table(["ledger_id"], judged & pc.is_valid(pc.field("copies_expected")))
    ids = distinct_numbers(counted["ledger_id"].to_numpy())
    evidence = _Evidence.of(run)
    parts = [
        _doubt_among(evidence, mine, portion, bookies, lacks)
        for portion in evidence.ledgers.portions(LEDGERS_AT_ONCE)
        if len(mine := _within(ids, portion))
    ]
    by_bookie = Counter[BookieId]()
    for part in parts:
        by_bookie.update(part.by_bookie)
    return Doubt(
        dict(by_bookie),
        sum(part.due for part in parts),
        sum(part.read for part in parts),
    )


@dataclass(frozen=True, slots=True)
class _Evidence:
    """The tables of a run. An earlier run asked about the ledgers that are `carried`."""

    ledgers: LedgerTable
    answers: LedgerTable
    reads: LedgerTable
    carried: Ids

    @classmethod
    def of(cls, run: Place) -> _Evidence:
        """Return the tables of a run."""

        def table(name: str, schema: pa.Schema) -> LedgerTable:
            return LedgerTable.of(run.scan(f"evidence/{name}", schema))

        ledgers, answers = table("ledgers", LEDGERS), table("answers", ANSWERS)
        return cls(ledgers, answers, table("reads", READS), read_carried_ids(run))


def _within(ids: Ids, portion: Shard) -> Ids:
    """Return those of the ascending ids that are in the portion."""
    first, end = np.searchsorted(ids, portion.first), np.searchsorted(ids, portion.last, "right")
    return ids[first:end]


def _doubt_among(
    evidence: _Evidence,
    ids: Ids,
    portion: Shard,
    bookies: Collection[BookieId],
    lacks: pa.Table,
) -> Doubt:
    """Return what of these ledgers of a portion rests on the word of bookies in doubt."""
    mine = pc.field("bookie_id").isin(sorted(bookies))
    held = mine & (pc.field("status") == AnswerStatus.HELD.value)
    listed = evidence.answers.table(_PAIR, portion, held)
    listed = listed.filter(pc.is_in(listed["ledger_id"], pa.array(ids)))
    shares = shares_of(_newest(evidence.ledgers, portion), bookies)
    carried = _within(evidence.carried, portion)
    if len(carried):  # an earlier run asked for their lists: each bookie listed what it should hold
        of_earlier = shares.filter(pc.is_in(shares["ledger_id"], pa.array(carried))).select(_PAIR)
        listed = pa.concat_tables([listed, of_earlier.cast(listed.schema)])
    due = _distinct(listed, _PAIR).join(shares, _PAIR, join_type="inner")
    was_read = mine & _WAS_READ & ~pc.field("is_search").isin([True])
    reads = evidence.reads.table(_COPY, portion, was_read)
    read = _distinct(reads, _COPY).join(
        due.select([*_PAIR, "last_entry_id"]), _PAIR, join_type="inner"
    )
    read = read.filter(pc.less_equal(read["entry_id"], read["last_entry_id"]))
    counted = read.group_by(_PAIR).aggregate([("entry_id", "count")])
    absent = lacks.select([*_PAIR, "absent"])
    pairs = due.join(counted, _PAIR).join(absent, _PAIR)
    rest = pc.subtract(pairs["copies"], pc.fill_null(pairs["entry_id_count"], 0))
    rest = pc.subtract(rest, pc.fill_null(pairs["absent"], 0))
    is_left = pc.greater(rest, 0)
    by_bookie = Counter[BookieId]()
    names, numbers = pairs["bookie_id"].filter(is_left), rest.filter(is_left)
    for name, number in zip(names.to_pylist(), numbers.to_pylist(), strict=True):
        by_bookie[name] += number
    return Doubt(
        dict(by_bookie),
        sum(pairs["copies"].to_pylist()),
        read.num_rows,
    )


def _distinct(rows: pa.Table, columns: list[str]) -> pa.Table:
    """Return each combination of these columns once, without entry ids below 0."""
    if "entry_id" in columns:
        rows = rows.filter(pc.greater_equal(rows["entry_id"], 0))
    return rows.group_by(columns).aggregate([])


def _newest(ledgers: LedgerTable, portion: Shard) -> pa.Table:
    """Return the SHARE_COLUMNS of each of these ledgers, by its newest metadata that was read."""
    has_metadata = pc.is_valid(pc.field("format_version"))
    return newest_rows(ledgers.table([*SHARE_COLUMNS, "look"], portion, has_metadata))
