"""Stories of real Pulsar topics: what is done to them, and what is true of them then.

Each function acts out one story, and returns what it did. `tell_topics` acts out those of
`tests/cluster/test_pulsar_topics.py` on one cluster, together with sound ones.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from support.raw_bookie import RawBookie, entry_ids, list_request, status_name
from support.real_pulsar import RealPulsar

from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import LedgerMetadata
from auditor.sandbox import cluster
from auditor.wire import entry_availability, ledger_metadata

ORDERS, ARCHIVE, BRIEF = "shop/orders", "shop/archive", "shop/brief"
MESSAGES = 250
"""Messages of a topic: two full ledgers of 100 entries, and a third one."""
LATE = 150
"""Messages that a subscription acknowledged whose position is beyond every loss of a first
ledger.
"""
BEHIND, BEYOND = "behind", "beyond"
"""The subscription that acknowledged nothing, and the one that acknowledged LATE messages."""
LISTED_TIMEOUT_S = 60.0
POLL_S = 0.2
GROUPS_MAX = 10_000
COMPRESSIONS = ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")


def topic_of(name: str, namespace: str = ORDERS) -> str:
    """Return the full name of a topic."""
    return f"persistent://{namespace}/{name}"


def write_topic(pulsar: RealPulsar, topic: str, *, unload: bool = True) -> tuple[LedgerId, ...]:
    """Write MESSAGES with the two subscriptions; return the data ledgers. `unload` closes all
    ledgers, including cursors.
    """
    pulsar.produce(topic, MESSAGES)
    for subscription in (BEHIND, BEYOND):
        pulsar.subscribe(topic, subscription)
    pulsar.skip(topic, BEYOND, LATE)
    if unload:
        pulsar.unload(topic)
    return tuple(one.ledger_id for one in pulsar.data_ledgers(topic))


def read_metadata(pulsar: RealPulsar, ledger_id: LedgerId) -> LedgerMetadata:
    """Return the metadata of a ledger as BookKeeper has it."""
    data, _ = pulsar.cluster.zk.get(pulsar.cluster.ledger_path(ledger_id))
    return ledger_metadata.decode(data)


def delete_ledger(pulsar: RealPulsar, ledger_id: LedgerId) -> None:
    """Delete a ledger's metadata without Pulsar: the topic still names it."""
    pulsar.cluster.delete_ledger(ledger_id)


def cut_short(pulsar: RealPulsar, ledger_id: LedgerId, entries: int) -> None:
    """End a closed ledger's metadata after so many entries, as a recovery without most bookies
    would.
    """
    path = pulsar.cluster.ledger_path(ledger_id)
    data, _ = pulsar.cluster.zk.get(path)
    metadata = ledger_metadata.decode(data)
    assert metadata.last_entry_id is not None and entries <= metadata.last_entry_id, metadata
    shorter = replace(metadata, last_entry_id=entries - 1)
    pulsar.cluster.zk.set(
        path, ledger_metadata.encode(shorter, password=ledger_metadata.password(data) or b"")
    )


def make_older(pulsar: RealPulsar, ledger_id: LedgerId, age_ms: int) -> None:
    """Let the metadata of a ledger say that it was created so long ago."""
    path = pulsar.cluster.ledger_path(ledger_id)
    data, _ = pulsar.cluster.zk.get(path)
    older = replace(ledger_metadata.decode(data), ctime_ms=int(time.time() * 1000) - age_ms)
    pulsar.cluster.zk.set(
        path, ledger_metadata.encode(older, password=ledger_metadata.password(data) or b"")
    )


def holders(pulsar: RealPulsar, ledger_id: LedgerId, entry_id: EntryId) -> tuple[BookieId, ...]:
    """Return the bookies that should hold an entry, by the metadata."""
    placed = cluster.placement(read_metadata(pulsar, ledger_id))
    return tuple(
        sorted(
            b
            for b, runs in placed.items()
            if any(first <= entry_id <= last for first, last in runs)
        )
    )


def lose_copies(pulsar: RealPulsar, lost: Mapping[BookieId, Mapping[LedgerId, str]]) -> None:
    """Remove entries from the indexes of bookies, each of which is stopped for it, one after
    another.
    """
    for bookie_id, entries in lost.items():
        pulsar.unindex(bookie_id, entries)


def listed_entries(address: str, ledger_id: LedgerId) -> set[EntryId] | None:
    """Return the entries that a lister lists of a ledger; None if it answers with an error: then
    the entries are unknown.
    """
    host, _, port = address.rpartition(":")
    with RawBookie(host, int(port)) as connection:
        response = connection.ask(list_request(ledger_id, connection.next_txn_id()))
    if status_name(response.status) != "EOK":
        return None
    payload = response.getListOfEntriesOfLedgerResponse.availabilityOfEntriesOfLedger
    return set(
        entry_ids(
            entry_availability.groups_of(entry_availability.decode(payload, GROUPS_MAX).groups)
        )
    )


def placed_entries(pulsar: RealPulsar, ledger_id: LedgerId) -> dict[BookieId, set[EntryId]]:
    """Return the entries that each bookie should hold of a closed ledger, by the metadata."""
    placed = cluster.placement(read_metadata(pulsar, ledger_id))
    return {bookie_id: set(entry_ids(runs)) for bookie_id, runs in placed.items()}


def await_listed(pulsar: RealPulsar, listers: Path, ledger_id: LedgerId) -> None:
    """Wait until the listers list all of a closed sound ledger. A bookie flushes all ledgers at
    once.
    """
    where = dict(line.split() for line in listers.read_text().splitlines())
    deadline = time.monotonic() + LISTED_TIMEOUT_S
    for bookie_id, expected in placed_entries(pulsar, ledger_id).items():
        while listed_entries(where[bookie_id], ledger_id) != expected:
            assert time.monotonic() < deadline, (
                f"{bookie_id} has not indexed all of ledger {ledger_id}"
            )
            time.sleep(POLL_S)


@dataclass(frozen=True)
class TopicStories:
    """The topics of `tell_topics` by their damage, and the damaged ledger (the first of each)."""

    sound: str
    in_use: str
    partitioned: str
    offloaded: str
    compressed: Mapping[str, str]
    missing: str
    short: str
    without_copy: str
    one_copy: str
    in_use_without_copy: str
    trimmed: str
    stranded: LedgerId
    ledgers: Mapping[str, tuple[LedgerId, ...]] = field(default_factory=dict)

    def first(self, topic: str) -> LedgerId:
        """The damaged ledger of a topic."""
        return self.ledgers[topic][0]

    @property
    def all_topics(self) -> tuple[str, ...]:
        """Every topic, except the one that is trimmed while it is audited."""
        damaged = (
            self.missing,
            self.short,
            self.without_copy,
            self.one_copy,
            self.in_use_without_copy,
        )
        return (
            self.sound,
            self.in_use,
            self.partitioned,
            self.offloaded,
            *self.compressed.values(),
            *damaged,
        )


KEPT = 60
"""Entries of the ledger that is shortened."""
LOST_ENTRY = 50
"""The lost entry: in the middle, where no probe at the ends of a ledger sees it."""


def tell_topics(pulsar: RealPulsar) -> TopicStories:
    """Write every topic, sound and damaged. 20-30 s: two to four bookies are restarted."""
    for namespace in (ORDERS, ARCHIVE, BRIEF):
        pulsar.create_namespace(namespace)
    partitioned = topic_of("partitioned")
    pulsar.create_partitioned(partitioned, 2)
    pulsar.produce(partitioned, MESSAGES)
    stories = TopicStories(
        sound=topic_of("sound"),
        in_use=topic_of("in-use"),
        partitioned=partitioned,
        offloaded=topic_of("offloaded", ARCHIVE),
        compressed={kind: topic_of(f"compressed-{kind.lower()}", ARCHIVE) for kind in COMPRESSIONS},
        missing=topic_of("missing"),
        short=topic_of("short"),
        without_copy=topic_of("without-copy"),
        one_copy=topic_of("one-copy"),
        in_use_without_copy=topic_of("in-use-without-copy"),
        trimmed=topic_of("trimmed", BRIEF),
        stranded=pulsar.strand(topic_of("sound"), 10),
        ledgers=(ledgers := {}),
    )
    for topic in (
        stories.sound,
        stories.missing,
        stories.short,
        stories.without_copy,
        stories.one_copy,
    ):
        ledgers[topic] = write_topic(pulsar, topic)
    for topic in (stories.in_use, stories.in_use_without_copy):
        ledgers[topic] = write_topic(pulsar, topic, unload=False)
    pulsar.add_schema(stories.in_use, "item")
    pulsar.add_schema(stories.in_use, "item", "price")
    ledgers[stories.offloaded] = pulsar.manage(stories.offloaded, "NONE", 90, offload=True)
    for compression, topic in stories.compressed.items():
        ledgers[topic] = pulsar.manage(topic, compression, 50)
    pulsar.produce(stories.trimmed, MESSAGES)
    damage_topics(pulsar, stories)
    return stories


def damage_topics(pulsar: RealPulsar, stories: TopicStories) -> None:
    """Apply to each topic the damage that its name says."""
    delete_ledger(pulsar, stories.first(stories.missing))
    cut_short(pulsar, stories.first(stories.short), KEPT)
    lost: dict[BookieId, dict[LedgerId, str]] = defaultdict(dict)
    for topic in (stories.without_copy, stories.in_use_without_copy):
        for bookie_id in holders(pulsar, stories.first(topic), LOST_ENTRY):
            lost[bookie_id][stories.first(topic)] = str(LOST_ENTRY)
    first_of_two, _ = holders(pulsar, stories.first(stories.one_copy), LOST_ENTRY)
    lost[first_of_two][stories.first(stories.one_copy)] = str(LOST_ENTRY)
    lose_copies(pulsar, lost)
