"""Put `tests/` on the path, so that `support.xyz` can be imported; and provide the one Spark
session of all tests.
"""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

TESTS = str(Path(__file__).parent)
if TESTS not in sys.path:
    sys.path.insert(0, TESTS)

_contract_cases: dict[str, int] = {}


def pytest_configure(config: pytest.Config) -> None:
    """Prepare Hypothesis, the environment, and what a second try needs to know."""
    from support.second_try import keep_outcome
    from support.untimed_hypothesis import set_up_when_imported
    from support.working_directory import forget_settings

    forget_settings()
    keep_outcome(config)
    set_up_when_imported(config.rootpath / ".hypothesis")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Leave the checkout, in each process that imports and runs tests. The one that only starts the
    others stays, so that they start where it was started; if they run all tests, it compiles them.

    What tests write need not outlive the machine: waiting for its disk took a seventh of a run.
    """
    from support.working_directory import enter_empty_directory

    os.fsync = lambda _: None
    if not session.config.pluginmanager.hasplugin("dsession"):
        enter_empty_directory()
    elif session.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        from support.compiled_tests import compile_all_tests

        compile_all_tests()


@pytest.fixture(autouse=True)
def _empty_working_directory() -> Iterator[None]:
    """Fail a test that leaves something in the working directory, or leaves it."""
    from support.working_directory import restore_directory

    yield
    if changed := restore_directory():
        pytest.fail(changed, pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no reference cycles while tests are collected, and never among what was: that took
    more than half of the time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the directories; the order within one stays."""
    from support.places import turn

    items.sort(key=lambda item: turn(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Run the tests of one `place` in one process, if there are several."""
    from support.places import place
    from xdist.scheduler import LoadScopeScheduling

    class ByPlace(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return place(nodeid.partition("::")[0])

    config.option.loadscopereorder = (
        False  # by the number of tests, the slowest files would come last
    )
    return ByPlace(config, log)


def pytest_collection_finish() -> None:
    """Let sandbox clusters hand their ZooKeeper on, if some test may start one. Make it cheap to
    fork a process that has collected many tests.
    """
    from support.large_pages import move_to_large_pages

    move_to_large_pages()
    if "auditor.sandbox.cluster" in sys.modules:
        from support.spare_zookeepers import keep_spares

        keep_spares()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Report the contract cases that each implementation passed to the process that prints the end
    of the run. End servers that were kept, and remove the working directory.
    """
    from support.working_directory import leave_directory

    leave_directory(session.config.invocation_params.dir)
    if spares := sys.modules.get("support.spare_zookeepers"):
        spares.end_spares()

    contract = sys.modules.get("support.bookie_contract")  # None where no test used it
    counts = {name: len(names) for name, names in contract.CASES_RUN.items()} if contract else {}
    _contract_cases.update(counts)
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["contract_cases"] = counts


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Collect the results of a worker process that has ended."""
    _contract_cases.update(getattr(node, "workeroutput", {}).get("contract_cases", {}))


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how many contract cases each implementation passed; `test_bookie_contract` fails if
    they differ. Print what was not tried, once for each reason.
    """
    from support.requirements import lines_about_skipped

    if _contract_cases:
        terminalreporter.section("bookie contract: cases per implementation")
        for implementation, count in sorted(_contract_cases.items()):
            terminalreporter.line(f"{implementation}: {count}")
    if lines := lines_about_skipped(terminalreporter.stats.get("skipped", ())):
        terminalreporter.section("tests not tried, and what this machine lacks for them")
        for line in lines:
            terminalreporter.line(line)


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    """Yield the one Spark session of the test run: starting one takes as long as a whole audit.

    Its JVM compiles quickly rather than well, as in a run. Well-compiled code is hardly used before
    the tests end, and compiling it took a quarter of the CPU time. Queries are interpreted: making
    Java of each took another quarter, and tests of whole commands do that in sessions of their own.
    Like that of a run it starts under --output-umask.
    """
    from support.file_modes import DEFAULT_MASK

    from auditor.evidence.local_files import restrict_new_files
    from auditor.spark.session import spark_session
    from auditor.stop import StopRequest

    with ExitStack() as stack:
        with restrict_new_files(DEFAULT_MASK):
            session = stack.enter_context(spark_session(6, "local[6,2]", StopRequest()))
        session.conf.set("spark.sql.codegen.wholeStage", "false")
        session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        yield session
