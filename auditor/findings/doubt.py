"""Count the copies that only a bookie in doubt lists.

A bookie is in doubt if it surely lacks an entry of a violated ledger, or could not send an entry at
two looks. What it lists besides may be as wrong: copies that only a bookie in doubt lists are not
counted as verified. Copies that a read brought count as ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.ids import Ids, distinct_numbers, newest_rows
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

    Costs nothing where there is none, else a scan of each table of evidence for every
    LEDGERS_AT_ONCE judged ledgers.
    """
    lacks = lacks_of(verdicts)
    bookies = frozenset(unreadable) | frozenset(pc.unique(lacks["bookie_id"]).to_pylist())
    if not bookies:
        return Doubt()
    judged = pc.field("standing").isin([standing.word for standing in JUDGED])
    counted = verdicts.table(["ledger_id"], judged & pc.is_valid(pc.field("copies_expected")))
    ids = distinct_numbers(counted["ledger_id"].to_numpy())
    carried = read_carried_ids(run)
    parts = [
        _doubt_among(run, ids[start : start + LEDGERS_AT_ONCE], bookies, lacks, carried)
        for start in range(0, len(ids), LEDGERS_AT_ONCE)
    ]
    by_bookie = Counter[BookieId]()
    for part in parts:
        by_bookie.update(part.by_bookie)
    return Doubt(
        dict(by_bookie),
        sum(part.due for part in parts),
        sum(part.read for part in parts),
    )


def _doubt_among(
    run: Place, ids: Ids, bookies: Collection[BookieId], lacks: pa.Table, carried: Ids
) -> Doubt:
    """Return what of these ledgers rests on the word of bookies in doubt. An earlier run asked
    about those that are `carried`.
    """
    within = (pc.field("ledger_id") >= int(ids[0])) & (pc.field("ledger_id") <= int(ids[-1]))
    mine = within & pc.field("bookie_id").isin(sorted(bookies))
    held = mine & (pc.field("status") == AnswerStatus.HELD.value)
    listed = run.read_table("evidence/answers", ANSWERS, held, _PAIR)
    listed = listed.filter(pc.is_in(listed["ledger_id"], pa.array(ids)))
    shares = shares_of(_newest(run, within), bookies)
    if len(carried):  # an earlier run asked for their lists: each bookie listed what it should hold
        of_earlier = shares.filter(pc.is_in(shares["ledger_id"], pa.array(carried))).select(_PAIR)
        listed = pa.concat_tables([listed, of_earlier.cast(listed.schema)])
    due = _distinct(listed, _PAIR).join(shares, _PAIR, join_type="inner")
    reads = run.read_table(
        "evidence/reads", READS, mine & _WAS_READ & ~pc.field("is_search").isin([True]), _COPY
    )
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


def _newest(run: Place, within: pc.Expression) -> pa.Table:
    """Return the SHARE_COLUMNS of each of these ledgers, by its newest metadata that was read."""
    has_metadata = within & pc.is_valid(pc.field("format_version"))
    columns = [*SHARE_COLUMNS, "look"]
    return newest_rows(run.read_table("evidence/ledgers", LEDGERS, has_metadata, columns))
