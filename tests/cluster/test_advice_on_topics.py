"""What a finding on a topic says to do, on a real Pulsar: what is printed first changes nothing.

One cluster. The ledgers of a schema and of a subscription's cursor are missing, twice each: the
metadata of one is put back from a backup before a broker loads the topic, the twin's is not.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.audits import Json, accounted, audit
from support.printed_commands import harmless, run_printed, state_of
from support.pulsar_stories import ORDERS, delete_ledger, topic_of
from support.real_pulsar import RealPulsar

from auditor.model.finding import Kind
from auditor.model.identity import LedgerId
from auditor.witness.next_commands import sort_steps

pytestmark = [pytest.mark.real, pytest.mark.long]

MESSAGES, SKIPPED = 200, 150
SUBSCRIPTION = "billing"
CURSORS = {"put back": topic_of("cursor-put-back"), "loaded": topic_of("cursor-loaded")}
SCHEMAS = {"put back": topic_of("schema-put-back"), "loaded": topic_of("schema-loaded")}


@dataclass
class Damaged:
    """The cluster without its broker, its findings by ledger, and the backups of the ledgers'
    znodes.
    """

    pulsar: RealPulsar
    findings: dict[LedgerId, Json]
    backups: dict[LedgerId, bytes]
    lost: dict[str, LedgerId]
    """By topic, the ledger that is missing."""
    kept: dict[str, LedgerId]
    """By topic with schemas, the ledger of its other schema, which is intact."""


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    """Yield the cluster after its broker ended as if its host had failed, and ledgers vanished."""
    with RealPulsar(tmp_path_factory.mktemp("advice")) as pulsar:
        pulsar.create_namespace(ORDERS)
        lost, kept = {}, {}
        for topic in SCHEMAS.values():
            pulsar.produce(topic, 1)
            for fields in (["a"], ["a", "b"]):
                pulsar.add_schema(topic, *fields)
            older, newer = (one.position.ledger_id for one in pulsar.schemas(topic))
            lost[topic], kept[topic] = older, newer
        for topic in CURSORS.values():
            pulsar.produce(topic, MESSAGES)
            pulsar.subscribe(topic, SUBSCRIPTION)
            pulsar.skip(topic, SUBSCRIPTION, SKIPPED)
            cursor = pulsar.cursor(topic, SUBSCRIPTION).ledger_id
            assert cursor is not None, "the cursor has a ledger while the topic is in use"
            lost[topic] = cursor
        pulsar.kill_broker()
        cluster = pulsar.cluster
        backups = {
            ledger_id: cluster.zk.get(cluster.ledger_path(ledger_id))[0]
            for ledger_id in lost.values()
        }
        for ledger_id in lost.values():
            delete_ledger(pulsar, ledger_id)
        outcome = accounted(audit(pulsar, tmp_path_factory.mktemp("audit")))
        found = {one["ledger_id"]: one for one in outcome.findings}
        yield Damaged(pulsar, found, backups, lost, kept)


def test_each_missing_ledger_is_found(damaged: Damaged) -> None:
    """Nothing else is: the topics' other ledgers are whole."""
    assert dict.fromkeys(damaged.lost.values(), Kind.REFERENCED_LEDGER_MISSING) == {
        ledger_id: Kind(one["kind"]) for ledger_id, one in damaged.findings.items()
    }


def test_what_is_printed_to_save_and_to_look_changes_nothing(
    damaged: Damaged, tmp_path: Path
) -> None:
    """Each command is run; every znode and what each bookie has is the same after it. `auditor
    topic` finds the loss, `ledgermetadata` finds no ledger; the others succeed.
    """
    cluster = damaged.pulsar.cluster
    before = state_of(cluster)
    for topic in (CURSORS["put back"], SCHEMAS["put back"]):
        steps = sort_steps(damaged.findings[damaged.lost[topic]]["next"])
        assert any("let no broker load the topic" in note for note in steps.notes)
        for command in steps.save:
            assert 0 == run_printed(cluster, command, tmp_path).code, command
        for command in steps.look:
            assert 1 == run_printed(cluster, command, tmp_path).code, command
        assert before == state_of(cluster)


def test_no_command_before_a_change_asks_a_broker(damaged: Damaged) -> None:
    """The only change that is offered is to put the backup's metadata back."""
    for one in damaged.findings.values():
        assert not [command for command in harmless(one["next"]) if "pulsar-admin" in command]
        (change,) = sort_steps(one["next"]).change
        assert f"ledgermetadata -l {one['ledger_id']} -restorefromfile BACKUP" in change


@pytest.fixture(scope="module")
def loaded(damaged: Damaged, tmp_path_factory: pytest.TempPathFactory) -> RealPulsar:
    """Return the cluster after one topic of each pair got its backup, and a broker loaded all."""
    pulsar, directory = damaged.pulsar, tmp_path_factory.mktemp("backups")
    for topic in (CURSORS["put back"], SCHEMAS["put back"]):
        ledger_id = damaged.lost[topic]
        backup = directory / str(ledger_id)
        backup.write_bytes(damaged.backups[ledger_id])
        (change,) = sort_steps(damaged.findings[ledger_id]["next"]).change
        words = shlex.split(change.replace("BACKUP_OF_ITS_METADATA", str(backup)))
        pulsar.cluster.shell(*words[2:])
    pulsar.start_broker()
    for topic in CURSORS.values():
        pulsar.load(topic)
    for topic in SCHEMAS.values():
        pulsar.read_schemas(topic)
    return pulsar


def test_a_missing_ledger_is_back_with_its_backup(damaged: Damaged, loaded: RealPulsar) -> None:
    """The subscription goes on where it was, and both schemas are there."""
    assert MESSAGES - SKIPPED == loaded.backlog(CURSORS["put back"], SUBSCRIPTION)
    assert 2 == len(loaded.schemas(SCHEMAS["put back"]))


def test_a_broker_that_loads_a_topic_delivers_again_what_the_lost_cursor_had_acknowledged(
    damaged: Damaged, loaded: RealPulsar
) -> None:
    """It has rewritten the cursor: a backup that is put back afterwards changes nothing."""
    assert MESSAGES == loaded.backlog(CURSORS["loaded"], SUBSCRIPTION)
    lost = damaged.lost[CURSORS["loaded"]]
    assert lost != loaded.cursor(CURSORS["loaded"], SUBSCRIPTION).ledger_id


def test_a_request_for_all_schemas_deletes_the_intact_ledger_of_the_other(
    damaged: Damaged, loaded: RealPulsar
) -> None:
    """So no command that looks asks for schemas: the locator is gone, and the ledger with it."""
    topic, cluster = SCHEMAS["loaded"], loaded.cluster
    assert cluster.zk.exists(cluster.ledger_path(damaged.kept[topic])) is None
    assert cluster.zk.exists(f"/schemas/{topic.removeprefix('persistent://')}") is None
