"""Puts `tests/` on the path, so that shared support is importable as `support.xyz`; and the one
Spark session of all tests.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TESTS = str(Path(__file__).parent)
if TESTS not in sys.path:
    sys.path.insert(0, TESTS)

_contract_cases: dict[str, int] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the directories; within one the order stays."""
    from support.places import turn

    items.sort(key=lambda item: turn(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Where tests run in several processes, those of one `place` stay in one."""
    from support.places import place
    from xdist.scheduler import LoadScopeScheduling

    class ByPlace(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return place(nodeid.partition("::")[0])

    config.option.loadscopereorder = (
        False  # by the number of tests, the dearest files would come last
    )
    return ByPlace(config, log)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell how many contract cases each implementation passed to whoever prints the end of the
    run.
    """
    from support.bookie_contract import CASES_RUN

    counts = {implementation: len(names) for implementation, names in CASES_RUN.items()}
    _contract_cases.update(counts)
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["contract_cases"] = counts


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A process of several is done: what it told."""
    _contract_cases.update(getattr(node, "workeroutput", {}).get("contract_cases", {}))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How many contract cases each implementation passed; `test_bookie_contract` fails when they
    differ.
    """
    if _contract_cases:
        terminalreporter.section("bookie contract: cases per implementation")
        for implementation, count in sorted(_contract_cases.items()):
            terminalreporter.line(f"{implementation}: {count}")


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    """The one Spark session of the test run: starting one costs as much as a whole audit.

    Its JVM compiles quickly rather than well, as in a run: what is compiled well is hardly used
    before the tests are over, and it took a quarter of the CPU time.
    """
    from auditor.spark.session import spark_session
    from auditor.stop import StopRequest

    with spark_session(6, "local[6,2]", StopRequest()) as session:
        yield session
