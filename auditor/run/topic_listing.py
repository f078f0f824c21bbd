"""List the topics that a run reads.

They are those with ledgers, those that only have schemas, and the partitions that Pulsar names and
that have no znode.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from auditor.errors import StoreUnavailable
from auditor.evidence.reference_rows import namespace_of
from auditor.model.topic import TopicName
from auditor.stop import StopRequest
from auditor.wire import topic_paths
from auditor.zookeeper.topics import (
    Partitions,
    TopicStore,
    misnamed_znode_sentence,
    partitions_in,
    present_namespaces,
    topics_with_schemas_only,
)

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
    listing.lone_partitions += [one for one in partitions.names if one not in there]
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
