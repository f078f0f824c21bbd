"""Pulsar's topics, read from ZooKeeper: what each references, and what could not be read."""

from __future__ import annotations

import pytest
from support.topics import closed, put_topic
from support.zookeeper_in_memory import MemoryZooKeeper
from support.zookeeper_many_znodes import Server
from support.zookeeper_znodes import STEADY, Znodes, uri

from auditor.errors import StoreUnavailable
from auditor.model.topic import (
    Cursor,
    DataLedger,
    ManagedLedger,
    Position,
    SchemaVersion,
    Subscription,
    TopicRecord,
    TopicStatus,
    Unread,
)
from auditor.pulsar.topic_paths import parse_topic, schema_path, topic_path
from auditor.pulsar.topic_store import (
    TOPICS_AT_ONCE,
    TopicsAddress,
    TopicStore,
    find_topics,
    open_topics,
    partitions_in,
    partitions_of,
    prefixes_of,
    topics_with_schemas,
)
from auditor.wire.service_uri import parse, parse_pulsar
from auditor.zookeeper.multi_read import NO_AUTH
from auditor.zookeeper.reading import refusal_sentence
from auditor.zookeeper.session import ReadCounts

pytestmark = pytest.mark.also_in_memory

NOW_MS = 1_700_000_000_000


def open_at(server: Server, prefix: str) -> TopicStore:
    return open_topics(uri(server.hosts, "/ledgers"), (prefix,), STEADY)


def read(server: Server, prefix: str, *names: str) -> list[TopicRecord]:
    with open_at(server, prefix) as store:
        return list(store.read(map(parse_topic, names), lambda: NOW_MS))


def test_a_topic_is_read_with_its_subscriptions_and_schemas(server: Server, tree: Znodes) -> None:
    """Names are decoded, in order; a topic named as before Pulsar 2.0 likewise."""
    cursors = {"b one": Cursor(8, Position(5, 2)), "a/two": Cursor(None, Position(5, 9))}
    schemas = (SchemaVersion(0, Position(9, 0)),)
    for name in ("persistent://t/n/whole topic", "persistent://t/eu/n/old"):
        put_topic(tree.put, name, [closed(5), DataLedger(6)], cursors, schemas, "/whole")
    for record in read(server, "/whole", "persistent://t/n/whole topic", "persistent://t/eu/n/old"):
        managed = ManagedLedger((closed(5), DataLedger(6)))
        subscriptions = (
            Subscription("a/two", cursors["a/two"]),
            Subscription("b one", cursors["b one"]),
        )
        unread = ((Unread.NEWEST_POSITION, 1), (Unread.SCHEMA_INDEX, 1))
        assert record == TopicRecord(
            record.topic,
            NOW_MS,
            TopicStatus.FOUND,
            managed,
            subscriptions,
            schemas,
            unread=unread,
        )


def test_topics_of_pulsar_itself_are_listed_and_read_as_any_other(
    server: Server, tree: Znodes
) -> None:
    """Topic policies, the log of a transaction coordinator, and pending acknowledgements."""
    names = [
        "persistent://t/n/__change_events",
        "persistent://t/n/x-s__transaction_pending_ack",
        "persistent://pulsar/system/__transaction_log_0",
    ]
    compaction = {"__compaction": Cursor(None, Position(5, 9), (), 7)}
    for name in names:
        put_topic(tree.put, name, [closed(5)], compaction, prefix="/own")
    with open_at(server, "/own") as store:
        listed = list(store.topics_in(store.namespaces()))
        records = list(store.read(listed, lambda: NOW_MS))
    assert sorted(names) == sorted(map(str, listed))
    subscriptions = (Subscription("__compaction", compaction["__compaction"]),)
    assert [(ManagedLedger((closed(5),)), subscriptions, ())] * 3 == [
        (one.managed_ledger, one.subscriptions, one.problems) for one in records
    ]


def test_a_shadow_topic_is_read_with_the_ledgers_of_its_source(
    server: Server, tree: Znodes
) -> None:
    """They are those that the source has now. Without the source there are none."""
    put_topic(tree.put, "t/n/source", [closed(5), DataLedger(6)], prefix="/shadows")
    for name, source in (("t/n/a", "t/n/source"), ("t/n/b", "t/n/nowhere")):
        put_topic(tree.put, name, [closed(4)], prefix="/shadows", shadow_of=source)
    with_source, without = read(server, "/shadows", "t/n/a", "t/n/b")
    source, nowhere = parse_topic("t/n/source"), parse_topic("t/n/nowhere")
    assert ManagedLedger((closed(5), DataLedger(6)), None, source) == with_source.managed_ledger
    assert ManagedLedger((), None, nowhere, True) == without.managed_ledger
    assert ((), ()) == (with_source.problems, without.problems)


def test_a_partition_of_a_shadow_topic_has_the_partition_of_its_source(
    server: Server, tree: Znodes
) -> None:
    """The source is in the metadata of the partitioned topic, as a broker finds it."""
    metadata = '{"partitions": 2, "properties": {"PULSAR.SHADOW_SOURCE": "persistent://t/n/x"}}'
    tree.put("/parts/admin/partitioned-topics/t/n/persistent/y", metadata.encode())
    tree.put("/parts/admin/partitioned-topics/t/n/persistent/torn", b"{")
    put_topic(tree.put, "t/n/x-partition-1", [closed(5)], prefix="/parts")
    for name in ("t/n/y-partition-1", "t/n/torn-partition-1"):
        put_topic(tree.put, name, [closed(4)], prefix="/parts")
    shadow, own = read(server, "/parts", "t/n/y-partition-1", "t/n/torn-partition-1")
    source = parse_topic("t/n/x-partition-1")
    assert ManagedLedger((closed(5),), None, source) == shadow.managed_ledger
    assert (ManagedLedger((closed(4),)), ()) == (own.managed_ledger, own.problems)


def test_a_source_that_cannot_be_read_is_a_problem_of_its_shadow(
    server: Server, tree: Znodes
) -> None:
    """What it references is not known, and it is not said that the source does not exist."""
    tree.put("/torn/managed-ledgers/t/n/persistent/source", b"\xff")
    put_topic(tree.put, "t/n/a", [closed(4)], prefix="/torn", shadow_of="t/n/source")
    (record,) = read(server, "/torn", "t/n/a")
    assert record.managed_ledger is not None and not record.managed_ledger.is_source_missing
    assert ["cannot be decoded" in one for one in record.problems] == [True]


def test_every_topic_has_a_record_in_the_order_asked_for(server: Server, tree: Znodes) -> None:
    """This includes a topic that does not exist, and more topics than fit in one batch."""
    put_topic(tree.put, "t/n/there", [closed(1)], prefix="/order")
    names = [
        "t/n/there" if number % 2 else f"t/n/no-{number}" for number in range(TOPICS_AT_ONCE + 3)
    ]
    records = read(server, "/order", *names)
    assert list(map(parse_topic, names)) == [one.topic for one in records]
    assert [TopicStatus.MISSING, TopicStatus.FOUND] == [one.status for one in records[:2]]
    assert {()} == {one.problems for one in records}


def test_what_cannot_be_decoded_or_read_is_said_and_nothing_else_suffers(
    server: Server, tree: Znodes
) -> None:
    """A cursor, the schemas, a topic: each is a problem that names its znode."""
    put_topic(
        tree.put, "t/n/bad", [closed(1)], {"good": Cursor(None, Position(1, 1))}, prefix="/bad"
    )
    path = "/bad" + topic_path(parse_topic("t/n/bad"))
    tree.put(f"{path}/odd", b"\xff")
    tree.put(f"{path}/shut", b"", shut=True)
    tree.put("/bad" + schema_path(parse_topic("t/n/bad")), b"\xff")
    tree.put("/bad" + topic_path(parse_topic("t/n/worse")), b"\x47\x78\x00")
    bad, worse = read(server, "/bad", "t/n/bad", "t/n/worse")
    assert (TopicStatus.FOUND, TopicStatus.UNREADABLE) == (bad.status, worse.status)
    assert ["good", "odd", "shut"] == [one.name for one in bad.subscriptions]
    assert [True, False, False] == [one.cursor is not None for one in bad.subscriptions]
    assert [
        f"{path}/odd" in bad.problems[0],
        f"{path}/shut" in bad.problems[1],
        "/schemas/" in bad.problems[2],
    ] == [True] * 3
    assert [bad.subscriptions[1].problem, bad.subscriptions[2].problem] == list(bad.problems[:2])
    assert 1 == len(worse.problems)
    assert "give it read permission" in bad.problems[1]


def test_a_topic_that_may_not_be_read_says_so_of_its_list_and_of_itself(
    server: Server, tree: Znodes
) -> None:
    """Its subscriptions are unknown, too."""
    path = "/secret" + topic_path(parse_topic("t/n/x"))
    tree.put(path, b"", shut=True)
    (record,) = read(server, "/secret", "t/n/x")
    assert (TopicStatus.UNREADABLE, ()) == (record.status, record.subscriptions)
    why = (
        f"znode {path} may not be read by this session: give it read permission in the znode's ACL"
    )
    assert 2 == sum(problem.startswith(why) for problem in record.problems) == len(record.problems)


def test_the_partitions_of_a_topic_are_listed(server: Server, tree: Znodes) -> None:
    """A topic in a missing namespace has none."""
    for name in ("t/n/p-partition-1", "t/n/p-partition-0", "t/n/other"):
        put_topic(tree.put, name, [closed(1)], prefix="/parts")
    with open_at(server, "/parts") as store:
        assert ["p-partition-0", "p-partition-1"] == [
            one.local_name for one in partitions_of(store, parse_topic("t/n/p")).names
        ]
        assert ((), ()) == partitions_of(store, parse_topic("t/nowhere/p"))


def test_partitions_that_pulsar_names_are_listed_with_and_without_a_znode(
    server: Server, tree: Znodes
) -> None:
    """They are in the order of their numbers; those of a namespace come only from its partitioned
    topics.
    """
    root = "/named/admin/partitioned-topics/t/n/persistent"
    for number in (10, 12):
        put_topic(tree.put, f"t/n/p-partition-{number}", [closed(1)], prefix="/named")
    tree.put(f"{root}/p", b'{"partitions":12}')
    tree.put(f"{root}/a", b'{"partitions":1}')
    tree.put(f"{root}/going", b'{"partitions":3,"deleted":true}')
    tree.put(f"{root}/odd", b"[]")
    with open_at(server, "/named") as store:
        names, problems = partitions_of(store, parse_topic("t/n/p"))
        assert [f"p-partition-{number}" for number in range(13)] == [n.local_name for n in names]
        assert () == problems
        names, problems = partitions_in(store, "/managed-ledgers/t/n/persistent")
        assert ["a-partition-0", *(f"p-partition-{number}" for number in range(12))] == [
            n.local_name for n in names
        ]
        (problem,) = problems
        assert f"znode {root}/odd cannot be decoded: it is not a JSON object" == problem


def test_a_partitioned_topic_that_may_not_be_read_is_a_problem(
    server: Server, tree: Znodes
) -> None:
    """Its partitions with a znode are listed all the same."""
    put_topic(tree.put, "t/n/p-partition-0", [closed(1)], prefix="/hidden")
    path = "/hidden/admin/partitioned-topics/t/n/persistent/p"
    tree.put(path, b'{"partitions":2}', shut=True)
    with open_at(server, "/hidden") as store:
        names, (problem,) = partitions_of(store, parse_topic("t/n/p"))
    assert [parse_topic("t/n/p-partition-0")] == list(names)
    assert refusal_sentence(path, NO_AUTH) == problem


def test_topics_with_schemas_are_listed_with_their_znodes(server: Server, tree: Znodes) -> None:
    """Each name is decoded, and they are sorted; there is nothing if Pulsar has no schemas."""
    for name in ("t/n/a", "t/n/b", "s/n/c d"):
        put_topic(tree.put, name, [], schemas=(SchemaVersion(0, Position(9, 0)),), prefix="/kept")
    tree.put("/kept/schemas/s/empty")
    with open_at(server, "/kept") as store:
        listed = list(topics_with_schemas(store))
        store.prefix = "/nowhere"
        assert [] == list(topics_with_schemas(store))
    assert [
        (parse_topic("s/n/c d"), "/schemas/s/n/c+d"),
        (parse_topic("t/n/a"), "/schemas/t/n/a"),
        (parse_topic("t/n/b"), "/schemas/t/n/b"),
    ] == listed


def test_each_znode_that_is_read_is_counted(server: Server, tree: Znodes) -> None:
    """A topic costs its list, its own znode and its schemas, and one read for each subscription."""
    put_topic(
        tree.put,
        "t/n/counted",
        [closed(1)],
        {"a": Cursor(None, None), "b": Cursor(None, None)},
        prefix="/counted",
    )
    with open_at(server, "/counted") as store:
        before = store.counts.reads
        list(store.read([parse_topic("t/n/counted")], lambda: NOW_MS))
        assert 3 + 2 == store.counts.reads - before


def test_topics_are_found_inside_a_chroot_or_beside_the_ledgers(
    server: Server, tree: Znodes
) -> None:
    """The first place that has topics counts; without any, the error says where it looked."""
    tree.put("/chroot/managed-ledgers")
    beside = prefixes_of(parse(f"zk://{server.hosts}/chroot/ledgers"), "/chroot/ledgers")
    inside = prefixes_of(parse_pulsar(f"zk:{server.hosts}/chroot"), "/ledgers")
    for prefixes in (beside, inside):
        with open_topics(uri(server.hosts, "/ledgers"), prefixes, STEADY) as store:
            assert "/chroot" == store.prefix
    with pytest.raises(StoreUnavailable, match="no znode /nowhere/managed-ledgers"):
        open_at(server, "/nowhere")


def test_another_process_opens_the_same_topics(server: Server, tree: Znodes) -> None:
    """It does so by an address without secrets; a sync goes to the tree of topics."""
    put_topic(tree.put, "t/n/x", [closed(3)], prefix="/address")
    with TopicsAddress(uri(server.hosts, "/ledgers"), "/address", STEADY).open() as store:
        store.sync()
        if isinstance(server, MemoryZooKeeper):
            assert "/address/managed-ledgers" == server.sent[-1].path
        (record,) = store.read([parse_topic("t/n/x")], lambda: NOW_MS)
    assert ManagedLedger((closed(3),)) == record.managed_ledger


def test_pulsars_znodes_are_beside_the_ledgers():
    """They are not above them: the topics at the top belong to another Pulsar, and would seem to
    have lost all their ledgers.
    """
    assert ("",) == prefixes_of(parse("zk://h/ledgers"), "/ledgers")
    assert ("/cluster-b",) == prefixes_of(parse("zk://h/cluster-b/ledgers"), "/cluster-b/ledgers")
    assert ("/c", "") == prefixes_of(parse_pulsar("zk:h/c"), "/ledgers")


def test_a_namespace_that_may_not_be_read_is_an_error(server: Server, tree: Znodes) -> None:
    """Partitions could be missed."""
    tree.put("/shut/managed-ledgers/t/n/persistent", b"", shut=True)
    with open_at(server, "/shut") as store, pytest.raises(StoreUnavailable):
        partitions_of(store, parse_topic("t/n/p"))


def test_all_topics_are_listed_with_those_named_as_before_pulsar_2(
    server: Server, tree: Znodes
) -> None:
    """Each namespace and each topic occurs once; other znodes are not topics."""
    names = [
        "persistent://a/n/one",
        "persistent://a/n/t wo",
        "persistent://a/eu/n/three",
        "persistent://persistent/persistent/four",
    ]
    for name in names:
        put_topic(tree.put, name, [closed(1)], {"s": Cursor(None, None)}, prefix="/all")
    tree.put("/all/managed-ledgers/empty/n/persistent")
    tree.put("/all/managed-ledgers/odd/a/b/c/d/e")
    with open_at(server, "/all") as store:
        before = store.counts.reads
        namespaces = store.namespaces()
        lists = (
            1 + 4 + 5 + 2
        )  # the root, tenants, what is below them, and which of that is not a namespace
        assert lists == store.counts.reads - before
        assert [
            "/managed-ledgers/a/eu/n/persistent",
            "/managed-ledgers/a/n/persistent",
            "/managed-ledgers/empty/n/persistent",
            "/managed-ledgers/persistent/persistent/persistent",
        ] == namespaces
        assert sorted(names) == sorted(str(topic) for topic in store.topics_in(namespaces))


def test_a_tree_that_may_not_be_listed_is_an_error(server: Server, tree: Znodes) -> None:
    """Its topics would be missed."""
    put_topic(tree.put, "t/n/x", [closed(1)], prefix="/closed")
    tree.put("/closed/managed-ledgers/secret", b"", shut=True)
    with open_at(server, "/closed") as store, pytest.raises(StoreUnavailable, match="secret"):
        store.namespaces()


def test_where_there_are_no_topics_none_are_found_and_the_reads_count(
    server: Server, tree: Znodes
) -> None:
    """A cluster without Pulsar is not an error; its reads are counted with the run's."""
    counts = ReadCounts()
    assert find_topics(uri(server.hosts, "/ledgers"), ("/nowhere",), STEADY, counts) is None
    assert counts.reads > 0 == counts.reads_failed
    before = counts.reads
    put_topic(tree.put, "t/n/x", [closed(1)], prefix="/somewhere")
    found = find_topics(uri(server.hosts, "/ledgers"), ("/nowhere", "/somewhere"), STEADY, counts)
    assert found is not None and counts.reads - before == found.counts.reads
    with found:
        assert "/somewhere" == found.prefix


def test_a_namespace_is_listed_with_the_znodes_that_pulsar_did_not_write(
    server: Server, tree: Znodes
) -> None:
    """Such a name decodes to a topic whose znode is elsewhere: it is listed separately, by its
    path.
    """
    space = "/managed-ledgers/t/n/persistent"
    for name in ("b", "a+one", "a%20two", "%C3%BC"):
        tree.put(f"/listed{space}/{name}")
    with open_at(server, "/listed") as store:
        before = store.counts.reads
        topics, odd = store.list_namespace(space)
        assert 1 == store.counts.reads - before
        assert ["persistent://t/n/ü", "persistent://t/n/a one", "persistent://t/n/b"] == [
            str(topic) for topic in topics
        ]
        assert [f"{space}/a%20two"] == odd
        assert ([], []) == store.list_namespace(f"{space}x"), "it is gone"
        assert ([], []) == store.list_namespace("/managed-ledgers/t")


def test_topics_may_vanish_while_they_are_looked_at(server: Server, tree: Znodes) -> None:
    """A vanished topic costs one list; an unreadable one is an error."""
    tree.put("/vanishing/managed-ledgers")
    with open_at(server, "/vanishing") as store:
        before = store.counts.reads
        assert store.is_there()
        assert 1 == store.counts.reads - before
        tree.delete("/vanishing/managed-ledgers")
        assert not store.is_there()
        tree.put("/vanishing/managed-ledgers", b"", shut=True)
        with pytest.raises(StoreUnavailable, match="/vanishing/managed-ledgers"):
            store.is_there()


def test_what_it_takes_to_find_the_topics_is_counted(server: Server, tree: Znodes) -> None:
    """Each place that is looked at counts, also those without topics."""
    tree.put("/places/managed-ledgers")
    counts = ReadCounts()
    with open_topics(uri(server.hosts, "/ledgers"), ("/none", "/places"), STEADY, counts) as store:
        assert store.counts == counts
    assert counts.reads >= 2
