"""A real Pulsar whose topic cannot be loaded: its newest ledger needs a bookie that is gone for its
recovery.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.audits import Outcome, audit_topics
from support.pulsar_stories import read_metadata
from support.real_pulsar import RealPulsar

from auditor.model.ledger import LedgerState

pytestmark = [pytest.mark.real, pytest.mark.long]

TOPIC = "persistent://shop/orders/eu"
SETTINGS = {
    "managedLedgerDefaultEnsembleSize": 2,
    "managedLedgerDefaultWriteQuorum": 2,
    "managedLedgerDefaultAckQuorum": 1,
}


@pytest.fixture(scope="module")
def pulsar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPulsar]:
    """Yield a Pulsar whose topic is open, while its broker and one bookie of its newest ledger are
    killed.
    """
    with RealPulsar(tmp_path_factory.mktemp("recovery"), SETTINGS) as pulsar:
        pulsar.create_namespace("shop/orders")
        pulsar.produce(TOPIC, 50)
        pulsar.kill_broker()
        ledger_id = pulsar.data_ledgers(TOPIC)[-1].ledger_id
        lost = read_metadata(pulsar, ledger_id).segments[-1].ensemble[0]
        pulsar.cluster.kill_bookie(lost)
        pulsar.cluster.unregister(lost)
        yield pulsar


def audit(pulsar: RealPulsar) -> Outcome:
    return audit_topics(pulsar, TOPIC, second_look_delay="1s")


def test_of_an_open_ledger_that_lacks_bookies_it_is_not_known_whether_it_can_be_read(
    pulsar: RealPulsar,
) -> None:
    """A broker that has it open could go on."""
    outcome = audit(pulsar)
    assert (3, "unknown") == (outcome.exit_code, outcome.summary["topics"][0]["answer"])


def test_a_topic_whose_newest_ledger_cannot_be_recovered_is_not_readable(
    pulsar: RealPulsar,
) -> None:
    """A broker has tried in vain: the ledger is in recovery. No client gets a message."""
    pulsar.start_broker(**SETTINGS)
    with pytest.raises(AssertionError, match="recover"):
        pulsar.read(TOPIC)
    ledger_id = pulsar.data_ledgers(TOPIC)[-1].ledger_id
    assert LedgerState.IN_RECOVERY is read_metadata(pulsar, ledger_id).state
    outcome = audit(pulsar)
    topic = outcome.summary["topics"][0]
    assert (1, "VIOLATED", "blocked") == (
        outcome.exit_code,
        outcome.summary["outcome"],
        topic["answer"],
    )
    assert "no broker can load the topic" in topic["blocker"]
