"""A real Pulsar: what each ledger of a topic is needed for, and what readers get after the next
load when it is lost.

One cluster for the whole file. Topics are written, then the broker is killed, ledgers are deleted,
topics are audited, and the broker is started again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.audits import Json, accounted, audit, audit_topics
from support.pulsar_stories import make_older, topic_of
from support.real_pulsar import BRIEFLY_KEPT, RealPulsar

from auditor.model.finding import Kind
from auditor.model.identity import LedgerId

pytestmark = [pytest.mark.real, pytest.mark.long]

ROLES, BRIEF = "shop/roles", "shop/brief"
BROKER_SETTINGS = {
    "delayedDeliveryTrackerFactoryClassName": (
        "org.apache.pulsar.broker.delayed.BucketDelayedDeliveryTrackerFactory"
    ),
    "delayedDeliveryMinIndexCountPerBucket": 1,
    "brokerDeduplicationEntriesInterval": 10,
}
DELAY_MS = 60_000
SIXTY_DAYS_MS = 60 * 24 * 3600 * 1000
KEYS, KEYED = 21, 210
COMPACTED = "CompactedTopicLedger"


@dataclass
class Roles:
    """The topics by what they have lost, and the ledger that each lost."""

    lost: dict[str, LedgerId] = field(default_factory=dict)
    audited: dict[str, Json] = field(default_factory=dict)


def name_of(short: str) -> str:
    return topic_of(short, BRIEF if short.startswith("brief") else ROLES)


@pytest.fixture(scope="module")
def pulsar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPulsar]:
    """Yield one broker and four bookies."""
    with RealPulsar(tmp_path_factory.mktemp("roles"), BROKER_SETTINGS) as pulsar:
        pulsar.create_namespace(ROLES)
        pulsar.create_namespace(BRIEF, BRIEFLY_KEPT)
        yield pulsar


def write_topics(pulsar: RealPulsar) -> Roles:
    """Write all topics, and return which ledger each is to lose."""
    roles = Roles()
    newest = name_of("newest")
    pulsar.produce(newest, 110)
    pulsar.unload(newest)
    roles.lost[newest] = pulsar.data_ledgers(newest)[-1].ledger_id
    cursor = name_of("cursor")
    pulsar.subscribe(cursor, "s")
    pulsar.produce(cursor, 200)
    pulsar.skip(cursor, "s", 150)
    compaction = name_of("brief-compaction")
    pulsar.subscribe(compaction, "s")
    pulsar.produce(compaction, KEYED, keys=KEYS)
    pulsar.compact(compaction)
    pulsar.skip(compaction, "s", KEYED)
    pulsar.trim_now(compaction)
    assert KEYS == pulsar.read_compacted(compaction)
    compacted = name_of("compacted")
    pulsar.produce(compacted, KEYED, keys=KEYS)
    pulsar.compact(compacted)
    pulsar.unload(compacted)
    delayed = name_of("delayed")
    pulsar.subscribe(delayed, "s")
    pulsar.produce(delayed, 250, delay=DELAY_MS)
    assert 0 == pulsar.receive(delayed, "s")
    for topic, subscription in ((cursor, "s"), (compaction, "__compaction")):
        ledger_id = pulsar.cursor(topic, subscription).ledger_id
        assert ledger_id is not None, "it is in use"
        roles.lost[topic] = ledger_id
    found = pulsar.cursor(compacted, "__compaction").compacted_ledger_id
    assert found is not None
    roles.lost[compacted] = found
    roles.lost[delayed] = pulsar.cursor(delayed, "s").delayed_ledger_ids[0]
    return roles


@pytest.fixture(scope="module")
def roles(pulsar: RealPulsar) -> Roles:
    """Return the topics, audited while no broker had loaded them, and loaded by a broker since."""
    roles = write_topics(pulsar)
    pulsar.kill_broker()
    for ledger_id in roles.lost.values():
        pulsar.cluster.delete_ledger(ledger_id)
    said = audit_topics(pulsar, *roles.lost, second_look_delay="1s")
    assert (1, "VIOLATED") == (said.exit_code, said.summary["outcome"])
    roles.audited = {one["topic"]: one for one in said.summary["topics"]}
    pulsar.start_broker(**BROKER_SETTINGS)
    return roles


def lost_of(roles: Roles, topic: str) -> Json:
    """Return what was said of the ledger that the topic lost."""
    (found,) = [
        one for one in roles.audited[topic]["ledgers"] if one["ledger_id"] == roles.lost[topic]
    ]
    return dict(found)


def test_a_broker_that_loads_a_topic_drops_its_newest_ledger(
    pulsar: RealPulsar, roles: Roles
) -> None:
    """The messages in it are gone without an error, and so is the reference."""
    topic = name_of("newest")
    assert "newest_missing" == lost_of(roles, topic)["condition"]
    assert (100, True) == pulsar.read(topic)
    assert roles.lost[topic] not in {one.ledger_id for one in pulsar.data_ledgers(topic)}


def test_without_its_cursor_a_subscription_gets_what_it_acknowledged(
    pulsar: RealPulsar, roles: Roles
) -> None:
    """It falls back to the position in ZooKeeper: 200 deliveries, where 50 were left."""
    topic = name_of("cursor")
    assert ("missing", "cursor") == tuple(
        lost_of(roles, topic)[key] for key in ("condition", "role")
    )
    assert 200 == pulsar.receive(topic, "s")


def test_without_the_cursor_of_the_compactor_the_compacted_messages_are_lost(
    pulsar: RealPulsar, roles: Roles
) -> None:
    """Only it named their ledger: what the topic has trimmed since is read no more."""
    topic = name_of("brief-compaction")
    assert "missing" == lost_of(roles, topic)["condition"]
    assert pulsar.read_compacted(topic) < KEYS
    cursor = pulsar.cursor(topic, "__compaction")
    assert cursor.compacted_ledger_id is None


def test_without_the_compacted_ledger_readers_of_the_compacted_topic_fail(
    pulsar: RealPulsar, roles: Roles
) -> None:
    """Readers of all messages get them; a compaction fails too."""
    topic = name_of("compacted")
    assert ("missing", "compacted") == tuple(
        lost_of(roles, topic)[key] for key in ("condition", "role")
    )
    assert (KEYED, True) == pulsar.read(topic)
    with pytest.raises(AssertionError, match="compacted"):
        pulsar.read_compacted(topic)


def test_without_their_bucket_delayed_messages_arrive_when_they_are_due(
    pulsar: RealPulsar, roles: Roles
) -> None:
    """None before, and all then. The broker leaves the reference where it is."""
    topic = name_of("delayed")
    assert ("missing", "delayed") == tuple(
        lost_of(roles, topic)[key] for key in ("condition", "role")
    )
    deadline = time.monotonic() + 2 * DELAY_MS / 1000
    while (received := pulsar.receive(topic, "s")) == 0:
        assert time.monotonic() < deadline, "none arrived"
    assert 250 == received
    assert roles.lost[topic] in pulsar.cursor(topic, "s").delayed_ledger_ids


def test_a_shadow_topic_is_judged_by_its_source(pulsar: RealPulsar) -> None:
    """Ledgers that the source trimmed are not missing, and one that it lost is, as readers see."""
    source, shadow = name_of("brief-source"), name_of("brief-shadow")
    pulsar.subscribe(source, "s")
    pulsar.produce(source, 250)
    pulsar.create_shadow(shadow, source)
    assert 200 <= pulsar.read(shadow)[0]
    pulsar.skip(source, "s", 100)
    pulsar.trim_now(source, 2)
    assert 2 == len(pulsar.data_ledgers(source))
    assert 3 == len(pulsar.data_ledgers(shadow)), "its own record is not changed"
    said = audit_topics(pulsar, shadow, second_look_delay="1s")
    assert ("readable", 0) == (said.summary["topics"][0]["answer"], said.exit_code)
    lost = pulsar.data_ledgers(source)[0].ledger_id
    pulsar.cluster.delete_ledger(lost)
    pulsar.unload(shadow)
    said = audit_topics(pulsar, shadow, second_look_delay="1s")
    topic = said.summary["topics"][0]
    assert ("blocked", [lost, 0], 1) == (topic["answer"], topic["first_loss"], said.exit_code)
    assert (0, False) == pulsar.read(shadow)


def test_a_partition_of_a_shadow_topic_has_the_partition_of_its_source(pulsar: RealPulsar) -> None:
    """Its own znode names that."""
    source, shadow = name_of("parts"), name_of("parts-shadow")
    pulsar.create_partitioned(source, 2)
    pulsar.produce(source, 10)
    pulsar.create_shadow(shadow, source, 2)
    pulsar.read(f"{shadow}-partition-1")
    said = audit_topics(pulsar, f"{shadow}-partition-1")
    topic = said.summary["topics"][0]
    assert (f"{source}-partition-1", "readable") == (topic["shadow_source"], topic["answer"])


def test_no_broker_loads_a_shadow_topic_without_its_source(pulsar: RealPulsar) -> None:
    """The audit says the same."""
    source, shadow = name_of("source-deleted"), name_of("shadow-left")
    pulsar.produce(source, 10)
    pulsar.create_shadow(shadow, source)
    pulsar.unload(shadow)
    pulsar.delete_topic(source)
    said = audit_topics(pulsar, shadow)
    assert 1 == said.exit_code
    assert "no broker can load" in said.summary["topics"][0]["blocker"]
    with pytest.raises(AssertionError, match="ManagedLedgerNotFound"):
        pulsar.read(shadow)


def test_what_a_deleted_namespace_left_is_orphaned(pulsar: RealPulsar, tmp_path: Path) -> None:
    """Pulsar has deleted every znode of it. A namespace that exists and has no topic is decided
    too.
    """
    left = {}
    for name in ("shop/deleted", "shop/emptied"):
        pulsar.create_namespace(name)
        topic = topic_of("a", name)
        pulsar.produce(topic, 10)
        left[name] = pulsar.strand(topic, 5)
        make_older(pulsar, left[name], SIXTY_DAYS_MS)
        pulsar.delete_topic(topic)
    pulsar.delete_namespace("shop/deleted")
    outcome = accounted(audit(pulsar, tmp_path, second_look_delay="1s"))
    (found,) = (one for one in outcome.findings if one["kind"] == Kind.LEDGER_ORPHANED)
    assert set(left.values()) == set(found["facts"]["some_ledgers"])
    assert {"shop/deleted": True, "shop/emptied": False} == {
        one["namespace"]: one["is_deleted"] for one in found["facts"]["some_namespaces"]
    }


def test_a_producer_may_be_named_like_the_property_of_the_compactor(pulsar: RealPulsar) -> None:
    """Its sequence number is not taken for a ledger."""
    namespace, topic = "shop/once", "persistent://shop/once/orders"
    pulsar.create_namespace(namespace)
    pulsar.deduplicate(namespace)
    deadline, data = time.monotonic() + 60, b""
    while COMPACTED.encode() not in data:  # the policy takes a while
        assert time.monotonic() < deadline, "the broker does not keep the producer's number"
        pulsar.produce(topic, 30, name=COMPACTED)
        pulsar.unload(topic)
        data, _ = pulsar.cluster.zk.get("/managed-ledgers/shop/once/persistent/orders/pulsar.dedup")
    said = audit_topics(pulsar, topic)
    assert (0, "readable") == (said.exit_code, said.summary["topics"][0]["answer"])
    assert {"data"} == {one["role"] for one in said.summary["topics"][0]["ledgers"]}
