"""The names of Pulsar's topics, and the znodes that belong to them.

Sources: TopicName, Codec (Pulsar 4.0). All paths are below the chroot of Pulsar's metadata store.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote_plus, unquote_plus

from auditor.errors import ConfigError
from auditor.model.topic import TopicName

MANAGED_LEDGERS = "/managed-ledgers"
SCHEMAS = "/schemas"
PARTITIONED = "/admin/partitioned-topics"
POLICIES = "/admin/policies"
PERSISTENT = "persistent"
RIGHT_FORM = "persistent://tenant/namespace/topic"
NAME_CHARS_MAX = 65_536
"""Longest topic name accepted. Pulsar has no limit of its own; a request to ZooKeeper has one."""
WORD_SHOWN_MAX = 80
_PARTITION = "-partition-"
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")


def parse_topic(text: str) -> TopicName:
    """Parse a topic's name in the forms that Pulsar's tools take.

    They are `persistent://tenant/namespace/topic`, the old form with a cluster after the tenant,
    and without a domain `tenant/namespace/topic` or `topic` (in public/default). A name may have
    any characters, as in Pulsar. Raises ConfigError.
    """
    domain, separator, rest = text.partition("://")
    if not separator:
        domain, rest = PERSISTENT, text if "/" in text else f"public/default/{text}"
    if domain != PERSISTENT:
        kept = "keeps no ledger" if domain == "non-persistent" else "is not a topic"
        raise ConfigError(f"{_quote(text)} {kept}: the right form is {RIGHT_FORM}")
    parts = rest.split("/", 3)
    if len(parts) not in (3, 4 if separator else 3) or not all(parts):
        raise ConfigError(f"{_quote(text)} is not a topic: the right form is {RIGHT_FORM}")
    if len(text) > NAME_CHARS_MAX or not _can_be_stored(parts):
        raise ConfigError(
            f"{_quote(text)} cannot be the name of a topic: the right form is {RIGHT_FORM}"
        )
    tenant, *cluster, namespace, local_name = parts
    return TopicName(tenant, cluster[0] if cluster else "", namespace, local_name)


def _can_be_stored(parts: list[str]) -> bool:
    """Return whether ZooKeeper can have the znodes that Pulsar makes for these parts of a name."""
    try:
        "".join(parts).encode()
    except UnicodeEncodeError:
        return False
    names = [*parts[:-1], encode_name(parts[-1])]
    return {".", ".."}.isdisjoint(parts) and all(map(str.isprintable, names))


def namespace_path(topic: TopicName) -> str:
    """Return the znode whose children are the topics of the namespace."""
    return "/".join((MANAGED_LEDGERS, *_namespace(topic), PERSISTENT))


def topic_path(topic: TopicName) -> str:
    """Return the znode of a topic. Its children are the topic's subscriptions."""
    return f"{namespace_path(topic)}/{encode_name(topic.local_name)}"


def schema_path(topic: TopicName) -> str:
    """Return the znode with the schemas of a topic; the partitions of a topic share it.

    It leaves the cluster out (TopicName.getSchemaName).
    """
    whole = partition_of(topic)
    name = topic.local_name if whole is None else whole[0].local_name
    return "/".join((SCHEMAS, topic.tenant, topic.namespace, encode_name(name)))


def partitions_among(topic: TopicName, names: Iterable[str]) -> tuple[TopicName, ...]:
    """Return the partitions of a topic among the znodes of its namespace, in order."""
    numbers = set()
    for name in names:
        base, _, number = decode_name(name).rpartition(_PARTITION)
        if base == topic.local_name and _NUMBER.fullmatch(number):
            numbers.add(int(number))
    return partitions_of(topic, sorted(numbers))


def partitions_of(topic: TopicName, numbers: Iterable[int]) -> tuple[TopicName, ...]:
    """Return the partitions of a topic with these numbers."""
    return tuple(
        topic._replace(local_name=f"{topic.local_name}{_PARTITION}{number}") for number in numbers
    )


def partition_of(topic: TopicName) -> tuple[TopicName, int] | None:
    """Return the partitioned topic of a partition and its number, None for other topics."""
    base, _, number = topic.local_name.rpartition(_PARTITION)
    if not base or not _NUMBER.fullmatch(number):
        return None
    return topic._replace(local_name=base), int(number)


def partitioned_path(topic: TopicName) -> str:
    """Return the znode that says how many partitions a topic has."""
    return PARTITIONED + topic_path(topic).removeprefix(MANAGED_LEDGERS)


def partitioned_topic_at(path: str) -> TopicName | None:
    """Return the partitioned topic whose znode has this path, or None if none can be there."""
    return topic_at(MANAGED_LEDGERS + path.removeprefix(PARTITIONED))


def holds_topics(path: str) -> bool:
    """Return whether the children of this znode are topics."""
    return path.endswith(f"/{PERSISTENT}") and path.count("/") in (4, 5)


def namespace_at(path: str) -> str:
    """Return the namespace whose topics are below this znode.

    It is `tenant/namespace`, or has a cluster between them.
    """
    return path.removeprefix(f"{MANAGED_LEDGERS}/").removesuffix(f"/{PERSISTENT}")


def topic_at(path: str) -> TopicName | None:
    """Return the topic whose znode has this path, or None if no topic can be there."""
    root, *parts = path[1:].split("/")
    if (
        f"/{root}" != MANAGED_LEDGERS
        or len(parts) not in (4, 5)
        or parts[-2] != PERSISTENT
        or not all(parts)
    ):
        return None
    tenant, *cluster, namespace = parts[:-2]
    return TopicName(tenant, cluster[0] if cluster else "", namespace, decode_name(parts[-1]))


def is_canonical(path: str) -> bool:
    """Return whether Pulsar itself would give the topic's znode this name, and thus reads it
    there.
    """
    name = path.rpartition("/")[2]
    return encode_name(decode_name(name)) == name


def encode_name(name: str) -> str:
    """Return a name as Pulsar writes it into a path: as Java's URLEncoder does."""
    return quote_plus(name).replace("%2A", "*").replace("~", "%7E")


def decode_name(name: str) -> str:
    """Return the name that a part of a path encodes."""
    return unquote_plus(name)


def _namespace(topic: TopicName) -> list[str]:
    return [part for part in (topic.tenant, topic.cluster, topic.namespace) if part]


def _quote(text: str) -> str:
    return ascii(text[:WORD_SHOWN_MAX])
