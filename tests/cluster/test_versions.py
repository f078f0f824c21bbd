"""The releases of docs/versions.md: an audit of each finds what was lost, and nothing else.

The quick rows are those of the newest releases, which every other test here runs on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.audits import accounted, audit, audit_topics
from support.listers import await_listed, listers_of
from support.pulsar_stories import (
    LOST_ENTRY,
    ORDERS,
    holders,
    lose_copies,
    topic_of,
    write_topic,
)
from support.pulsar_stories import await_listed as await_topic_listed
from support.real_cluster import RealCluster
from support.real_pulsar import RealPulsar
from support.supported_versions import BOOKKEEPERS, PULSARS, SELF_LISTING, STORAGES, ZOOKEEPERS
from support.zookeeper_ensemble import EnsembleCluster, ZooKeeperEnsemble
from support.zookeeper_process import release_classpath

from auditor.model.finding import Kind
from auditor.model.ledger import LedgerRecord
from auditor.zookeeper.metadata_store import MetadataStore

pytestmark = [pytest.mark.real, pytest.mark.long]

SOUND, HIT, LAST = 1_610, 1_611, 1_612
METADATA = "e3 w2 a2 0:[b1 b2 b3] closed 299"
MIDDLE = {"b1": "150", "b2": "150", "b3": "150"}
WRITTEN_ENTRIES = 40
LEDGERS = 400
SYNCED = {"journalSyncData": "true"}
"""Without it a bookie of 4.16.6 replays its whole journal, and what was lost on purpose is back."""


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("version", BOOKKEEPERS)
def test_a_lost_entry_of_this_bookkeeper_is_found_and_nothing_else(
    version: str, storage: str, tmp_path: Path
) -> None:
    """By lists of whole ledgers, of the bookies themselves or of listers; also after a bookie has
    ended in good order and was started again. What this release's own client wrote is sound.
    """
    with RealCluster(tmp_path / "cluster", 3, storage, version=version) as cluster:
        by_client = cluster.write_as_client(3, 2, 2, WRITTEN_ENTRIES)
        for ledger_id in (SOUND, HIT, LAST):
            cluster.place(ledger_id, cluster.ledger(METADATA), MIDDLE if ledger_id == HIT else None)
        cluster.end_bookie("b3")
        cluster.start_bookie("b3")
        if storage in SELF_LISTING:
            run = accounted(audit(cluster, tmp_path))
        else:
            with listers_of(cluster, tmp_path) as listers:
                for line in listers.read_text().splitlines():
                    await_listed(line.split()[1], LAST)
                run = accounted(audit(cluster, tmp_path, lister_map=str(listers)))
    assert {by_client, SOUND, HIT, LAST} == set(run.verdicts)
    assert ["sound", "sound", "violated", "sound"] == run.standings(by_client, SOUND, HIT, LAST)
    (found,) = run.findings
    assert (Kind.ENTRY_WITHOUT_REPLICA, [[150, 150]]) == (Kind(found["kind"]), found["entries"])
    assert (4, 0) == (run.summary["assurance"]["listed"], run.summary["copies"]["assumed"])


@pytest.mark.parametrize("version", ZOOKEEPERS)
def test_a_leader_that_dies_in_this_zookeeper_costs_no_ledger(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL of the leader of three while a run reads metadata: every ledger is judged, the lost
    entry is found, and nothing else is.
    """
    classpath = release_classpath(version)
    with EnsembleCluster(tmp_path / "cluster", 3, named=True, classpath=classpath) as cluster:
        for ledger_id in range(LEDGERS):
            lose = MIDDLE if ledger_id == LEDGERS // 2 else None
            cluster.place(ledger_id, cluster.ledger(METADATA), lose)
        kill = LeaderKill(cluster.ensemble, monkeypatch)
        run = accounted(audit(cluster, tmp_path, zookeeper_batch_paths="10"))
        assert kill.killed not in (None, cluster.ensemble.await_leader())
    assert kill.repeats > 0, "no read noticed"
    assert LEDGERS - 1 == run.summary["ledgers"]["sound"]
    assert Kind.ENTRY_WITHOUT_REPLICA == Kind(run.one(LEDGERS // 2)["kind"])
    assert 1 == len(run.findings)


class LeaderKill:
    """Kills the leader once, while the first look reads ledgers."""

    def __init__(self, ensemble: ZooKeeperEnsemble, monkeypatch: pytest.MonkeyPatch) -> None:
        self.killed: int | None = None
        self.repeats = 0
        """How many reads one session repeated."""
        read_ledgers = MetadataStore.read_ledgers

        def read_until(store: MetadataStore, *given: Any, **more: Any) -> Iterator[LedgerRecord]:
            for number, record in enumerate(read_ledgers(store, *given, **more)):
                if number == LEDGERS // 4 and self.killed is None:
                    self.killed = ensemble.kill_leader()
                yield record
            self.repeats = max(self.repeats, store.counts.repeats)

        monkeypatch.setattr(MetadataStore, "read_ledgers", read_until)


@pytest.mark.parametrize("version", PULSARS)
def test_a_lost_entry_of_this_pulsars_topic_is_found_and_nothing_else(
    version: str, tmp_path: Path
) -> None:
    """Gone from the index of both bookies that held it: its topic is blocked there, the topic
    beside it is readable, and a run has this one finding.
    """
    sound, hit = topic_of("sound"), topic_of("hit")
    with RealPulsar(tmp_path / "pulsar", None, SYNCED, version) as pulsar:
        pulsar.create_namespace(ORDERS)
        ledgers = {name: write_topic(pulsar, name) for name in (sound, hit)}
        lost = ledgers[hit][0]
        held_by = holders(pulsar, lost, LOST_ENTRY)
        with listers_of(pulsar.cluster, tmp_path) as listers:  # flushed: no journal brings it back
            await_topic_listed(pulsar, listers, ledgers[hit][-2])
        lose_copies(pulsar, {bookie_id: {lost: str(LOST_ENTRY)} for bookie_id in held_by})
        with listers_of(pulsar.cluster, tmp_path) as listers:
            await_topic_listed(pulsar, listers, ledgers[sound][-2])
            topics = audit_topics(pulsar, sound, hit, lister_map=str(listers))
            run = accounted(audit(pulsar, tmp_path, lister_map=str(listers)))
    said = {one["topic"]: (one["answer"], one["first_loss"]) for one in topics.summary["topics"]}
    assert {sound: ("readable", None), hit: ("blocked", [lost, LOST_ENTRY])} == said
    (found,) = run.findings
    assert (lost, Kind.ENTRY_WITHOUT_REPLICA, [[LOST_ENTRY, LOST_ENTRY]]) == (
        found["ledger_id"],
        Kind(found["kind"]),
        found["entries"],
    )
    assert 0 == run.summary["ledgers"]["indeterminate"]
