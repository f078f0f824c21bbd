"""What the spot reads, and those that verify copies within a period, add to a whole `auditor run`:
with the default limits and without any, in turn, on one real cluster.

    .venv/bin/python -m benchmarks.spot_reads [--ledgers 20000] [--rounds 5]
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from support.real_cluster import RealCluster

from benchmarks.targets import Target
from benchmarks.whole_run import audit, measure, take_turns

ROUNDS = 5
AT_THE_LIMIT = ("--verify-within", "1m")
"""So short a period that --verify-bytes-per-second decides how much a run reads."""
RATIO_MAX = 1.1
"""How much longer a run may take with the default limits on reads."""


def compare(cluster: RealCluster, scratch: Path, ledgers: int, rounds: int) -> Target:
    """Alternate runs with the default and without spot reads, each first in turn."""
    uri, output = cluster.metadata_service_uri, scratch / "spot-reads"
    audit(uri, output)  # not counted: it warms the bookies
    default, without = [], []
    for turn in range(rounds):
        take_turns(
            turn,
            lambda: default.append(audit(uri, output, *AT_THE_LIMIT)),
            lambda: without.append(audit(uri, output, "--spot-reads", "0")),
        )
    ratio = statistics.median(
        one.wall_s / other.wall_s for one, other in zip(default, without, strict=True)
    )
    reads = default[-1].summary["requests"]["spot_reads"]
    return Target(
        f"the default limits on reads make a run over {ledgers:,} ledgers at most {RATIO_MAX:g}"
        " times as long",
        ratio <= RATIO_MAX,
        (
            f"median ratio {ratio:.2f}; {reads:,} spot reads",
            "with    " + " ".join(f"{run.wall_s:5.1f}" for run in default) + " s",
            "without " + " ".join(f"{run.wall_s:5.1f}" for run in without) + " s",
            f"stages with    {default[-1].stages}",
            f"stages without {without[-1].stages}",
        ),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    return measure(arguments, __doc__, compare, ROUNDS)


if __name__ == "__main__":
    sys.exit(main())
