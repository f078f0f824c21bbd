"""The metadata of a cluster as Spark tables for anybody: bookkeeper_ledgers, _topics and more.

The others are bookkeeper_bookies and bookkeeper_underreplicated. These sources use the run's own
readers and are lazy, as Spark's sources are: *every action reads ZooKeeper again*, and two actions
see two states of the cluster. To judge a state, write it first, like the run
(`auditor.run.pipeline`). docs/data-sources.md has the columns.

Their options are the run's ZooKeeper settings in Spark's spelling, with the same bounds.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from auditor.clock import now_ms
from auditor.config import SETTINGS, Layers, Setting, Settings, parse
from auditor.errors import ConfigError, StoreUnavailable
from auditor.evidence.rows import bookie_row, mark_cells
from auditor.evidence.schemas import BOOKIES, LEDGERS, MARK, TOPICS
from auditor.model.identity import LedgerId
from auditor.model.ledger import Mark
from auditor.model.topic import TopicName, TopicRecord, TopicStatus
from auditor.pulsar.reference_rows import topic_rows
from auditor.pulsar.topic_store import (
    TopicsAddress,
    TopicStore,
    open_topics,
    prefixes_of,
    topics_with_schemas_only,
)
from auditor.spark.installation import is_local_master
from auditor.spark.store import spark_type
from auditor.stages.reading import Batches, in_batches
from auditor.wire.service_uri import RIGHT_FORM, ServiceUri, parse_pulsar
from auditor.wire.service_uri import parse as parse_uri
from auditor.zookeeper.ledgers import ListingPartition
from auditor.zookeeper.metadata_store import MetadataStore, StoreAddress, open_store

URI_OPTION: Final = "metadataServiceUri"
PULSAR_OPTION: Final = "pulsarMetadataUri"
READERS_OPTION: Final = "readers"
READERS_DEFAULT: Final = 8
READERS_MAX: Final = 1_000
"""Spark partitions that read ledgers. Each has a ZooKeeper session; they share the rate."""


def _spelt(key: str) -> str:
    """Return a setting's key as Spark's users write options.

    Example: zookeeperBatchPaths for zookeeper_batch_paths.
    """
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), key)


ZOOKEEPER_OPTIONS: Final[dict[str, Setting]] = {
    _spelt(s.key): s
    for s in SETTINGS
    if s.key.startswith("zookeeper_") and not s.key.endswith("_command")
}
"""Each option with the setting of docs/configuration.md that gives its unit, range and default.

No option is a command: whoever may write a query must not be able to run programs."""

OPTIONS: Final = (URI_OPTION, PULSAR_OPTION, READERS_OPTION, *ZOOKEEPER_OPTIONS)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What the user of a data source requested. `settings` has the limits on ZooKeeper.

    `pulsar_uri` is None if topics are looked for beside the ledgers.
    """

    uri: ServiceUri
    pulsar_uri: ServiceUri | None
    readers: int
    settings: Settings


def source_options(options: Mapping[str, str]) -> SourceOptions:
    """Return the options that Spark passed. Their names ignore case. Pure.

    Raises ConfigError with the option, and what to write.
    """
    known = {name.lower(): name for name in OPTIONS}
    given: dict[str, str] = {}
    for name, value in options.items():
        if name.lower() not in known:
            near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
            said = f"did you mean {known[near[0]]}?" if near else f"there are {', '.join(OPTIONS)}"
            raise ConfigError(f"this source has no option {name}: {said}")
        given[known[name.lower()]] = value
    flags = {
        s.key: _check(name, s, given[name])
        for name, s in ZOOKEEPER_OPTIONS.items()
        if name in given
    }
    return SourceOptions(
        _uri(given.get(URI_OPTION)),
        _pulsar_uri(given.get(PULSAR_OPTION)),
        _readers(given.get(READERS_OPTION)),
        parse(Layers(flags=flags)),
    )


def _uri(text: str | None) -> ServiceUri:
    if text is None or not text.strip():
        raise ConfigError(
            f'option {URI_OPTION} is not set: write .option("{URI_OPTION}", "{RIGHT_FORM}")'
        )
    try:
        return parse_uri(text)
    except ConfigError as error:
        raise ConfigError(f"option {URI_OPTION}: {error}") from None


def _pulsar_uri(text: str | None) -> ServiceUri | None:
    if text is None:
        return None
    try:
        return parse_pulsar(text)
    except ConfigError as error:
        raise ConfigError(f"option {PULSAR_OPTION}: {error}") from None


def _readers(text: str | None) -> int:
    readers = (
        READERS_DEFAULT if text is None else int(text) if text.isascii() and text.isdecimal() else 0
    )
    if not 1 <= readers <= READERS_MAX:
        raise ConfigError(
            f"option {READERS_OPTION} = {str(text)[:200]!r} is out of range: 1 to {READERS_MAX}"
        )
    return readers


def _check(name: str, setting: Setting, text: str) -> str:
    """Return `text` if its setting accepts it. Errors name the option, not the setting."""
    try:
        setting.parse(text)
    except ValueError as error:
        raise ConfigError(f"option {name} = {text[:200]!r} {error}") from None
    return text


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


LOOK = 1
"""Evidence numbers its looks. A source looks once and does not offer the column."""


def _without(schema: pa.Schema, *names: str) -> pa.Schema:
    return pa.schema([field for field in schema if field.name not in names])


LEDGER_COLUMNS = _without(LEDGERS, "look", "mark")
"""A ledger as ZooKeeper has it, without its mark, which would take a second read: join
bookkeeper_underreplicated."""
BOOKIE_COLUMNS = _without(
    BOOKIES, "look", "greeting", "greeting_detail", "total_bytes", "free_bytes"
)
"""A bookie that is registered or has a cookie, without a greeting: no bookie is asked here."""
UNDERREPLICATED_COLUMNS = pa.schema([("ledger_id", pa.int64()), *MARK])
"""A ledger that is marked under-replicated."""


@dataclass(slots=True)
class LedgersPartition(InputPartition):
    """What one reader lists and reads, and how fast; picklable, without secrets."""

    address: StoreAddress
    parents: ListingPartition


class LedgersReader(DataSourceReader):
    """Finds the parents of ledgers once for a DataFrame, and lists and reads below them at each
    action.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return at most `readers` partitions. Raises StoreUnavailable."""
        with open_store(self._options.uri, self._options.settings.zookeeper_limits(1)) as store:
            portions = store.listing_partitions().partitions
            address = store.address
        parents = [parent for portion in portions for parent in portion.parents]
        readers = max(1, min(self._options.readers, len(parents)))
        shared = replace(address, limits=self._options.settings.zookeeper_limits(readers))
        # Dealt in turn: the parents of the newest ledgers are neighbours, and in small clusters
        # they are the only ones with ledgers.
        return [
            LedgersPartition(shared, ListingPartition(tuple(parents[at::readers])))
            for at in range(readers)
        ]

    def read(self, partition: InputPartition) -> Batches:
        """Yield LEDGER_COLUMNS.

        Raises StoreUnavailable if the listing fails: ledgers would be missed.
        """
        assert isinstance(partition, LedgersPartition), partition
        with partition.address.open() as store:
            ids = (
                np.array(parent.ledger_ids, np.int64)
                for parent in store.list_ids(partition.parents)
            )
            for batch in store.read_ledger_batches(ids, LOOK, now_ms, marks={}):
                yield batch.select(LEDGER_COLUMNS.names)


class WholeReader(DataSourceReader):
    """Reads a small table in one partition, with one session. Raises what `batches` raises, and
    StoreUnavailable.
    """

    def __init__(self, options: SourceOptions, batches: Callable[[MetadataStore], Batches]) -> None:
        self._options = options
        self._batches = batches

    def partitions(self) -> list[InputPartition]:
        """Return the only partition."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Batches:
        """Yield the whole table."""
        with open_store(self._options.uri, self._options.settings.zookeeper_limits(1)) as store:
            yield from self._batches(store)


def bookie_batches(store: MetadataStore) -> Batches:
    """Yield BOOKIE_COLUMNS. Raises StoreUnavailable. Costs two reads a bookie and three lists."""
    for batch in in_batches(
        (bookie_row(record) for record in store.bookies(LOOK, now_ms)), BOOKIES
    ):
        yield batch.select(BOOKIE_COLUMNS.names)


def underreplicated_batches(store: MetadataStore) -> Batches:
    """Yield UNDERREPLICATED_COLUMNS.

    Raises StoreUnavailable, even if only some marks cannot be read: those ledgers would look well
    replicated. Costs about one list and one read a mark, and holds all marks.
    """
    marks = store.marks()
    if marks.problem:
        raise StoreUnavailable(marks.problem)
    return in_batches(
        (_mark_row(i, mark) for i, mark in sorted(marks.by_ledger.items())), UNDERREPLICATED_COLUMNS
    )


def _mark_row(ledger_id: LedgerId, mark: Mark) -> tuple[object, ...]:
    return (ledger_id, *mark_cells(mark))


class _Source(DataSource):
    """What the four sources share: their options, and fixed columns."""

    FORMAT: ClassVar[str]
    COLUMNS: ClassVar[pa.Schema]

    @classmethod
    def name(cls) -> str:
        return cls.FORMAT

    def schema(self) -> StructType:
        """Return the columns.

        Raises ConfigError here for a wrong option: `load()` fails, not the first action.
        """
        source_options(self.options)
        return spark_type(self.COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader. Raises ConfigError for a wrong option, or for `.schema(...)` with
        columns other than the source's.
        """
        options = source_options(self.options)
        own = spark_type(self.COLUMNS).simpleString()
        if schema.simpleString() != own:
            raise ConfigError(
                f"{self.FORMAT} has columns of its own: leave .schema(...) out and select what you"
                f" need of {own}"
            )
        return self.reader_of(options)

    @abstractmethod
    def reader_of(self, options: SourceOptions) -> DataSourceReader:
        """Return a reader of COLUMNS."""


class LedgerSource(_Source):
    """`bookkeeper_ledgers`: a row for each ledger, even if its metadata is malformed or could not
    be read.
    """

    FORMAT = "bookkeeper_ledgers"
    COLUMNS = LEDGER_COLUMNS

    def reader_of(self, options: SourceOptions) -> DataSourceReader:
        return LedgersReader(options)


class BookieSource(_Source):
    """`bookkeeper_bookies`: a row for each bookie that is registered or has a cookie."""

    FORMAT = "bookkeeper_bookies"
    COLUMNS = BOOKIE_COLUMNS

    def reader_of(self, options: SourceOptions) -> DataSourceReader:
        return WholeReader(options, bookie_batches)


class UnderreplicatedSource(_Source):
    """`bookkeeper_underreplicated`: a row for each ledger marked under-replicated."""

    FORMAT = "bookkeeper_underreplicated"
    COLUMNS = UNDERREPLICATED_COLUMNS

    def reader_of(self, options: SourceOptions) -> DataSourceReader:
        return WholeReader(options, underreplicated_batches)


class TopicSource(_Source):
    """`bookkeeper_topics`: a row for each ledger that a Pulsar topic references, and for what could
    not be read of it.
    """

    FORMAT = "bookkeeper_topics"
    COLUMNS = TOPICS

    def reader_of(self, options: SourceOptions) -> DataSourceReader:
        return TopicsReader(options)


SOURCES: tuple[type[_Source], ...] = (
    LedgerSource,
    BookieSource,
    UnderreplicatedSource,
    TopicSource,
)


def register(spark: SparkSession) -> None:
    """Register the four formats with this session. Contacts nothing. May be called again.

    Where PYSPARK_PYTHON is not set and Spark runs on this machine alone, the workers of these
    formats use the Python that calls this: it has the auditor, also if its virtual environment is
    not activated.
    """
    with _workers_with_this_python(spark):
        for source in SOURCES:
            spark.dataSource.register(source)


@contextmanager
def _workers_with_this_python(spark: SparkSession) -> Iterator[None]:
    """Let what is registered meanwhile use this Python, if nobody chose one and it is there."""
    try:
        context = spark.sparkContext
        is_local = is_local_master(str(context.master))
    except Exception:  # Spark Connect has no context here, and chooses by itself
        is_local = False
    if not is_local or "PYSPARK_PYTHON" in os.environ:
        yield
        return
    chosen, context.pythonExec = context.pythonExec, sys.executable
    try:
        yield
    finally:
        context.pythonExec = chosen
