"""Find the new name of a gone bookie with the second checker, from the evidence."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.gathered import ledger_records
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LEDGERS, RENAMES
from auditor.model.availability import Answer, AnswerStatus
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import LedgerMetadata
from auditor.second_checker.renames import Asked, new_name
from auditor.summary.cluster.renames import NAME, renames


def new_name_of(run: Place, gone: BookieId) -> BookieId | None:
    """Return the bookie that holds what the gone bookie should hold, or None.

    If its ledgers are too long for the second checker, which counts entry by entry, this is the
    result of the first checker.
    """
    if not run.has_table(NAME):
        return None
    rows = run.read_table(NAME, RENAMES, pc.is_valid(pc.field("ledger_id"))).to_pylist()
    reads: dict[tuple[BookieId, LedgerId], dict[EntryId, str]] = defaultdict(dict)
    for row in rows:
        if row["entry_id"] is not None:
            reads[row["bookie_id"], row["ledger_id"]][row["entry_id"]] = row["status"]
    asked = []
    for row in rows:
        if row["entry_id"] is None:
            key = row["bookie_id"], row["ledger_id"]
            answer = Answer(
                *key, 0, row["asked_at_ms"], AnswerStatus(row["status"]), row["groups"] or b""
            )
            asked.append(Asked(frozenset(row["gone"]), answer, reads[key]))
    mine = {one.answer.ledger_id for one in asked if gone in one.gone}
    name, is_open = new_name(gone, asked, _newest(run, mine))
    if is_open:
        first = renames(run).get(gone)
        return None if first is None else first.renamed_to
    return name


def _newest(run: Place, ledgers: set[LedgerId]) -> dict[LedgerId, LedgerMetadata]:
    """Return the newest metadata of each ledger that existed when it was read last."""
    rows = run.read_table(
        "evidence/ledgers", LEDGERS, pc.field("ledger_id").isin(pa.array(sorted(ledgers)))
    )
    found = {record.ledger_id: record.metadata for record in ledger_records(rows.sort_by("look"))}
    return {ledger: metadata for ledger, metadata in found.items() if metadata is not None}
