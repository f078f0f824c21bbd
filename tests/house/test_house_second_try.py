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
from support.second_try import keep_exit_code

def pytest_sessionfinish(session, exitstatus):
    keep_exit_code(session, exitstatus)
"""
ALONE = "import os\n\ndef test_unsteady():\n    assert 'BESIDE' not in os.environ\n"
NEVER = "def test_wrong():\n    assert False\n"
CUT_SHORT = "import pytest\n\ndef test_that_ends_all():\n    pytest.exit('enough')\n"


def second_try(home: Path, tests: str) -> subprocess.CompletedProcess[str]:
    """Run these tests where BESIDE is set, and then the second try, where it is not."""
    (home / "conftest.py").write_text(CONFTEST)
    (home / "test_these.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "test_these.py"]
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


def test_what_fails_alone_too_fails_the_run(tmp_path: Path) -> None:
    """One that passes alone does not hide one that does not."""
    tried = second_try(tmp_path, ALONE + NEVER)
    assert 1 == tried.returncode, tried.stdout + tried.stderr
    assert "UNSTEADY" not in tried.stdout


MANY = "".join(ALONE.replace("unsteady", f"unsteady_{nth}") for nth in range(SECOND_TRY_MAX + 1))


@pytest.mark.parametrize(
    ("tests", "why"),
    [
        pytest.param(MANY, "ended with 1; failed tests: 4", id="many"),
        pytest.param(NEVER + CUT_SHORT, "ended with 2; failed tests: 1", id="cut short"),
        pytest.param("", "ended with 5; failed tests: 0", id="none"),
    ],
)
def test_no_second_try_of_much_or_of_a_part(tmp_path: Path, tests: str, why: str) -> None:
    """Many failures have one cause; and a run that was cut short left tests out."""
    tried = second_try(tmp_path, tests)
    assert 1 == tried.returncode, tried.stdout + tried.stderr
    assert f"no second try: pytest {why}\n" == tried.stdout


def test_ci_tries_a_second_time() -> None:
    """.ci/run ends with it, and with nothing behind it that could pass in its place."""
    assert "make test || make second-try" == (PROJECT / ".ci/run").read_text().splitlines()[-1]
