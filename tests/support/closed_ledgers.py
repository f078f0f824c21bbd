"""The copies that the metadata of closed ledgers promises, from the sandbox's notation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from auditor.after.promised_copies import LEDGER_COLUMNS, promised_copies
from auditor.after.stored_copies import StoredCopies
from auditor.evidence.rows import ledger_row, table
from auditor.evidence.schemas import LEDGERS
from auditor.model.ledger import LedgerRecord, RecordStatus
from auditor.sandbox.cluster import ledger


def closed_copies(ledgers: Mapping[int, str], length: int = 300) -> StoredCopies:
    """Return the copies of these ledgers, none of them doubtful. Each has `length` bytes."""
    records = [
        LedgerRecord(
            number, 1, 0, RecordStatus.FOUND, metadata=replace(ledger(text), length=length)
        )
        for number, text in ledgers.items()
    ]
    batch = table(LEDGERS, map(ledger_row, records))
    return promised_copies(pa.Table.from_batches([batch]).select(LEDGER_COLUMNS))
