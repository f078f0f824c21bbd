"""Try the tests that have just failed once more, alone in one process, if they are few.

    make test || make second-try

Several processes of tests, with real servers, share two cores. A test that fails there and passes
alone is *unsteady*: a bug of the test or of the product, and named in the last lines.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SECOND_TRY_MAX = 3
"""Failed tests that are tried again. More than a few fail for one cause, which a second try would
only hide.
"""
EXIT_CODE = "second_try/exit_code"
"""The name under which the exit code of the last run is kept."""
KEPT = Path(".pytest_cache/v")
"""Where pytest keeps what its next run may need, below the project's root."""


def keep_exit_code(session: pytest.Session, exit_code: int) -> None:
    """Keep how a run ended: one that was cut short left tests out, whatever failed in it. Nothing
    is kept by a run that keeps nothing (`-p no:cacheprovider`).
    """
    cache = getattr(session.config, "cache", None)
    if not hasattr(session.config, "workerinput") and cache is not None:
        cache.set(EXIT_CODE, int(exit_code))


def _kept(name: str, default: Any) -> Any:
    path = KEPT / name
    return json.loads(path.read_text()) if path.exists() else default


def main() -> int:
    """Return 0 if the last run was whole, few of its tests failed, and all pass alone; else 1."""
    exit_code, failed = _kept(EXIT_CODE, None), sorted(_kept("cache/lastfailed", {}))
    if exit_code != pytest.ExitCode.TESTS_FAILED or len(failed) > SECOND_TRY_MAX:
        print(f"no second try: pytest ended with {exit_code}; failed tests: {len(failed)}")
        return 1
    tried = subprocess.run([sys.executable, "-m", "pytest", "-m", "", *failed], check=False)
    if tried.returncode:
        print(f"failed alone too (pytest's exit code {tried.returncode}), or one of them did:")
    else:
        print("UNSTEADY: failed beside other tests, and passed alone. Report each as a bug:")
    print(*(f"  {name}" for name in failed), sep="\n")
    return int(tried.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
