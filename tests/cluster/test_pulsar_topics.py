"""A real Pulsar on real DbLedgerStorage bookies with listers: what `auditor topic` and `auditor
run` say of its topics.

One cluster for the whole file, with every story of `support.pulsar_stories` beside sound topics.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.audits import Json, Outcome, Pauses, accounted, audit, audit_topics
from support.listers import listers_of
from support.pulsar_stories import (
    BEHIND,
    BEYOND,
    COMPRESSIONS,
    KEPT,
    LATE,
    LOST_ENTRY,
    MESSAGES,
    TopicStories,
    await_listed,
    holders,
    read_metadata,
    tell_topics,
)
from support.real_pulsar import RealPulsar

from auditor.model.finding import Kind

pytestmark = pytest.mark.real

PATIENCE_MS = 30_000
"""How long a client may wait for the next message, in a topic that it reads to the end."""
MAGIC = b"Gx"
"""The first bytes of compressed metadata."""


@pytest.fixture(scope="module")
def pulsar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPulsar]:
    """Yield one broker and four bookies."""
    with RealPulsar(tmp_path_factory.mktemp("pulsar")) as pulsar:
        yield pulsar


@pytest.fixture(scope="module")
def stories(pulsar: RealPulsar) -> TopicStories:
    """Return every story, written to the cluster."""
    return tell_topics(pulsar)


@pytest.fixture(scope="module")
def listers(
    pulsar: RealPulsar, stories: TopicStories, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Yield the map of a lister beside each bookie, after everything is flushed."""
    with listers_of(pulsar.cluster, tmp_path_factory.mktemp("map")) as found:
        for topic in (stories.sound, stories.in_use, *stories.compressed.values()):
            await_listed(pulsar, found, stories.ledgers[topic][-2])
        yield found


@pytest.fixture(scope="module")
def topics(pulsar: RealPulsar, stories: TopicStories, listers: Path) -> dict[str, Json]:
    """Return what `auditor topic` says of all topics at once, with listers, by name."""
    outcome = audit_topics(pulsar, *stories.all_topics, lister_map=str(listers))
    assert (1, "VIOLATED") == (outcome.exit_code, outcome.summary["outcome"])
    return {one["topic"]: one for one in outcome.summary["topics"]}


@pytest.fixture(scope="module")
def outcome(
    pulsar: RealPulsar,
    stories: TopicStories,
    listers: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Outcome:
    """Return one run with listers."""
    return accounted(audit(pulsar, tmp_path_factory.mktemp("run"), lister_map=str(listers)))


def readings(topic: Json) -> dict[str, tuple[str, list[int] | None]]:
    """Return a topic's answer for each subscription, and the first loss."""
    return {one["name"]: (one["answer"], one["first_loss"]) for one in topic["subscriptions"]}


def conditions(topic: Json) -> dict[int, str]:
    """Return the condition of each ledger of a topic that is neither sound nor open."""
    fine = ("nothing_lost", "open", "offloaded")
    return {
        one["ledger_id"]: one["condition"]
        for one in topic["ledgers"]
        if one["condition"] not in fine
    }


def test_every_data_ledger_is_as_the_broker_says(pulsar: RealPulsar, stories: TopicStories) -> None:
    """Pulsar's record of the ledgers that it closed agrees with BookKeeper, except for the one that
    was shortened.

    Pulsar has no record of the newest one, although unloading closed it.
    """
    for topic in (stories.sound, stories.one_copy, stories.without_copy, stories.short):
        *recorded, newest = pulsar.data_ledgers(topic)
        assert (None, MESSAGES - 201) == (
            newest.entries,
            read_metadata(pulsar, newest.ledger_id).last_entry_id,
        )
        for one in recorded:
            is_cut = one.ledger_id == stories.first(stories.short)
            last = read_metadata(pulsar, one.ledger_id).last_entry_id
            assert (KEPT if is_cut else one.entries) == (last or 0) + 1
    assert 2 == len(holders(pulsar, stories.first(stories.without_copy), LOST_ENTRY))


def test_a_sound_topic_is_readable_for_each_subscription(
    topics: dict[str, Json], stories: TopicStories
) -> None:
    """It is unloaded: its ledgers are closed, and ZooKeeper has the positions of its
    subscriptions.
    """
    topic = topics[stories.sound]
    assert ("readable", {}, True) == (topic["answer"], conditions(topic), topic["is_complete"])
    assert {BEHIND: ("readable", None), BEYOND: ("readable", None)} == readings(topic)
    positions = {one["name"]: one["position"] for one in topic["subscriptions"]}
    _, second, *_ = stories.ledgers[stories.sound]
    assert [second, LATE - 101] == positions[BEYOND], "the last message acknowledged"


def test_a_topic_in_use_is_readable(topics: dict[str, Json], stories: TopicStories) -> None:
    """Its newest ledger is open, its cursors have their own ledgers, its schema has two ledgers."""
    topic = topics[stories.in_use]
    assert ("readable", {}) == (topic["answer"], conditions(topic))
    roles = [one["role"] for one in topic["ledgers"]]
    assert (3, 2) == (roles.count("data"), roles.count("schema")), roles
    assert "cursor" in roles
    assert 2 == len(topic["schemas"])


def test_each_partition_of_a_topic_is_audited(
    topics: dict[str, Json], stories: TopicStories
) -> None:
    """The topic itself is named on the command line."""
    found = {
        name: topics[name]["answer"] for name in topics if name.startswith(stories.partitioned)
    }
    assert {f"{stories.partitioned}-partition-{number}": "readable" for number in (0, 1)} == found


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_compressed_metadata_is_read(
    pulsar: RealPulsar, topics: dict[str, Json], stories: TopicStories, compression: str
) -> None:
    """The metadata is compressed by Pulsar's own code: all data ledgers are read, and the
    subscription has its position.
    """
    name = stories.compressed[compression]
    assert (compression != "NONE") == (pulsar.raw(name)[:2] == MAGIC)
    topic = topics[name]
    assert ("readable", [], {"half": ("readable", None)}) == (
        topic["answer"],
        topic["problems"],
        readings(topic),
    )
    data = [one["ledger_id"] for one in topic["ledgers"] if one["role"] == "data"]
    assert list(stories.ledgers[name]) == data
    assert [data[1], 5] == topic["subscriptions"][0]["position"], "26 of 50 messages, 20 a ledger"


def test_an_offloaded_ledger_that_was_deleted_is_not_missing(
    pulsar: RealPulsar, topics: dict[str, Json], stories: TopicStories
) -> None:
    """Pulsar deleted all ledgers except the newest one from BookKeeper, on purpose."""
    topic = topics[stories.offloaded]
    *gone, newest = stories.ledgers[stories.offloaded]
    assert all(
        pulsar.cluster.zk.exists(pulsar.cluster.ledger_path(ledger_id)) is None
        for ledger_id in gone
    )
    assert {**dict.fromkeys(gone, "offloaded"), newest: "nothing_lost"} == {
        one["ledger_id"]: one["condition"] for one in topic["ledgers"]
    }
    assert "readable" == topic["answer"]


def test_a_deleted_ledger_is_said_to_be_missing(
    topics: dict[str, Json], stories: TopicStories
) -> None:
    """A subscription that is beyond it is not blocked."""
    topic, ledger_id = topics[stories.missing], stories.first(stories.missing)
    assert {ledger_id: "missing"} == conditions(topic)
    assert ("blocked", [ledger_id, 0]) == (topic["answer"], topic["first_loss"])
    assert {BEHIND: ("blocked", [ledger_id, 0]), BEYOND: ("readable", None)} == readings(topic)


def test_a_ledger_cut_short_is_said_to_be_truncated(
    topics: dict[str, Json], stories: TopicStories
) -> None:
    """BookKeeper's metadata alone looks sound; the topic knows how many entries the ledger had."""
    topic, ledger_id = topics[stories.short], stories.first(stories.short)
    assert {ledger_id: "truncated"} == conditions(topic)
    assert [[[KEPT, 99]]] == [
        one["lost"] for one in topic["ledgers"] if one["ledger_id"] == ledger_id
    ]
    assert {BEHIND: ("blocked", [ledger_id, KEPT]), BEYOND: ("readable", None)} == readings(topic)


def test_an_entry_that_no_index_has_blocks_those_behind_it(
    topics: dict[str, Json], stories: TopicStories
) -> None:
    """It is one of a hundred entries, in the middle, removed from the index of both bookies."""
    topic, ledger_id = topics[stories.without_copy], stories.first(stories.without_copy)
    assert {ledger_id: "entries_lost"} == conditions(topic)
    assert {BEHIND: ("blocked", [ledger_id, LOST_ENTRY]), BEYOND: ("readable", None)} == readings(
        topic
    )


def test_a_topic_in_use_is_possibly_blocked(topics: dict[str, Json], stories: TopicStories) -> None:
    """While a subscription is in use, its newest position is in a ledger that is not read."""
    topic, ledger_id = (
        topics[stories.in_use_without_copy],
        stories.first(stories.in_use_without_copy),
    )
    assert {ledger_id: "entries_lost"} == conditions(topic)
    assert ("possibly_blocked", [ledger_id, LOST_ENTRY]) == readings(topic)[BEYOND]


def test_an_entry_with_one_copy_left_blocks_nobody(
    topics: dict[str, Json], stories: TopicStories
) -> None:
    """The ledger is violated, and the topic is readable."""
    topic, ledger_id = topics[stories.one_copy], stories.first(stories.one_copy)
    assert ("readable", {}) == (topic["answer"], conditions(topic))
    assert ["violated"] == [
        one["standing"] for one in topic["ledgers"] if one["ledger_id"] == ledger_id
    ]


def test_a_run_finds_each_damaged_ledger_and_nothing_else(
    pulsar: RealPulsar, outcome: Outcome, stories: TopicStories
) -> None:
    """It finds exactly these entries, among all ledgers of all topics, and what only the topics'
    references show. A header may prove a cut besides, as the test of entries behind a cut says.
    """
    short = stories.first(stories.short)
    proven = [one for one in outcome.findings if one["kind"] == Kind.LEDGER_CLOSED_SHORT.value]
    assert {short} >= {one["ledger_id"] for one in proven}
    lost = {
        stories.first(stories.without_copy): Kind.ENTRY_WITHOUT_REPLICA,
        stories.first(stories.in_use_without_copy): Kind.ENTRY_WITHOUT_REPLICA,
        stories.first(stories.one_copy): Kind.ENTRY_BELOW_ACK_QUORUM,
    }
    referenced = {
        stories.first(stories.missing): Kind.REFERENCED_LEDGER_MISSING,
        short: Kind.LEDGER_TRUNCATED,
    }
    found = {
        one["ledger_id"]: Kind(one["kind"])
        for one in outcome.findings
        if one["severity"] != "info" and one not in proven
    }
    assert lost | referenced == found
    entries = {
        one["ledger_id"]: one["entries"] for one in outcome.findings if one["ledger_id"] in lost
    }
    assert {ledger_id: [[LOST_ENTRY, LOST_ENTRY]] for ledger_id in lost} == entries
    assert {"violated": len(lost) + len(proven), "indeterminate": 0} == {
        word: outcome.summary["ledgers"][word] for word in ("violated", "indeterminate")
    }


def test_a_run_names_the_topic_of_each_damaged_ledger(
    outcome: Outcome, stories: TopicStories
) -> None:
    """The topic is in the custom metadata that Pulsar gives its ledgers."""
    for topic in (stories.without_copy, stories.in_use_without_copy, stories.one_copy):
        owner = outcome.one(stories.first(topic))["owner"]
        assert ("pulsar", topic.removeprefix("persistent://").rpartition("/")[2]) == (
            owner["application"],
            owner["name"].rpartition("/")[2],
        )


def test_entries_behind_a_cut_are_seen(outcome: Outcome, stories: TopicStories) -> None:
    """The topic recorded them. Whether a header proves it too depends on how many adds were in
    flight when the last one was sent.
    """
    found = {Kind(one["kind"]): one["severity"] for one in outcome.of(stories.first(stories.short))}
    assert "critical" == found.pop(Kind.LEDGER_TRUNCATED)
    assert found in (
        {Kind.ENTRIES_BEYOND_END: "info"},
        {Kind.LEDGER_CLOSED_SHORT: "critical"},
    )


def test_without_listers_no_sound_ledger_is_accused(
    pulsar: RealPulsar, stories: TopicStories, topics: dict[str, Json]
) -> None:
    """Bookies are probed: single entries in the middle may be missed, and the unread ones count as
    assumed.
    """
    probed = audit_topics(
        pulsar, stories.sound, stories.without_copy, stories.one_copy, stories.missing
    )
    assert 0 < probed.summary["copies"]["assumed"]
    by_name = {one["topic"]: one for one in probed.summary["topics"]}
    assert ("readable", {}) == (
        by_name[stories.sound]["answer"],
        conditions(by_name[stories.sound]),
    )
    assert {stories.first(stories.missing): "missing"} == conditions(by_name[stories.missing])
    for topic in (stories.without_copy, stories.one_copy):
        damaged = stories.first(topic)
        assert set(conditions(by_name[topic])) <= {damaged}
        assert {
            one["ledger_id"] for one in by_name[topic]["ledgers"] if one["standing"] == "violated"
        } <= {damaged}


def test_what_is_trimmed_between_two_looks_is_not_missing(
    pulsar: RealPulsar, stories: TopicStories, topics: dict[str, Json]
) -> None:
    """The broker removes a ledger from the topic, then deletes it: here while its deletion looks
    like a loss.
    """
    topic = stories.trimmed
    first = pulsar.data_ledgers(topic)[0].ledger_id
    pulsar.cluster.delete_ledger(first)
    stop = Pauses(lambda _: pulsar.trim(topic))
    trimmed = audit_topics(pulsar, topic, stop=stop, second_look_delay="1s")
    (one,) = trimmed.summary["topics"]
    assert (True, "readable", {}) == (bool(trimmed.pauses_s), one["answer"], conditions(one))


def test_pulsar_reads_what_is_said_to_be_readable_and_nothing_else(
    pulsar: RealPulsar, stories: TopicStories, topics: dict[str, Json], outcome: Outcome
) -> None:
    """A reader that begins with the first message shows the truth. Pulsar silently skips what a cut
    removed.

    It reads after all audits, because its reads make bookies cache later entries of the log,
    including lost ones.
    """
    assert (MESSAGES, True) == pulsar.read(stories.sound, PATIENCE_MS)
    assert (MESSAGES, True) == pulsar.read(stories.one_copy, PATIENCE_MS)
    assert (0, False) == pulsar.read(stories.missing)
    assert (MESSAGES - 100 + KEPT, True) == pulsar.read(stories.short, PATIENCE_MS)
