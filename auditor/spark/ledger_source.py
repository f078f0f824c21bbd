"""The metadata of a BookKeeper cluster as Spark tables: bookkeeper_ledgers, _bookies,
_underreplicated, _topics.

These public sources use the run's own readers and are lazy, like Spark's sources: *every action
reads ZooKeeper again*, and two actions see two states of the cluster. To judge a state, write it
first, like the run (`auditor.run.pipeline`). docs/data-sources.md has the columns.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from auditor.clock import now_ms
from auditor.errors import ConfigError, StoreUnavailable
from auditor.evidence.rows import bookie_row, mark_cells
from auditor.evidence.schemas import BOOKIES, LEDGERS, MARK, TOPICS
from auditor.model.identity import LedgerId
from auditor.model.ledger import Mark
from auditor.spark.source_options import SourceOptions, source_options
from auditor.spark.store import spark_type
from auditor.spark.topic_source import TopicsReader
from auditor.stages.reading import Batches, in_batches, ledger_batches, listed_ids
from auditor.zookeeper.ledgers import ListingPartition
from auditor.zookeeper.metadata_store import MetadataStore, StoreAddress, open_store

LOOK = 1
"""Evidence numbers its looks. A source looks once and does not offer the column."""


def _without(schema: pa.Schema, *names: str) -> pa.Schema:
    return pa.schema([field for field in schema if field.name not in names])


LEDGER_COLUMNS = _without(LEDGERS, "look", "mark")
"""A ledger as ZooKeeper has it, without its mark, which would take a second read: join
bookkeeper_underreplicated."""
BOOKIE_COLUMNS = _without(BOOKIES, "look", "greeting", "greeting_detail")
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
            for batch in ledger_batches(
                store, listed_ids(store, partition.parents), LOOK, marks={}
            ):
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
    """Register the four formats with this session. Contacts nothing. May be called again."""
    for source in SOURCES:
        spark.dataSource.register(source)
