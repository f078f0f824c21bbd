"""An embedded cluster, and a client of its ZooKeeper, for the tests of one module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from auditor.sandbox.cluster import SandboxCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    with SandboxCluster(tmp_path_factory.mktemp("sandbox"), bookies=4) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def zk(cluster: SandboxCluster) -> Iterator[KazooClient]:
    client = KazooClient(cluster.zookeeper_hosts)
    client.start(timeout=20)
    yield client
    client.stop()
    client.close()
