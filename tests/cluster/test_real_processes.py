"""What the tests' own processes do when they are paused."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.real_processes import JavaProcess

BUSY_THREADS = """
import threading

def work():
    while True:
        pass

for _ in range(40):
    threading.Thread(target=work).start()
print("busy", flush=True)
"""
ROUNDS = 20


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[JavaProcess]:
    """Yield a process with some threads that all want to run."""
    process = JavaProcess("busy", [sys.executable, "-c", BUSY_THREADS], tmp_path / "log", {})
    try:
        yield process
    finally:
        process.kill()


def states(pid: int) -> set[str]:
    """Return the states of a process's threads, as the kernel names them: T is stopped."""
    lines = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return {line.rpartition(")")[2].split()[0] for line in lines}


def test_a_paused_process_does_nothing_any_more(busy: JavaProcess) -> None:
    """When `pause` returns, none of its threads runs, however many there are. A server that still
    answered would make a test of silence fail, now and then.
    """
    for _ in range(ROUNDS):
        busy.pause()
        assert {"T"} == states(busy.pid)
        busy.resume()


def test_an_ended_process_is_paused_without_waiting(busy: JavaProcess) -> None:
    """It does nothing either."""
    busy._process.kill()
    os.waitid(os.P_PID, busy.pid, os.WEXITED | os.WNOWAIT)
    busy.pause()
