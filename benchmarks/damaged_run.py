"""`auditor run` on 150 ledgers with 17 kinds of damage beside 150 healthy ledgers, cold, taking
turns.

    .venv/bin/python -m benchmarks.damaged_run [--rounds 3] [--suspects-in-process-max 0]

Both clusters are the sandbox: a real ZooKeeper, and five bookies that list. Each kind of damage is
in three ledgers, all others are sound. The second look comes without a delay. Every run is a
process of its own; the interpreter's and Spark's start are included.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from auditor.sandbox.cluster import SandboxCluster
from auditor.sandbox.seeding import sound_ledgers
from benchmarks import PROJECT
from benchmarks.targets import Target
from benchmarks.whole_run import ensure_class_archive

LEDGERS, BOOKIES, ROUNDS = 150, 5, 3
LEDGERS_OF_A_KIND = 3
RATIO_MAX = 1.25
DAMAGED_FIRST = 100
RUN_TIMEOUT_S = 300
DAY_MS = 24 * 3600 * 1000
PLAIN = "e3 w2 a2 0:[b1 b2 b3] closed 99"

Damage = Callable[[SandboxCluster, int], None]


def _lose(text: str, lose: Mapping[str, str]) -> Damage:
    def write(cluster: SandboxCluster, ledger_id: int) -> None:
        cluster.place(ledger_id, cluster.ledger(text), lose)

    return write


def _hold_elsewhere(cluster: SandboxCluster, ledger_id: int) -> None:
    cluster.place(ledger_id, cluster.ledger(PLAIN), {"b1": "42", "b2": "42"})
    cluster.hold("b5", ledger_id, "42")


def _corrupt(cluster: SandboxCluster, ledger_id: int) -> None:
    """Entry 42 is lacking on b1, and the copy that is read on b2 because of that is corrupt."""
    cluster.place(ledger_id, cluster.ledger(PLAIN), {"b1": "42", "b2": "42"})
    cluster.corrupt("b2", ledger_id, 42)


def _mark(days: int, lose: Mapping[str, str]) -> Damage:
    def write(cluster: SandboxCluster, ledger_id: int) -> None:
        cluster.place(ledger_id, cluster.ledger(PLAIN), lose)
        cluster.mark(ledger_id, ["b2"], int(time.time() * 1000) - days * DAY_MS)

    return write


def _mark_nothing(cluster: SandboxCluster, ledger_id: int) -> None:
    """The ledger is sound; another one is marked and does not exist."""
    cluster.place(ledger_id, cluster.ledger(PLAIN))
    cluster.mark(ledger_id + 100_000, ["b2"], int(time.time() * 1000) - 10 * DAY_MS)


def _leave_open(cluster: SandboxCluster, ledger_id: int) -> None:
    metadata = cluster.ledger("e3 w2 a2 0:[b1 b2 b3] open")
    made_ms = int(time.time() * 1000) - 60 * DAY_MS
    cluster.place(ledger_id, replace(metadata, ctime_ms=made_ms))


def _write_beyond_end(cluster: SandboxCluster, ledger_id: int) -> None:
    cluster.place(ledger_id, cluster.ledger(PLAIN), written=109)


def _drop_end(cluster: SandboxCluster, ledger_id: int) -> None:
    cluster.place(ledger_id, cluster.ledger("e3 w2 a2 0:[b1 b2 b3] closed"), written=99)


KINDS: Mapping[str, Damage] = {
    "an entry without a copy": _lose(PLAIN, {"b1": "42", "b2": "42"}),
    "a run without a copy": _lose(PLAIN, {"b1": "30-60", "b2": "30-60"}),
    "the last entry without a copy": _lose(PLAIN, {"b1": "99", "b2": "99", "b3": "99"}),
    "below the ack quorum": _lose(
        "e5 w3 a2 0:[b1 b2 b3 b4 b5] closed 1999", {"b4": "1503", "b5": "1503"}
    ),
    "below the write quorum": _lose("e3 w3 a2 0:[b2 b3 b4] closed 499", {"b3": "100-199"}),
    "one copy lost in the second segment": _lose(
        "e3 w2 a2 0:[b1 b2 b3] 50:[b1 b4 b3] closed 99", {"b4": "60-70"}
    ),
    "a bookie without the ledger": _lose(PLAIN, {"b2": "0-99"}),
    "only outside the ensemble": _hold_elsewhere,
    "a corrupt copy": _corrupt,
    "a bookie twice in an ensemble": _lose("e3 w2 a2 0:[b1 b2 b1] closed 9", {}),
    "a bookie that is gone": _lose("e3 w2 a2 0:[b1 b2 gone] closed 99", {}),
    "marked for long": _mark(10, {}),
    "marked and lost": _mark(0, {"b1": "42", "b2": "42"}),
    "a mark without a ledger": _mark_nothing,
    "malformed": _drop_end,
    "entries beyond the end": _write_beyond_end,
    "open for long": _leave_open,
}


def seed(cluster: SandboxCluster, damages: Sequence[Damage]) -> None:
    """Write LEDGERS ledgers, LEDGERS_OF_A_KIND of them with each of `damages`."""
    for number, (_, text) in enumerate(sound_ledgers(LEDGERS - LEDGERS_OF_A_KIND * len(damages))):
        cluster.place(10_000 + number, cluster.ledger(text))
    for number, damage in enumerate(damages):
        for turn in range(LEDGERS_OF_A_KIND):
            damage(cluster, DAMAGED_FIRST + 10 * number + turn)


@dataclass(frozen=True, slots=True)
class Run:
    """One `auditor run`: seconds of the whole process, and what its summary says."""

    wall_s: float
    summary: dict[str, Any]

    @property
    def stages(self) -> str:
        told: Mapping[str, float] = self.summary["duration_s"]
        return ", ".join(f"{name} {seconds:.1f}" for name, seconds in told.items())


def audit(cluster: SandboxCluster, output: Path, flags: Sequence[str]) -> Run:
    """One run in a process of its own. Raises RuntimeError where it gives no verdict."""
    command = [
        *(sys.executable, "-m", "auditor", "run", "--quiet", "--second-look-delay", "0s"),
        *("--metadata-service-uri", cluster.metadata_service_uri, "--output", str(output), *flags),
    ]
    began = time.monotonic()
    done = subprocess.run(
        command, cwd=PROJECT, env=dict(os.environ), capture_output=True, text=True,
        timeout=RUN_TIMEOUT_S, check=False,
    )  # fmt: skip
    wall_s = time.monotonic() - began
    if done.returncode not in (0, 1):
        said = (done.stdout + done.stderr)[-3000:]
        raise RuntimeError(f"auditor run exited with {done.returncode}: {said}")
    run = json.loads((output / "latest.json").read_text())["run"]
    return Run(wall_s, json.loads((output / run / "summary.json").read_text()))


def target(scratch: Path, rounds: int = ROUNDS, flags: Sequence[str] = ()) -> Target:
    """Measure what is promised of a damaged cluster. The two clusters take turns at being first."""
    scratch.mkdir(parents=True, exist_ok=True)
    with (
        SandboxCluster(scratch / "healthy", BOOKIES, named=True) as healthy,
        SandboxCluster(scratch / "damaged", BOOKIES, named=True) as damaged,
    ):
        seed(healthy, ())
        seed(damaged, tuple(KINDS.values()))
        runs: dict[str, list[Run]] = {"healthy": [], "damaged": []}
        sides = [("healthy", healthy), ("damaged", damaged)]
        for turn in range(rounds + 1):
            for name, cluster in sides if turn % 2 == 0 else reversed(sides):
                runs[name].append(audit(cluster, scratch / f"{name}-audits", flags))
    return _target(runs["healthy"][1:], runs["damaged"][1:])  # the first round warms the machine


def _target(healthy: Sequence[Run], damaged: Sequence[Run]) -> Target:
    ratio = median(bad.wall_s / good.wall_s for bad, good in zip(damaged, healthy, strict=True))
    counts = damaged[-1].summary["ledgers"]
    return Target(
        f"{LEDGERS} ledgers with {len(KINDS)} kinds of damage take at most {RATIO_MAX} times as"
        " long as healthy ones, cold",
        ratio <= RATIO_MAX,
        (
            (
                f"median ratio {ratio:.2f}; {counts['violated']} of {counts['listed']} ledgers"
                " violated"
            ),
            *(_figures(name, runs) for name, runs in (("healthy", healthy), ("damaged", damaged))),
        ),
    )


def _figures(name: str, runs: Sequence[Run]) -> str:
    middle = sorted(runs, key=lambda run: run.wall_s)[len(runs) // 2]
    walls = " ".join(f"{run.wall_s:5.1f}" for run in runs)
    return f"{name}  {walls} s; stages of the median: {middle.stages}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument(
        "--suspects-in-process-max", help="as of auditor run; its default if left out"
    )
    options = parser.parse_args(arguments)
    given = options.suspects_in_process_max
    flags = () if given is None else ("--suspects-in-process-max", given)
    ensure_class_archive()
    with tempfile.TemporaryDirectory() as directory:
        found = target(Path(directory), options.rounds, flags)
    print(found)
    return 0 if found.met else 1


if __name__ == "__main__":
    sys.exit(main())
