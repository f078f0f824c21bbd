"""The long form of the model: new histories for a given time, some of them through Spark.

    make soak                       # ten minutes, a seed of its own
    make soak MINUTES=60 SEED=7

Exits 1 at the first failure, with the shortest history that fails, its seed, and the command that
replays it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.model.clusters import started
from support.model.history import Broken, Cluster
from support.model.machine import ONE_ON_SPARK_OF, run_machine, those_on_spark
from support.model.spark import through_spark

from auditor.spark.session import spark_session
from auditor.stop import StopRequest

HISTORIES_A_ROUND = ONE_ON_SPARK_OF
"""Histories of one seed; the last one also goes through Spark."""
STEPS = 30
"""Actions after the beginning of a history: more than in the quick form, to reach states that only
long histories reach.
"""
SPARK_CORES = "local[2]"


def main(words: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(description="The long form of the model.")
    parser.add_argument(
        "--minutes", type=float, default=10.0, help="begin no new round after so many minutes"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=None,
        help="seed of the first round; the next has the next number",
    )
    given = parser.parse_args(words)
    first = given.seed if given.seed is not None else time.time_ns() % 10**6
    print(
        f"from seed {first} on: rounds of {HISTORIES_A_ROUND} histories, one of them through"
        " Spark too",
        flush=True,
    )
    ends_at = time.monotonic() + 60 * given.minutes
    with (
        tempfile.TemporaryDirectory() as workdir,
        started(Path(workdir) / "cluster") as cluster,
        spark_session(6, SPARK_CORES, StopRequest()),
    ):
        number = first
        while number == first or time.monotonic() < ends_at:
            if not _round(cluster, number, Path(workdir)):
                return 1
            number += 1
    print(f"every property held in seeds {first} to {number - 1}")
    return 0


def _round(cluster: Cluster, seed: int, workdir: Path) -> bool:
    """Return whether every property held; print what did not."""
    try:
        tally = run_machine(cluster, HISTORIES_A_ROUND, seed, STEPS)
        for lines in those_on_spark(tally.histories, HISTORIES_A_ROUND):
            through_spark(cluster, lines, workdir)
    except Broken as failure:
        print(f"seed {seed}: {failure}")
        return False
    print(
        f"seed {seed}: {len(tally.histories)} histories, {tally.actions.total()} actions",
        flush=True,
    )
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
