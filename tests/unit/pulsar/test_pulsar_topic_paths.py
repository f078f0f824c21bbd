"""Names of topics as people write them, and the znodes that Pulsar gives them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.errors import ConfigError
from auditor.model.topic import TopicName
from auditor.pulsar.topic_paths import (
    decode_name,
    encode_name,
    holds_topics,
    is_canonical,
    namespace_at,
    parse_topic,
    partitioned_path,
    partitioned_topic_at,
    partitions_among,
    schema_path,
    topic_at,
    topic_path,
)

ORDERS = TopicName("acme", "", "shop", "orders")


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("persistent://acme/shop/orders", ORDERS),
        ("acme/shop/orders", ORDERS),
        ("orders", TopicName("public", "", "default", "orders")),
        ("persistent://acme/eu/shop/orders", TopicName("acme", "eu", "shop", "orders")),
        ("persistent://acme/eu/shop/a/b c", TopicName("acme", "eu", "shop", "a/b c")),
    ],
)
def test_a_topic_is_named_as_in_pulsar(text: str, topic: TopicName):
    """With and without domain, in the form before Pulsar 2.0 too."""
    assert topic == parse_topic(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "'' is not a topic"), ("a/b", "'a/b' is not a topic"), ("a/b/c/d", "is not a topic"),
        ("/b/c", "is not a topic"),
        ("non-persistent://a/b/c", "'non-persistent://a/b/c' keeps no ledger"),
        ("kafka://a/b/c", "is not a topic"),
        ("persistent://a/b", "is not a topic"), ("persistent://a//c", "is not a topic"),
        ("persistent://a/\n/b", "cannot be the name"), ("\udcff", "cannot be the name"),
        ("../a/b", "cannot be the name"), ("persistent://a/./b", "cannot be the name"),
        ("x" * 65_537, "cannot be the name"),
    ],
)  # fmt: skip
def test_what_is_no_topic_is_refused(text: str, says: str):
    """Before anything is contacted, with the right form."""
    with pytest.raises(ConfigError, match=says) as refused:
        parse_topic(text)
    assert "persistent://tenant/namespace/topic" in str(refused.value)


def test_a_name_may_be_long_and_have_any_sign():
    """As in Pulsar, what follows the namespace is a name of its own."""
    assert "x" * 65_536 == parse_topic("x" * 65_536).local_name
    assert TopicName("a", "b", "c:", "/d") == parse_topic("persistent://a/b/c://d")


@pytest.mark.parametrize(
    "name", ["a\tb", "x\ny", "\u200b", "a\u00a0b", " a ", "\x1b[2J", "é", "%2F", "…"]
)
def test_a_name_is_valid_where_pulsar_accepts_it(name: str):
    """Whatever a terminal would make of it: how it is shown is another question."""
    topic = parse_topic(f"persistent://t/n/{name}")
    assert name == topic.local_name
    assert topic == topic_at(topic_path(topic))


@pytest.mark.parametrize(
    ("path", "holds"),
    [
        ("/managed-ledgers/t/n/persistent", True),
        ("/managed-ledgers/t/eu/n/persistent", True),
        ("/managed-ledgers/t/persistent", False),
        ("/managed-ledgers/t/a/b/c/persistent", False),
        ("/managed-ledgers/t/n/non-persistent", False),
    ],
)
def test_topics_lie_below_their_namespace(path: str, holds: bool):
    """At two depths, for topics named as before Pulsar 2.0 too."""
    assert holds is holds_topics(path)


def test_the_znodes_of_a_topic():
    """Encoded as Pulsar does it; the partitions of a topic share its schemas."""
    assert "/managed-ledgers/acme/shop/persistent/a%2Fb+c%7Ed*" == topic_path(
        ORDERS._replace(local_name="a/b c~d*")
    )
    assert "/managed-ledgers/acme/eu/shop/persistent/orders" == topic_path(
        ORDERS._replace(cluster="eu")
    )
    assert "/schemas/acme/shop/orders" == schema_path(
        ORDERS._replace(local_name="orders-partition-12")
    )
    assert "/schemas/acme/shop/a-partition-b" == schema_path(
        ORDERS._replace(local_name="a-partition-b-partition-3")
    )
    assert "/schemas/acme/shop/orders-partition-x" == schema_path(
        ORDERS._replace(local_name="orders-partition-x")
    )
    assert "/schemas/acme/shop/orders" == schema_path(ORDERS._replace(cluster="eu"))


def test_a_znode_with_the_path_of_a_topic_is_that_topic():
    """And no other znode is one."""
    for topic in (ORDERS, ORDERS._replace(cluster="eu"), ORDERS._replace(local_name="a/b c")):
        assert topic == topic_at(topic_path(topic))
    for path in (
        "/",
        "/managed-ledgers",
        "/managed-ledgers/a/b/c/d",
        "/x/a/b/persistent/c",
        topic_path(ORDERS) + "/cursor",
    ):
        assert topic_at(path) is None


def test_the_partitions_of_a_topic_are_found_among_its_neighbours():
    """In the order of their numbers, and nothing that only looks like one."""
    names = [
        "orders-partition-10",
        "orders-partition-2",
        "orders",
        "orders-partition-x",
        "orders-partition-02",
        "x-partition-1",
    ]
    odd = ORDERS._replace(local_name="a-partition-b")
    assert ["a-partition-b-partition-3"] == [
        t.local_name for t in partitions_among(odd, ["a-partition-b-partition-3"])
    ]
    assert ["orders-partition-2", "orders-partition-10"] == [
        t.local_name for t in partitions_among(ORDERS, names)
    ]


@given(st.text(min_size=1, max_size=40))
def test_an_encoded_name_decodes_to_itself(name: str):
    """And it is one part of a path."""
    name = name.encode("utf-8", "replace").decode()
    assert name == decode_name(encode_name(name))
    assert "/" not in encode_name(name)


@pytest.mark.parametrize(
    ("name", "is_read"),
    [
        ("orders", True),
        ("a%2Fb+c", True),
        ("a%2fb", False),
        ("a%20b", False),
        ("%6Frders", False),
        ("a~b", False),
    ],
)
def test_pulsar_reads_a_topic_at_its_own_encoding_alone(name: str, is_read: bool) -> None:
    """Another spelling of the same name is a znode that nobody reads. Only the last part of the
    path counts.
    """
    assert is_read is is_canonical(f"/managed-ledgers/a%2f/n/persistent/{name}")


@pytest.mark.parametrize(
    ("topic", "path"),
    [
        (ORDERS, "/admin/partitioned-topics/acme/shop/persistent/orders"),
        (
            TopicName("acme", "us", "shop", "a/b"),
            "/admin/partitioned-topics/acme/us/shop/persistent/a%2Fb",
        ),
    ],
)
def test_the_znode_of_a_partitioned_topic_is_that_of_its_name(topic: TopicName, path: str) -> None:
    """It is below another root than the topic's own, and is read back as the topic."""
    assert path == partitioned_path(topic)
    assert topic == partitioned_topic_at(path)


@pytest.mark.parametrize("namespace", ["acme/shop", "acme/us/shop"])
def test_the_znode_above_topics_names_their_namespace(namespace: str) -> None:
    """With a cluster in it, as before Pulsar 2.0, or without."""
    assert namespace == namespace_at(f"/managed-ledgers/{namespace}/persistent")
