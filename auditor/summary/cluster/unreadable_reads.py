"""Read from a run's evidence which entries bookies could not send.

`first_checker.unreadable` judges the result.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, READS
from auditor.evidence.table_scan import TableScan
from auditor.first_checker.entry_set import EMPTY, EntrySet
from auditor.first_checker.schedule import held_entries
from auditor.first_checker.unreadable import Reading, Unreadable, unreadable_of
from auditor.model.availability import UNREADABLE_READS, AnswerStatus, ReadStatus
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.verdict import Exempt

FAILED = pc.field("status").isin(sorted(status.value for status in UNREADABLE_READS))
"""Selects the reads that failed: none in a healthy cluster."""
NO_SEARCH = ~pc.field("is_search").isin([True])
_READ = ["bookie_id", "ledger_id", "entry_id", "look", "status", "detail", "is_spot", "is_denser"]
_LIST = ["bookie_id", "ledger_id", "look", "status", "groups"]


class _Said(NamedTuple):
    """One read of a copy."""

    look: int
    status: ReadStatus
    detail: str
    is_spot: bool
    is_denser: bool


def unreadable_entries(run: Place, verdicts: TableScan) -> dict[BookieId, Unreadable]:
    """Return what is known of bookies that could not send entries, by bookie.

    Ledgers that were deleted meanwhile do not count. Costs a scan of three columns, and the reads
    and lists of bookies with a failed read.
    """
    failed = run.read_table("evidence/reads", READS, FAILED & NO_SEARCH, ["bookie_id"])
    bookies = pc.unique(failed["bookie_id"])
    if not len(bookies):
        return {}
    deleted = verdicts.table(["ledger_id"], pc.field("exempt") == Exempt.DELETED.value)
    theirs = pc.field("bookie_id").isin(bookies)
    there = ~pc.field("ledger_id").isin(deleted["ledger_id"].combine_chunks())
    reads = run.read_table("evidence/reads", READS, theirs & NO_SEARCH & there, _READ)
    lists = _lists(run, theirs, pc.unique(reads["ledger_id"]))
    words: dict[BookieId, dict[tuple[LedgerId, EntryId], list[_Said]]] = {}
    for bookie, ledger, entry, look, status, detail, *flags in zip(
        *reads.to_pydict().values(), strict=True
    ):
        held = lists.get((bookie, ledger, look))
        if held is None or entry in held:
            said = _Said(look, ReadStatus(status), detail, *map(bool, flags))
            words.setdefault(bookie, {}).setdefault((ledger, entry), []).append(said)
    found = {
        bookie: unreadable_of(_reading(ledger, entry, said) for (ledger, entry), said in of.items())
        for bookie, of in words.items()
    }
    return {bookie: one for bookie, one in found.items() if one is not None}


def _reading(ledger: LedgerId, entry: EntryId, said: list[_Said]) -> Reading:
    ordered = sorted(said, key=lambda one: one.look)
    words = tuple((one.status, one.detail) for one in ordered)
    return Reading(ledger, entry, words, ordered[0].is_spot, ordered[0].is_denser)


def _lists(
    run: Place, theirs: pc.Expression, ledgers: pa.Array
) -> dict[tuple[BookieId, LedgerId, int], EntrySet | None]:
    """Return what these bookies listed of these ledgers at each look; None if a bookie cannot
    list.
    """
    keep = theirs & pc.field("ledger_id").isin(ledgers)
    rows = run.read_table("evidence/answers", ANSWERS, keep, _LIST).to_pydict()
    return {
        (bookie, ledger, look): (
            None
            if status == AnswerStatus.UNSUPPORTED.value
            else held_entries(groups)
            if status == AnswerStatus.HELD.value
            else EMPTY
        )
        for bookie, ledger, look, status, groups in zip(*rows.values(), strict=True)
    }
