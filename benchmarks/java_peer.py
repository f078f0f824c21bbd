"""BookKeeper's own auditor as a process: compile `java/AuditorTasks.java`, run it once in a fresh
JVM, read what it says.
"""

from __future__ import annotations

import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from support.real_bookkeeper import LOG4J2_WARN
from support.real_jars import bookkeeper_jars

SOURCE = Path(__file__).resolve().parent / "java" / "AuditorTasks.java"
MAIN_CLASS = "org.apache.bookkeeper.replication.AuditorTasks"
RUN_TIMEOUT_S = 900
"""How long compiling or one run may take; 20,000 ledgers need 10 to 20 s on two free cores."""
GAUGES = ("no_replica", "below_ack_quorum", "below_write_quorum", "placement_failed")
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""The two options our own JVM is started with."""


@dataclass(frozen=True, slots=True)
class PeerRun:
    """One run. `wall_s` is the whole process, the others are the two tasks as they measured
    themselves.
    """

    wall_s: float
    replicas_s: float
    placement_s: float
    gauges: dict[str, int]


class Peer:
    """The two checks, compiled into `classes`. Each run is a new JVM, so a cold one."""

    def __init__(self, classes: Path) -> None:
        self._jars = bookkeeper_jars()
        self._classes = classes
        _run(["javac", "-d", str(classes), "-cp", f"{self._jars}/*", str(SOURCE)])

    def run(
        self, metadata_service_uri: str, ledgers: int, options: tuple[str, ...] = ()
    ) -> PeerRun:
        """Both checks once. Raises RuntimeError unless both came to their end and saw every
        ledger.
        """
        java = [
            "java",
            *options,
            f"-Dlog4j2.configurationFile={LOG4J2_WARN}",
            "-cp",
            f"{self._classes}:{self._jars}/*",
        ]
        began = time.monotonic()
        said = _run([*java, MAIN_CLASS, metadata_service_uri])
        wall_s = time.monotonic() - began
        words = dict(re.findall(r"(\w+)=(\S+)", said))
        seconds = dict(re.findall(r"^task (\w+) seconds=(\S+)$", said, re.MULTILINE))
        finished = f"finished replicas=true placement=true closed_ledgers={ledgers}"
        if finished not in said.splitlines():
            raise RuntimeError(
                f"BookKeeper's checks did not come to their end on {ledgers} ledgers:"
                f" {said[-2000:]}"
            )
        gauges = {
            name: int(words[name])
            for name in ("no_replica", "below_ack_quorum", "below_write_quorum", "placement_failed")
        }
        return PeerRun(wall_s, float(seconds["replicas"]), float(seconds["placement"]), gauges)


def _run(command: list[str]) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(
            f"{' '.join(command)} exited with {done.returncode}:"
            f" {(done.stdout + done.stderr)[-3000:]}"
        )
    return done.stdout
