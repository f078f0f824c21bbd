"""Measure how long a change waits for its tests: collecting `tests/unit`, and `make quick` on some
files.

    python tests/support/loop_times.py                     # the files of FILES
    python tests/support/loop_times.py tests/unit/wire/test_wire_*.py

Each command runs twice and the second counts: the first compiles what has changed. Wall time is
what one waits for; CPU time is the same on a busy machine. Exits 1 if a command fails or if its CPU
time is above its target.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
COLLECT_MAX_S = 15.0
QUICK_MAX_S = 5.0
FILES = (
    "tests/unit/test_pace.py",
    "tests/unit/wire/test_wire_ledger_metadata.py",
    "tests/unit/first_checker/test_first_checker_ledger.py",
    "tests/unit/judging/test_judging_settle.py",
    "tests/unit/summary/test_summary_run_summary.py",
    "tests/unit/commands/test_commands_bundle.py",
    "tests/unit/report/test_report_text.py",
    "tests/unit/bookie/test_bookie_conversation.py",
)
"""One file of each sort: pure, with Hypothesis, with pyarrow, of commands, with sockets."""


def main(files: Sequence[str]) -> int:
    """Print a line for each command and return the exit code."""
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/unit"]
    commands = [("collect tests/unit", collect, COLLECT_MAX_S)]
    commands += [(name, ["make", "quick", f"FILE={name}"], QUICK_MAX_S) for name in files or FILES]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    good = True
    print(f"{'wall s':>7} {'CPU s':>7} {'target':>7}")
    for name, command, target in commands:
        for _ in range(2):
            wall, cpu = time.monotonic(), _children_cpu_s()
            done = subprocess.run(command, cwd=PROJECT, env=kept, stdout=subprocess.DEVNULL)
            wall, cpu = time.monotonic() - wall, _children_cpu_s() - cpu
        good = good and done.returncode == 0 and cpu <= target
        failed = f"  exit code {done.returncode}" if done.returncode else ""
        print(f"{wall:7.1f} {cpu:7.1f} {target:7.1f}  {name}{failed}", flush=True)
    return 0 if good else 1


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
