"""A plug-in of pytest: the CPU seconds of each directory and of the dearest files, in the last
lines.

    PYTHONPATH=tests .venv/bin/python -m pytest -n 4 -p support.cpu_seconds tests/spark

A test's seconds are those of its process and of every process below it, such as JVMs: also of
those that work on for a fixture. Tests shorter than LOOKED_AT_S are counted with the next one that
is not. On a busy machine the same work takes up to twice as many CPU seconds.
"""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

LOOKED_AT_S = 0.15
"""Processes are looked at after a test that took this long: reading /proc takes milliseconds."""
FILES_SHOWN = 25
PROPERTY = "cpu_s"
TICKS = os.sysconf("SC_CLK_TCK")
STARTED = pytest.StashKey[float]()

_seconds: Counter[str] = Counter()
_before = 0.0


def tree_seconds() -> float:
    """Return the CPU seconds of this process and of all below it, ended ones included."""
    used, children = {}, defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        process = int(stat.parent.name)
        children[int(fields[1])].append(process)
        used[process] = sum(map(int, fields[11:15]))
    total, left = 0, [os.getpid()]
    while left:
        process = left.pop()
        total += used.get(process, 0)
        left += children[process]
    return total / TICKS


def pytest_collection_finish() -> None:
    """Leave out what was used before the first test."""
    global _before
    _before = tree_seconds()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Add the seconds since the last look to the test, as a property of its last report."""
    global _before
    yield
    started: float = item.stash[STARTED]
    if time.monotonic() - started > LOOKED_AT_S:
        now = tree_seconds()
        item.user_properties.append((PROPERTY, max(0.0, now - _before)))
        _before = now


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note when the test began."""
    item.stash[STARTED] = time.monotonic()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count what a test, here or in another process, has added."""
    if report.when == "teardown":
        _seconds[report.nodeid.partition("::")[0]] += dict(report.user_properties).get(PROPERTY, 0)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the sums, the largest first."""
    directories: Counter[str] = Counter()
    for file, seconds in _seconds.items():
        directories["/".join(file.split("/")[:2])] += seconds
    terminalreporter.section(f"CPU seconds, {sum(_seconds.values()):.0f} in all")
    for name, seconds in [*directories.most_common(), *_seconds.most_common(FILES_SHOWN)]:
        terminalreporter.line(f"{seconds:7.1f}  {name}")
