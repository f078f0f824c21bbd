"""Topics whose ledgers a real broker offloaded with Pulsar's own file system offloader, into a real
HDFS.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.audits import Outcome, accounted, audit, audit_topics
from support.hdfs import hdfs
from support.pulsar_stories import ARCHIVE, MESSAGES, ORDERS, delete_ledger, topic_of, write_topic
from support.real_jars import offloader_nar
from support.real_pulsar import RealPulsar

from auditor.evidence.hdfs_files import HdfsFiles

pytestmark = [pytest.mark.real, pytest.mark.long]

PROFILE = """<configuration>
  <property><name>fs.defaultFS</name><value>{uri}</value></property>
  <property><name>hadoop.tmp.dir</name><value>/offloaded</value></property>
</configuration>
"""
DELETED, VANISHED = topic_of("deleted", ARCHIVE), topic_of("vanished")
"""Topics whose first ledgers are in long-term storage alone: the broker deleted them from
BookKeeper and says so, or they vanished there and nobody says so.
"""


@pytest.fixture(scope="module")
def pulsar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPulsar]:
    """A broker with the offloader, and both topics."""
    workdir = tmp_path_factory.mktemp("offload")
    offloaders, store = workdir / "offloaders", workdir / "hdfs"
    for folder in (offloaders, store, workdir / "unpacked"):
        folder.mkdir()
    (offloaders / "file-system.nar").symlink_to(offloader_nar())
    profile = workdir / "file-system.xml"
    settings = {
        "managedLedgerOffloadDriver": "filesystem",
        "offloadersDirectory": offloaders,
        "narExtractionDirectory": workdir / "unpacked",
        "fileSystemProfilePath": profile,
        "managedLedgerOffloadDeletionLagMs": 0,
        "retentionCheckIntervalInSeconds": 3_600,
    }
    with ExitStack() as stack:
        uri = stack.enter_context(hdfs(store))
        profile.write_text(PROFILE.format(uri=uri))
        pulsar = stack.enter_context(
            RealPulsar(workdir / "pulsar", {**settings, "fileSystemURI": uri})
        )
        for namespace in (ORDERS, ARCHIVE):
            pulsar.create_namespace(namespace)
        for topic in (DELETED, VANISHED):
            write_topic(pulsar, topic, unload=False)
            pulsar.offload(topic)
        assert HdfsFiles(uri.removeprefix("hdfs://")).find("/"), "the offloader wrote nothing"
        pulsar.delete_offloaded(DELETED)
        for one in pulsar.data_ledgers(VANISHED)[:-1]:
            assert not one.bookkeeper_deleted, one
            delete_ledger(pulsar, one.ledger_id)
        yield pulsar


def test_brokers_read_what_is_in_long_term_storage_alone(pulsar: RealPulsar) -> None:
    """So neither topic has lost anything, whoever deleted the ledgers in BookKeeper."""
    for topic in (DELETED, VANISHED):
        for one in pulsar.data_ledgers(topic)[:-1]:
            assert not pulsar.cluster.zk.exists(pulsar.cluster.ledger_path(one.ledger_id))
        pulsar.unload(topic)
        assert (MESSAGES, True) == pulsar.read(topic)


def test_a_ledger_in_long_term_storage_is_not_missing(pulsar: RealPulsar, tmp_path: Path) -> None:
    """Neither for a run nor for `auditor topic`, also where the topic does not say that it was
    deleted from BookKeeper.
    """
    outcome: Outcome = accounted(audit(pulsar, tmp_path))
    assert [] == [one for one in outcome.findings if one["kind"] == "REFERENCED_LEDGER_MISSING"]
    assert (0, 0) == tuple(outcome.summary["references"][name] for name in ("missing", "unknown"))
    for topic in audit_topics(pulsar, DELETED, VANISHED).summary["topics"]:
        conditions = [one["condition"] for one in topic["ledgers"] if one["role"] == "data"]
        assert ["offloaded", "offloaded"] == conditions[:2], topic["topic"]
        assert {"readable"} == {one["answer"] for one in topic["subscriptions"]}
