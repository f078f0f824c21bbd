"""A ZooKeeper for the tests of one module, and a client that writes what BookKeeper would."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.zookeeper_in_memory import MemoryZooKeeper, zookeeper_in_memory
from support.zookeeper_process import ZooKeeperProcess, zookeeper
from support.zookeeper_znodes import Znodes, znodes

IN_MEMORY, REAL = "in_memory", "real_zookeeper"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with the marker `also_in_memory` against a real server and against the one in
    memory.
    """
    marked = metafunc.definition.get_closest_marker("also_in_memory")
    if marked and "server" in metafunc.fixturenames:
        metafunc.parametrize("server", (IN_MEMORY, REAL), indirect=True, scope="module")


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ZooKeeperProcess | MemoryZooKeeper]:
    """Yield a server for one module: some modules stop it, and each fills it with what the others
    must not see.
    """
    if getattr(request, "param", REAL) == IN_MEMORY:
        with zookeeper_in_memory() as in_memory:
            yield in_memory
    else:
        with zookeeper(tmp_path_factory.mktemp("zookeeper")) as process:
            yield process


@pytest.fixture(scope="module")
def tree(server: ZooKeeperProcess | MemoryZooKeeper) -> Iterator[Znodes]:
    """Yield a client of that server that may write. A module that needs more than an empty tree has
    a fixture of its own.
    """
    if isinstance(server, MemoryZooKeeper):
        yield server
    else:
        with znodes(server.hosts) as client:
            yield client
