"""Topics as a Pulsar broker leaves them in ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

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
from auditor.pulsar.metadata import encode_cursor, encode_managed_ledger, encode_schemas
from auditor.pulsar.topic_paths import encode_name, parse_topic, schema_path, topic_path

Put = Callable[[str, bytes], object]
"""A function that writes a znode, such as `Znodes.put` or `SandboxCluster.set_raw`."""


def put_topic(
    put: Put,
    name: str,
    ledgers: Iterable[DataLedger],
    cursors: Mapping[str, Cursor] | None = None,
    schemas: tuple[SchemaVersion, ...] = (),
    prefix: str = "",
    shadow_of: str = "",
) -> None:
    """Write a topic with its subscriptions and schemas; the shadow of another with `shadow_of`."""
    topic = parse_topic(name)
    path = prefix + topic_path(topic)
    source = parse_topic(shadow_of) if shadow_of else None
    put(path, encode_managed_ledger(ManagedLedger(tuple(ledgers), shadow_source=source)))
    for subscription, cursor in (cursors or {}).items():
        put(f"{path}/{encode_name(subscription)}", encode_cursor(cursor))
    if schemas:
        put(prefix + schema_path(topic), encode_schemas(schemas))


def closed(
    ledger_id: int, entries: int = 10, *, offloaded: bool = False, deleted: bool = False
) -> DataLedger:
    """Return a ledger that the broker closed."""
    return DataLedger(ledger_id, entries, 100 * entries, 1_700_000_000_000, offloaded, deleted)


NAME = TopicName("t", "", "n", "x")
TOPIC = TopicRecord(
    NAME,
    5,
    TopicStatus.FOUND,
    ManagedLedger((closed(5), closed(6, offloaded=True), DataLedger(7))),
    (Subscription("s", Cursor(8, Position(5, 2), (), 9)), Subscription("unread", None, "shut")),
    (SchemaVersion(0, Position(5, 3)), SchemaVersion(1, Position(5, 6))),
)
"""A topic with a ledger in each role: 5 data and schema, 6 offloaded, 7 newest, 8 cursor, 9
compacted."""
