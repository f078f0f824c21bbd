"""Slow stories of a real Pulsar: brokers with each compression of metadata, and a wiped bookie."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.audits import accounted, audit, audit_topics
from support.listers import listers_of
from support.pulsar_stories import (
    BEHIND,
    BEYOND,
    COMPRESSIONS,
    ORDERS,
    placed_entries,
    topic_of,
    write_topic,
)
from support.real_pulsar import RealPulsar

from auditor.model.finding import Kind

pytestmark = [pytest.mark.real, pytest.mark.long]

MAGIC = b"Gx"
WIPED = "b2"


@pytest.fixture(scope="module")
def pulsar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPulsar]:
    """Yield one broker and four bookies."""
    with RealPulsar(tmp_path_factory.mktemp("pulsar")) as pulsar:
        pulsar.create_namespace(ORDERS)
        yield pulsar


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_topic_is_as_its_broker_says(pulsar: RealPulsar, compression: str) -> None:
    """The auditor reads the metadata of a broker with this compression as the broker does: ledgers,
    entries, positions.
    """
    pulsar.restart_broker(
        managedLedgerInfoCompressionType=compression, managedCursorInfoCompressionType=compression
    )
    name = topic_of(f"as-{compression.lower()}")
    write_topic(pulsar, name)
    by_broker = pulsar.managed_ledger_info(name)
    assert (compression != "NONE") == (pulsar.raw(name)[:2] == MAGIC)
    (topic,) = audit_topics(pulsar, name).summary["topics"]
    data = [(one["ledger_id"], one["entries"]) for one in topic["ledgers"] if one["role"] == "data"]
    assert [(one["ledgerId"], one["entries"]) for one in by_broker["ledgers"][:-1]] == data[:-1]
    assert by_broker["ledgers"][-1]["ledgerId"] == data[-1][0]
    assert {BEHIND: "readable", BEYOND: "readable"} == {
        one["name"]: one["answer"] for one in topic["subscriptions"]
    }
    positions = {
        name: [at["markDelete"]["ledgerId"], at["markDelete"]["entryId"]]
        for name, at in by_broker["cursors"].items()
    }
    assert positions == {one["name"]: one["position"] for one in topic["subscriptions"]}


def test_a_wiped_bookie_is_found_and_no_topic_is_lost(pulsar: RealPulsar, tmp_path: Path) -> None:
    """Every entry has its other copy: each ledger with entries there is below its ack quorum, each
    topic is readable.
    """
    names = [topic_of(f"kept-{number}") for number in range(3)]
    for name in names:
        write_topic(pulsar, name)
    pulsar.cluster.wipe(WIPED)
    with listers_of(pulsar.cluster, tmp_path) as listers:
        topics = audit_topics(pulsar, *names, lister_map=str(listers))
        run = accounted(audit(pulsar, tmp_path, lister_map=str(listers)))
    assert ["readable"] * len(names) == [one["answer"] for one in topics.summary["topics"]]
    hit = {one["ledger_id"] for one in run.findings if one["kind"] == Kind.ENTRY_BELOW_ACK_QUORUM}
    closed = [
        ledger_id for ledger_id, verdict in run.verdicts.items() if verdict.standing != "exempt"
    ]
    assert hit == {
        ledger_id for ledger_id in closed if placed_entries(pulsar, ledger_id).get(WIPED)
    }
    assert [Kind.BOOKIE_LOST_CONTENT] == [Kind(one["kind"]) for one in run.of(WIPED)]
