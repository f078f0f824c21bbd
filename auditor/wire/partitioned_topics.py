"""Decode what Pulsar writes into ZooKeeper about a partitioned topic.

Sources: PartitionedTopicMetadata, NamespaceResources.PartitionedTopicResources (Pulsar 4.0).
"""

from __future__ import annotations

import json

from auditor.errors import MalformedMetadata

PARTITIONS_MAX = 100_000
"""Most partitions that a topic is believed to have. Pulsar's own default limit is none; a broker
would not carry so many."""
BYTES_MAX = 2**20
"""Longest value that is parsed: ZooKeeper's own limit of a znode."""


def decode_partitions(data: bytes) -> int:
    """Return how many partitions a topic has, 0 if it is being deleted.

    Raises MalformedMetadata.
    """
    try:
        value = json.loads(data) if len(data) <= BYTES_MAX else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise MalformedMetadata("it is not a JSON object")
    if value.get("deleted") is True:
        return 0
    number = value.get("partitions")
    if type(number) is not int or not 0 <= number <= PARTITIONS_MAX:
        raise MalformedMetadata(f"it does not say a number of partitions up to {PARTITIONS_MAX:,}")
    return number
