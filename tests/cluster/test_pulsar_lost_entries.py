"""A real Pulsar: what readers get after the next load when bookies lost entries of a ledger that a
topic is not read from: of a cursor, the compactor, a compacted view, a bucket, or a schema.

One cluster for the whole file. Topics are written, the broker is killed, entries are removed from
the bookies' indexes, topics are audited, and the broker is started again. The ledgers' metadata
stays: `test_pulsar_roles.py` has the ledgers that are missing.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from support.audits import Json, audit_topics
from support.pulsar_stories import read_metadata, topic_of
from support.raw_bookie import read_request, status_name
from support.real_pulsar import BRIEFLY_KEPT, RealPulsar

from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.topic import COMPACTION_CURSOR
from auditor.pulsar.readability import Condition
from auditor.pulsar.topic_paths import parse_topic, schema_path

pytestmark = [pytest.mark.real, pytest.mark.long]

ROLES, BRIEF = "shop/roles", "shop/brief"
BROKER_SETTINGS = {
    "delayedDeliveryTrackerFactoryClassName": (
        "org.apache.pulsar.broker.delayed.BucketDelayedDeliveryTrackerFactory"
    ),
    "delayedDeliveryMinIndexCountPerBucket": 1,
}
DELAY_MS = 60_000
KEYS, KEYED = 21, 210
MESSAGES, EARLIER, LATER = 200, 100, 50
"""Messages of a topic with a cursor; those acknowledged at first, and a while later."""


@dataclass
class Damage:
    """The topics by what has lost entries, the ledger, and what the audit says of each topic."""

    lost: dict[str, LedgerId] = field(default_factory=dict)
    audited: dict[str, Json] = field(default_factory=dict)

    def ledger(self, topic: str) -> Json:
        """Return what the audit says of the damaged ledger of a topic."""
        (found,) = [
            one for one in self.audited[topic]["ledgers"] if one["ledger_id"] == self.lost[topic]
        ]
        return dict(found)


CURSOR, LAST, SHORT = (topic_of(name, ROLES) for name in ("cursor", "cursor-last", "cursor-short"))
COMPACTION, COMPACTED = topic_of("compaction", BRIEF), topic_of("compacted", ROLES)
DELAYED, SCHEMA = topic_of("delayed", ROLES), topic_of("schema", ROLES)
AUDITED = (CURSOR, COMPACTION, COMPACTED, DELAYED, SCHEMA)
"""The topics that lost every entry of a ledger. An audit of the others would read entries, bookies
read ahead then, and would serve a broker from memory what their index has lost."""


@pytest.fixture(scope="module")
def pulsar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPulsar]:
    """Yield one broker and four bookies."""
    with RealPulsar(tmp_path_factory.mktemp("lost-entries"), BROKER_SETTINGS) as pulsar:
        pulsar.create_namespace(ROLES)
        pulsar.create_namespace(BRIEF, BRIEFLY_KEPT)
        yield pulsar


def write_topics(pulsar: RealPulsar) -> dict[str, LedgerId]:
    """Write all topics, and return the ledger of each that is to lose entries."""
    for topic in (CURSOR, LAST, SHORT):
        pulsar.subscribe(topic, "s")
        pulsar.produce(topic, MESSAGES)
        pulsar.skip(topic, "s", EARLIER)
        time.sleep(1.5)  # a cursor's position is stored once a second at most
        pulsar.skip(topic, "s", LATER)
    pulsar.subscribe(COMPACTION, "s")
    pulsar.produce(COMPACTION, KEYED, keys=KEYS)
    pulsar.compact(COMPACTION)
    pulsar.skip(COMPACTION, "s", KEYED)
    pulsar.trim_now(COMPACTION)
    pulsar.produce(COMPACTED, KEYED, keys=KEYS)
    pulsar.compact(COMPACTED)
    pulsar.unload(COMPACTED)
    pulsar.subscribe(DELAYED, "s")
    pulsar.produce(DELAYED, 250, delay=DELAY_MS)
    assert 0 == pulsar.receive(DELAYED, "s")
    pulsar.produce(SCHEMA, 1)
    for fields in (["a"], ["a", "b"]):
        pulsar.add_schema(SCHEMA, *fields)
    lost = {topic: pulsar.cursor(topic, "s").ledger_id for topic in (CURSOR, LAST, SHORT)}
    lost[COMPACTION] = pulsar.cursor(COMPACTION, COMPACTION_CURSOR).ledger_id
    lost[COMPACTED] = pulsar.cursor(COMPACTED, COMPACTION_CURSOR).compacted_ledger_id
    lost[DELAYED] = pulsar.cursor(DELAYED, "s").delayed_ledger_ids[0]
    lost[SCHEMA] = pulsar.schemas(SCHEMA)[0].position.ledger_id
    return {topic: ledger_id for topic, ledger_id in lost.items() if ledger_id is not None}


def close(pulsar: RealPulsar, ledger_id: LedgerId) -> EntryId:
    """Recover a ledger as a broker does, and return its last entry."""
    pulsar.cluster.shell("readledger", "-ledgerid", str(ledger_id), "-r")
    last = read_metadata(pulsar, ledger_id).last_entry_id
    assert last is not None and last >= 0
    return last


def highest_entry(pulsar: RealPulsar, ledger_id: LedgerId) -> EntryId:
    """Return the highest entry that a bookie of an open ledger stores."""
    bookie_id = read_metadata(pulsar, ledger_id).segments[-1].ensemble[0]
    with pulsar.cluster.connect(bookie_id) as connection:
        said = connection.ask(read_request(ledger_id, -1, connection.next_txn_id()))
    assert status_name(said.status) == "EOK"
    return int.from_bytes(said.readResponse.body[8:16])  # behind the ledger, in its header


def lose(pulsar: RealPulsar, entries: dict[LedgerId, tuple[EntryId, EntryId]]) -> None:
    """Remove entries of ledgers, from a first to a last one, from the index of every bookie."""
    removed: dict[BookieId, dict[LedgerId, str]] = defaultdict(dict)
    for ledger_id, (first, last) in entries.items():
        for bookie_id in read_metadata(pulsar, ledger_id).segments[-1].ensemble:
            removed[bookie_id][ledger_id] = f"{first}-{last}"
    for bookie_id, of_ledgers in removed.items():
        pulsar.unindex(bookie_id, of_ledgers)


@pytest.fixture(scope="module")
def damage(pulsar: RealPulsar) -> Damage:
    """Return the topics, audited while no broker had loaded them, and loaded by a broker since."""
    damage = Damage(write_topics(pulsar))
    pulsar.kill_broker()
    highest = highest_entry(pulsar, damage.lost[SHORT])
    assert highest > 0, "an older position is left"
    entries = {damage.lost[SHORT]: (highest, highest)}
    for topic in (LAST, *AUDITED):
        last = close(pulsar, damage.lost[topic])
        entries[damage.lost[topic]] = (last if topic == LAST else 0, last)
    lose(pulsar, entries)
    said = audit_topics(pulsar, *AUDITED, second_look_delay="1s")
    assert (1, "VIOLATED") == (said.exit_code, said.summary["outcome"])
    damage.audited = {one["topic"]: one for one in said.summary["topics"]}
    pulsar.start_broker(**BROKER_SETTINGS)
    return damage


@pytest.mark.parametrize("topic", AUDITED)
def test_the_audit_says_that_the_entries_are_lost(damage: Damage, topic: str) -> None:
    assert Condition.ENTRIES_LOST == damage.ledger(topic)["condition"]


@pytest.mark.parametrize("topic", [CURSOR, LAST])
def test_a_broker_gives_up_the_ledger_of_a_cursor_whose_last_entry_is_lost(
    pulsar: RealPulsar, damage: Damage, topic: str
) -> None:
    """Whether older entries are left or not: the subscription falls back to the position in
    ZooKeeper, and gets all messages.
    """
    assert MESSAGES == pulsar.receive(topic, "s")
    assert damage.lost[topic] != pulsar.cursor(topic, "s").ledger_id


def test_a_cursor_that_is_closed_short_has_an_older_position(
    pulsar: RealPulsar, damage: Damage
) -> None:
    """The broker's recovery ends the ledger before the lost entry: nothing tells it of a loss."""
    assert MESSAGES - EARLIER == pulsar.receive(SHORT, "s")


def test_without_the_cursor_of_the_compactor_the_compacted_messages_are_lost(
    pulsar: RealPulsar, damage: Damage
) -> None:
    """Only it named their ledger: what the topic has trimmed since is read no more."""
    assert pulsar.read_compacted(COMPACTION) < KEYS
    assert pulsar.cursor(COMPACTION, COMPACTION_CURSOR).compacted_ledger_id is None


def test_readers_of_the_compacted_topic_fail_without_the_entries_of_its_ledger(
    pulsar: RealPulsar, damage: Damage
) -> None:
    """Readers of all messages get them."""
    assert (KEYED, True) == pulsar.read(COMPACTED)
    with pytest.raises(AssertionError, match="compacted"):
        pulsar.read_compacted(COMPACTED)


def test_without_the_entries_of_a_schema_a_request_for_schemas_deletes_all(
    pulsar: RealPulsar, damage: Damage
) -> None:
    pulsar.read_schemas(SCHEMA)
    assert pulsar.cluster.zk.exists(schema_path(parse_topic(SCHEMA))) is None


def test_without_the_entries_of_their_bucket_delayed_messages_arrive_when_they_are_due(
    pulsar: RealPulsar, damage: Damage
) -> None:
    deadline = time.monotonic() + 2 * DELAY_MS / 1000
    while (received := pulsar.receive(DELAYED, "s")) == 0:
        assert time.monotonic() < deadline, "none arrived"
    assert 250 == received
