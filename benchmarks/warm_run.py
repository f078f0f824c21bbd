"""Audits of 20 ledgers inside one Spark session that is warm: CPU seconds each, by the driver and
by Spark in turn.

    .venv/bin/python -m benchmarks.warm_run [--rounds 5]

The cluster is the sandbox in this process; the audits are done in another one, whose CPU time is
taken with that of all its children, the JVM and Spark's workers included. Two ledgers lack an
entry, so each audit takes three looks, the second without a delay.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import structlog

from auditor.commands.run import run
from auditor.config import Layers, parse
from auditor.context import Context
from auditor.sandbox.cluster import SandboxCluster
from auditor.spark.session import spark_session
from auditor.stop import StopRequest
from auditor.telemetry.progress import Silent
from benchmarks import PROJECT
from benchmarks.processes import cpu_s
from benchmarks.targets import Target
from benchmarks.whole_run import ensure_class_archive

LEDGERS, LACKING, BOOKIES, ROUNDS = 20, (7, 14), 3, 5
CPU_S_MAX = 2.0
TIMEOUT_S = 1_800
WAYS: Mapping[str, Mapping[str, str]] = {
    "the driver": {},
    "first look by Spark": {"ledgers_in_process_max": "0"},
    "all by Spark": {"suspects_in_process_max": "0"},
}
"""Who does the stages, by the settings that say so."""


def audit(uri: str, output: Path, way: Mapping[str, str]) -> tuple[float, float]:
    """One `auditor run`: its CPU seconds and its seconds. Raises RuntimeError for another verdict
    than is due.
    """
    flags = {"metadata_service_uri": uri, "output": str(output), "second_look_delay": "0s", **way}
    settings = parse(Layers(flags=flags), command="run")
    context = Context(settings, io.StringIO(), structlog.get_logger(), Silent(), StopRequest())
    cpu, began = cpu_s(os.getpid()), time.monotonic()
    code = run(context)
    if code != 1:
        raise RuntimeError(f"auditor run ended with {code}")
    return cpu_s(os.getpid()) - cpu, time.monotonic() - began


def measure(uri: str, scratch: Path, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Audit each way in turn inside one session; the first round warms it and does not count."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    with spark_session(BOOKIES, None, StopRequest(), lasting=True):
        for turn in range(rounds + 1):
            ways = list(WAYS.items())
            for name, way in ways if turn % 2 == 0 else reversed(ways):
                found[name].append(audit(uri, scratch / name, way))
    return {name: audits[1:] for name, audits in found.items()}


def target(scratch: Path, rounds: int = ROUNDS) -> Target:
    """Measure what is promised of a warm audit of few ledgers."""
    with SandboxCluster(scratch / "cluster", BOOKIES, named=True) as cluster:
        for ledger_id in range(1, LEDGERS + 1):
            lose = {"b1": "4", "b2": "4"} if ledger_id in LACKING else {}
            cluster.place(ledger_id, cluster.ledger("e3 w2 a2 0:[b1 b2 b3] closed 29"), lose)
        words = [
            "--rounds",
            str(rounds),
            "--uri",
            cluster.metadata_service_uri,
            "--scratch",
            str(scratch),
        ]
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.warm_run", *words],
            cwd=PROJECT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"the audits failed: {(done.stdout + done.stderr)[-3000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    cpu = {name: median(cpu for cpu, _ in audits) for name, audits in found.items()}
    return Target(
        f"a warm audit of {LEDGERS} ledgers inside one Spark session takes at most {CPU_S_MAX:g}"
        " CPU seconds",
        cpu["the driver"] <= CPU_S_MAX,
        tuple(
            f"{name:<20} {cpu[name]:5.2f} CPU s, {median(wall for _, wall in audits):5.2f} s"
            for name, audits in found.items()
        ),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument(
        "--uri",
        help="audit this cluster and print the figures as JSON; used by the benchmark itself",
    )
    parser.add_argument("--scratch", type=Path)
    given = parser.parse_args(arguments)
    if given.uri:
        print(json.dumps(measure(given.uri, given.scratch, given.rounds)))
        return 0
    ensure_class_archive()
    with tempfile.TemporaryDirectory() as directory:
        found = target(Path(directory), given.rounds)
    print(found)
    return 0 if found.met else 1


if __name__ == "__main__":
    sys.exit(main())
