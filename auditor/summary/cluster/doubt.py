"""Count the copies that only a bookie in doubt lists: they are not counted as verified.

A bookie is in doubt if it surely lacks an entry of a violated ledger, or could not send an entry at
two looks. What it lists besides may be as wrong. Copies that a read brought count as ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.gathered import ledger_records
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, LEDGERS, READS
from auditor.evidence.table_scan import TableScan
from auditor.first_checker.schedule import expected_entries, extents, positions
from auditor.first_checker.unreadable import TELLING
from auditor.judging.copies import JUDGED
from auditor.model.availability import AnswerStatus
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import LedgerMetadata
from auditor.summary.cluster.content import lacks_of

Json = dict[str, Any]
BOOKIES_NAMED_MAX = 10
"""Maximum number of bookies named in the field; the rest is only counted."""
LEDGERS_AT_ONCE = 10_000
"""Ledgers whose metadata is held in memory at a time: some kilobytes each."""
_RATIO_STEPS = 10**6


@dataclass(frozen=True, slots=True)
class Doubt:
    """The bookies in doubt that list what was not read, and how many copies in judged ledgers these
    are.
    """

    bookies: frozenset[BookieId]
    copies: int

    def as_json(self) -> Json:
        return {
            "bookies": len(self.bookies),
            "some_bookies": sorted(self.bookies)[:BOOKIES_NAMED_MAX],
            "copies": self.copies,
        }


def add_doubt(summary: Json, doubt: Doubt) -> Json:
    """Return the summary with the field `doubt`, and without the copies in doubt among those
    listed.
    """
    copies = summary["copies"]
    listed = max(0, copies["listed"] - doubt.copies)
    ratio = summary["verified_ratio"]
    if copies["expected"]:
        ratio = (listed + copies["read"]) * _RATIO_STEPS // copies["expected"] / _RATIO_STEPS
    return summary | {
        "doubt": doubt.as_json(),
        "copies": copies | {"listed": listed},
        "verified_ratio": ratio,
    }


def doubt_of(run: Place, verdicts: TableScan, unreadable: Collection[BookieId]) -> Doubt:
    """Return what rests on the word of bookies in doubt. `unreadable` could not send entries.

    Costs the ledgers that name such a bookie; nothing where there is none.
    """
    lacks = lacks_of(verdicts)
    bookies = frozenset(unreadable) | frozenset(pc.unique(lacks["bookie_id"]).to_pylist())
    if not bookies:
        return Doubt(bookies, 0)
    judged = pc.field("standing").isin([standing.word for standing in JUDGED])
    counted = verdicts.table(["ledger_id"], judged & pc.is_valid(pc.field("copies_expected")))
    theirs = pc.field("bookie_id").isin(sorted(bookies))
    mine = theirs & pc.field("ledger_id").isin(counted["ledger_id"].combine_chunks())
    held = mine & (pc.field("status") == AnswerStatus.HELD.value)
    listed = run.read_table("evidence/answers", ANSWERS, held, ["bookie_id", "ledger_id"])
    pairs = set(zip(*listed.to_pydict().values(), strict=True))
    due = dict(_due(run, pairs))
    for bookie, ledger, absent in _rows(lacks, ["bookie_id", "ledger_id", "absent"]):
        if (bookie, ledger) in due:
            due[bookie, ledger] -= absent
    has_answer = pc.field("status").isin(sorted(status.value for status in TELLING))
    columns = ["bookie_id", "ledger_id", "entry_id", "status"]
    reads = run.read_table("evidence/reads", READS, mine & has_answer, columns)
    read = {
        (bookie, ledger, entry)
        for bookie, ledger, entry, status in _rows(reads, columns)
        if status not in _ABSENT
    }
    for bookie, ledger, _ in read:
        if (bookie, ledger) in due:
            due[bookie, ledger] -= 1
    rest = {pair: copies for pair, copies in due.items() if copies > 0}
    return Doubt(frozenset(bookie for bookie, _ in rest), sum(rest.values()))


_ABSENT = ("no_entry", "no_ledger")
"""Reads whose copies are among what the bookie lacks."""


def _rows(table: pa.Table, columns: list[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(table[name].to_pylist() for name in columns), strict=True)


def _due(
    run: Place, pairs: Collection[tuple[BookieId, LedgerId]]
) -> Iterator[tuple[tuple[BookieId, LedgerId], int]]:
    """Yield how many entries each of these bookies should hold of the ledger, by its newest
    metadata.
    """
    by_ledger: dict[LedgerId, list[BookieId]] = {}
    for bookie, ledger in pairs:
        by_ledger.setdefault(ledger, []).append(bookie)
    ids = sorted(by_ledger)
    for start in range(0, len(ids), LEDGERS_AT_ONCE):
        some = pc.field("ledger_id").isin(ids[start : start + LEDGERS_AT_ONCE])
        rows = run.read_table("evidence/ledgers", LEDGERS, some)
        newest: dict[LedgerId, LedgerMetadata] = {}
        for record in sorted(ledger_records(rows), key=lambda one: one.look):
            if record.metadata is not None:
                newest[record.ledger_id] = record.metadata
        for ledger, metadata in newest.items():
            for bookie in by_ledger[ledger]:
                yield (bookie, ledger), _share(metadata, bookie)


def _share(metadata: LedgerMetadata, bookie: BookieId) -> int:
    """Return how many entries the bookie should hold."""
    size, quorum = metadata.ensemble_size, metadata.write_quorum
    return sum(
        expected_entries(part, at, size, quorum).count()
        for part in extents(metadata)
        if (at := positions(part.segment.ensemble).get(bookie))
    )
