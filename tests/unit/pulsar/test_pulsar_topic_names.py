"""Topics that have schemas and nothing else, as the names of znodes say it."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

from auditor.model.topic import TopicName
from auditor.pulsar import topic_paths
from auditor.pulsar.topic_store import TopicStore, misnamed_znode_sentence, topics_with_schemas_only

NAMESPACE = f"{topic_paths.SCHEMAS}/shop/orders"


def store_of(*names: str) -> TopicStore:
    """Return a store whose one namespace has schemas with these znode names."""
    tree = {
        topic_paths.SCHEMAS: [f"{topic_paths.SCHEMAS}/shop"],
        f"{topic_paths.SCHEMAS}/shop": [NAMESPACE],
        NAMESPACE: [f"{NAMESPACE}/{name}" for name in names],
    }

    def children(parents: list[str]) -> Iterator[str]:
        for parent in parents:
            yield from tree[parent]

    return cast("TopicStore", SimpleNamespace(children=children))


def test_only_topics_that_nobody_else_names_are_given_and_misnamed_znodes_with_a_reason() -> None:
    """The znode of a topic that is listed elsewhere is left out, whatever its cluster. A name that
    Pulsar would have escaped is no name of Pulsar's.
    """
    listed = TopicName("shop", "", "orders", "eu")
    store = store_of("eu", "us", "a b")
    assert [
        (TopicName("shop", "", "orders", "us"), None),
        (TopicName("shop", "", "orders", "a b"), misnamed_znode_sentence(f"{NAMESPACE}/a b")),
    ] == list(topics_with_schemas_only(store, [listed]))
