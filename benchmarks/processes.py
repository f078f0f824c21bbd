"""What a process and all processes below it use: CPU seconds, and the most memory at a time."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
SAMPLE_S = 0.2
"""Pause between two looks at the processes, in seconds. A peak that is shorter may be missed."""


def cpu_s(root: int) -> float:
    """Return the CPU seconds of a process and of those below it, ended ones included."""
    processes = _processes()
    mine = [processes[pid] for pid in _below(root, processes)]
    return sum(one.ticks + one.ticks_below for one in mine) / TICKS_A_SECOND


@dataclass(frozen=True, slots=True)
class Used:
    """What one command used.

    By the name of the programme, such as `java` and `python`: `cpus_s` has the CPU seconds of all
    its processes, `peaks_bytes` the most memory that one of them had at a time. The command itself
    is "driver". Those of an executor begin with the word. What a process did after the last sample
    is missing.
    """

    code: int
    wall_s: float
    cpus_s: Mapping[str, float]
    peaks_bytes: Mapping[str, int]
    said: str

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all processes."""
        return sum(self.cpus_s.values())


def run(
    command: Sequence[str],
    directory: Path,
    timeout_s: float,
    executors: Sequence[int] = (),
) -> Used:
    """Run a command in a directory to its end, and return what it used, and what the processes
    below those in `executors` used meanwhile.

    Raises TimeoutError, after killing it.
    """
    peaks: dict[str, int] = {}
    ticks: dict[tuple[str, int], int] = {}
    began = time.monotonic()
    with (
        tempfile.TemporaryFile("w+") as out,
        subprocess.Popen(command, cwd=directory, stdout=out, stderr=out) as process,
    ):
        while process.poll() is None:
            if time.monotonic() - began > timeout_s:
                process.kill()
                raise TimeoutError(f"{command} did not end within {timeout_s:g} s")
            processes = _processes()
            mine = _below(process.pid, processes)
            names = {pid: "driver" if pid == process.pid else processes[pid].name for pid in mine}
            for top in executors:
                below = _below(top, processes) - {top}
                names |= {pid: f"executor {processes[pid].name}" for pid in below}
            for pid, name in names.items():
                one = processes[pid]
                ticks[name, pid] = one.ticks
                peaks[name] = max(peaks.get(name, 0), one.pages * PAGE_BYTES)
            time.sleep(SAMPLE_S)
        wall_s = time.monotonic() - began
        cpus: dict[str, float] = {}
        for (name, _), spent in ticks.items():
            cpus[name] = cpus.get(name, 0.0) + spent / TICKS_A_SECOND
        out.seek(0)
        return Used(process.returncode, wall_s, cpus, peaks, out.read())


@dataclass(frozen=True, slots=True)
class _Process:
    """`ticks`: of itself. `ticks_below`: of those that it started, and that have ended."""

    parent: int
    name: str
    ticks: int
    ticks_below: int
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
            ticks=sum(map(int, fields[11:13])),
            ticks_below=sum(map(int, fields[13:15])),
            pages=int(fields[21]),
        )
    return found


def _below(root: int, processes: Mapping[int, _Process]) -> set[int]:
    """Return the process ids of a process and of all below it that are still there."""
    mine = {root} & processes.keys()
    while more := {pid for pid, one in processes.items() if one.parent in mine} - mine:
        mine |= more
    return mine
