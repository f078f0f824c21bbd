"""Which topics a run takes to belong to its ledgers, against a real ZooKeeper tree."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.topics import closed, put_topic
from support.zookeeper_many_znodes import Server
from support.zookeeper_znodes import STEADY, Znodes, uri

from auditor.context import Context
from auditor.run.reference_looks import OTHER_TOPICS, pulsar_of_run
from auditor.zookeeper.metadata_store import MetadataStore
from auditor.zookeeper.session import ReadCounts

pytestmark = pytest.mark.also_in_memory


def opened(server: Server, root: str) -> tuple[Any, list[str]]:
    """Return where a run with these ledgers reads topics, and its warnings."""
    warned: list[str] = []
    logger = SimpleNamespace(warning=lambda _, problem: warned.append(problem))
    settings = SimpleNamespace(
        pulsar="auto",
        ledgers_from=None,
        pulsar_metadata_uri=None,
        zookeeper_limits=lambda _: STEADY,
    )
    store = SimpleNamespace(
        address=SimpleNamespace(uri=uri(server.hosts, root)), root=root, counts=ReadCounts()
    )
    context = cast(Context, SimpleNamespace(settings=settings, logger=logger))
    return pulsar_of_run(context, cast(MetadataStore, store)), warned


def test_another_pulsars_topics_are_not_judged_against_these_ledgers(
    server: Server, tree: Znodes
) -> None:
    """Topics at the top do not belong to ledgers further down: each would seem to have lost
    everything it references.
    """
    put_topic(tree.put, "t/n/other", [closed(7)])
    pulsar, warned = opened(server, "/cluster-b/ledgers")
    assert (None, [OTHER_TOPICS]) == (pulsar, warned)


def test_topics_beside_the_ledgers_come_before_all_others(server: Server, tree: Znodes) -> None:
    """Topics at the top do not matter then, and there is no warning."""
    put_topic(tree.put, "t/n/other", [closed(7)])
    put_topic(tree.put, "t/n/own", [closed(8)], prefix="/cluster-b")
    pulsar, warned = opened(server, "/cluster-b/ledgers")
    assert pulsar is not None and pulsar.store is not None
    with pulsar.store as store:
        assert ("/cluster-b", []) == (store.prefix, warned)


def test_topics_at_the_top_belong_to_ledgers_directly_below_it(
    server: Server, tree: Znodes
) -> None:
    """This is the usual cluster."""
    put_topic(tree.put, "t/n/own", [closed(7)])
    pulsar, warned = opened(server, "/ledgers")
    assert pulsar is not None and pulsar.store is not None
    with pulsar.store as store:
        assert ("", []) == (store.prefix, warned)
