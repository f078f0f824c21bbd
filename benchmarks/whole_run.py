"""`auditor run` as a whole process beside BookKeeper's own two checks in a fresh JVM, on one real
cluster, taking turns.

    .venv/bin/python -m benchmarks.whole_run [--ledgers 20000] [--rounds 3]

Ours includes the interpreter's start and, above `--ledgers-in-process-max`, Spark's; the rate
limits are lifted, as the peer has none. The peer runs with the JVM's own defaults, and once more
with the two options our JVM is started with.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.real_cluster import RealCluster

from benchmarks import PROJECT
from benchmarks.java_peer import QUICK_START, Peer, PeerRun
from benchmarks.seeding import ENSEMBLE, seed
from benchmarks.targets import Target

LEDGERS, MANY_LEDGERS, BOOKIES, ROUNDS = 20_000, 100_000, 5, 3
RATIO_MAX, MANY_RATIO_MAX = 0.75, 0.5
"""Our time against that of BookKeeper's checks: below MANY_LEDGERS, and from there on."""
LISTS_A_BOOKIE_MAX = 15_000
"""Ledgers that a bookie lists at most. It keeps the index file of each open (docs/reality.md), and
some systems let a process open 20,000 files.
"""
RUN_TIMEOUT_S = 900
"""How long one `auditor run` may take; 20,000 ledgers need 5 to 20 s on two free cores."""


@dataclass(frozen=True, slots=True)
class OurRun:
    """One `auditor run`: seconds of the whole process, and what its summary says."""

    wall_s: float
    summary: dict[str, Any]

    @property
    def stages(self) -> str:
        return ", ".join(
            f"{name} {seconds:.1f}" for name, seconds in self.summary["duration_s"].items()
        )


def audit(uri: str, output: Path, *more: str) -> OurRun:
    """One run in a process of its own, with `more` options."""
    command = [
        sys.executable,
        "-m",
        "auditor",
        "run",
        "--metadata-service-uri",
        uri,
        "--output",
        str(output),
        "--quiet",
    ]
    lifted = ["--bookie-requests-per-second", "0", "--zookeeper-reads-per-second", "0"]
    began = time.monotonic()
    done = subprocess.run(
        [*command, *lifted, *more],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    wall_s = time.monotonic() - began
    if done.returncode != 0:
        raise RuntimeError(
            f"auditor run exited with {done.returncode}: {(done.stdout + done.stderr)[-3000:]}"
        )
    run = json.loads((output / "latest.json").read_text())["run"]
    return OurRun(wall_s, json.loads((output / run / "summary.json").read_text()))


def start_cluster(scratch: Path, ledgers: int) -> RealCluster:
    """Start as many bookies as so many ledgers need, BOOKIES at least."""
    bookies = max(BOOKIES, -(-ledgers * ENSEMBLE // LISTS_A_BOOKIE_MAX))
    return RealCluster(scratch / "cluster", bookies=bookies)


def take_turns(turn: int, *sides: Callable[[], object]) -> None:
    """Call each side once, in reverse order at every other turn."""
    for side in sides if turn % 2 == 0 else reversed(sides):
        side()


def compare(cluster: RealCluster, scratch: Path, ledgers: int, rounds: int) -> Target:
    """Alternating rounds on a seeded cluster, each side first in turn. The peer writes no mark:
    every run sees the same.
    """
    uri = cluster.metadata_service_uri
    peer = Peer(scratch / "classes")
    output = scratch / "audits"
    peer.run(uri, ledgers)  # not counted: the bookies' own JVMs are warm for everybody afterwards
    ours, theirs, theirs_quick = [], [], []
    for turn in range(rounds):
        take_turns(
            turn,
            lambda: theirs.append(peer.run(uri, ledgers)),
            lambda: ours.append(audit(uri, output)),
        )
        theirs_quick.append(peer.run(uri, ledgers, QUICK_START))
    all_sound = all(run.summary["ledgers"]["sound"] == ledgers for run in ours)
    return _target(ledgers, ours, theirs, theirs_quick, all_sound=all_sound)


def _target(
    ledgers: int,
    ours: list[OurRun],
    theirs: list[PeerRun],
    quick: list[PeerRun],
    *,
    all_sound: bool,
) -> Target:
    ratio = statistics.median(
        our.wall_s / peer.wall_s for our, peer in zip(ours, theirs, strict=True)
    )
    beside_quick = statistics.median(
        our.wall_s / peer.wall_s for our, peer in zip(ours, quick, strict=True)
    )
    middle = sorted(ours, key=lambda run: run.wall_s)[len(ours) // 2]
    ratio_max = RATIO_MAX if ledgers < MANY_LEDGERS else MANY_RATIO_MAX
    return Target(
        f"a whole run over {ledgers:,} ledgers takes at most {ratio_max:g} times as long as"
        " BookKeeper's replicas and placement checks, cold",
        ratio <= ratio_max and all_sound,
        (
            f"median ratio {ratio:.2f}; all {ledgers:,} sound: {all_sound}",
            f"auditor run            {_walls(ours)}; stages of the median: {middle.stages}",
            f"BookKeeper's checks    {_walls(theirs)}; gauges {theirs[-1].gauges}",
            f"the same, quick JVM    {_walls(quick)}; median ratio {beside_quick:.2f}",
        ),
    )


def _walls(runs: Sequence[OurRun] | Sequence[PeerRun]) -> str:
    return " ".join(f"{run.wall_s:5.1f}" for run in runs) + " s"


def ensure_class_archive() -> None:
    """Made at set-up once; about half a minute where it is missing."""
    subprocess.run(
        [sys.executable, "-m", "auditor.spark.class_archive"],
        cwd=PROJECT,
        check=True,
        capture_output=True,
    )


Compare = Callable[[RealCluster, Path, int, int], Target]
"""Measures on a seeded cluster: with a directory to write in, the ledgers and the rounds."""


def measure(
    arguments: Sequence[str] | None, description: str | None, compare: Compare, rounds: int
) -> int:
    """Seed a cluster, measure there, print what was found, and return the exit code."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--ledgers", type=int, default=LEDGERS)
    parser.add_argument("--rounds", type=int, default=rounds)
    options = parser.parse_args(arguments)
    ensure_class_archive()
    with (
        tempfile.TemporaryDirectory() as directory,
        start_cluster(Path(directory), options.ledgers) as cluster,
    ):
        seed(cluster, options.ledgers)
        found = compare(cluster, Path(directory), options.ledgers, options.rounds)
    print(found)
    return 0 if found.met else 1


def main(arguments: Sequence[str] | None = None) -> int:
    return measure(arguments, __doc__, compare, ROUNDS)


if __name__ == "__main__":
    sys.exit(main())
