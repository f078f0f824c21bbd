"""List topics that occur only in Pulsar's schemas or partitioned topics, and not among topics with
ledgers. Read-only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from auditor.errors import MalformedMetadata
from auditor.model.topic import TopicName
from auditor.wire import topic_paths
from auditor.wire.partitioned_topics import decode_partitions
from auditor.zookeeper.multi_read import NO_NODE, OK
from auditor.zookeeper.refusal import refusal_sentence
from auditor.zookeeper.topics import TopicStore


class Partitions(NamedTuple):
    """The partitions in the metadata of a namespace's partitioned topics, in order, and why some
    could not be read.
    """

    names: tuple[TopicName, ...]
    problems: tuple[str, ...]


def topics_with_schemas(store: TopicStore) -> Iterator[tuple[TopicName, str]]:
    """Yield each topic that has schemas, with their znode. Raises StoreUnavailable.

    Costs one list for the root, each tenant and each namespace. A topic named as before Pulsar 2.0
    comes without its cluster, and a non-persistent one as persistent: the znode has neither.
    """
    level = [topic_paths.SCHEMAS]
    for _ in range(3):
        level = list(store.children(level))
    for path in level:
        _, _, tenant, namespace, name = path.split("/")
        yield TopicName(tenant, "", namespace, topic_paths.decode_name(name)), path


def topics_with_schemas_only(
    store: TopicStore, topics: Iterable[TopicName]
) -> Iterator[tuple[TopicName, str | None]]:
    """Yield each topic with schemas that none of `topics` shares, and why it cannot be read.

    That is None where the znode has a name that Pulsar writes. Costs what `topics_with_schemas`
    costs. Raises StoreUnavailable.
    """
    shared = {topic_paths.schema_path(topic) for topic in topics}
    for topic, path in topics_with_schemas(store):
        if path not in shared:
            is_misnamed = topic_paths.schema_path(topic) != path
            yield topic, misnamed_znode_sentence(path) if is_misnamed else None


def misnamed_znode_sentence(path: str) -> str:
    """Return the sentence on a znode whose name Pulsar does not write: its topic is not read."""
    return f"znode {path} has a name that Pulsar does not write: what it references was not read"


def present_namespaces(store: TopicStore) -> list[str]:
    """Return the namespaces that have policies, managed ledgers or partitioned topics, sorted.

    They are written `tenant/namespace`; of those named as before Pulsar 2.0, `tenant/cluster`.
    Returns none if no tenant has policies here: then they are kept elsewhere, and a namespace
    without any of these may exist. Costs one list a root and a tenant. Raises StoreUnavailable.
    """
    with_policies = list(store.children([topic_paths.POLICIES]))
    if not with_policies:
        return []
    others = list(store.children([topic_paths.MANAGED_LEDGERS, topic_paths.PARTITIONED]))
    found = store.children([*with_policies, *others])
    return sorted({"/".join(path.split("/")[-2:]) for path in found})


def partitions_in(store: TopicStore, namespace: str) -> Partitions:
    """Return what the partitioned topics of a namespace say.

    `namespace` is the znode whose children are its topics.

    Costs one list, and one read a partitioned topic. Raises StoreUnavailable if they cannot be
    listed.
    """
    root = topic_paths.PARTITIONED + namespace.removeprefix(topic_paths.MANAGED_LEDGERS)
    return _read_partitions(store, list(store.children([root])))


def partitions_of(store: TopicStore, topic: TopicName) -> Partitions:
    """Return the partitions of a topic that have a znode or that its own metadata names.

    Costs one list and one read. Raises StoreUnavailable if the namespace cannot be listed.
    """
    namespace = topic_paths.namespace_path(topic)
    names = [path.rpartition("/")[2] for path in store.children([namespace])]
    there = topic_paths.partitions_among(topic, names)
    named = _read_partitions(store, [topic_paths.partitioned_path(topic)])
    lone = set(named.names).difference(there)
    found = topic_paths.partitions_among(
        topic, [topic_paths.encode_name(one.local_name) for one in (*there, *lone)]
    )
    return Partitions(found, named.problems)


def _read_partitions(store: TopicStore, paths: list[str]) -> Partitions:
    names: list[TopicName] = []
    problems: list[str] = []
    for path, znode in zip(paths, store.znodes(paths), strict=True):
        topic = topic_paths.partitioned_topic_at(path)
        if znode.error not in (OK, NO_NODE):
            problems.append(refusal_sentence(znode.path, znode.error))
        elif znode.error == OK and topic is not None:
            try:
                number = decode_partitions(znode.data)
            except MalformedMetadata as error:
                problems.append(f"znode {znode.path} cannot be decoded: {error.reason}")
            else:
                names += topic_paths.partitions_of(topic, range(number))
    return Partitions(tuple(names), tuple(problems))
