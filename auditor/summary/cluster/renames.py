"""Read from the evidence which missing bookies may have a new name: whom to ask, and the result."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.gathered import ledger_records
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LEDGERS, RENAMES
from auditor.first_checker.renaming import (
    RENAME_LEDGERS_MAX,
    RENAMES_MAX,
    RenameCase,
    Renamed,
    entries_due,
    find_new_name,
)
from auditor.model.availability import NO_COOKIE, Answer, AnswerStatus, ReadStatus
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import LedgerMetadata
from auditor.summary.cluster.bookies import BRIEF_ANSWERS

NAME = "evidence/renames"
CANDIDATES_MAX = 20
"""Maximum number of ledgers checked to find RENAME_LEDGERS_MAX that still name a gone bookie."""

_MISSING = pc.field("status") == AnswerStatus.UNREGISTERED.value


def rename_cases(run: Place, known: Collection[BookieId]) -> list[RenameCase]:
    """Return the bookies to look for under another name, with their ledgers, sorted by id.

    They are not registered. There are at most RENAMES_MAX; those without a cookie come first.
    `known`: bookies that are registered by now. The
    ledgers of a bookie are those with the lowest ids that are closed, not empty and still name it.
    Costs a scan of the answers.
    """
    columns = ["bookie_id", "ledger_id", "detail"]
    named = run.read_table("evidence/answers", BRIEF_ANSWERS, _MISSING, columns)
    forgotten = set(named.filter(pc.field("detail") == NO_COOKIE)["bookie_id"].to_pylist())
    missing = set(pc.unique(named["bookie_id"]).to_pylist()) - set(known)
    gone = sorted(missing, key=lambda bookie: (bookie not in forgotten, bookie))[:RENAMES_MAX]
    lowest = {bookie: _lowest(named, bookie) for bookie in gone}
    metadata = _metadata(run, {ledger for ledgers in lowest.values() for ledger in ledgers})
    cases = []
    for bookie, ledgers in lowest.items():
        due = [
            ledger
            for ledger in ledgers
            if ledger in metadata and entries_due(metadata[ledger], bookie)
        ]
        if due:
            cases.append(
                RenameCase(
                    bookie, {ledger: metadata[ledger] for ledger in due[:RENAME_LEDGERS_MAX]}
                )
            )
    return cases


def _lowest(named: pa.Table, bookie: BookieId) -> list[LedgerId]:
    ids = pc.unique(named.filter(pc.field("bookie_id") == bookie)["ledger_id"])
    return [id_.as_py() for id_ in ids.take(pc.sort_indices(ids))[:CANDIDATES_MAX]]


def _metadata(run: Place, ids: Collection[LedgerId]) -> dict[LedgerId, LedgerMetadata]:
    """Return the newest metadata of those ledgers that then existed and could be decoded."""
    rows = run.read_table(
        "evidence/ledgers", LEDGERS, pc.field("ledger_id").isin(pa.array(sorted(ids)))
    )
    newest = {record.ledger_id: record for record in ledger_records(rows.sort_by("look"))}
    return {i: one.metadata for i, one in newest.items() if one.metadata is not None}


def renames(run: Place) -> dict[BookieId, Renamed]:
    """Return the missing bookies that probably have a new name. Empty if no bookie was asked."""
    if not run.has_table(NAME):
        return {}
    rows = run.read_table(NAME, RENAMES, pc.is_valid(pc.field("ledger_id"))).to_pylist()
    answers: dict[tuple[BookieId, LedgerId], Answer] = {}
    reads: dict[tuple[BookieId, LedgerId], dict[EntryId, ReadStatus]] = defaultdict(dict)
    ledgers: dict[BookieId, set[LedgerId]] = defaultdict(set)
    for row in rows:
        key = row["bookie_id"], row["ledger_id"]
        if row["entry_id"] is None:
            answers[key] = Answer(
                *key, 0, row["asked_at_ms"], AnswerStatus(row["status"]), row["groups"]
            )
        else:
            reads[key][row["entry_id"]] = ReadStatus(row["status"])
        for bookie in row["gone"]:
            ledgers[bookie].add(row["ledger_id"])
    metadata = _metadata(run, {ledger for ids in ledgers.values() for ledger in ids})
    cases = (
        RenameCase(bookie, {i: metadata[i] for i in ids if i in metadata})
        for bookie, ids in sorted(ledgers.items())
    )
    return {
        case.gone: one for case in cases if (one := find_new_name(case, answers, reads)) is not None
    }
