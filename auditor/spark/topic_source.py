"""The references of Pulsar's topics as a Spark table: bookkeeper_topics.

Like the other sources it is lazy: every action reads ZooKeeper again. docs/data-sources.md has the
columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

from pyspark.sql.datasource import DataSourceReader, InputPartition

from auditor.clock import now_ms
from auditor.evidence.reference_rows import topic_rows
from auditor.evidence.schemas import TOPICS
from auditor.model.topic import TopicName, TopicRecord, TopicStatus
from auditor.spark.source_options import SourceOptions
from auditor.stages.reading import Batches, in_batches
from auditor.zookeeper.metadata_store import open_store
from auditor.zookeeper.topics import (
    TopicsAddress,
    TopicStore,
    open_topics,
    prefixes_of,
    topics_with_schemas_only,
)


@dataclass(slots=True)
class TopicsPartition(InputPartition):
    """The namespaces that one reader lists and reads, and how fast; picklable, without secrets.

    `should_read_topics_with_schemas_only`: whether it also reads these, of every namespace.
    """

    address: TopicsAddress
    namespaces: tuple[str, ...]
    should_read_topics_with_schemas_only: bool


class TopicsReader(DataSourceReader):
    """Finds the namespaces once for a DataFrame, and lists and reads their topics at each action.

    One reader lists all namespaces and topics again, to find those that only have schemas: one that
    is made or deleted meanwhile may have two rows or none.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return the partitions: at most `readers`, and at most one a namespace.

        Raises StoreUnavailable.
        """
        address = self._address()
        with address.open() as topics:
            namespaces = topics.namespaces()
        readers = max(1, min(self._options.readers, len(namespaces)))
        shared = replace(address, limits=self._options.settings.zookeeper_limits(readers))
        return [
            TopicsPartition(
                shared, tuple(namespaces[at::readers]), should_read_topics_with_schemas_only=at == 0
            )
            for at in range(readers)
        ]

    def read(self, partition: InputPartition) -> Batches:
        """Yield TOPICS.

        Raises StoreUnavailable if a namespace or the schemas cannot be listed: topics would be
        missed.
        """
        assert isinstance(partition, TopicsPartition), partition
        with partition.address.open() as topics:
            records = topics.read(topics.topics_in(partition.namespaces), now_ms)
            if partition.should_read_topics_with_schemas_only:
                records = chain(records, _read_topics_with_schemas_only(topics))
            yield from in_batches((row for record in records for row in topic_rows(record)), TOPICS)

    def _address(self) -> TopicsAddress:
        limits = self._options.settings.zookeeper_limits(1)
        uri = self._options.pulsar_uri or self._options.uri
        prefixes: tuple[str, ...] = (uri.chroot,)
        if self._options.pulsar_uri is None:
            with open_store(uri, limits) as store:
                prefixes = prefixes_of(uri, store.root)
        with open_topics(uri, prefixes, limits) as topics:
            return TopicsAddress(uri, topics.prefix, limits)


def _read_topics_with_schemas_only(store: TopicStore) -> Iterator[TopicRecord]:
    """Yield the topics that have schemas and no ledgers. Holds the names of all topics."""
    readable: list[TopicName] = []
    for topic, problem in topics_with_schemas_only(store, store.topics_in(store.namespaces())):
        if problem is None:
            readable.append(topic)
        else:
            yield TopicRecord(topic, now_ms(), TopicStatus.UNREADABLE, problems=(problem,))
    yield from store.read(readable, now_ms)
