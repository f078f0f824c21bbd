"""Open Pulsar's metadata: at --pulsar-metadata-uri, or beside the ledgers."""

from __future__ import annotations

from auditor.context import Context
from auditor.errors import StoreUnavailable
from auditor.pulsar.topic_store import (
    TopicsAddress,
    TopicStore,
    find_topics,
    open_topics,
    prefixes_of,
)
from auditor.run.reference_looks import PulsarTopics
from auditor.wire.service_uri import ServiceUri, parse_pulsar
from auditor.zookeeper.metadata_store import MetadataStore

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
