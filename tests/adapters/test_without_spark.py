"""Commands that need no Spark do not load it: a notebook, a small run, and all that reads a stored
run.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command_line import at, cluster_with_a_loss, environment_of

from auditor.sandbox.cluster import SandboxCluster

TIMEOUT_S = 120
COMMAND = """
import sys
sys.argv = ["auditor", *sys.argv[1:]]
from auditor.__main__ import main
try:
    main()
except SystemExit as ended:
    print("ended with", ended.code)
heavy = {"pyspark", "py4j", *({"pandas"} if sys.argv[1] != "run" else ())}
heavy |= {"auditor.run.replay"} if sys.argv[1] == "report" else set()
loaded = heavy & sys.modules.keys()
import pyarrow
if "jemalloc" in pyarrow.supported_memory_backends():
    loaded |= {pyarrow.default_memory_pool().backend_name} - {"jemalloc"}
print("loaded:", *sorted(loaded))
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield nine ledgers; ledger 9 lacks an entry on one bookie."""
    with cluster_with_a_loss(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture(scope="module")
def run(cluster: SandboxCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run that looked at a suspect again, and was small enough for one process."""
    output = tmp_path_factory.mktemp("output")
    assert ("1", []) == ended_and_loaded("run", *at(cluster), "--output", str(output))
    (run,) = output.glob("run-*")
    return run


def python(*arguments: str) -> list[str]:
    """Return the lines that a Python process prints."""
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment_of(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    return done.stdout.splitlines()


def ended_and_loaded(*arguments: str) -> tuple[str, list[str]]:
    """Return the exit code of a command, and what it loaded of Spark, or of pandas but by `run`, or
    of what judges for `report`. Another allocator than jemalloc counts as loaded.
    """
    *_, ended, loaded = python("-c", COMMAND, *arguments)
    return ended.removeprefix("ended with "), loaded.removeprefix("loaded:").split()


def test_the_interface_for_notebooks_loads_no_spark() -> None:
    """It starts half a second sooner."""
    program = "import auditor, auditor.api, sys; print('pyspark' in sys.modules)"
    assert ["False"] == python("-c", program)


def test_single_ledgers_load_no_spark_and_no_pandas(cluster: SandboxCluster) -> None:
    """They are audited in a second. Arrow by itself would import pandas, which takes long."""
    assert ("1", []) == ended_and_loaded("ledger", "9", *at(cluster))


def test_arrow_keeps_pandas_where_it_is_loaded_already() -> None:
    """A notebook that calls the command line keeps what it has."""
    program = (
        "import pyarrow, pandas; from auditor.commands.calling import load_arrow_alone;"
        " load_arrow_alone(); print(type(pyarrow.table({'a': [1]}).to_pandas()).__name__)"
    )
    assert ["DataFrame"] == python("-c", program)


@pytest.mark.parametrize(
    ("command", "code"), [("replay", "1"), ("report", "1"), ("margin", "0"), ("explain 9", "0")]
)
def test_commands_on_a_stored_run_load_no_spark_and_no_pandas(
    run: Path, command: str, code: str
) -> None:
    """The run itself did not load Spark either. pandas is a third of the time of such a command.
    A report judges nothing, and does not load what does: a fifth of its time.
    """
    assert (code, []) == ended_and_loaded(*command.split(), str(run))
