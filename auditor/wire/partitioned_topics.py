"""Decode what Pulsar writes into ZooKeeper about a partitioned topic.

Sources: PartitionedTopicMetadata, NamespaceResources.PartitionedTopicResources (Pulsar 4.0).
"""

from __future__ import annotations

import json
from typing import Any

from auditor.errors import ConfigError, MalformedMetadata
from auditor.model.topic import TopicName
from auditor.wire.managed_ledger import SHADOW_SOURCE_PROPERTY
from auditor.wire.topic_paths import parse_topic

PARTITIONS_MAX = 100_000
"""Most partitions that a topic is believed to have. Pulsar's own default limit is none; a broker
would not carry so many."""
BYTES_MAX = 2**20
"""Longest value that is parsed: ZooKeeper's own limit of a znode."""


def decode_shadow_source(data: bytes) -> TopicName | None:
    """Return the topic of which a partitioned topic is the shadow, None if it is none.

    The partitions of a shadow topic have the partitions of its source, and their own znodes may not
    name them. Raises MalformedMetadata.
    """
    properties = _parse(data).get("properties")
    source = properties.get(SHADOW_SOURCE_PROPERTY) if isinstance(properties, dict) else None
    try:
        return parse_topic(source) if isinstance(source, str) and source else None
    except ConfigError as error:
        raise MalformedMetadata(f"its {SHADOW_SOURCE_PROPERTY} is not a topic: {error}") from None


def decode_partitions(data: bytes) -> int:
    """Return how many partitions a topic has, 0 if it is being deleted.

    Raises MalformedMetadata.
    """
    value = _parse(data)
    if value.get("deleted") is True:
        return 0
    number = value.get("partitions")
    if type(number) is not int or not 0 <= number <= PARTITIONS_MAX:
        raise MalformedMetadata(f"it does not say a number of partitions up to {PARTITIONS_MAX:,}")
    return number


def _parse(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data) if len(data) <= BYTES_MAX else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise MalformedMetadata("it is not a JSON object")
    return value
