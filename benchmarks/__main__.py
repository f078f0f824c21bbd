"""Every promised speed, measured: MET or MISSED with the figures, and exit 1 if any was missed. Six
to eight minutes.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from support.real_cluster import RealCluster

from benchmarks import (
    bookie_requests,
    damaged_run,
    driver_memory,
    judging,
    listers,
    metadata_load,
    second_checker,
    single_ledger,
    warm_run,
    whole_run,
)
from benchmarks.seeding import ensemble_of, seed
from benchmarks.targets import Target


def main() -> int:
    print("metadata and judging ...", file=sys.stderr)
    found = [
        *_said(metadata_load.targets()),
        *_said(judging.targets()),
        *_said(second_checker.targets()),
    ]
    found += _said([driver_memory.target()])
    print(
        f"a cluster of {whole_run.BOOKIES} bookies, {whole_run.LEDGERS:,} ledgers ...",
        file=sys.stderr,
    )
    whole_run.ensure_class_archive()
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        found += _said(
            [single_ledger.target(scratch / "single"), damaged_run.target(scratch / "damage")]
        )
        found += _said([warm_run.target(scratch / "warm")])
        print(
            f"a lister of {listers.LEDGERS:,} ledgers of {listers.ENTRIES} entries ...",
            file=sys.stderr,
        )
        found += _said(listers.targets(scratch / "listers"))
        with RealCluster(scratch / "cluster", bookies=whole_run.BOOKIES) as cluster:
            seed(cluster, whole_run.LEDGERS)
            found += _said(_bookie_requests(cluster))
            found += _said(
                [whole_run.compare(cluster, scratch, whole_run.LEDGERS, whole_run.ROUNDS)]
            )
    missed = sum(not target.met for target in found)
    print(f"benchmarks: {len(found) - missed} of {len(found)} met")
    return 1 if missed else 0


def _bookie_requests(cluster: RealCluster) -> list[Target]:
    """The first bookie, asked for the ledgers whose ensemble names it."""
    bookie = cluster.bookie_ids[0]
    ledger_ids = [
        i for i in range(whole_run.LEDGERS) if bookie in ensemble_of(i, cluster.bookie_ids)
    ]
    host, port = cluster.address(bookie)
    return bookie_requests.targets(host, port, ledger_ids)


def _said(targets: Iterable[Target]) -> list[Target]:
    """The same, each printed as soon as it is known."""
    said = []
    for target in targets:
        print(target, flush=True)
        said.append(target)
    return said


if __name__ == "__main__":
    sys.exit(main())
