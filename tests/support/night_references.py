"""What topics reference in the stories of `support.night_stories`: any topics, any ledgers, two
looks.

Nothing in it needs to be likely, only possible. It is drawn separately from the rest of a night.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pyarrow as pa

from auditor.evidence.rows import ledger_row, table
from auditor.evidence.schemas import LEDGERS, REFERENCES
from auditor.model.ledger import LedgerMetadata, LedgerRecord, LedgerState, RecordStatus, ZnodeStamp
from auditor.model.topic import (
    Cursor,
    DataLedger,
    ManagedLedger,
    Position,
    SchemaVersion,
    Subscription,
    TopicName,
    TopicRecord,
    TopicStatus,
)
from auditor.pulsar.reference_rows import listing_problem_row, reference_rows

UNLISTED = range(200, 206)
"""Ledgers that topics may reference and that the listing does not name."""
NAMESPACES = (("t", "", "n"), ("t", "c", "old"), ("pulsar", "", "system"))
ORPHAN_AGE_MS = 100_000


@dataclass
class Referenced:
    """The references of one night: `owned` gives ledgers their owners, `tables` the evidence."""

    seed: int
    now_ms: int

    def __post_init__(self) -> None:
        self.draw = Random(f"references {self.seed}")
        self.has_pulsar = self.draw.random() < 0.8

    def owned(self, ledger: int, metadata: LedgerMetadata) -> LedgerMetadata:
        """Return the metadata, perhaps with an owner and a creation time."""
        draw = self.draw
        if not self.has_pulsar or draw.random() < 0.3:
            return metadata
        tenant, cluster, namespace = draw.choice(
            (*NAMESPACES[:2] * 2, *NAMESPACES, ("t", "", "elsewhere"))
        )
        parts = [part for part in (tenant, cluster, namespace) if part]
        name = "/".join(
            (*parts, draw.choice((*["persistent"] * 5, "odd")), f"topic+{draw.randrange(3)}")
        )
        component = draw.choice((*["managed-ledger"] * 5, "schema", "compacted-ledger"))
        custom = {"application": draw.choice((*["pulsar"] * 5, "other")), "component": component}
        custom["pulsar/managed-ledger"] = name
        metadata_fields = tuple((key, value.encode()) for key, value in custom.items())
        return replace(
            metadata,
            custom_metadata=metadata_fields,
            ctime_ms=draw.choice((None, draw.randrange(self.now_ms))),
        )

    def tables(self, metadata: Mapping[int, LedgerMetadata]) -> Iterator[tuple[str, pa.Table]]:
        """Yield the tables by name; none on a cluster without Pulsar."""
        if not self.has_pulsar:
            return
        rows = list(self._references([*metadata, *UNLISTED]))
        seen = list(self._ledgers(metadata))
        for name, schema, table_rows in (
            ("references", REFERENCES, rows),
            ("referenced_ledgers", LEDGERS, seen),
        ):
            self.draw.shuffle(table_rows)
            yield f"evidence/{name}", pa.Table.from_batches([table(schema, table_rows)])

    def _references(self, ids: list[int]) -> Iterator[Any]:
        draw = self.draw
        if draw.random() < 0.1:
            yield listing_problem_row(1, 5, "a namespace may not be listed")
        for namespace in NAMESPACES:
            for number in range(3):
                first = self._topic(TopicName(*namespace, f"topic {number}"), ids)
                yield from reference_rows(first, 1)
                if draw.random() < 0.9:
                    yield from reference_rows(self._changed(first, ids), 2)

    def _topic(self, name: TopicName, ids: list[int]) -> TopicRecord:
        draw = self.draw
        if draw.random() < 0.05:
            status = draw.choice((TopicStatus.MISSING, TopicStatus.UNREADABLE))
            return TopicRecord(
                name, 5, status, problems=() if status is TopicStatus.MISSING else ("shut",)
            )
        some = sorted(draw.sample(ids, min(len(ids), draw.randrange(4))))
        ledgers = tuple(self._data(ledger) for ledger in some)
        end = (
            Position(draw.choice(some), draw.randrange(15))
            if some and draw.random() < 0.1
            else None
        )
        cursors = tuple(self._subscription(f"s{n}", ids) for n in range(draw.randrange(3)))
        versions = range(draw.choice((0, 0, 0, 1, 2)))
        schemas = tuple(
            SchemaVersion(version, Position(draw.choice(ids), draw.randrange(15)))
            for version in versions
        )
        problems = ("a cursor is shut",) if draw.random() < 0.05 else ()
        return TopicRecord(
            name, 5, TopicStatus.FOUND, ManagedLedger(ledgers, end), cursors, schemas, problems
        )

    def _data(self, ledger: int) -> DataLedger:
        draw = self.draw
        entries = draw.choice((None, 0, 5, 10, 12))
        offloaded = draw.random() < 0.1
        size = None if entries is None else entries * 7
        return DataLedger(ledger, entries, size, None, offloaded, offloaded and draw.random() < 0.5)

    def _subscription(self, name: str, ids: list[int]) -> Subscription:
        draw = self.draw
        mark_delete = draw.choice((None, Position(draw.choice(ids), draw.randrange(15))))
        ledger, compacted = (draw.choice((None, draw.choice(ids))) for _ in range(2))
        return Subscription(name, Cursor(ledger, mark_delete, (), compacted))

    def _changed(self, first: TopicRecord, ids: list[int]) -> TopicRecord:
        """Return the topic as the second look reads it: mostly unchanged."""
        draw = self.draw
        chance = draw.random()
        again = self._topic(first.topic, ids) if chance < 0.15 else first
        if chance > 0.9 and first.managed_ledger and first.managed_ledger.ledgers:
            again = replace(first, managed_ledger=ManagedLedger(first.managed_ledger.ledgers[1:]))
        return replace(again, read_at_ms=draw.randrange(400, 500))

    def _ledgers(self, metadata: Mapping[int, LedgerMetadata]) -> Iterator[Any]:
        draw = self.draw
        for ledger in UNLISTED:
            yield ledger_row(self._record(ledger, 1, None))
            if draw.random() < 0.9:
                yield ledger_row(self._record(ledger, 2, None))
        for ledger, one in metadata.items():
            if draw.random() < 0.9:
                yield ledger_row(self._record(ledger, 2, one))

    def _record(self, ledger: int, look: int, metadata: LedgerMetadata | None) -> LedgerRecord:
        draw = self.draw
        at_ms = look * draw.choice((2_000, 2_000, 2_000, 800)) + draw.randrange(50)
        if metadata is None and draw.random() < 0.9:
            return LedgerRecord(ledger, look, at_ms, RecordStatus.GONE)
        if draw.random() < 0.05:
            return LedgerRecord(
                ledger, look, at_ms, draw.choice((RecordStatus.UNREADABLE, RecordStatus.GONE))
            )
        if metadata is None:
            metadata = LedgerMetadata(3, LedgerState.CLOSED, 1, 1, 1, 3, 9, ())
        elif draw.random() < 0.05:
            metadata = replace(metadata, last_entry_id=draw.choice((3, 11)))
        return LedgerRecord(
            ledger,
            look,
            at_ms,
            RecordStatus.FOUND,
            ZnodeStamp(draw.choice((7, 7, 7, 7, 8)), 0, 0),
            metadata,
        )
