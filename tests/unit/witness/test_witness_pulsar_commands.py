"""Which topic a ledger of Pulsar belongs to, and the commands about it."""

import pytest

from auditor.model.finding_record import Owner
from auditor.witness.pulsar_commands import (
    PulsarLedger,
    Use,
    look_commands,
    pulsar_ledger,
    save_commands,
    unload_commands,
)


def of(component, name, application="pulsar"):
    return pulsar_ledger(Owner(application, component, name))


@pytest.mark.parametrize(
    "name, topic",
    [
        ("public/default/persistent/orders", "persistent://public/default/orders"),
        (
            "public/default/persistent/orders-partition-3",
            "persistent://public/default/orders-partition-3",
        ),
        ("prop/us-west/ns/persistent/orders", "persistent://prop/us-west/ns/orders"),
        ("t/ns/persistent/a%2Fb+c%2Bd", "persistent://t/ns/a/b c+d"),
        ("t/ns/persistent/%E4%BE%8B", "persistent://t/ns/例"),
    ],
)
def test_a_managed_ledger_is_its_topic(name, topic):
    """The domain goes to the front, the local name is decoded, the old form keeps its cluster."""
    assert (topic, Use.MESSAGES) == of("managed-ledger", name)[:2]


def test_a_cursors_ledger_belongs_to_its_topic():
    """What follows `cursor` is the subscription."""
    assert ("persistent://t/ns/orders", Use.CURSOR) == of(
        "managed-ledger", "t/ns/persistent/orders cursor bill"
    )[:2]


def test_schemas_and_compacted_ledgers_name_their_topic_in_their_own_way():
    """A schema's id has no domain; a compacted ledger carries the topic's whole name."""
    assert ("persistent://t/ns/a b", Use.SCHEMA) == of("schema", "t/ns/a+b")[:2]
    assert ("persistent://t/ns/a b", Use.COMPACTED) == of(
        "compacted-ledger", "persistent://t/ns/a b"
    )[:2]


@pytest.mark.parametrize(
    "component, name, znodes",
    [
        ("managed-ledger", "t/ns/persistent/a+b", ["/managed-ledgers/t/ns/persistent/a+b"]),
        (
            "managed-ledger",
            "t/ns/persistent/a cursor b/c",
            ["/managed-ledgers/t/ns/persistent/a", "/managed-ledgers/t/ns/persistent/a/b%2Fc"],
        ),
        ("schema", "t/ns/a+b", ["/schemas/t/ns/a+b"]),
        (
            "compacted-ledger",
            "persistent://t/ns/a b",
            [
                "/managed-ledgers/t/ns/persistent/a+b",
                "/managed-ledgers/t/ns/persistent/a+b/__compaction",
            ],
        ),
        (
            "delayed-index-bucket",
            "persistent://t/ns/a b",
            ["/managed-ledgers/t/ns/persistent/a+b"],
        ),
    ],
)
def test_what_a_broker_would_rewrite_is_saved(component, name, znodes):
    """These are the znodes of the use: a topic, a cursor, a schema locator. Each is printed."""
    ledger = of(component, name)
    assert tuple(znodes) == ledger.znodes
    assert [f"zkCli.sh -server PULSAR_ZOOKEEPER get -b {path}" for path in znodes] == save_commands(
        ledger.znodes
    )


def test_a_name_that_was_cut_names_no_topic():
    """An owner's name is cut after 512 characters: the rest is not guessed."""
    assert of("managed-ledger", "t/ns/persistent/" + "a" * 495) is not None
    assert of("managed-ledger", "t/ns/persistent/" + "a" * 496) is None


@pytest.mark.parametrize(
    "component, name",
    [
        ("managed-ledger", "kop/group"),
        ("managed-ledger", "t/ns/non-persistent/orders"),
        ("managed-ledger", "t//persistent/orders"),
        ("managed-ledger", ""),
        ("managed-ledger", None),
        ("schema", "orders"),
        ("compacted-ledger", "orders"),
        ("offload", "t/ns/persistent/orders"),
        (None, "t/ns/persistent/orders"),
    ],
)
def test_what_names_no_topic_gets_no_command(component, name):
    """Other forms and other components: nothing is guessed."""
    assert of(component, name) is None


def test_only_pulsar_is_pulsar():
    """The same words of another application mean something else."""
    assert of("managed-ledger", "t/ns/persistent/orders", application="other") is None
    assert pulsar_ledger(None) is None


def test_no_look_at_a_topic_asks_a_broker():
    """A broker that loads the topic repairs it: the auditor reads its metadata instead."""
    assert ["auditor topic 'persistent://t/ns/a b'"] == look_commands("persistent://t/ns/a b")


def test_a_topic_is_unloaded_only_for_messages_and_cursors():
    """Unloading closes these; a schema and compacted messages have no open ledger of the topic."""
    topic = "persistent://t/ns/a"
    unload = [f"pulsar-admin topics unload {topic}"]
    assert {
        Use.MESSAGES: unload,
        Use.CURSOR: unload,
        Use.SCHEMA: [],
        Use.COMPACTED: [],
        Use.DELAYED: [],
    } == {use: unload_commands(PulsarLedger(topic, use, ())) for use in Use}
