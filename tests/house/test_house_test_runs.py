"""A run of the tests depends on nothing but the project, and says once what it could not try."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
WAIT_S = 120

LEAVES = "from pathlib import Path\n\ndef test_it():\n    Path('audits').mkdir()\n"
MOVES = "import os\n\ndef test_it(tmp_path):\n    os.chdir(tmp_path)\n"
LOOKS = "from pathlib import Path\n\ndef test_after():\n    assert [] == [*Path('.').iterdir()]\n"
AT_IMPORT = "import os\n\nTHERE = os.listdir()\n\ndef test_it():\n    assert [] == THERE\n"
SETTINGS = "import os\n\ndef test_it():\n    assert 'AUDITOR_OUTPUT' not in os.environ\n"
LACKS = """
import pytest
from support.requirements import lack

@pytest.mark.parametrize("number", range(9))
def test_promtool(number):
    lack("promtool is not installed")

def test_kerberos():
    lack("krb5kdc is not installed")

def test_that_passes():
    pass
"""


def run(home: Path, tests: str, *options: str, **environment: str) -> tuple[int, list[str]]:
    """Run these tests in `home` with the hooks of all tests. Return the exit code and the lines."""
    (home / "test_these.py").write_text(tests)
    env = {**os.environ, "CI": "", "PYTHONPATH": str(PROJECT / "tests"), **environment}
    plugins = ("conftest", "no:cacheprovider", "no:hypothesispytest")
    command = [sys.executable, "-m", "pytest", *(f"-p{name}" for name in plugins)]
    done = subprocess.run(
        [*command, "test_these.py", *options],
        cwd=home,
        env=env,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize("processes", [(), ("-n", "1")], ids=["one process", "another process"])
@pytest.mark.parametrize(
    ("tests", "word"),
    [(LEAVES, "left in the working directory: audits"), (MOVES, "the working directory is")],
    ids=["leaves something", "goes elsewhere"],
)
def test_what_the_next_test_would_find_is_an_error(
    tmp_path: Path, tests: str, word: str, processes: tuple[str, ...]
) -> None:
    """The test that left it is named, and the next one finds an empty directory."""
    code, lines = run(tmp_path, tests + LOOKS, *processes)
    assert 1 == code
    assert any(word in line for line in lines), lines
    assert "2 passed, 1 error" in lines[-1]


@pytest.mark.parametrize("processes", [(), ("-n", "1")], ids=["one process", "another process"])
def test_nothing_that_lies_in_the_checkout_is_seen(
    tmp_path: Path, processes: tuple[str, ...]
) -> None:
    """Not even while tests are imported."""
    (tmp_path / "audits").mkdir()
    code, lines = run(tmp_path, AT_IMPORT, *processes)
    assert 0 == code, lines


def test_the_users_own_settings_are_not_seen(tmp_path: Path) -> None:
    """AUDITOR_OUTPUT of the shell is not a setting of the commands that tests run."""
    code, lines = run(tmp_path, SETTINGS, AUDITOR_OUTPUT="/elsewhere")
    assert 0 == code, lines


def test_what_is_missing_is_said_once_with_what_it_costs(tmp_path: Path) -> None:
    """One line for each reason, most tests first; the result is the last line."""
    code, lines = run(tmp_path, LACKS, "-rfExX")
    assert 0 == code
    at = next(number for number, line in enumerate(lines) if "tests not tried" in line)
    expected = ["    9  promtool is not installed", "    1  krb5kdc is not installed"]
    assert expected == lines[at + 1 : at + 3]
    assert 1 == sum("promtool" in line for line in lines)
    assert "1 passed, 10 skipped" in lines[-1]


def test_nothing_is_skipped_in_ci(tmp_path: Path) -> None:
    """There what is missing fails the run."""
    code, lines = run(tmp_path, LACKS, CI="true")
    assert 1 == code and "10 failed, 1 passed" in lines[-1]


def test_ci_runs_the_commands_of_the_readme_in_its_order() -> None:
    """What the first leaves must not change the second."""
    readme = [
        line
        for line in (PROJECT / "README.md").read_text().splitlines()
        if line.startswith("make ")
    ]
    script = (PROJECT / ".ci/run").read_text().splitlines()
    found = [line.split(" || ")[0] for line in script if line.split(" || ")[0] in readme]
    assert ["make demo", "make test"] == readme == found
