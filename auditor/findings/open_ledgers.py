"""Find the open ledgers whose recovery would be blocked if their writers died now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.gathered import ledger_records
from auditor.evidence.ids import Ids
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LEDGERS
from auditor.first_checker.metadata import (
    blocked_write_sets,
    contradictions,
    greets_no_more,
    last_bookies,
    unknown_by_greetings,
)
from auditor.model.cluster import BookieLook
from auditor.model.facts import RecoveryFacts
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import LedgerMetadata, LedgerRecord, LedgerState, RecordStatus
from auditor.model.summary import BlockedOpen

BLOCKED_OPEN = "open/recovery_would_be_blocked.txt"
"""The file of these ledgers, below the run's directory: their ids, one a line."""
EXAMPLES_MAX = 3
"""At most this many ledgers are named in the summary; the file has all."""
BOOKIES_NAMED_MAX = 10
LOOKS_MIN = 2
_QUORUM_COLUMNS = ["ledger_id", "state", "ack_quorum", "segments"]
_UNREAD = (RecordStatus.UNREADABLE, RecordStatus.NOT_AUTHORISED)
"""A failed read does not contradict what an earlier look saw."""


@dataclass(frozen=True, slots=True)
class BlockedLedgers:
    """Open ledgers whose recovery would be blocked, as their metadata was last read.

    `ledgers` are sorted. `bookies` are the unknown ones in their write sets. `is_known` is False if
    too few looks asked bookies: then `ledgers` may have too many.
    """

    ledgers: Ids
    bookies: tuple[BookieId, ...] = ()
    is_known: bool = True

    @property
    def counts(self) -> BlockedOpen | None:
        """How many there are, and some of them; None if it is not known."""
        if not self.is_known:
            return None
        some = tuple(self.ledgers[:EXAMPLES_MAX].tolist())
        return BlockedOpen(len(self.ledgers), some, self.bookies[:BOOKIES_NAMED_MAX])

    @property
    def files(self) -> dict[str, Ids]:
        """The file of these ledgers; nothing if there are none, or if it is not known."""
        return {BLOCKED_OPEN: self.ledgers} if self.is_known and len(self.ledgers) else {}


def blocked_open(
    run: Place, looks: Sequence[BookieLook], maintenance: frozenset[BookieId]
) -> BlockedLedgers:
    """Return the open ledgers whose recovery the bookies that are unknown at each look would block.

    Costs one pass over the metadata, and some microseconds for each open ledger with enough bookies
    away.
    """
    facts: dict[LedgerId, RecoveryFacts] = {}
    candidates = _candidates(run, looks, maintenance)
    for rows in run.scan("evidence/ledgers", LEDGERS).tables_of_ledgers(candidates, LEDGERS.names):
        for record in _newest(ledger_records(rows)):
            found = _would_be_blocked(record, looks, maintenance)
            if found is not None:
                facts[record.ledger_id] = found
    return BlockedLedgers(
        np.array(sorted(facts), np.int64),
        tuple(sorted({bookie for recovery in facts.values() for bookie in recovery.unknown})),
        is_known=len(looks) >= LOOKS_MIN or not facts,
    )


def _candidates(
    run: Place, looks: Sequence[BookieLook], maintenance: frozenset[BookieId]
) -> pa.Array:
    """Return the ledgers, open at some look, of whose last ensemble at least an ack quorum is
    away.
    """
    named = {bookie for look in looks for bookie in look}
    heard = maintenance | {
        bookie for bookie in named if not all(greets_no_more(look.get(bookie)) for look in looks)
    }
    heard_ids = pa.array(sorted(heard), pa.string())
    ledgers = run.scan("evidence/ledgers", LEDGERS)
    found = [_away_enough(batch, heard_ids) for batch in ledgers.batches(_QUORUM_COLUMNS, _IS_OPEN)]
    return pc.unique(pa.chunked_array(found, pa.int64()))


_IS_OPEN = pc.field("state") == LedgerState.OPEN.value


def _away_enough(batch: pa.RecordBatch, heard: pa.Array) -> pa.Array:
    rows = batch.filter(pc.list_value_length(pc.field("segments")) > 0)
    segments = rows["segments"]
    last = np.cumsum(pc.list_value_length(segments).to_numpy(zero_copy_only=False)) - 1
    ensembles = segments.flatten().field("ensemble").take(pa.array(last, pa.int64()))
    is_away = pc.invert(pc.is_in(ensembles.flatten(), heard)).to_numpy(zero_copy_only=False)
    owners = pc.list_parent_indices(ensembles).to_numpy(zero_copy_only=False)
    away = np.bincount(owners[is_away], minlength=rows.num_rows)
    ack = np.maximum(rows["ack_quorum"].to_numpy(zero_copy_only=False), 1)
    return rows["ledger_id"].filter(pa.array(away >= ack))


def _newest(records: Sequence[LedgerRecord]) -> Sequence[LedgerRecord]:
    """Return the newest record of each ledger that could be read."""
    read = [record for record in records if record.status not in _UNREAD]
    return list(
        {
            record.ledger_id: record for record in sorted(read, key=lambda record: record.look)
        }.values()
    )


def _would_be_blocked(
    record: LedgerRecord, looks: Sequence[BookieLook], maintenance: frozenset[BookieId]
) -> RecoveryFacts | None:
    metadata: LedgerMetadata | None = record.metadata
    if metadata is None or metadata.state is not LedgerState.OPEN or contradictions(metadata):
        return None
    ensemble = last_bookies(metadata)
    unknown = unknown_by_greetings(ensemble, looks, maintenance)
    return blocked_write_sets(metadata, unknown) if ensemble else None
