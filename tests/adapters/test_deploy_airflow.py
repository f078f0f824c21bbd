"""The Airflow DAG: always as text; against Airflow itself with TEST_AIRFLOW=1, which installs it
beside the auditor (some 200 MB).
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.deployed import DEPLOY, ROOT, stub, unknown_flags

DAG = DEPLOY / "airflow/bookkeeper_auditor_dag.py"
AIRFLOW = "3.3.2"
INSTALL_S, RUN_S = 900, 250
ASKED = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[1])
assert not bag.import_errors, bag.import_errors
dag = bag.dags["bookkeeper_auditor"]
task = dag.get_task("audit")
said = {"dags": list(bag.dags), "retries": task.retries, "runs": dag.max_active_runs}
said.update(catchup=dag.catchup, ends={})
said["command"] = task.command
for code in sys.argv[2].split():
    task.command = [f"{sys.argv[3]}/{code}/auditor", "run"]
    try:
        said["ends"][code] = ["returned", task.execute({})]
    except Exception as error:
        said["ends"][code] = [type(error).__name__, str(error)]
print("SAID " + json.dumps(said))
"""


def constant(name: str) -> object:
    """Return the value of a constant of the DAG's module, without running the module."""
    for node in ast.parse(DAG.read_text()).body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id == name
        ):
            return ast.literal_eval(node.value)
    raise AssertionError(f"{DAG} has no {name}")


def test_the_dag_compiles_and_imports_airflow_alone():
    """It imports only Airflow and the standard library: the auditor is a process, in an environment
    of its own.
    """
    tree = ast.parse(DAG.read_text())
    compile(tree, str(DAG), "exec")
    imported = {
        node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module
    }
    imported |= {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    roots = {name.partition(".")[0] for name in imported}
    assert "airflow" in roots and roots - {"airflow"} <= sys.stdlib_module_names


def test_the_dag_calls_the_auditor_as_it_can_be_called():
    """The command and its options exist."""
    command = constant("COMMAND")
    assert isinstance(command, list)
    assert "run" == command[1] and set() == unknown_flags(command[2:])


def test_every_exit_code_of_the_command_has_its_end():
    """0 to 5, each once; findings and our own faults are never retried."""
    final, again = constant("FINAL"), constant("AGAIN")
    assert isinstance(final, dict) and isinstance(again, dict)
    assert [0, 1, 2, 3, 4, 5] == sorted([constant("SOUND"), *final, *again])
    assert {1, 2, 4} == set(final)


@pytest.fixture(scope="session")
def airflow_python() -> Path:
    """Return a Python with Airflow, in .cache; the first call makes it."""
    if os.environ.get("TEST_AIRFLOW") != "1":
        pytest.skip("TEST_AIRFLOW=1 is not set: the DAG is not imported by Airflow itself")
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is None:
        pytest.fail("uv is not installed: it makes the environment for Airflow (pip install uv)")
    home = ROOT / ".cache" / f"airflow-{AIRFLOW}"
    python = home / "bin/python"
    if not (home / "complete").is_file():
        subprocess.run(
            [uv, "venv", "--clear", "-q", "-p", sys.executable, str(home)],
            check=True,
            timeout=INSTALL_S,
        )
        install = [uv, "pip", "install", "-q", "-p", str(python), f"apache-airflow=={AIRFLOW}"]
        subprocess.run(install, check=True, timeout=INSTALL_S)
        (home / "complete").touch()
    return python


@pytest.mark.timeout(INSTALL_S + RUN_S)
def test_airflow_imports_the_dag_and_each_exit_code_ends_as_it_says(airflow_python, tmp_path):
    """There is one DAG, and no import error; 0 returns the report's last line, 1, 2 and 4 fail for
    good, 3, 5 and 143 are retried.
    """
    dags = tmp_path / "dags"
    dags.mkdir()
    shutil.copy(DAG, dags)
    codes = ["0", "1", "2", "3", "4", "5", "143"]
    for code in codes:
        stub(tmp_path / code, int(code), f"auditor: word {code}")
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(tmp_path),
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False", "TMPDIR": str(tmp_path),
    }  # fmt: skip
    done = subprocess.run(
        [str(airflow_python), "-c", ASKED, str(dags), " ".join(codes), str(tmp_path)],
        env=environment, capture_output=True, text=True, timeout=RUN_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    found = re.search(r"^SAID (.*)$", done.stdout, re.MULTILINE)
    assert found is not None, done.stdout[-4000:]
    said = json.loads(found[1])
    assert (["bookkeeper_auditor"], 2, 1, False) == (
        said["dags"],
        said["retries"],
        said["runs"],
        said["catchup"],
    )
    assert constant("COMMAND") == said["command"]
    assert ["returned", "auditor: word 0"] == said["ends"].pop("0")
    kinds = {code: kind for code, (kind, _) in said["ends"].items()}
    final = dict.fromkeys(("1", "2", "4"), "AirflowFailException")
    assert final | dict.fromkeys(("3", "5", "143"), "AirflowException") == kinds
    assert all(f"exit code {code}: " in sentence for code, (_, sentence) in said["ends"].items())
