"""What a process and all processes below it use: CPU seconds, and the most memory at a time."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
SAMPLE_S = 0.2
"""Pause between two looks at the processes, in seconds. A peak that is shorter may be missed."""


def cpu_s(root: int) -> float:
    """Return the CPU seconds of a process and of those below it, ended ones included."""
    processes = _processes()
    return sum(processes[pid].ticks for pid in _below(root, processes)) / TICKS_A_SECOND


@dataclass(frozen=True, slots=True)
class Used:
    """What one command used.

    `peaks_bytes`: by the name of the programme (`java`, `python`), the most memory that one process
    had at a time. The command itself is "driver".
    """

    code: int
    wall_s: float
    cpu_s: float
    peaks_bytes: Mapping[str, int]
    said: str


def run(command: Sequence[str], directory: Path, timeout_s: float) -> Used:
    """Run a command in a directory to its end, and return what it used.

    Raises TimeoutError, after killing it.
    """
    peaks: dict[str, int] = {}
    cpu = 0.0
    began = time.monotonic()
    with (
        tempfile.TemporaryFile("w+") as out,
        subprocess.Popen(command, cwd=directory, stdout=out, stderr=out) as process,
    ):
        while process.poll() is None:
            if time.monotonic() - began > timeout_s:
                process.kill()
                raise TimeoutError(f"{command} did not end within {timeout_s:g} s")
            cpu = max(cpu, cpu_s(process.pid))
            for name, size in _sizes(process.pid):
                peaks[name] = max(peaks.get(name, 0), size)
            time.sleep(SAMPLE_S)
        wall_s = time.monotonic() - began
        out.seek(0)
        return Used(process.returncode, wall_s, cpu, peaks, out.read())


@dataclass(frozen=True, slots=True)
class _Process:
    parent: int
    name: str
    ticks: int
    pages: int


def _processes() -> dict[int, _Process]:
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            before, _, after = stat.read_text().rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue
        fields = after.split()
        found[int(stat.parent.name)] = _Process(
            parent=int(fields[1]),
            name=before.partition("(")[2],
            ticks=sum(map(int, fields[11:15])),
            pages=int(fields[21]),
        )
    return found


def _below(root: int, processes: Mapping[int, _Process]) -> set[int]:
    """Return the process ids of a process and of all below it that are still there."""
    mine = {root} & processes.keys()
    while more := {pid for pid, one in processes.items() if one.parent in mine} - mine:
        mine |= more
    return mine


def _sizes(root: int) -> Iterator[tuple[str, int]]:
    processes = _processes()
    for pid in _below(root, processes):
        one = processes[pid]
        yield "driver" if pid == root else one.name, one.pages * PAGE_BYTES
