"""A cluster of the sandbox or of real bookies, for tests that run on both with the same ledgers and
the same damage. `make test` has the sandbox.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.states import ZnodeStat
from support.real_cluster import START_TIMEOUT_S, RealCluster

from auditor.model.identity import LedgerId
from auditor.sandbox.cluster import SandboxCluster, holds

SANDBOX, REAL = "sandbox", "real"
EITHER = [SANDBOX, pytest.param(REAL, marks=[pytest.mark.real, pytest.mark.long])]
"""Parameters of a fixture that yields one cluster of each sort."""

Cluster = RealCluster | SandboxCluster


def cluster_of(
    sort: str, workdir: Path, bookies: int, storage: str | Sequence[str] = "SortedLedgerStorage"
) -> Cluster:
    """Return a cluster whose bookies are called `b1` ... `bN`, to be entered."""
    if sort == SANDBOX:
        return SandboxCluster(workdir, bookies, named=True, storage=storage)
    return RealCluster(workdir, bookies=bookies, storage=storage)


def hold_more(cluster: Cluster, bookie: str, ledger_id: LedgerId, entries: str) -> None:
    """Let a bookie hold these entries too. In the sandbox `hold` replaces what it holds."""
    if isinstance(cluster, RealCluster):
        cluster.hold(bookie, ledger_id, entries)
    else:
        held = cluster.bookie(bookie).holding(ledger_id)
        runs = held.runs() if held is not None else ()
        cluster.hold(bookie, ledger_id, sorted([*runs, *holds(entries)]))


def read_znode(cluster: Cluster, path: str) -> tuple[bytes, ZnodeStat]:
    """Return the bytes of a znode below the cluster's root, and its times and versions."""
    client = KazooClient(cluster.zookeeper_hosts)
    try:
        client.start(START_TIMEOUT_S)
        data, stat = client.get(cluster.root + path)
        return data, stat
    finally:
        client.stop()
        client.close()
