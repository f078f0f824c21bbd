"""If Java or Maven is missing, tests on real BookKeeper fail in CI, and are skipped with a message
elsewhere: never silently. The same holds for tests with Kerberos if a KDC or the library is
missing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import kerberos
from support.kerberos import require_kerberos

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


@pytest.mark.parametrize("missing", ["programs", "library"])
@pytest.mark.parametrize("ci", ["true", ""])
def test_missing_kerberos_is_never_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ci: str, missing: str
) -> None:
    """The reason says what to install."""
    monkeypatch.setenv("CI", ci)
    if missing == "programs":
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(kerberos, "SBIN", str(tmp_path))
    else:
        monkeypatch.setattr(kerberos, "PROGRAMS", ())
        monkeypatch.setitem(sys.modules, "gssapi", None)
    outcome = pytest.fail.Exception if ci else pytest.skip.Exception
    with pytest.raises(outcome, match="krb5-kdc" if missing == "programs" else "library gssapi"):
        require_kerberos()
