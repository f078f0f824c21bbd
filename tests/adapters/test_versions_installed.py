"""The Pythons, Sparks and Javas of docs/versions.md: the demo's audit on each, from the wheel.

The quick rows are those that every other test here runs on: the versions of constraints.txt.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.environments import (
    PROJECT,
    Environment,
    build_wheel,
    install_beside,
    interpreter,
    java_home,
    new_environment,
)
from support.supported_versions import JAVAS, PYTHONS, SPARKS

pytestmark = [pytest.mark.long, pytest.mark.timeout(5_400)]

OWN = f"{sys.version_info.major}.{sys.version_info.minor}"
TREE = {"PYTHONPATH": str(PROJECT)}
ON_SPARK = ("--ledgers-in-process-max", "0")

Environments = Callable[[str], Environment]


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environments]:
    """Make an environment of a Python with the wheel, once: 1 GB, removed at the end."""
    home = tmp_path_factory.mktemp("environments")
    made: dict[str, Environment] = {}
    wheel = build_wheel(home)

    def environment(version: str) -> Environment:
        if version not in made:
            made[version] = new_environment(home / version, interpreter(version), wheel)
        return made[version]

    yield environment
    shutil.rmtree(home)


def assert_demo_is_judged(
    environment: Environment, home: Path, spark: str, **variables: str
) -> None:
    """The demo on Spark ends with the findings that it seeds, and with no others."""
    done = environment.auditor(home, "demo", *ON_SPARK, "--output", "audits", **variables)
    assert 1 == done.returncode, done.stdout[-3000:] + done.stderr[-3000:]
    (run,) = (home / "audits").glob("run-*")
    summary = json.loads((run / "summary.json").read_text())
    assert f'spark_version="{spark}"' in (run / "metrics.prom").read_text()
    ledgers = summary["ledgers"]
    assert (253, 224, 16) == (ledgers["listed"], ledgers["sound"], ledgers["violated"])


@pytest.mark.parametrize("version", PYTHONS)
def test_the_demo_is_judged_by_this_python(
    version: str, environments: Environments, tmp_path: Path
) -> None:
    """From the wheel, with the versions of constraints.txt."""
    environment = environments(version)
    doctor = environment.auditor(tmp_path, "doctor")
    assert doctor.stdout.startswith(f"ok      python    {version}."), doctor.stdout
    assert 0 == doctor.returncode, doctor.stdout
    assert_demo_is_judged(environment, tmp_path, SPARKS[-1])


@pytest.mark.parametrize("version", SPARKS)
def test_the_demo_is_judged_by_this_spark(
    version: str, environments: Environments, tmp_path: Path
) -> None:
    """The newest release of each line of Spark 4, beside the wheel."""
    environment = environments(OWN)
    environment.install(f"pyspark=={version}")
    assert_demo_is_judged(environment, tmp_path, version)


@pytest.mark.parametrize("version", JAVAS)
def test_the_demo_is_judged_by_this_java(version: str, tmp_path: Path) -> None:
    """ZooKeeper and Spark run on it."""
    java = java_home(tmp_path / "java", JAVAS[version])
    here = Environment(Path(sys.executable))
    doctor = here.auditor(tmp_path, "doctor", **TREE, JAVA_HOME=str(java))
    assert f"ok      java      {version}." in doctor.stdout, doctor.stdout
    assert_demo_is_judged(here, tmp_path / "demo", SPARKS[-1], **TREE, JAVA_HOME=str(java))


def test_java_11_is_passed_over_with_a_sentence(tmp_path: Path) -> None:
    """A real one, in JAVA_HOME, and none on PATH."""
    java = java_home(tmp_path / "java", "11.0.13.1")
    variables = {**TREE, "JAVA_HOME": str(java), "PATH": str(tmp_path)}
    doctor = Environment(Path(sys.executable)).auditor(tmp_path, "doctor", **variables)
    assert "JAVA_HOME: " in doctor.stdout, doctor.stdout + doctor.stderr
    assert "is Java 11.0.13, Spark needs 17 or newer" in doctor.stdout


def test_spark_3_5_is_refused_with_a_sentence(tmp_path: Path) -> None:
    """Exit 5 before anything is asked, and `doctor` says it too."""
    old = install_beside(tmp_path / "spark", "pyspark==3.5.9")
    here = Environment(Path(sys.executable))
    path = {"PYTHONPATH": f"{old}:{PROJECT}"}
    done = here.auditor(tmp_path, "demo", *ON_SPARK, "--output", "audits", **path)
    assert 5 == done.returncode, done.stdout + done.stderr
    assert "PySpark is version 3.5.9, and the auditor runs on Spark 4 alone" in done.stdout
    doctor = here.auditor(tmp_path, "doctor", **path)
    assert 5 == doctor.returncode
    assert "MISSING package     PySpark is version 3.5.9" in doctor.stdout


def test_workers_of_another_python_are_refused_with_a_sentence(
    environments: Environments, tmp_path: Path
) -> None:
    """PYSPARK_PYTHON has everything that it needs, and is of another version than the driver."""
    other = "3.12" if OWN != "3.12" else "3.13"
    python = str(environments(other).python)
    done = environments(OWN).auditor(
        tmp_path, "demo", *ON_SPARK, "--output", "audits", PYSPARK_PYTHON=python
    )
    assert 5 == done.returncode, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert "the Python of Spark's workers cannot run the auditor" in said
    assert "set PYSPARK_PYTHON to a Python of the driver's version" in said


def test_python_3_10_is_refused_with_a_sentence(tmp_path: Path) -> None:
    """Exit 2, whatever the command, where pip was made to install it all the same."""
    done = Environment(Path(interpreter("3.10"))).auditor(tmp_path, "doctor", **TREE)
    assert (2, "") == (done.returncode, done.stdout)
    assert "auditor: the auditor needs Python 3.11 or newer" in done.stderr
    assert 1 == len(done.stderr.splitlines())
