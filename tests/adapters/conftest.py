"""A real ZooKeeper for the tests of one module, and a client that writes what BookKeeper would have left there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.zookeeper_process import ZooKeeperProcess, zookeeper
from support.zookeeper_znodes import Znodes, znodes


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    """A server, its own for each module: some stop it, and each fills it with what the others must not see."""
    with zookeeper(tmp_path_factory.mktemp("zookeeper")) as process:
        yield process


@pytest.fixture(scope="module")
def tree(server: ZooKeeperProcess) -> Iterator[Znodes]:
    """A client of that server that may write; a module that needs more than an empty tree has a fixture of its own."""
    with znodes(server.hosts) as client:
        yield client
