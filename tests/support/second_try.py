"""Try the tests that have just failed once more, alone in one process, if they are few.

    make test || make second-try

Several processes of tests, with real servers, share two cores. A test that fails there and passes
alone is *unsteady*: a bug of the test or of the product, and named in the last lines.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest

SECOND_TRY_MAX = 3
"""Failed tests that are tried again. Where more fail, one cause is likelier than as many chances.
"""
KEPT = Path(".pytest_cache/second-try.json")
"""Where the outcome of the last run is kept until it was tried again, below the project's root."""
CRASHED = "???"
"""The phase in which pytest-xdist reports a test whose process died."""


@dataclass(eq=False)
class Outcome:
    """How a run of pytest ended: its exit code, the tests that failed and how many were skipped.

    `crashed`: a process of tests died, so what it did not report is not known.
    """

    exit_code: int | None = None
    failed: list[str] = field(default_factory=list)
    skipped: int = 0
    crashed: bool = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._add(report.nodeid, report.failed, report.skipped)
        self.crashed |= report.failed and report.when == CRASHED

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._add(report.nodeid, report.failed, report.skipped)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        self.exit_code = int(exitstatus)
        kept = session.config.rootpath / KEPT
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(json.dumps(asdict(self)))

    def _add(self, name: str, failed: bool, skipped: bool) -> None:
        self.skipped += skipped
        if failed and name not in self.failed:
            self.failed.append(name)


def keep_outcome(config: pytest.Config) -> None:
    """Keep how this run ends. Nothing is kept by one that keeps nothing (`-p no:cacheprovider`)."""
    if not hasattr(config, "workerinput") and hasattr(config, "cache"):
        (config.rootpath / KEPT).unlink(missing_ok=True)
        config.pluginmanager.register(Outcome())


def last_outcome() -> Outcome:
    """Return the outcome that is kept, once; an outcome without an exit code if there is none."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    KEPT.unlink(missing_ok=True)
    return Outcome(**kept)


def refusal(last: Outcome) -> str:
    """Return why there is no second try, "" if there is one."""
    if last.exit_code != pytest.ExitCode.TESTS_FAILED:
        return f"pytest ended with {last.exit_code}, not with tests that failed"
    if last.crashed:
        return "a process of tests died"
    if not 0 < len(last.failed) <= SECOND_TRY_MAX:
        return f"{len(last.failed)} tests failed, not 1 to {SECOND_TRY_MAX}"
    return ""


def main() -> int:
    """Return 0 if the last run reported each of its tests, few failed, and all pass alone; else
    1.
    """
    last = last_outcome()
    if why := refusal(last):
        print(f"no second try: {why}")
        return 1
    command = [sys.executable, "-m", "pytest", "-m", "", *last.failed]
    code = subprocess.run(command, check=False).returncode
    is_whole = code == 0 and last_outcome().skipped == 0
    if is_whole:
        print("UNSTEADY: failed beside other tests, and passed alone. Report each as a bug:")
    else:
        print(f"At least one of these failed alone too, or was skipped (exit code {code}):")
    print(*(f"  {name}" for name in last.failed), sep="\n")
    return int(not is_whole)


if __name__ == "__main__":
    sys.exit(main())
