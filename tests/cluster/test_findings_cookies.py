"""Cookies of a real cluster that somebody wrote by hand, and a bookie that does not start so."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from support.audits import Outcome, accounted, audit, replay_run
from support.real_cluster import RealCluster

from auditor.model.finding import Kind
from auditor.wire import znode_paths

pytestmark = pytest.mark.real

LEDGERS = dict.fromkeys(range(1, 5), "e3 w3 a2 0:[b1 b2 b3] closed 9")
OTHER = "00000000-0000-4000-8000-000000000000"


@dataclass(frozen=True)
class Rewritten:
    """A cluster, the audit before its cookies were written by hand, and the audit after that."""

    cluster: RealCluster
    before: Outcome
    after: Outcome


def cookie_path(cluster: RealCluster, bookie: str) -> str:
    return f"{cluster.root}{znode_paths.COOKIES}/{bookie}"


def cookie_text(cluster: RealCluster, bookie: str) -> str:
    return str(cluster.zk.get(cookie_path(cluster, bookie))[0].decode())


@pytest.fixture(scope="module")
def rewritten(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rewritten]:
    """At the first audit b3's cookie names a directory more than at the second; at the second one
    b2's cookie has another instance id.
    """
    with RealCluster(tmp_path_factory.mktemp("cookies"), bookies=3) as cluster:
        for ledger_id, text in LEDGERS.items():
            cluster.place(ledger_id, cluster.ledger(text))
        own = cookie_text(cluster, "b3")
        more = own.replace('ledgerDirs: "1\\t', 'ledgerDirs: "2\\t/mnt/second\\t')
        assert more != own
        cluster.zk.set(cookie_path(cluster, "b3"), more.encode())
        output = tmp_path_factory.mktemp("audits")
        before = accounted(audit(cluster, output))
        cluster.zk.set(cookie_path(cluster, "b3"), own.encode())
        foreign = re.sub('instanceId: ".*"', f'instanceId: "{OTHER}"', cookie_text(cluster, "b2"))
        cluster.zk.set(cookie_path(cluster, "b2"), foreign.encode())
        yield Rewritten(cluster, before, accounted(audit(cluster, output)))


def test_real_cookies_of_a_cluster_that_nobody_touched_are_no_finding(rewritten: Rewritten) -> None:
    """Each real bookie says how full its disks are."""
    assert ([], 0) == (rewritten.before.findings, rewritten.before.exit_code)
    space = rewritten.before.summary["space"]
    total = shutil.disk_usage(rewritten.cluster.directory("b1")).total
    assert (3, 0, 3, 3 * total) == tuple(
        space[name] for name in ("bookies", "unknown", "sharing_hosts", "total_bytes")
    )


def test_a_cookie_of_another_instance_is_found(rewritten: Rewritten) -> None:
    """Only on its bookie."""
    found = rewritten.after.one("b2")
    assert Kind.COOKIE_OF_ANOTHER_INSTANCE.value == found["kind"]
    assert OTHER == found["facts"]["cookie_instance_id"]
    assert rewritten.after.summary["cluster"]["instance_id"] == found["facts"]["instance_id"]


def test_a_cookie_that_names_fewer_directories_is_found(rewritten: Rewritten) -> None:
    """The disks themselves are as large as before. A replay finds the same."""
    found = rewritten.after.one("b3")
    assert Kind.BOOKIE_DISK_SHRANK.value == found["kind"]
    lost = {"directories": 1, "earlier_directories": 2, "gone": ["/mnt/second"]}
    assert (None, lost) == (found["facts"]["size"], found["facts"]["directories"])
    assert [] == rewritten.after.of("b1")
    assert rewritten.after.run_dir is not None
    assert rewritten.after.exit_code == replay_run(rewritten.after.run_dir).exit_code == 1


def test_a_bookie_starts_by_the_cookie_of_its_disks_alone(rewritten: Rewritten) -> None:
    """With the other instance id it ends at its start. With the text of its own VERSION file in the
    znode it starts.
    """
    cluster = rewritten.cluster
    cluster.lose_bookie("b2", cookie=True)
    with pytest.raises(RuntimeError, match="InvalidCookieException: instanceId"):
        cluster.start_bookie("b2")
    (version, *_) = sorted(cluster.directory("b2").glob("ledgers/**/current/VERSION"))
    cluster.zk.set(cookie_path(cluster, "b2"), version.read_bytes())
    cluster.start_bookie("b2")
