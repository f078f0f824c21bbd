"""`auditor topic`: whether a topic can be read from end to end, on a real ZooKeeper and bookies
that speak the protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.audits import Outcome, Pauses, audit_topics
from support.topics import closed, put_topic

from auditor.errors import ConfigError, StoreUnavailable
from auditor.model.topic import Cursor, DataLedger, Position, SchemaVersion, TopicName
from auditor.pulsar.metadata import encode_cursor
from auditor.pulsar.topic_paths import parse_topic, partitioned_path, topic_path
from auditor.pulsar.topic_store import Partitions, TopicStore
from auditor.sandbox.cluster import SandboxCluster

NOWHERE = "zk+hierarchical://127.0.0.1:1/ledgers"
TWO = "e2 w2 a2 0:[b1 b2] closed 9"
SOUND, LOST, LATER, OPEN, SHORT, CURSOR, SCHEMA, COMPACTED = range(1, 9)
GONE = 99


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield a cluster with eight ledgers of topics. Entry 4 of LOST has no copy, and SHORT ends at
    entry 9.
    """
    with SandboxCluster(tmp_path_factory.mktemp("topics"), 3) as cluster:
        for ledger_id in (SOUND, LOST, LATER, SHORT, CURSOR, SCHEMA, COMPACTED):
            lose = {"b1": "4", "b2": "4"} if ledger_id == LOST else None
            cluster.place(ledger_id, cluster.ledger(TWO), lose)
        cluster.place(OPEN, cluster.ledger("e2 w2 a2 0:[b1 b2] open"))
        yield cluster


def audit(cluster: SandboxCluster, name: str, **settings: Any) -> Outcome:
    return audit_topics(cluster, name, **settings)


def conditions(outcome: Outcome) -> dict[int, str]:
    return {one["ledger_id"]: one["condition"] for one in outcome.summary["topics"][0]["ledgers"]}


def answers(outcome: Outcome) -> dict[str, tuple[str, list[int] | None]]:
    return {
        one["name"]: (one["answer"], one["first_loss"])
        for one in outcome.summary["topics"][0]["subscriptions"]
    }


def test_a_topic_whose_ledgers_are_sound_is_readable(cluster: SandboxCluster):
    """Data, an open end, a cursor, a schema and a compacted ledger: each is audited once. Exit
    0.
    """
    cursors = {
        "mine": Cursor(CURSOR, Position(SOUND, 3)),
        "__compaction": Cursor(None, Position(SOUND, 9), (), COMPACTED),
    }
    schemas = (SchemaVersion(0, Position(SCHEMA, 0)), SchemaVersion(1, Position(SCHEMA, 1)))
    put_topic(cluster.set_raw, "t/n/well", [closed(SOUND), DataLedger(OPEN)], cursors, schemas)
    outcome = audit(cluster, "t/n/well")
    assert {
        SOUND: "nothing_lost", OPEN: "open", CURSOR: "nothing_lost", SCHEMA: "nothing_lost",
        COMPACTED: "nothing_lost"
    } == conditions(outcome)  # fmt: skip
    assert {"mine": ("readable", None), "__compaction": ("readable", None)} == answers(outcome)
    assert (0, "SOUND") == (outcome.exit_code, outcome.summary["outcome"])
    counts = outcome.summary["references"]
    assert (1, 2, 2, 5, 0, 0, 0, 0, {"newest_position": 1, "schema_index": 2}) == tuple(
        counts.values()
    )
    assert [] == outcome.pauses_s


def test_a_subscription_is_blocked_by_a_loss_after_its_position(cluster: SandboxCluster):
    """A subscription before the loss is blocked, and one beyond it is not. A subscription whose
    newest position is in a cursor ledger may be blocked.
    """
    cursors = {
        "before": Cursor(None, Position(SOUND, 9)),
        "beyond": Cursor(None, Position(LOST, 4)),
        "acknowledged": Cursor(None, Position(LOST, 1), ((Position(LOST, 3), Position(LOST, 5)),)),
        "running": Cursor(CURSOR, Position(LOST, 3)),
    }
    put_topic(cluster.set_raw, "t/n/lost", [closed(SOUND), closed(LOST), closed(LATER)], cursors)
    outcome = audit(cluster, "t/n/lost")
    assert {
        "before": ("blocked", [LOST, 4]),
        "beyond": ("readable", None),
        "acknowledged": ("readable", None),
        "running": ("possibly_blocked", [LOST, 4]),
    } == answers(outcome)
    topic = outcome.summary["topics"][0]
    assert ("blocked", [LOST, 4]) == (topic["answer"], topic["first_loss"])
    assert (1, "VIOLATED") == (outcome.exit_code, outcome.summary["outcome"])
    assert ["ENTRY_WITHOUT_REPLICA"] == [one["kind"] for one in outcome.findings]


def test_a_shadow_topic_is_judged_by_the_list_of_its_source(cluster: SandboxCluster):
    """What the source has trimmed is not missing. Its own subscriptions are behind that."""
    put_topic(cluster.set_raw, "t/n/source", [closed(SOUND), DataLedger(OPEN)])
    put_topic(
        cluster.set_raw,
        "t/n/shadow",
        [closed(GONE), closed(SOUND, 4)],
        {"s": Cursor(None, Position(GONE, 3))},
        shadow_of="t/n/source",
    )
    outcome = audit(cluster, "t/n/shadow")
    assert {SOUND: "nothing_lost", OPEN: "open"} == conditions(outcome)
    assert {"s": ("readable", None)} == answers(outcome)
    assert (0, "SOUND") == (outcome.exit_code, outcome.summary["outcome"])
    assert "persistent://t/n/source" == outcome.summary["topics"][0]["shadow_source"]


def test_a_shadow_topic_is_not_readable_where_its_source_lost_a_ledger(cluster: SandboxCluster):
    """Although its own record has only ledgers that are sound."""
    put_topic(cluster.set_raw, "t/n/hurt", [closed(SOUND), closed(LOST)])
    put_topic(cluster.set_raw, "t/n/image", [closed(SOUND)], shadow_of="t/n/hurt")
    outcome = audit(cluster, "t/n/image")
    topic = outcome.summary["topics"][0]
    assert ("blocked", [LOST, 4]) == (topic["answer"], topic["first_loss"])
    assert (1, "VIOLATED") == (outcome.exit_code, outcome.summary["outcome"])


def test_no_broker_can_load_a_shadow_topic_without_its_source(cluster: SandboxCluster):
    """It is not readable, whatever its own record says."""
    put_topic(
        cluster.set_raw,
        "t/n/orphan",
        [closed(SOUND)],
        {"s": Cursor(None, Position(SOUND, 3))},
        shadow_of="t/n/nowhere",
    )
    outcome = audit(cluster, "t/n/orphan")
    topic = outcome.summary["topics"][0]
    assert "its source persistent://t/n/nowhere does not exist" in topic["blocker"]
    assert ("blocked", {"s": ("blocked", None)}) == (topic["answer"], answers(outcome))
    assert (1, "VIOLATED") == (outcome.exit_code, outcome.summary["outcome"])


def test_a_compacted_ledger_is_named_by_the_cursor_of_the_compactor_only(cluster: SandboxCluster):
    """A producer may have the name of the property: on another cursor it has a sequence number."""
    data = encode_cursor(Cursor(None, Position(SOUND, 9), (), GONE))
    put_topic(cluster.set_raw, "t/n/named", [closed(SOUND)])
    cluster.set_raw(f"{topic_path(parse_topic('t/n/named'))}/pulsar.dedup", data)
    outcome = audit(cluster, "t/n/named")
    assert {SOUND: "nothing_lost"} == conditions(outcome)
    assert (0, {"property": 1}) == (outcome.exit_code, outcome.summary["references"]["unread"])


def test_a_ledger_of_delayed_messages_is_a_reference(cluster: SandboxCluster):
    """Without it no message is lost: a broker reads them again to know when each is due."""
    cursor = Cursor(None, Position(SOUND, 9), (), None, (SCHEMA, GONE))
    put_topic(cluster.set_raw, "t/n/late", [closed(SOUND)], {"s": cursor})
    outcome = audit(cluster, "t/n/late", second_look_delay="1s")
    assert {SOUND: "nothing_lost", SCHEMA: "nothing_lost", GONE: "missing"} == conditions(outcome)
    assert {"s": ("readable", None)} == answers(outcome)


def test_a_ledger_without_metadata_is_missing_after_two_looks(cluster: SandboxCluster):
    """All its entries are lost. The command waits once, then asks again."""
    put_topic(
        cluster.set_raw,
        "t/n/missing",
        [closed(SOUND), closed(GONE), closed(GONE + 1, 0)],
        {"s": Cursor(None, None)},
    )
    outcome = audit(cluster, "t/n/missing", second_look_delay="3s")
    assert {SOUND: "nothing_lost", GONE: "missing", GONE + 1: "nothing_lost"} == conditions(outcome)
    assert {"s": ("blocked", [GONE, 0])} == answers(outcome)
    assert (1, "VIOLATED", [3.0]) == (
        outcome.exit_code,
        outcome.summary["outcome"],
        outcome.pauses_s,
    )
    assert 1 == outcome.summary["references"]["missing"]


def test_a_ledger_that_ends_before_the_topic_says_is_truncated(cluster: SandboxCluster):
    """The entries beyond the end of the metadata are lost, though BookKeeper's own metadata is in
    order.
    """
    put_topic(
        cluster.set_raw, "t/n/short", [closed(SHORT, 12)], {"s": Cursor(None, Position(SHORT, 8))}
    )
    outcome = audit(cluster, "t/n/short")
    (ledger,) = outcome.summary["topics"][0]["ledgers"]
    assert ("truncated", [[10, 11]], "sound") == (
        ledger["condition"],
        ledger["lost"],
        ledger["standing"],
    )
    assert {"s": ("blocked", [SHORT, 10])} == answers(outcome)
    assert (1, 1) == (outcome.exit_code, outcome.summary["references"]["truncated"])


@pytest.mark.parametrize("fail_on", ["never"])
def test_with_fail_on_never_a_finding_changes_only_the_outcome(
    cluster: SandboxCluster, fail_on: str
):
    """The outcome is VIOLATED, and the exit code is 0."""
    put_topic(cluster.set_raw, "t/n/quiet", [closed(SHORT, 12)])
    outcome = audit(cluster, "t/n/quiet", fail_on=fail_on)
    assert (0, "VIOLATED") == (outcome.exit_code, outcome.summary["outcome"])


def test_a_ledger_that_is_trimmed_between_the_looks_is_not_missed(cluster: SandboxCluster):
    """The broker removes the reference, then the ledger: no topic needs it."""
    put_topic(cluster.set_raw, "t/n/trimmed", [closed(GONE), closed(SOUND)])
    trim = Pauses(lambda _: put_topic(cluster.set_raw, "t/n/trimmed", [closed(SOUND)]))
    outcome = audit(cluster, "t/n/trimmed", stop=trim)
    assert {SOUND: "nothing_lost"} == conditions(outcome)
    assert (0, "SOUND") == (outcome.exit_code, outcome.summary["outcome"])


def test_a_ledger_that_appears_between_the_looks_is_judged(cluster: SandboxCluster):
    """Its verdict is that of the second look."""
    put_topic(cluster.set_raw, "t/n/appears", [closed(50)])
    appear = Pauses(lambda _: cluster.place(50, cluster.ledger(TWO)))
    outcome = audit(cluster, "t/n/appears", stop=appear)
    assert {50: "nothing_lost"} == conditions(outcome)
    assert (0, "SOUND") == (outcome.exit_code, outcome.summary["outcome"])


def test_a_ledger_whose_end_moves_between_the_looks_is_unknown(cluster: SandboxCluster):
    """It is neither truncated nor judged, because its metadata changed."""
    put_topic(cluster.set_raw, "t/n/moves", [closed(51, 12)])
    cluster.place(51, cluster.ledger(TWO))
    move = Pauses(lambda _: cluster.add_ledger(51, cluster.ledger("e2 w2 a2 0:[b1 b2] closed 11")))
    outcome = audit(cluster, "t/n/moves", stop=move, second_look_delay="2s")
    assert {51: "unknown"} == conditions(outcome)
    assert (3, "INCOMPLETE", [2.0]) == (
        outcome.exit_code,
        outcome.summary["outcome"],
        outcome.pauses_s,
    )


def test_a_topic_that_is_deleted_between_the_looks_is_missing(cluster: SandboxCluster):
    """Its ledger without metadata is not reported as missing."""
    put_topic(cluster.set_raw, "t/n/deleted", [closed(GONE)])
    delete = Pauses(lambda _: cluster.delete_raw(topic_path(parse_topic("t/n/deleted"))))
    outcome = audit(cluster, "t/n/deleted", stop=delete)
    assert "missing" == outcome.summary["topics"][0]["status"]
    assert (3, 0) == (outcome.exit_code, outcome.summary["references"]["missing"])


def test_a_newest_ledger_without_metadata_is_said_apart(cluster: SandboxCluster):
    """Whether it ever held entries is unknown: readers that come to it are possibly blocked."""
    put_topic(cluster.set_raw, "t/n/newest", [closed(SOUND), DataLedger(GONE)])
    outcome = audit(cluster, "t/n/newest", second_look_delay="1s")
    assert {SOUND: "nothing_lost", GONE: "newest_missing"} == conditions(outcome)
    assert (1, "possibly_blocked") == (outcome.exit_code, outcome.summary["topics"][0]["answer"])


def test_what_is_in_long_term_storage_is_not_missed(cluster: SandboxCluster):
    """The ledger was deleted in BookKeeper on purpose, or is missing or damaged there. The topic
    reads the other copy, which is not audited.
    """
    ledgers = [
        closed(GONE, offloaded=True, deleted=True),
        closed(GONE + 1, offloaded=True),
        closed(LOST, offloaded=True),
    ]
    put_topic(cluster.set_raw, "t/n/offloaded", ledgers)
    outcome = audit(cluster, "t/n/offloaded", fail_on="never")
    assert {GONE: "offloaded", GONE + 1: "offloaded", LOST: "offloaded"} == conditions(outcome)
    assert ("readable", 0) == (
        outcome.summary["topics"][0]["answer"],
        outcome.summary["references"]["missing"],
    )


def test_a_partitioned_topic_stands_for_its_partitions(cluster: SandboxCluster):
    """Each partition is a topic of its own, in the order of their numbers."""
    for number in (1, 0):
        put_topic(cluster.set_raw, f"t/n/parted-partition-{number}", [closed(SOUND)])
    outcome = audit(cluster, "persistent://t/n/parted")
    assert [f"persistent://t/n/parted-partition-{number}" for number in (0, 1)] == [
        one["topic"] for one in outcome.summary["topics"]
    ]
    assert (0, 1, 2) == (
        outcome.exit_code,
        outcome.summary["ledgers"]["listed"],
        outcome.summary["references"]["topics"],
    )


def test_a_partition_without_a_znode_is_shown(cluster: SandboxCluster):
    """Pulsar's metadata counts two partitions, and one of them has no znode. The outcome is
    INCOMPLETE.
    """
    put_topic(cluster.set_raw, "t/n/gap-partition-0", [closed(SOUND)])
    cluster.set_raw(f"{partitioned_path(parse_topic('t/n/gap'))}", b'{"partitions":2}')
    outcome = audit(cluster, "persistent://t/n/gap")
    assert [("gap-partition-0", "found"), ("gap-partition-1", "missing")] == [
        (one["topic"].rpartition("/")[2], one["status"]) for one in outcome.summary["topics"]
    ]
    assert (3, "INCOMPLETE") == (outcome.exit_code, outcome.summary["outcome"])


def test_a_topic_that_nobody_knows_ends_in_3(cluster: SandboxCluster):
    """Its name may be misspelt."""
    put_topic(cluster.set_raw, "t/n/any", [closed(SOUND)])
    outcome = audit(cluster, "t/n/nobody")
    assert (3, "missing") == (outcome.exit_code, outcome.summary["topics"][0]["status"])
    said = audit(cluster, "t/n/nobody", format="text").stdout
    assert "persistent://t/n/nobody: no such topic, or it has no ledgers\n" in said


def test_a_position_that_cannot_be_decoded_is_a_counted_unknown(cluster: SandboxCluster):
    """The topic is read all the same, and the answer for that subscription is unknown."""
    put_topic(
        cluster.set_raw, "t/n/odd", [closed(SOUND)], {"good": Cursor(None, Position(SOUND, 0))}
    )
    cluster.set_raw(f"{topic_path(parse_topic('t/n/odd'))}/bad", b"\xff")
    outcome = audit(cluster, "t/n/odd")
    assert {"good": ("readable", None), "bad": ("unknown", None)} == answers(outcome)
    assert (3, 1) == (outcome.exit_code, outcome.summary["references"]["unreadable"])


def test_the_text_answers_for_each_subscription_and_ends_with_the_line_for_machines(
    cluster: SandboxCluster,
):
    """It has the headline, an answer for each subscription and the ledgers with a loss, in fewer
    than 60 lines.
    """
    cursors = {
        "a": Cursor(None, Position(LOST, 9)),
        "b": Cursor(CURSOR, Position(SOUND, 9)),
        "c": Cursor(GONE, None),
    }
    put_topic(
        cluster.set_raw,
        "t/n/text",
        [closed(SOUND), closed(LOST), closed(SHORT, 12), closed(GONE)],
        cursors,
    )
    said = audit(cluster, "t/n/text", format="text").stdout
    lines = said.splitlines()
    assert (
        f"persistent://t/n/text: NOT READABLE from end to end: the first loss is at {LOST}:4"
        in lines
    )
    assert (
        f"    {LOST} (data): entries have no copy where the metadata says; lost: entry 4" in lines
    )
    assert (
        f"    {GONE} (data): no metadata: BookKeeper does not know the ledger; lost: entries 0-9. A"
        " reader that"
    ) in lines
    assert "  subscription a: BLOCKED" in lines
    assert "  subscription b: POSSIBLY BLOCKED" in lines
    assert lines[-1].startswith("auditor: VIOLATED run=")
    assert len(lines) < 60
    assert {True} == {len(line) <= 120 for line in lines[:-1]}  # the last is for machines


def test_pulsar_may_keep_its_metadata_elsewhere(cluster: SandboxCluster):
    """--pulsar-metadata-uri takes the form that broker.conf uses."""
    put_topic(cluster.set_raw, "t/n/elsewhere", [closed(SOUND)], prefix="/pulsar")
    uri = f"zk:{cluster.zookeeper_hosts}/pulsar"
    outcome = audit(cluster, "t/n/elsewhere", pulsar_metadata_uri=uri)
    assert (0, "readable") == (outcome.exit_code, outcome.summary["topics"][0]["answer"])


def test_a_metadata_store_that_cannot_be_read_is_refused_by_name():
    """The error is raised before anything is contacted."""
    with pytest.raises(ConfigError, match="etcd"):
        audit_topics(NOWHERE, "t/n/x", pulsar_metadata_uri="etcd:http://host:2379")


def test_without_topics_there_is_no_verdict(cluster: SandboxCluster, tmp_path: Path):
    """The exit code is 5, and the outcome UNREACHABLE."""
    outcome = audit(
        cluster, "t/n/x", pulsar_metadata_uri=f"zk:{cluster.zookeeper_hosts}/nothing-here"
    )
    assert (5, "UNREACHABLE") == (outcome.exit_code, outcome.summary["outcome"])


def test_a_proven_loss_stands_where_references_cannot_be_read_again(cluster: SandboxCluster):
    """Whether a ledger is missing is then unknown. The finding on a ledger that was judged
    stays.
    """
    path = topic_path(parse_topic("t/n/garbled"))
    put_topic(cluster.set_raw, "t/n/garbled", [closed(LOST), closed(GONE)])
    outcome = audit(cluster, "t/n/garbled", stop=Pauses(lambda _: cluster.set_raw(path, b"\xff")))
    assert {LOST: "entries_lost", GONE: "unknown"} == conditions(outcome)
    assert ["ENTRY_WITHOUT_REPLICA"] == [one["kind"] for one in outcome.findings]
    assert (1, 0, 1) == (
        outcome.exit_code,
        *(outcome.summary["references"][word] for word in ("missing", "unreadable")),
    )


def test_a_cursor_that_cannot_be_read_again_has_not_dropped_its_ledger(cluster: SandboxCluster):
    """Whether the ledger is needed is unknown."""
    path = f"{topic_path(parse_topic('t/n/cursor'))}/s"
    put_topic(
        cluster.set_raw, "t/n/cursor", [closed(SOUND)], {"s": Cursor(GONE, Position(SOUND, 1))}
    )
    outcome = audit(cluster, "t/n/cursor", stop=Pauses(lambda _: cluster.set_raw(path, b"\xff")))
    assert {SOUND: "nothing_lost", GONE: "unknown"} == conditions(outcome)
    assert (3, "INCOMPLETE") == (outcome.exit_code, outcome.summary["outcome"])


def test_a_ledger_that_vanishes_at_the_second_look_is_looked_for_after_another_delay(
    cluster: SandboxCluster,
):
    """The broker may be deleting the topic: ledgers first, then the topic."""
    put_topic(cluster.set_raw, "t/n/leaving", [closed(52)])
    cluster.place(52, cluster.ledger(TWO), {"b1": "4", "b2": "4"})

    def leave(pause: int) -> None:
        if pause == 1:
            cluster.delete_ledger(52)
        else:
            cluster.delete_raw(topic_path(parse_topic("t/n/leaving")))

    outcome = audit(cluster, "t/n/leaving", stop=Pauses(leave), second_look_delay="2s")
    assert [2.0, 2.0] == outcome.pauses_s
    assert ("missing", 0) == (
        outcome.summary["topics"][0]["status"],
        outcome.summary["references"]["missing"],
    )


def test_a_truncated_ledger_that_vanishes_between_the_looks_is_unknown(cluster: SandboxCluster):
    """It was missing at one look only, and may be about to be deleted with its topic."""
    put_topic(cluster.set_raw, "t/n/vanishes", [closed(53, 12)])
    cluster.place(53, cluster.ledger(TWO))
    outcome = audit(cluster, "t/n/vanishes", stop=Pauses(lambda _: cluster.delete_ledger(53)))
    assert {53: "unknown"} == conditions(outcome)
    assert (3, "INCOMPLETE") == (outcome.exit_code, outcome.summary["outcome"])


def test_a_topic_whose_partitions_cannot_be_listed_hides_no_other(
    cluster: SandboxCluster, monkeypatch: pytest.MonkeyPatch
):
    """It is unreadable, and the loss of the other topic is reported."""

    def refuse(store: TopicStore, topic: TopicName) -> Partitions:
        raise StoreUnavailable("the namespace may not be read")

    monkeypatch.setattr("auditor.run.topics.partitions_of", refuse)
    put_topic(cluster.set_raw, "t/n/hit", [closed(LOST)])
    outcome = audit_topics(cluster, "t/n/parted", "t/n/hit")
    assert ["unreadable", "found"] == [one["status"] for one in outcome.summary["topics"]]
    assert ["the namespace may not be read"] == outcome.summary["topics"][0]["problems"]
    assert (1, "VIOLATED", 1) == (
        outcome.exit_code,
        outcome.summary["outcome"],
        len(outcome.findings),
    )


def test_a_damaged_copy_of_what_is_in_long_term_storage_is_shown(cluster: SandboxCluster):
    """The text names the damage of the copy in BookKeeper, although the topic does not need that
    copy.
    """
    put_topic(
        cluster.set_raw,
        "t/n/copied",
        [closed(GONE, offloaded=True), closed(GONE + 1, offloaded=True, deleted=True)],
    )
    said = " ".join(audit(cluster, "t/n/copied", format="text").stdout.split())
    assert (
        f"{GONE} (data): a whole copy is in long-term storage, which is not audited (its copy in"
        " BookKeeper: missing)" in said
    )
    assert f"{GONE + 1} (data)" not in said


def test_a_subscription_beyond_a_loss_may_have_been_moved_back(cluster: SandboxCluster):
    """Its position in ZooKeeper is not its newest one."""
    cursors = {
        "running": Cursor(CURSOR, Position(LOST, 9)),
        "closed": Cursor(None, Position(LOST, 9)),
    }
    put_topic(cluster.set_raw, "t/n/reset", [closed(LOST)], cursors)
    said = audit(cluster, "t/n/reset", format="text").stdout
    running, other = (
        said.split("  subscription running: READABLE")[1],
        said.split("  subscription closed: READABLE")[1],
    )
    assert "reset to an earlier position" in " ".join(running.split("\n  ledgers")[0].split())
    assert "reset to an earlier position" not in " ".join(other.split("  subscription")[0].split())


def test_subscriptions_that_were_not_all_read_are_not_denied(cluster: SandboxCluster):
    """If something could not be read, the text says that no subscription was found, not that there
    is none.
    """
    put_topic(cluster.set_raw, "t/n/denied", [closed(SOUND)])
    assert "  It has no subscription.\n" in audit(cluster, "t/n/denied", format="text").stdout
    cluster.set_raw("/schemas/t/n/denied", b"\xff")
    assert "  No subscription was found.\n" in audit(cluster, "t/n/denied", format="text").stdout


def test_what_a_broker_would_rewrite_is_saved_before_it_loads_the_topic(cluster: SandboxCluster):
    """The znode is named as Pulsar encodes it, in ASCII. No command asks a broker."""
    for name, znode in (("t/n/caf\u00e9", "caf%C3%A9"), ("t/n/cafe", "cafe")):
        put_topic(cluster.set_raw, name, [closed(GONE)])
        said = audit(cluster, name, format="text").stdout
        save = f"zkCli.sh -server PULSAR_ZOOKEEPER get -b /managed-ledgers/t/n/persistent/{znode}"
        assert said.index("save this first") < said.index(save) < said.index("shell ledgermetadata")
        assert "pulsar-admin topics" not in said
        assert f"bookkeeper shell ledgermetadata -l {GONE}" in said


def test_of_a_newest_ledger_whose_bookie_is_silent_nothing_is_known(tmp_path: Path):
    """A bookie that hangs is registered still. No broker can recover the ledger without it."""
    with SandboxCluster(tmp_path, 3) as cluster:
        cluster.place(SOUND, cluster.ledger(TWO))
        cluster.place(OPEN, cluster.ledger("e2 w2 a1 0:[b1 b3] open"))
        put_topic(cluster.set_raw, "t/n/hung", [closed(SOUND), DataLedger(OPEN)])
        well = audit(cluster, "t/n/hung")
        assert (0, "open") == (well.exit_code, conditions(well)[OPEN])
        cluster.stop_bookie("b3")
        hung = audit(cluster, "t/n/hung", rpc_timeout="1s")
    assert (3, "INCOMPLETE") == (hung.exit_code, hung.summary["outcome"])
    assert ("unknown", "unknown") == (conditions(hung)[OPEN], hung.summary["topics"][0]["answer"])
    assert f"no answer from {cluster.id_of('b3')}" in str(hung.summary["topics"][0]["ledgers"])
