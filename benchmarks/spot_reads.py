"""What the spot reads add to a whole `auditor run`: with the default and without any, in turn, on
one real cluster.

    .venv/bin/python -m benchmarks.spot_reads [--ledgers 20000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.seeding import seed
from benchmarks.targets import Target
from benchmarks.whole_run import LEDGERS, audit, ensure_class_archive, start_cluster

ROUNDS = 5
RATIO_MAX = 1.1
"""How much longer a run may take with the default spot reads."""


def compare(uri: str, output: Path, ledgers: int, rounds: int) -> Target:
    """Alternate runs with the default and without spot reads, each first in turn."""
    audit(uri, output)  # not counted: it warms the bookies
    default, without = [], []
    for turn in range(rounds):
        sides = [
            lambda: default.append(audit(uri, output)),
            lambda: without.append(audit(uri, output, "--spot-reads", "0")),
        ]
        for run in sides if turn % 2 == 0 else reversed(sides):
            run()
    ratio = statistics.median(
        one.wall_s / other.wall_s for one, other in zip(default, without, strict=True)
    )
    reads = default[-1].summary["requests"]["spot_reads"]
    return Target(
        f"the default spot reads make a run over {ledgers:,} ledgers at most {RATIO_MAX:g} times as"
        " long",
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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ledgers", type=int, default=LEDGERS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args(arguments)
    ensure_class_archive()
    with (
        tempfile.TemporaryDirectory() as directory,
        start_cluster(Path(directory), options.ledgers) as cluster,
    ):
        seed(cluster, options.ledgers)
        uri = cluster.metadata_service_uri
        found = compare(uri, Path(directory) / "audits", options.ledgers, options.rounds)
    print(found)
    return 0 if found.met else 1


if __name__ == "__main__":
    sys.exit(main())
