"""A run with a period (`--within`) an hour after a whole run, as a share of it, with 1 % change.

    .venv/bin/python -m benchmarks.due_run --ledgers 100000 [--keep DIR]

The cluster is that of `benchmarks.scale`. The period is 168 times as long as the time between the
beginnings of the two runs, as with runs every hour and `--within 168h`. Between them the znodes of
1 % of the ledgers are written again, with a new version. One in 1,000 is damaged: a run with a
period asks about these each time. At 100,000 ledgers most of a run is fixed. Its floor is a client
that reads each znode once and only counts: that does not become less, however little is due.
10,000,000 ledgers take 15 GB of memory, and a quarter of an hour on two cores that are idle.

`--again N` makes N such runs, the later ones with Spark's files in the cache of the machine. The
period of each is 168 times as long as the time since the whole run began, but its base is the run
before it. A smaller share of the ledgers has its turn in the later ones.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path

import numpy as np
from kazoo.client import KazooClient
from support.zookeeper_znodes import uri

from auditor.config import ZooKeeperLimits
from auditor.wire import znode_paths
from auditor.zookeeper.multi_read import LedgerPaths
from auditor.zookeeper.reading import read_columns
from auditor.zookeeper.session import connect
from benchmarks.arithmetic_cluster import (
    DAMAGED_EVERY,
    LAYOUT,
    ROOT,
    ArithmeticCluster,
    arithmetic_cluster,
)
from benchmarks.scale import LEDGERS, PROCESSES, Audited, audit
from benchmarks.targets import Target
from benchmarks.whole_run import ensure_class_archive

CHANGED_EVERY, CHANGED_AT_ONCE = 100, 1_000
READ_AT_ONCE = 100_000
HOURS = 168
SHARE_MAX = 0.03


def change(cluster: ArithmeticCluster, ledgers: int) -> None:
    """Write the znode of every CHANGED_EVERY-th ledger again, as it is. Its version grows."""
    client = KazooClient(cluster.zookeeper_hosts)
    client.start()
    ids = iter(range(0, ledgers, CHANGED_EVERY))
    try:
        while some := list(islice(ids, CHANGED_AT_ONCE)):
            paths = [ROOT + znode_paths.ledger_path(LAYOUT, ledger_id) for ledger_id in some]
            read = [(path, client.get_async(path)) for path in paths]
            for written in [client.set_async(path, answer.get()[0]) for path, answer in read]:
                written.get()
    finally:
        client.stop()
        client.close()


def znodes_cpu_s(cluster: ArithmeticCluster, ledgers: int) -> float:
    """Return the CPU seconds in which a raw client reads the znode of each ledger once, in columns
    as the auditor does.
    """
    cpu = time.process_time()
    limits = ZooKeeperLimits(zookeeper_reads_per_second=0)
    blocks = (
        LedgerPaths(ROOT, LAYOUT, np.arange(first, min(first + READ_AT_ONCE, ledgers)))
        for first in range(0, ledgers, READ_AT_ONCE)
    )
    with connect(uri(cluster.zookeeper_hosts, ROOT), limits) as session:
        answers = read_columns(session, blocks)
        read = sum(int(np.count_nonzero(znodes.sizes)) for _, znodes in answers)
    assert read == ledgers, f"{read} of {ledgers} znodes were read"
    return time.process_time() - cpu


def targets(
    scratch: Path, ledgers: int, kept: Path | None = None, again: int = 1
) -> Iterator[Target]:
    """Measure one whole run, and so many runs with a period."""
    with arithmetic_cluster(kept or scratch / "cluster", ledgers) as cluster:
        whole = audit(cluster, scratch / "audits", ledgers)
        floor_s = znodes_cpu_s(cluster, ledgers)
        for _ in range(again):
            change(cluster, ledgers)
            elapsed_s = (datetime.now().astimezone() - _began(whole)).total_seconds()
            flags = ("--within", f"{int(elapsed_s * HOURS)}s")
            due = audit(cluster, scratch / "audits", ledgers, flags=flags)
            yield from _compare(whole, due, floor_s)


def _began(run: Audited) -> datetime:
    return datetime.fromisoformat(run.summary["started_at"])


def _compare(whole: Audited, due: Audited, floor_s: float) -> Iterator[Target]:
    carried, listed = due.summary["carried"], whole.summary["ledgers"]["listed"]
    reasons = ", ".join(f"{why} {number:,}" for why, number in carried["due"].items() if number)
    yield Target(
        f"exactly the {listed // DAMAGED_EVERY:,} damaged ledgers are accused again",
        not due.faults,
        due.faults or (f"{carried['ledgers']:,} of {listed:,} carried over; due: {reasons}",),
    )
    lists = due.asked.lists / whole.asked.lists
    yield Target(
        f"a run with a period asks for at most {SHARE_MAX:.0%} of the lists",
        lists <= SHARE_MAX,
        (f"{lists:.2%}: {due.asked.lists:,} of {whole.asked.lists:,}",),
    )
    cpu = due.used.cpu_s / whole.used.cpu_s
    yield Target(
        f"a run with a period takes at most {SHARE_MAX:.0%} of the CPU time",
        cpu <= SHARE_MAX,
        (
            f"{cpu:.1%}: {_times(due)} of {_times(whole)}; {due.asked.reads:,} reads",
            f"reading each znode alone takes {floor_s / whole.used.cpu_s:.1%}: {floor_s:.1f} CPU s",
            f"a ledger: {_each(due, listed)}",
        ),
    )


def _times(run: Audited) -> str:
    parts = ", ".join(f"{name} {run.used.cpus_s.get(name, 0):.1f}" for name in PROCESSES)
    return f"{run.used.cpu_s:.1f} CPU s ({parts})"


def _each(run: Audited, ledgers: int) -> str:
    peak = run.used.peaks_bytes["driver"] // 2**20
    return f"{run.used.cpu_s / ledgers * 1e6:.1f} CPU us; the driver took {peak:,} MiB at most"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ledgers", type=int, default=LEDGERS)
    parser.add_argument("--keep", type=Path, help="keep ZooKeeper's data in this directory")
    parser.add_argument("--again", type=int, default=1, help="how many runs with a period")
    chosen = parser.parse_args(arguments)
    ensure_class_archive()
    missed = 0
    with tempfile.TemporaryDirectory() as directory:
        for target in targets(Path(directory), chosen.ledgers, chosen.keep, chosen.again):
            print(target, flush=True)
            missed += not target.met
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
