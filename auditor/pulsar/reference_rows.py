"""Convert what topics reference to rows of REFERENCES and of TOPICS, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from auditor.evidence.rows import Row, named_row
from auditor.evidence.schemas import DATA_COLUMNS, REFERENCES, TOPICS
from auditor.model.topic import (
    Cursor,
    DataLedger,
    ManagedLedger,
    Position,
    Role,
    SchemaVersion,
    Subscription,
    TopicName,
    TopicRecord,
    TopicStatus,
    Unread,
    references,
)
from auditor.pulsar.topic_paths import topic_at, topic_path

_PREFIX = "persistent://"
SOURCE_MISSING = "source_missing"
"""The problem in the row of a shadow topic whose source does not exist."""


class RowOf(StrEnum):
    """The subject of a row of REFERENCES."""

    TOPIC = "topic"
    DATA = "data"
    CURSOR = "cursor"
    COMPACTED = "compacted"
    DELAYED = "delayed"
    SCHEMA = "schema"
    UNREAD = "unread"
    """How many items of one kind of a topic are not read: `name` is the kind, `entries` the
    number."""
    PROBLEM = "problem"
    NAMESPACE = "namespace"
    """A namespace that has policies, managed ledgers or partitioned topics.

    If a look has no such row, nobody knows which namespaces have."""
    PARTITION = "partition"
    """A partition that Pulsar names and that has no znode: nothing of it was read.

    Without a topic, the row says why some of these in a namespace may be missed."""


class TopicLook(NamedTuple):
    """A topic as one look read it."""

    look: int
    record: TopicRecord


def namespace_of(topic: TopicName) -> str:
    """Return `tenant/namespace`, or `tenant/cluster/namespace` in the old form."""
    return "/".join(part for part in topic[:-1] if part)


def topic_of(namespace: str, topic: str) -> TopicName:
    """Return the topic that the columns `namespace` and `topic` name."""
    tenant, *cluster, local_namespace = namespace.split("/")
    local_name = topic.removeprefix(f"{_PREFIX}{namespace}/")
    return TopicName(tenant, cluster[0] if cluster else "", local_namespace, local_name)


def listing_problem_row(
    look: int, read_at_ms: int, problem: str, namespace: str | None = None
) -> Row:
    """Return the row that says why not all topics were listed.

    `namespace`: the problem concerns only this one.
    """
    return named_row(
        REFERENCES,
        namespace=namespace,
        look=look,
        read_at_ms=read_at_ms,
        row=RowOf.PROBLEM.value,
        problem=problem,
    )


def namespace_row(namespace: str, look: int, read_at_ms: int) -> Row:
    """Return the row of a namespace that exists."""
    row = RowOf.NAMESPACE.value
    return named_row(REFERENCES, namespace=namespace, look=look, read_at_ms=read_at_ms, row=row)


def partition_row(topic: TopicName, look: int, read_at_ms: int) -> Row:
    """Return the row of a partition that its partitioned topic has, but that has no znode."""
    return named_row(
        REFERENCES,
        namespace=namespace_of(topic),
        topic=str(topic),
        look=look,
        read_at_ms=read_at_ms,
        row=RowOf.PARTITION.value,
    )


def partition_problem_row(look: int, read_at_ms: int, problem: str, namespace: str) -> Row:
    """Return the row that says why some partitions without a znode may be missed in a namespace."""
    return named_row(
        REFERENCES,
        namespace=namespace,
        look=look,
        read_at_ms=read_at_ms,
        row=RowOf.PARTITION.value,
        problem=problem,
    )


def reference_rows(record: TopicRecord, look: int) -> Iterator[Row]:
    """Yield the rows of REFERENCES of one topic. The row of the topic comes first."""
    row = partial(
        named_row,
        REFERENCES,
        namespace=namespace_of(record.topic),
        topic=str(record.topic),
        look=look,
        read_at_ms=record.read_at_ms,
    )
    managed = record.managed_ledger or ManagedLedger()
    source = managed.shadow_source
    yield row(
        row=RowOf.TOPIC.value,
        status=record.status.value,
        name=None if source is None else topic_path(source),
        position=managed.terminated,
        problem=SOURCE_MISSING if managed.is_source_missing else None,
    )
    for ledger in managed.ledgers:
        yield row(row=RowOf.DATA.value, **data_cells(ledger))
    for subscription in record.subscriptions:
        yield from _subscription_rows(row, subscription)
    for schema in record.schemas:
        yield row(
            row=RowOf.SCHEMA.value,
            ledger_id=schema.position.ledger_id,
            entries=schema.version,
            position=schema.position,
        )
    for unread, count in record.unread:
        yield row(row=RowOf.UNREAD.value, name=unread.value, entries=count)
    for problem in record.problems:
        yield row(row=RowOf.PROBLEM.value, problem=problem)


def data_cells(ledger: DataLedger) -> dict[str, int | bool | None]:
    """Return the cells of DATA_COLUMNS for a data ledger."""
    return {name: getattr(ledger, name) for name, _ in DATA_COLUMNS}


def topic_rows(record: TopicRecord) -> Iterator[Row]:
    """Yield the rows of TOPICS of one topic: data ledgers, other ledgers, problems.

    Ledgers that were deleted in BookKeeper on purpose have a row too.
    """
    row = partial(named_row, TOPICS, topic=str(record.topic), read_at_ms=record.read_at_ms)
    for ledger in record.managed_ledger.ledgers if record.managed_ledger else ():
        yield row(role=Role.DATA.value, **data_cells(ledger))
    for reference in references(record):
        if reference.role is not Role.DATA:
            yield row(
                role=reference.role.value,
                name=reference.name or None,
                ledger_id=reference.ledger_id,
            )
    for problem in record.problems:
        yield row(problem=problem)


def _subscription_rows(row: Callable[..., Row], subscription: Subscription) -> Iterator[Row]:
    """Yield the rows of a subscription. `row` makes rows of its topic."""
    name, cursor = subscription.name, subscription.cursor
    if cursor is None:
        yield row(row=RowOf.CURSOR.value, name=name, problem=subscription.problem)
        return
    yield row(
        row=RowOf.CURSOR.value,
        name=name,
        ledger_id=cursor.ledger_id,
        position=cursor.mark_delete,
        acknowledged=[{"lower": lower, "upper": upper} for lower, upper in cursor.acknowledged],
    )
    if cursor.compacted_ledger_id is not None:
        yield row(row=RowOf.COMPACTED.value, name=name, ledger_id=cursor.compacted_ledger_id)
    for ledger_id in cursor.delayed_ledger_ids:
        yield row(row=RowOf.DELAYED.value, name=name, ledger_id=ledger_id)


def topic_looks(rows: pa.Table) -> list[TopicLook]:
    """Return all rows of some topics as values, sorted by topic and look."""
    found: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for row in rows.to_pylist():
        if row["topic"] is not None and row["row"] != RowOf.PARTITION.value:
            found.setdefault((row["topic"], row["look"]), []).append(row)
    return [TopicLook(key[1], _record(found[key])) for key in sorted(found)]


def _record(rows: list[Mapping[str, Any]]) -> TopicRecord:
    of: dict[str, list[Mapping[str, Any]]] = {kind.value: [] for kind in RowOf}
    for row in rows:
        of[row["row"]].append(row)
    (topic,) = of[RowOf.TOPIC]
    status = TopicStatus(topic["status"])
    ledgers = (_data_ledger(row) for row in of[RowOf.DATA])
    source = topic_at(topic["name"]) if topic["name"] is not None else None
    managed = ManagedLedger(
        tuple(sorted(ledgers, key=lambda ledger: ledger.ledger_id)),
        _position(topic["position"]),
        source,
        topic["problem"] == SOURCE_MISSING,
    )
    delayed: dict[str, list[int]] = {}
    for row in of[RowOf.DELAYED]:
        delayed.setdefault(row["name"], []).append(row["ledger_id"])
    unread = {Unread(row["name"]): row["entries"] for row in of[RowOf.UNREAD]}
    compacted = {row["name"]: row["ledger_id"] for row in of[RowOf.COMPACTED]}
    cursors = sorted(of[RowOf.CURSOR], key=lambda row: str(row["name"]))
    schemas = (SchemaVersion(row["entries"], _at(row["position"])) for row in of[RowOf.SCHEMA])
    return TopicRecord(
        topic=topic_of(topic["namespace"], topic["topic"]),
        read_at_ms=topic["read_at_ms"],
        status=status,
        managed_ledger=managed if status is TopicStatus.FOUND else None,
        subscriptions=tuple(_subscription(row, compacted, delayed) for row in cursors),
        schemas=tuple(sorted(schemas, key=lambda schema: schema.version)),
        problems=tuple(row["problem"] for row in of[RowOf.PROBLEM]),
        unread=tuple((kind, unread[kind]) for kind in Unread if kind in unread),
    )


def _data_ledger(row: Mapping[str, Any]) -> DataLedger:
    return DataLedger(**{name: row[name] for name, _ in DATA_COLUMNS})


def _subscription(
    row: Mapping[str, Any], compacted: Mapping[str, int], delayed: Mapping[str, list[int]]
) -> Subscription:
    if row["problem"] is not None:
        return Subscription(row["name"], None, row["problem"])
    acknowledged = tuple(
        (_at(range_["lower"]), _at(range_["upper"])) for range_ in row["acknowledged"] or ()
    )
    cursor = Cursor(
        row["ledger_id"],
        _position(row["position"]),
        acknowledged,
        compacted.get(row["name"]),
        tuple(sorted(delayed.get(row["name"], ()))),
    )
    return Subscription(row["name"], cursor)


def _position(cell: Mapping[str, int] | None) -> Position | None:
    return None if cell is None else _at(cell)


def _at(cell: Mapping[str, int]) -> Position:
    return Position(cell["ledger_id"], cell["entry_id"])
