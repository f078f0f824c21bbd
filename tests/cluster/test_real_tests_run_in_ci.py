"""Where Java or Maven is missing, tests on real BookKeeper fail in CI, and by hand they are skipped
loudly: never silently.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ONE_REAL_TEST = (
    f"{TESTS / 'test_recorded_frames.py'}::test_real_bookies_still_say_what_was_recorded"
)
RUN_TIMEOUT_S = 120


@pytest.mark.parametrize(("ci", "outcome"), [("true", "2 errors"), ("", "2 skipped")])
def test_missing_java_is_never_silent(tmp_path: Path, ci: str, outcome: str) -> None:
    """With an empty PATH the run says what is missing and that nothing was tested; with CI=true it
    fails.
    """
    environment = {**os.environ, "PATH": str(tmp_path), "CI": ci}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", ONE_REAL_TEST]
    run = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        cwd=TESTS.parents[1],
    )
    assert outcome in run.stdout, run.stdout
    assert run.returncode == (1 if ci else 0)
    assert "real BookKeeper needs java and javac and mvn on the PATH" in run.stdout
