"""Real BookKeeper for the tests: skipped with a message if Java or Maven is missing, failed in CI.

`shared_cluster` serves all tests that destroy nothing; `real_cluster` makes one for a test that
does (`support.real_cluster`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from support.bookies_under_test import SandboxBookieUnderTest, sandbox_bookies
from support.java_auditor import JavaAuditor
from support.real_cluster import RealCluster
from support.real_jars import missing_tools
from support.requirements import lack

REAL_TEST_TIMEOUT_S = 900
"""The first test that needs the jars waits for Maven as well, in seconds."""
SHARED_STORAGES = ["SortedLedgerStorage"] * 3 + ["InterleavedLedgerStorage"] * 2
LEDGER_ID_FIRST = 1_000
LEDGER_IDS_A_TEST = 1_000
"""Ids that a test may draw: enough for any story, and the shared cluster stays far below the
contract's own ids.
"""

_ranges = count(LEDGER_ID_FIRST, LEDGER_IDS_A_TEST)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests that start JVMs more time."""
    for item in items:
        if item.get_closest_marker("real") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(REAL_TEST_TIMEOUT_S))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Without Java or Maven, fail in CI; elsewhere skip and say what is not tested."""
    problem = missing_tools() if item.get_closest_marker("real") else None
    if problem is not None:
        lack(problem)


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Yield three Sorted (b1 b2 b3) and two Interleaved (b4 b5) bookies for the whole run. Tests
    leave them unchanged.
    """
    with RealCluster(
        tmp_path_factory.mktemp("shared"), bookies=len(SHARED_STORAGES), storage=SHARED_STORAGES
    ) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def policies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaAuditor]:
    """Yield BookKeeper's placement policy classes in a JVM, without a cluster: only `adherence`
    works.
    """
    with JavaAuditor(
        "zk+hierarchical://127.0.0.1:1/ledgers", tmp_path_factory.mktemp("policies")
    ) as java:
        yield java


@pytest.fixture(scope="session")
def sandbox() -> Iterator[dict[str, SandboxBookieUnderTest]]:
    """Yield a listening sandbox bookie for each storage (`sorted`, `interleaved`), without Java."""
    with sandbox_bookies() as bookies:
        yield bookies


@pytest.fixture
def ledger_ids() -> Iterator[int]:
    """Yield ledger ids that no other test of this run draws: call `next(ledger_ids)` at most
    `LEDGER_IDS_A_TEST` times.
    """
    first = next(_ranges)
    return iter(range(first, first + LEDGER_IDS_A_TEST))


@pytest.fixture
def real_cluster(tmp_path: Path) -> Iterator[Callable[..., RealCluster]]:
    """Yield a function that starts a separate cluster, `real_cluster(bookies=3,
    storage="DbLedgerStorage")`, stopped after the test. 4-8 s.
    """
    with ExitStack() as stack:
        numbers = count(1)

        def make(**arguments: Any) -> RealCluster:
            return stack.enter_context(
                RealCluster(tmp_path / f"cluster{next(numbers)}", **arguments)
            )

        yield make
