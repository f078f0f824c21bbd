"""Read Pulsar's topics: which ledgers each topic, subscription and schema references. Read-only.

Topics that occur only in Pulsar's schemas or partitioned topics, and not among topics with ledgers,
are listed too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from auditor.config import ZooKeeperLimits
from auditor.errors import MalformedMetadata, StoreUnavailable
from auditor.model.topic import (
    ManagedLedger,
    SchemaVersion,
    Subscription,
    TopicName,
    TopicRecord,
    TopicStatus,
    Unread,
)
from auditor.pulsar import topic_paths
from auditor.pulsar.metadata import (
    decode_cursor,
    decode_managed_ledger,
    decode_partitions,
    decode_schemas,
    decode_shadow_source,
)
from auditor.wire.service_uri import ServiceUri
from auditor.zookeeper.multi_read import NO_NODE, OK, Children, Znode
from auditor.zookeeper.reading import (
    children_of_many,
    read_many,
    refusal_sentence,
    unavailable_error,
)
from auditor.zookeeper.session import ReadCounts, Session, SessionOwner, connect

TOPICS_AT_ONCE = 256
"""Topics whose znodes are read together. Memory holds their references."""

NAMESPACE_DEPTH_MAX = 3
"""Levels of znodes from the tenant to a namespace: two, or three with a cluster between them."""

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class TopicsAddress:
    """What another process needs to open the same topics. It can be pickled and holds no
    secrets.
    """

    uri: ServiceUri
    prefix: str
    limits: ZooKeeperLimits

    def open(self) -> TopicStore:
        """Return a store with a session of its own. The caller closes it. Raises
        StoreUnavailable.
        """
        return TopicStore(connect(self.uri, self.limits), self.prefix)


class TopicStore(SessionOwner):
    """One session with Pulsar's metadata store, and a context manager that closes it.

    Nothing here writes. Not thread-safe. `prefix` is the chroot of Pulsar's znodes, or empty.
    """

    def __init__(self, session: Session, prefix: str) -> None:
        super().__init__(session)
        self.prefix = prefix

    def sync(self) -> None:
        """Make sure that this store reads nothing older than this call from now on."""
        self._session.sync(self.prefix + topic_paths.MANAGED_LEDGERS)

    def namespaces(self) -> list[str]:
        """Return the znodes whose children are topics, sorted. A znode that vanishes is left out.

        Costs one list for the root, each tenant, cluster and namespace. Raises StoreUnavailable if
        one cannot be read, because topics would be missed.
        """
        found: list[str] = []
        level = [topic_paths.MANAGED_LEDGERS]
        for _ in range(1 + NAMESPACE_DEPTH_MAX):
            inner = list(self.children(level))
            found += filter(topic_paths.holds_topics, inner)
            level = [path for path in inner if not topic_paths.holds_topics(path)]
        return sorted(found)

    def topics_in(self, namespaces: Iterable[str]) -> Iterator[TopicName]:
        """Yield the topics below these znodes, sorted within each. Raises StoreUnavailable."""
        yield from filter(None, map(topic_paths.topic_at, self.children(namespaces)))

    def list_namespace(self, namespace: str) -> tuple[list[TopicName], list[str]]:
        """Return the topics below this znode, and the znodes whose names Pulsar does not write.

        Such a znode cannot be read as the topic that its name decodes to. Raises StoreUnavailable.
        """
        paths = list(self.children([namespace]))
        misnamed = [path for path in paths if not topic_paths.is_canonical(path)]
        return [
            *filter(
                None,
                map(
                    topic_paths.topic_at, (path for path in paths if topic_paths.is_canonical(path))
                ),
            )
        ], misnamed

    def is_there(self) -> bool:
        """Return whether the topics still exist. Costs one list. Raises StoreUnavailable."""
        (children,) = children_of_many(self._session, [self.prefix + topic_paths.MANAGED_LEDGERS])
        if children.error not in (OK, NO_NODE):
            raise unavailable_error(children.path, children.error)
        return children.error == OK

    def children(self, paths: Iterable[str]) -> Iterator[str]:
        """Yield the paths of the children of each path, sorted within each. Paths are below
        `prefix`.

        A missing path has no children. Raises StoreUnavailable.
        """
        for children in children_of_many(self._session, (self.prefix + path for path in paths)):
            if children.error not in (OK, NO_NODE):
                raise unavailable_error(children.path, children.error)
            yield from (
                f"{children.path[len(self.prefix) :]}/{name}" for name in sorted(children.names)
            )

    def znodes(self, paths: Iterable[str]) -> Iterator[Znode]:
        """Yield the znodes of these paths below `prefix`, in order. Never raises for a znode."""
        return read_many(self._session, [self.prefix + path for path in paths])

    def read(self, topics: Iterable[TopicName], now_ms: Callable[[], int]) -> Iterator[TopicRecord]:
        """Yield the references of each topic, in order. Never raises for a topic.

        What could not be read or decoded is in the record's `problems`. Costs one list and two
        reads a topic, one more read for a shadow topic or a partitioned topic, and one read a
        subscription. The topic is read after its subscriptions and schemas, because a subscription
        is deleted before its topic.
        """
        batch: list[TopicName] = []
        for topic in topics:
            batch.append(topic)
            if len(batch) >= TOPICS_AT_ONCE:
                yield from self._read_batch(batch, now_ms)
                batch = []
        yield from self._read_batch(batch, now_ms)

    def _read_batch(
        self, topics: Sequence[TopicName], now_ms: Callable[[], int]
    ) -> Iterator[TopicRecord]:
        paths = [self.prefix + topic_paths.topic_path(topic) for topic in topics]
        listed = list(children_of_many(self._session, paths))
        cursor_paths = [
            f"{children.path}/{name}" for children in listed for name in sorted(children.names)
        ]
        cursors = read_many(self._session, cursor_paths)
        by_topic = [[next(cursors) for _ in children.names] for children in listed]
        schemas = list(
            read_many(
                self._session, [self.prefix + topic_paths.schema_path(topic) for topic in topics]
            )
        )
        found = read_many(self._session, paths)
        records = [
            _record(topic, now_ms(), znode, children, own, schema)
            for topic, children, own, schema, znode in zip(
                topics, listed, by_topic, schemas, found, strict=True
            )
        ]
        yield from self._with_sources(records)

    def _with_sources(self, records: list[TopicRecord]) -> Iterator[TopicRecord]:
        """Yield the topics. A shadow topic has the ledgers that its source has now."""
        records = self._with_partitioned_sources(records)
        sources = {record.topic: source for record in records if (source := _source_of(record))}
        paths = [self.prefix + topic_paths.topic_path(source) for source in sources.values()]
        znodes = dict(zip(sources, read_many(self._session, paths), strict=True))
        for record in records:
            znode = znodes.get(record.topic)
            yield record if znode is None else _with_source(record, znode)

    def _with_partitioned_sources(self, records: list[TopicRecord]) -> list[TopicRecord]:
        """Return the topics. A partition of a shadow topic has the source that its partitioned
        topic names.

        If the partitioned topic cannot be read or decoded, it names none.
        """
        wholes = {
            record.topic: whole
            for record in records
            if record.managed_ledger is not None
            and record.managed_ledger.shadow_source is None
            and (whole := topic_paths.partition_of(record.topic))
        }
        paths = dict.fromkeys(
            self.prefix + topic_paths.partitioned_path(topic) for topic, _ in wholes.values()
        )
        znodes = dict(zip(paths, read_many(self._session, paths), strict=True))
        found = []
        for record in records:
            if record.topic in wholes and record.managed_ledger is not None:
                topic, number = wholes[record.topic]
                znode = znodes[self.prefix + topic_paths.partitioned_path(topic)]
                source = _partition_source(znode, number)
                record = replace(
                    record, managed_ledger=replace(record.managed_ledger, shadow_source=source)
                )
            found.append(record)
        return found


def open_topics(
    uri: ServiceUri,
    prefixes: Sequence[str],
    limits: ZooKeeperLimits,
    counts: ReadCounts | None = None,
) -> TopicStore:
    """Connect, and return a store for the first of `prefixes` below which there are topics.

    Raises StoreUnavailable, which says what to do, when there is none.
    """
    found = find_topics(uri, prefixes, limits, counts)
    if found is None:
        paths = " and no ".join(prefix + topic_paths.MANAGED_LEDGERS for prefix in prefixes)
        raise StoreUnavailable(
            f"no Pulsar topics at {uri.text_without_secrets}: there is no znode {paths}. If Pulsar"
            " keeps its metadata elsewhere, give its metadataStoreUrl as --pulsar-metadata-uri"
        )
    return found


def find_topics(
    uri: ServiceUri,
    prefixes: Sequence[str],
    limits: ZooKeeperLimits,
    counts: ReadCounts | None = None,
) -> TopicStore | None:
    """Do the same as `open_topics`, but return None if there are no topics. Raises
    StoreUnavailable.

    What is read is added to `counts`.
    """
    session = connect(uri, limits)
    try:
        paths = [prefix + topic_paths.MANAGED_LEDGERS for prefix in prefixes]
        for prefix, children in zip(prefixes, children_of_many(session, paths), strict=True):
            if children.error == OK:
                return TopicStore(session, prefix)
            if children.error != NO_NODE:
                raise unavailable_error(children.path, children.error)
    except BaseException:
        session.close()
        raise
    finally:
        if counts is not None:
            counts.add(session.counts)
    session.close()
    return None


def prefixes_of(uri: ServiceUri, root: str) -> tuple[str, ...]:
    """Return where the Pulsar that uses these ledgers may keep its znodes: its URI's chroot, beside
    ROOT.

    Never a path above the chroot. Unless ROOT is directly below the top, topics at the top belong
    to another Pulsar, and all ledgers that they reference would seem to be missing.
    """
    return tuple(dict.fromkeys((*filter(None, (uri.chroot,)), root.rpartition("/")[0])))


def _record(
    topic: TopicName,
    read_at_ms: int,
    znode: Znode,
    children: Children,
    cursors: Sequence[Znode],
    schema: Znode,
) -> TopicRecord:
    problems: list[str] = []
    unread = Counter[Unread]()
    managed = _decode_znode(znode, lambda data: decode_managed_ledger(data, unread), problems)
    if children.error not in (OK, NO_NODE):
        problems.append(refusal_sentence(children.path, children.error))
    subscriptions = tuple(
        filter(None, (_subscription(cursor, problems, unread) for cursor in cursors))
    )
    schemas: tuple[SchemaVersion, ...] = (
        _decode_znode(schema, lambda data: decode_schemas(data, unread), problems) or ()
    )
    return TopicRecord(
        topic,
        read_at_ms,
        _status(znode, managed),
        managed,
        subscriptions,
        schemas,
        tuple(problems),
        tuple((kind, unread[kind]) for kind in Unread if unread[kind]),
    )


def _source_of(record: TopicRecord) -> TopicName | None:
    return None if record.managed_ledger is None else record.managed_ledger.shadow_source


def _partition_source(znode: Znode, number: int) -> TopicName | None:
    """Return the partition of the source that a partitioned topic names."""
    if znode.error != OK:
        return None
    try:
        source = decode_shadow_source(znode.data)
    except MalformedMetadata:
        return None
    if source is None or topic_paths.partition_of(source):
        return source
    (partition,) = topic_paths.partitions_of(source, [number])
    return partition


def _with_source(record: TopicRecord, znode: Znode) -> TopicRecord:
    """Return a shadow topic with the ledgers of its source. `znode` is that of the source.

    A broker reads the source's list whenever it loads the shadow topic, and never the shadow's own.
    """
    source = _source_of(record)
    problems: list[str] = []
    found = _decode_znode(znode, decode_managed_ledger, problems)
    managed = replace(
        found or ManagedLedger(), shadow_source=source, is_source_missing=znode.error == NO_NODE
    )
    return replace(record, managed_ledger=managed, problems=(*record.problems, *problems))


def _status(znode: Znode, managed: ManagedLedger | None) -> TopicStatus:
    if managed is not None:
        return TopicStatus.FOUND
    return TopicStatus.MISSING if znode.error == NO_NODE else TopicStatus.UNREADABLE


def _subscription(
    znode: Znode, problems: list[str], unread: Counter[Unread]
) -> Subscription | None:
    """Return a subscription, or None if it was deleted meanwhile."""
    if znode.error == NO_NODE:
        return None
    name = topic_paths.decode_name(znode.path.rpartition("/")[2])
    before = len(problems)
    cursor = _decode_znode(znode, lambda data: decode_cursor(data, name, unread), problems)
    return Subscription(name, cursor, "" if cursor is not None else problems[before])


def _decode_znode(
    znode: Znode, decode: Callable[[bytes], _Value], problems: list[str]
) -> _Value | None:
    """Return the decoded znode, or None if it is missing or cannot be decoded."""
    if znode.error == NO_NODE:
        return None
    if znode.error != OK:
        problems.append(refusal_sentence(znode.path, znode.error))
        return None
    try:
        return decode(znode.data)
    except MalformedMetadata as error:
        problems.append(
            f"znode {znode.path} of {len(znode.data)} bytes cannot be decoded: {error.reason}"
        )
        return None


class Partitions(NamedTuple):
    """The partitions named by the metadata of a namespace's partitioned topics, in order.

    `problems` say why some metadata could not be read.
    """

    names: tuple[TopicName, ...]
    problems: tuple[str, ...]


def topics_with_schemas(store: TopicStore) -> Iterator[tuple[TopicName, str]]:
    """Yield each topic that has schemas, with the path of its schemas' znode. Raises
    StoreUnavailable.

    Costs one list for the root, each tenant and each namespace. These znodes do not tell the
    cluster of a topic named as before Pulsar 2.0, nor whether a topic is persistent: all come
    without a cluster and as persistent.
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
    """Yield each topic with schemas that is not among `topics`, and why it cannot be read.

    The reason is None if the znode has a name that Pulsar writes. Costs the same as
    `topics_with_schemas`. Raises StoreUnavailable.
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

    They are written `tenant/namespace`, or `tenant/cluster` for those named as before Pulsar 2.0.
    Returns an empty list if no tenant has policies here: then policies are kept elsewhere, and a
    namespace may exist without any of these znodes. Costs one list a root and a tenant. Raises
    StoreUnavailable.
    """
    with_policies = list(store.children([topic_paths.POLICIES]))
    if not with_policies:
        return []
    others = list(store.children([topic_paths.MANAGED_LEDGERS, topic_paths.PARTITIONED]))
    found = store.children([*with_policies, *others])
    return sorted({"/".join(path.split("/")[-2:]) for path in found})


def partitions_in(store: TopicStore, namespace: str) -> Partitions:
    """Return the partitions that the partitioned topics of a namespace name.

    `namespace` is the znode whose children are its topics. Costs one list, and one read a
    partitioned topic. Raises StoreUnavailable if they cannot be listed.
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
        topic, [topic_paths.encode_name(topic.local_name) for topic in (*there, *lone)]
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
