"""A failed test gets one second try, alone; what fails again, and what is more than a few, fails
the run.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.second_try import SECOND_TRY_MAX

PROJECT = Path(__file__).parents[2]
SCRIPT = PROJECT / "tests/support/second_try.py"
CONFTEST = f"""
import sys

sys.path.insert(0, {str(PROJECT / "tests")!r})
from support.second_try import keep_outcome

def pytest_configure(config):
    keep_outcome(config)
"""
ALONE = "import os\n\ndef test_unsteady():\n    assert 'BESIDE' not in os.environ\n"
NEVER = "def test_wrong():\n    assert False\n"
SKIPPED = (
    "import os\nimport pytest\n\n"
    "def test_fickle():\n    if 'BESIDE' not in os.environ:\n        pytest.skip()\n    assert 0\n"
)
DIES = "import os\n\ndef test_that_dies():\n    os._exit(1)\n"
CUT_SHORT = "import pytest\n\ndef test_that_ends_all():\n    pytest.exit('enough')\n"


def second_try(home: Path, tests: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run these tests where BESIDE is set, and then the second try, where it is not."""
    (home / "conftest.py").write_text(CONFTEST)
    (home / "test_these.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "test_these.py", *options]
    subprocess.run(command, cwd=home, env={"BESIDE": "1"}, capture_output=True)
    return subprocess.run(
        [sys.executable, str(SCRIPT)], cwd=home, env={}, capture_output=True, text=True
    )


def test_what_passes_alone_passes_and_is_named(tmp_path: Path) -> None:
    """The run passes, and its last lines name the unsteady test."""
    tried = second_try(tmp_path, ALONE)
    assert 0 == tried.returncode, tried.stdout + tried.stderr
    assert tried.stdout.endswith(
        "UNSTEADY: failed beside other tests, and passed alone. Report each as a bug:\n"
        "  test_these.py::test_unsteady\n"
    )


@pytest.mark.parametrize("other", [NEVER, SKIPPED], ids=["fails", "is skipped"])
def test_what_does_not_pass_alone_either_fails_the_run(tmp_path: Path, other: str) -> None:
    """One that passes alone does not hide one that does not."""
    tried = second_try(tmp_path, ALONE + other)
    assert 1 == tried.returncode, tried.stdout + tried.stderr
    assert "UNSTEADY" not in tried.stdout


MANY = "".join(ALONE.replace("unsteady", f"unsteady_{nth}") for nth in range(SECOND_TRY_MAX + 1))


@pytest.mark.parametrize(
    ("tests", "why"),
    [
        pytest.param(MANY, "4 tests failed, not 1 to 3", id="many"),
        pytest.param(
            NEVER + CUT_SHORT, "pytest ended with 2, not with tests that failed", id="cut short"
        ),
        pytest.param("", "pytest ended with 5, not with tests that failed", id="none"),
    ],
)
def test_no_second_try_of_much_or_of_a_part(tmp_path: Path, tests: str, why: str) -> None:
    """Many failures have one cause; and a run that was cut short left tests out."""
    tried = second_try(tmp_path, tests)
    assert 1 == tried.returncode, tried.stdout + tried.stderr
    assert f"no second try: {why}\n" == tried.stdout


def test_no_second_try_where_a_process_of_tests_died(tmp_path: Path) -> None:
    """What it did not report is not known, also if another process ran its tests."""
    tried = second_try(tmp_path, ALONE + DIES, "-n", "2")
    assert (1, "no second try: a process of tests died\n") == (tried.returncode, tried.stdout)


def test_an_outcome_is_tried_again_once(tmp_path: Path) -> None:
    """A later second try does not read what an earlier run left."""
    assert 0 == second_try(tmp_path, ALONE).returncode
    again = subprocess.run(
        [sys.executable, str(SCRIPT)], cwd=tmp_path, env={}, capture_output=True, text=True
    )
    assert (1, "no second try: pytest ended with None, not with tests that failed\n") == (
        again.returncode,
        again.stdout,
    )


def test_ci_tries_a_second_time() -> None:
    """.ci/run ends with it, and with nothing behind it that could pass in its place."""
    assert "make test || make second-try" == (PROJECT / ".ci/run").read_text().splitlines()[-1]
