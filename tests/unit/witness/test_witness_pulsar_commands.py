"""Which topic a ledger of Pulsar belongs to, and the commands about it."""

import pytest

from auditor.witness.pulsar_commands import (
    PulsarLedger,
    Use,
    look_commands,
    pulsar_ledger,
    read_commands,
    unload_commands,
)


def of(component, name, application="pulsar"):
    return pulsar_ledger({"application": application, "component": component, "name": name})


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
    assert PulsarLedger(topic, Use.MESSAGES) == of("managed-ledger", name)


def test_a_cursors_ledger_belongs_to_its_topic():
    """What follows `cursor` is the subscription."""
    assert PulsarLedger("persistent://t/ns/orders", Use.CURSOR) == of(
        "managed-ledger", "t/ns/persistent/orders cursor bill"
    )


def test_schemas_and_compacted_ledgers_name_their_topic_in_their_own_way():
    """A schema's id has no domain; a compacted ledger carries the topic's whole name."""
    assert PulsarLedger("persistent://t/ns/a b", Use.SCHEMA) == of("schema", "t/ns/a+b")
    assert PulsarLedger("persistent://t/ns/a b", Use.COMPACTED) == of(
        "compacted-ledger", "persistent://t/ns/a b"
    )


@pytest.mark.parametrize(
    "component, name",
    [
        ("managed-ledger", "kop/group"),
        ("managed-ledger", "t/ns/non-persistent/orders"),
        ("managed-ledger", "t//persistent/orders"),
        ("managed-ledger", "t/ns/persistent/%0Areboot"),
        ("managed-ledger", ""),
        ("managed-ledger", None),
        ("schema", "orders"),
        ("compacted-ledger", "orders"),
        ("offload", "t/ns/persistent/orders"),
        (None, "t/ns/persistent/orders"),
    ],
)
def test_what_names_no_topic_gets_no_command(component, name):
    """Other forms, other components, names that cannot be printed on one line: nothing is
    guessed.
    """
    assert of(component, name) is None


def test_only_pulsar_is_pulsar():
    """The same words of another application mean something else."""
    assert of("managed-ledger", "t/ns/persistent/orders", application="other") is None
    assert pulsar_ledger(None) is None


def test_what_is_asked_fits_what_the_ledger_is_for():
    """Messages can be read and their topic unloaded, a schema can be fetched, and a compaction has
    a status.
    """
    topic = "persistent://t/ns/a"
    stats = f"pulsar-admin topics stats-internal {topic}"
    commands = {
        use: (*look_commands(ledger), *read_commands(ledger, 7, "4"), *unload_commands(ledger))
        for use, ledger in by_use(topic).items()
    }
    assert {
        Use.MESSAGES: (
            stats,
            f"pulsar-admin topics get-message-by-id -l 7 -e 4 {topic}",
            f"pulsar-admin topics unload {topic}",
        ),
        Use.CURSOR: (stats, f"pulsar-admin topics unload {topic}"),
        Use.SCHEMA: (f"pulsar-admin schemas get --all-version {topic}",),
        Use.COMPACTED: (stats, f"pulsar-admin topics compaction-status {topic}"),
    } == commands


def by_use(topic):
    return {use: PulsarLedger(topic, use) for use in Use}
