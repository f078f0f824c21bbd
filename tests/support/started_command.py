"""`python -m auditor` as a process in its own session, with everything temporary below one
directory.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.process_ends import alive

PROJECT = Path(__file__).resolve().parents[2]
STAGE_WITHIN_S = 240.0
"""How long a command may take to reach a stage on a busy machine, in seconds."""
ENDS_WITHIN_S = 180.0
"""How long it may take to end after the signal, in seconds."""
POLL_S = 0.02


@dataclass(frozen=True)
class Started:
    """A command in a session of its own; `home` has its OUTPUT and its temporary files."""

    process: subprocess.Popen[bytes]
    home: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> Path:
        return self.home / "out"

    def said(self) -> str:
        return (self.home / "stdout").read_text() + (self.home / "stderr").read_text()

    def reach(self, there: Callable[[Started], bool], within_s: float = STAGE_WITHIN_S) -> None:
        """Wait until the command has reached the stage that the test needs."""
        deadline = time.monotonic() + within_s
        while not there(self):
            assert self.process.poll() is None, (
                f"it ended first, with {self.process.returncode}: {self.said()}"
            )
            assert time.monotonic() < deadline, f"the stage was not reached: {self.said()}"
            time.sleep(POLL_S)

    def ended(self, within_s: float = ENDS_WITHIN_S) -> int:
        """Return its exit code, once it has ended."""
        return self.process.wait(within_s)

    def survivors(self) -> list[str]:
        """Return the processes of its session that still run, after a short wait at most."""
        deadline = time.monotonic() + ENDS_WITHIN_S
        while (found := in_session(self.pid)) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        return found


def in_session(session: int) -> list[str]:
    """Return every running process of a session, also of other process groups: Spark's Python
    daemon has its own.
    """
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                command = (
                    (entry / "cmdline")
                    .read_bytes()
                    .replace(b"\0", b" ")[:120]
                    .decode(errors="replace")
                )
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[3]) == session and alive(int(entry.name)):
                found.append(f"{entry.name} {command}")
    return found


@contextmanager
def started(
    home: Path, *arguments: str, file_bytes_max: int = resource.RLIM_INFINITY
) -> Iterator[Started]:
    """Start `python -m auditor` with everything temporary below `home`. Its session is killed if
    the test fails.

    `file_bytes_max`: no process of it can write a larger file, as on a full disk.
    """
    temporary = home / "tmp"
    for folder in (temporary, home / "out"):
        folder.mkdir(exist_ok=True)
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith("AUDITOR_")
    }
    environment |= {
        "PYTHONPATH": str(PROJECT),
        "TMPDIR": str(temporary),
        "SPARK_LOCAL_DIRS": str(temporary),
    }
    with (home / "stdout").open("wb") as out, (home / "stderr").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "auditor", *arguments, "--output", str(home / "out")],
            cwd=home, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE,
            (file_bytes_max, file_bytes_max)),
        )  # fmt: skip
    command = Started(process, home)
    try:
        yield command
    finally:
        for line in in_session(process.pid):
            os.kill(int(line.split()[0]), signal.SIGKILL)
        process.wait(ENDS_WITHIN_S)
