"""Look at what Pulsar's topics reference: before the ledgers are listed, and at the end of the run.

A broker creates a ledger before it references it, and removes the reference before it deletes the
ledger, except when it deletes a topic: then the ledgers go first. Each look therefore reads the
references first and the ledgers after them, each after a sync. The looks are at least
LOOKS_APART_MIN_MS apart. What was seen is written to evidence/references and
evidence/referenced_ledgers; `findings.reference_findings` draws the conclusions.

Pulsar's metadata is at --pulsar-metadata-uri, or beside the ledgers. The topics read are those with
ledgers, those that only have schemas, and the partitions that Pulsar names and that have no znode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import pyarrow as pa

from auditor.clock import now_ms
from auditor.context import Context
from auditor.errors import OutputError, StoreUnavailable
from auditor.evidence.journal import PROBLEMS, StageResult
from auditor.evidence.rows import ledger_row, table
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LEDGERS, REFERENCES
from auditor.findings.dropped_ledgers import DROPPED_AT, compare_lists, topics_with_drops
from auditor.findings.reference_tables import (
    AGAIN,
    FIRST,
    LEDGERS_WHERE,
    SUSPECTS_MAX,
    WHERE,
    known_topics,
    records_at,
    suspect_ids,
    topics_naming,
    unlisted_ids,
    unreferenced_ledgers,
    were_references_read,
)
from auditor.findings.references import can_decide, topic_named_by
from auditor.model.evidence import Terms
from auditor.model.facts import LOOKS_APART_MIN_MS
from auditor.model.identity import LedgerId
from auditor.model.ledger import LedgerRecord
from auditor.model.topic import TopicName
from auditor.pulsar import topic_paths
from auditor.pulsar.reference_rows import (
    listing_problem_row,
    namespace_of,
    namespace_row,
    partition_problem_row,
    partition_row,
    reference_rows,
)
from auditor.pulsar.topic_store import (
    Partitions,
    TopicsAddress,
    TopicStore,
    find_topics,
    misnamed_znode_sentence,
    open_topics,
    partitions_in,
    prefixes_of,
    present_namespaces,
    topics_with_schemas_only,
)
from auditor.run.metadata_comparison import EarlierEvidence
from auditor.stages.stages import Stages
from auditor.stop import StopRequest
from auditor.wire.service_uri import ServiceUri, parse_pulsar
from auditor.zookeeper.metadata_store import MetadataStore
from auditor.zookeeper.session import ReadCounts

OFF = "off"
OTHER_TOPICS = (
    "there are Pulsar topics in /managed-ledgers at the top of ZooKeeper, but none beside the"
    " ledgers: they were not read, because they may be another Pulsar's. If they reference these"
    " ledgers, give --pulsar-metadata-uri; if not, --pulsar off"
)


def open_pulsar(context: Context, store: MetadataStore) -> TopicStore:
    """Return a store of topics. Raises StoreUnavailable if there are no topics."""
    return open_topics(*_place(context, store), context.settings.zookeeper_limits(2))


def pulsar_of_run(context: Context, store: MetadataStore) -> PulsarTopics | None:
    """Return where a run reads topics, or None if there is no Pulsar or --pulsar is off.

    A failure to read does not end the run, unless --pulsar-metadata-uri names the place: then
    StoreUnavailable is raised.
    """
    settings = context.settings
    if settings.pulsar == OFF or settings.ledgers_from is not None:
        return None
    limits = settings.zookeeper_limits(2)
    uri, prefixes = _place(context, store)
    if settings.pulsar_metadata_uri is not None:
        topics: TopicStore | None = open_topics(uri, prefixes, limits, store.counts)
    else:
        try:
            topics = find_topics(uri, prefixes, limits, store.counts)
        except StoreUnavailable as error:
            return PulsarTopics(None, None, f"Pulsar's topics could not be read: {error}")
    if topics is None:
        _warn_of_topics_at_the_top(context, uri, prefixes, store)
        return None
    return PulsarTopics(topics, TopicsAddress(uri, topics.prefix, limits))


def _warn_of_topics_at_the_top(
    context: Context, uri: ServiceUri, prefixes: tuple[str, ...], store: MetadataStore
) -> None:
    """Log where there are topics that may belong to these ledgers or to another Pulsar."""
    if "" in prefixes:
        return
    try:
        other = find_topics(uri, ("",), context.settings.zookeeper_limits(2), store.counts)
    except StoreUnavailable:
        return
    if other is not None:
        other.close()
        context.logger.warning("pulsar", problem=OTHER_TOPICS)


def _place(context: Context, store: MetadataStore) -> tuple[ServiceUri, tuple[str, ...]]:
    given = context.settings.pulsar_metadata_uri
    if given is None:
        uri = store.address.uri
        return uri, prefixes_of(uri, store.root)
    uri = parse_pulsar(given)
    return uri, (uri.chroot,)


NO_TOPICS = "no Pulsar topics were found any more"
Problem = tuple[str | None, str]
"""The namespace of which topics may be missed (None: any), and why."""


@dataclass(slots=True)
class TopicListing:
    """The topics to read, each once, and why some may be missed.

    `lone_partitions` are partitions that a partitioned topic has and that have no znode.
    `partition_problems` say, by namespace, why some of them may be missed: these reference nothing.
    `namespaces` are those that exist, none if that is not known.
    """

    names: list[TopicName] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    lone_partitions: list[TopicName] = field(default_factory=list)
    partition_problems: list[tuple[str, str]] = field(default_factory=list)
    namespaces: list[str] = field(default_factory=list)


def list_topics(store: TopicStore, stop: StopRequest) -> TopicListing:
    """List all topics. Never raises StoreUnavailable: that is a problem of the listing."""
    listing = TopicListing()
    try:
        store.sync()
        if not store.is_there():
            return TopicListing(problems=[(None, NO_TOPICS)])
        namespaces = store.namespaces()
    except StoreUnavailable as error:
        return TopicListing(problems=[(None, f"Pulsar's topics could not be listed: {error}")])
    listing.namespaces = list_namespaces(store)
    for namespace in namespaces:
        stop.check()
        try:
            _add_namespace(listing, store, namespace)
        except StoreUnavailable as error:
            why = f"the topics of a namespace could not be listed: {error}"
            listing.problems.append((None, why))
    try:
        _add_topics_with_schemas(listing, store)
    except StoreUnavailable as error:
        listing.problems.append((None, f"the schemas of topics could not be listed: {error}"))
    listing.names = list(dict.fromkeys(listing.names))
    return listing


def list_namespaces(store: TopicStore) -> list[str]:
    """Return the namespaces that exist; none if that is not known. Never raises
    StoreUnavailable.
    """
    try:
        return present_namespaces(store)
    except StoreUnavailable:
        return []


def _add_namespace(listing: TopicListing, store: TopicStore, namespace: str) -> None:
    listed, misnamed = store.list_namespace(namespace)
    listing.names += listed
    listing.problems += _problems_of_names(misnamed)
    partitions = _partitions_in(store, namespace)
    there = set(listed)
    listing.lone_partitions += [
        partition for partition in partitions.names if partition not in there
    ]
    name = topic_paths.namespace_at(namespace)
    listing.partition_problems += [(name, problem) for problem in partitions.problems]


def _partitions_in(store: TopicStore, namespace: str) -> Partitions:
    try:
        return partitions_in(store, namespace)
    except StoreUnavailable as error:
        return Partitions((), (f"its partitioned topics could not be listed: {error}",))


def _add_topics_with_schemas(listing: TopicListing, store: TopicStore) -> None:
    """Add the topics with schemas that have no ledgers."""
    for topic, problem in topics_with_schemas_only(store, tuple(listing.names)):
        if problem is None:
            listing.names.append(topic)
        else:
            listing.problems.append((namespace_of(topic), problem))


def _problems_of_names(paths: Sequence[str]) -> Iterable[Problem]:
    """Yield a problem for each znode whose name Pulsar does not write: its topic is not read."""
    for path in paths:
        topic = topic_paths.topic_at(path)
        if topic is not None:
            yield namespace_of(topic), misnamed_znode_sentence(path)


TOPICS_IN_PROCESS_MAX = 2_000
"""This process reads up to this many topics itself, in less time than a Spark job, which costs a
second or two."""
TOPICS_AT = "topics_at"
"""The field of the journal that says where the first look read topics."""
ROWS_AT_ONCE = 10_000
"""Topics, or ledgers, read between two files of a table. Memory holds their rows."""


@dataclass(frozen=True, slots=True)
class PulsarTopics:
    """Where a run reads topics. `store` is None if they cannot be read: `problem` says why."""

    store: TopicStore | None
    address: TopicsAddress | None
    problem: str = ""

    @property
    def place(self) -> str | None:
        """Where the topics are, without secrets."""
        return (
            None
            if self.address is None
            else f"{self.address.uri.text_without_secrets} {self.address.prefix}"
        )


@dataclass(slots=True)
class ReferenceLooks:
    """The looks of one run at references. `pulsar` is None without Pulsar, or if only named ledgers
    are audited.
    """

    pulsar: PulsarTopics | None
    store: MetadataStore
    run: Place
    terms: Terms
    stages: Stages
    stop: StopRequest
    earlier: EarlierEvidence | None = None
    """What the newest earlier run stored, with whose lists of ledgers those of topics are
    compared."""

    def record_first(self) -> StageResult | None:
        """Read all topics -> evidence/references. Writes nothing without Pulsar.

        Never raises StoreUnavailable.
        """
        if self.pulsar is None:
            return None
        listing = self._list_topics(self.pulsar)
        rows = [
            listing_problem_row(FIRST, now_ms(), problem, namespace)
            for namespace, problem in listing.problems
        ]
        rows += [partition_row(partition, FIRST, now_ms()) for partition in listing.lone_partitions]
        rows += [
            partition_problem_row(FIRST, now_ms(), problem, namespace)
            for namespace, problem in listing.partition_problems
        ]
        rows += [namespace_row(namespace, FIRST, now_ms()) for namespace in listing.namespaces]
        self.run.write_table(WHERE, table(REFERENCES, rows), f"look-{FIRST}-listing")
        self._read_topics(FIRST, listing.names)
        problems = [problem for _, problem in (*listing.problems, *listing.partition_problems)]
        return {PROBLEMS: problems, TOPICS_AT: self.pulsar.place}

    def read_unlisted(self) -> None:
        """Read the referenced ledgers that were not listed -> evidence/referenced_ledgers.

        Raises StoreUnavailable.
        """
        if were_references_read(self.run):
            self._read_ledgers(FIRST, unlisted_ids(self.run).tolist())

    def compare_lists(self) -> None:
        """Compare the lists of topics with those of the earlier run -> evidence/dropped_ledgers.

        An earlier run that cannot be read does not end this one.
        """
        if self.earlier is None or self.earlier.run is None or self.earlier.run_id is None:
            return
        with suppress(OutputError):
            rows = compare_lists(self.earlier.run, self.earlier.run_id, self.run)
            self.run.write_table(DROPPED_AT, rows, "compared")

    def look_again(
        self, delay_ms: int, wait: Callable[[float], None], topics_at: str | None = None
    ) -> StageResult | None:
        """Read the suspects and their topics again, at least `delay_ms` after the first look.

        Suspects are ledgers not found or cut short, and those that no topic references. Topics that
        lost a ledger since the earlier run are read again too. Returns a
        problem if that failed: what was not read twice is unknown. `topics_at` is where the first
        look read topics.
        """
        if not were_references_read(self.run):
            return None
        suspects, orphans = suspect_ids(self.run)[:SUSPECTS_MAX], self._orphans()
        lacking, newest_ms = topics_with_drops(self.run)
        if not len(suspects) and not orphans and not lacking:
            return None
        first = [*records_at(self.run, FIRST, suspects).values(), *orphans]
        newest_ms = max((newest_ms, *(record.read_at_ms for record in first)))
        wait(max(0, newest_ms + max(delay_ms, LOOKS_APART_MIN_MS) - now_ms()) / 1000)
        named = {
            topic_named_by(orphan.metadata) for orphan in orphans if orphan.metadata is not None
        }
        topics = {*topics_naming(self.run, suspects), *filter(None, named), *lacking}
        try:
            self._check_topics(topics_at)
            self._read_topics(AGAIN, sorted(topics))
            if orphans:
                self._list_namespaces_again()
            self._read_ledgers(
                AGAIN,
                np.union1d(
                    suspects, np.array([orphan.ledger_id for orphan in orphans], np.int64)
                ).tolist(),
            )
        except StoreUnavailable as error:
            return {PROBLEMS: [f"what Pulsar's topics reference could not be read again: {error}"]}
        return None

    def _check_topics(self, topics_at: str | None) -> None:
        """Check that the topics are at the same place as at the first look. Raises
        StoreUnavailable.
        """
        if self.pulsar is None or self.pulsar.store is None:
            raise StoreUnavailable(self.pulsar.problem if self.pulsar else NO_TOPICS)
        if topics_at not in (None, self.pulsar.place):
            raise StoreUnavailable(
                f"they were read at {topics_at} before, and are looked for at"
                f" {self.pulsar.place} now"
            )
        with _Counted(self.pulsar.store, self.store.counts):
            self.pulsar.store.sync()
            if not self.pulsar.store.is_there():
                raise StoreUnavailable(NO_TOPICS)

    def _list_namespaces_again(self) -> None:
        assert self.pulsar is not None and self.pulsar.store is not None
        with _Counted(self.pulsar.store, self.store.counts):
            found = list_namespaces(self.pulsar.store)
        rows = [namespace_row(namespace, AGAIN, now_ms()) for namespace in found]
        self.run.write_table(WHERE, table(REFERENCES, rows), f"look-{AGAIN}-namespaces")

    def _orphans(self) -> list[LedgerRecord]:
        """Return the first ledgers without a reference that a second look may prove to be
        orphans.
        """
        known = known_topics(self.run)
        if known.is_blind:
            return []
        decided = (
            orphan
            for orphan in unreferenced_ledgers(self.run, self.terms)
            if can_decide(orphan, known)
        )
        return list(islice(decided, SUSPECTS_MAX))

    def _list_topics(self, pulsar: PulsarTopics) -> TopicListing:
        """Return all topics, and why some may be missed."""
        if pulsar.store is None:
            return TopicListing(problems=[(None, pulsar.problem)])
        with _Counted(pulsar.store, self.store.counts):
            return list_topics(pulsar.store, self.stop)

    def _read_topics(self, look: int, names: Sequence[TopicName]) -> None:
        """Read topics in this process or, if they are many, in Spark tasks."""
        assert self.pulsar is not None
        if self.pulsar.store is None or self.pulsar.address is None:
            return
        if len(names) > TOPICS_IN_PROCESS_MAX:
            self.stages.read_topics(look, names, self.pulsar.address)
            return
        with _Counted(self.pulsar.store, self.store.counts):
            records = self.pulsar.store.read(names, now_ms)
            rows = [row for record in records for row in reference_rows(record, look)]
        self.run.write_table(WHERE, table(REFERENCES, rows), f"look-{look}")

    def _read_ledgers(self, look: int, ids: Sequence[LedgerId]) -> None:
        """Read ledgers after a sync. Writes an empty table if there is none to read."""
        self.run.write_table(LEDGERS_WHERE, table(LEDGERS, []), f"look-{look}-none")
        if ids:
            self.store.sync()
        for number, portion in enumerate(_portions(ids)):
            self.stop.check()
            records = self.store.read_ledgers(portion, look, now_ms, with_marks=False)
            rows: pa.RecordBatch = table(LEDGERS, map(ledger_row, records))
            self.run.write_table(LEDGERS_WHERE, rows, f"look-{look}-{number}")


def _portions(ids: Sequence[LedgerId]) -> Iterable[Sequence[LedgerId]]:
    return (ids[start : start + ROWS_AT_ONCE] for start in range(0, len(ids), ROWS_AT_ONCE))


class _Counted:
    """Adds the topic reads inside `with` to the counts of the run."""

    def __init__(self, topics: TopicStore, counts: ReadCounts) -> None:
        self._topics, self._counts = topics, counts

    def __enter__(self) -> None:
        self._before = (self._topics.counts.reads, self._topics.counts.reads_ok)

    def __exit__(self, *_: object) -> None:
        now, (reads, reads_ok) = self._topics.counts, self._before
        self._counts.add(ReadCounts(reads=now.reads - reads, reads_ok=now.reads_ok - reads_ok))
