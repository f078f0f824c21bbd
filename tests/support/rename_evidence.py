"""Evidence, in memory, of a run whose ledgers name gone bookies, and of what other bookies were
asked about them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pyarrow as pa
from support.tables_in_memory import Tables

from auditor.evidence.rows import answer_row, ledger_row, table
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, LEDGERS, RENAMES
from auditor.model.availability import NO_COOKIE, Answer, AnswerStatus, SequenceGroup
from auditor.model.ledger import LedgerMetadata, LedgerRecord, RecordStatus, ZnodeStamp
from auditor.sandbox.cluster import ledger
from auditor.wire.entry_availability import canonical

WRITTEN = ledger("e3 w2 a2 0:[a g c] closed 9")
"""What bookie g should hold: it is second, and entry e lies on positions e and e + 1, so all but 2,
5 and 8.
"""
DUE = (0, 1, 3, 4, 6, 7, 9)
UNREGISTERED = AnswerStatus.UNREGISTERED


def run_with(**rows: list[Any]) -> Place:
    """Return a run with these rows of tables in its evidence."""
    schemas = {"answers": ANSWERS, "ledgers": LEDGERS, "renames": RENAMES}
    tables = {
        f"evidence/{name}": pa.Table.from_batches([table(schemas[name], of_it)])
        for name, of_it in rows.items()
    }
    return cast(Place, Tables(tables))


def needs(
    *ledgers: int, bookie: str = "g", status: AnswerStatus = UNREGISTERED, detail: str = NO_COOKIE
) -> list[Any]:
    """Return answer rows of ledgers that name a gone bookie."""
    return [
        answer_row(Answer(bookie, one, look, 0, status, detail=detail))
        for one in ledgers
        for look in (2, 1)
    ]


def states(*ledgers: int, look: int = 1, written: LedgerMetadata | None = WRITTEN) -> list[Any]:
    """Return the ledgers at one look; None: they did not exist."""
    found = RecordStatus.GONE if written is None else RecordStatus.FOUND
    stamp = ZnodeStamp(1, 0, 0) if written else None
    return [ledger_row(LedgerRecord(one, look, 0, found, stamp, written)) for one in ledgers]


def listed(
    bookie: str, ledger_id: int, *held: int, gone: tuple[str, ...] = ("g",), can_list: bool = True
) -> Any:
    """Return a row of evidence/renames: a bookie's list."""
    groups = canonical([SequenceGroup(entry, entry, 1, 0) for entry in held]) if can_list else None
    status = AnswerStatus.HELD if can_list else AnswerStatus.UNSUPPORTED
    return gone, bookie, ledger_id, None, 5, status.value, groups, "", 1, 0, 9


def read(bookie: str, ledger_id: int, entries: Mapping[int, str]) -> list[Any]:
    """Return rows of evidence/renames: entries read on a bookie."""
    return [
        (("g",), bookie, ledger_id, entry, 5, status, None, "", 1, 0, 9)
        for entry, status in entries.items()
    ]


def greeting(bookie: str) -> Any:
    """Return a row of evidence/renames that names no ledger."""
    return (), bookie, None, None, 5, "answered", b"", "", 1, 0, 9
