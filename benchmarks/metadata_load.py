"""How fast ledger metadata comes out of ZooKeeper: multiRead against kazoo's own pipelined
`get_async`, same server, same run.

    .venv/bin/python -m benchmarks.metadata_load [--ledgers 20000] [--rounds 3] [--hosts HOST:PORT]

Without `--hosts` it starts a ZooKeeper of its own from pyspark's jars. Both ways have equally many
reads in flight, and both deliver the znodes' bytes; nothing is decoded. The ways take turns, and
the median of each way's rounds counts. Last a server before ZooKeeper 3.6, which does not know
multiRead, is read by the same function.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kazoo.client import KazooClient
from support.zookeeper_process import release_classpath, zookeeper
from support.zookeeper_znodes import ledger_bytes, uri, znodes

from auditor.config import ZooKeeperLimits
from auditor.wire import znode_paths
from auditor.wire.znode_paths import LedgerLayout
from auditor.zookeeper.reading import read_many
from auditor.zookeeper.session import connect
from benchmarks.targets import Target

ROOT = "/benchmark/ledgers"
LAYOUT = LedgerLayout.HIERARCHICAL
LIMITS = ZooKeeperLimits(zookeeper_reads_per_second=0)
INFLIGHT_READS = LIMITS.zookeeper_batch_paths * LIMITS.zookeeper_inflight
RATIO_TARGET = 10.0
ANSWER_TIMEOUT_S = 60
LEDGERS, ROUNDS = 20_000, 3
FALLBACK_LEDGERS = 5_000


@dataclass(frozen=True, slots=True)
class Figures:
    """Znodes a second, by way of reading; `ratio` is the first over the second."""

    ledgers: int
    znode_bytes: int
    multi_read_per_s: float
    get_async_per_s: float
    ratio: float


def measure(hosts: str, ledgers: int, rounds: int) -> Figures:
    """Write `ledgers` ledgers of a usual size below ROOT, read them both ways `rounds` times, and
    remove them.
    """
    paths = [ROOT + znode_paths.ledger_path(LAYOUT, ledger_id) for ledger_id in range(ledgers)]
    with znodes(hosts) as writer:
        writer.ledgers(ROOT, LAYOUT, range(ledgers))
        try:
            by_multi_read, by_get_async = [], []
            for _ in range(rounds):
                by_multi_read.append(_timed(_multi_read, hosts, paths))
                by_get_async.append(_timed(_get_async, hosts, paths))
        finally:
            writer.delete(ROOT)
    fast, slow = statistics.median(by_multi_read), statistics.median(by_get_async)
    return Figures(
        ledgers, ledgers * len(ledger_bytes()), round(fast), round(slow), round(fast / slow, 1)
    )


def _timed(
    read: Callable[[str, Sequence[str]], tuple[float, int]], hosts: str, paths: Sequence[str]
) -> float:
    seconds, received = read(hosts, paths)
    assert received == len(paths) * len(ledger_bytes()), (
        f"{received} bytes were received, not all that were written"
    )
    return len(paths) / seconds


def _multi_read(hosts: str, paths: Sequence[str]) -> tuple[float, int]:
    with connect(uri(hosts, ROOT), LIMITS) as session:
        next(read_many(session, ["/"]))  # connected, and the server is known to take it
        start = time.perf_counter()
        received = sum(len(znode.data) for znode in read_many(session, paths))
        assert session.multi_read, (
            "this server does not know multiRead: there is nothing to compare"
        )
        return time.perf_counter() - start, received


def _get_async(hosts: str, paths: Sequence[str]) -> tuple[float, int]:
    client = KazooClient(hosts)
    client.start(timeout=ANSWER_TIMEOUT_S)
    try:
        client.get("/")
        start = time.perf_counter()
        received = 0
        window: deque[object] = deque()
        for path in paths:
            if len(window) == INFLIGHT_READS:
                received += len(window.popleft().get(timeout=ANSWER_TIMEOUT_S)[0])  # type: ignore[attr-defined]
            window.append(client.get_async(path))
        received += sum(len(result.get(timeout=ANSWER_TIMEOUT_S)[0]) for result in window)  # type: ignore[attr-defined]
        return time.perf_counter() - start, received
    finally:
        client.stop()
        client.close()


def target(figures: Figures) -> Target:
    """What is promised of these figures."""
    return Target(
        f"metadata: multiRead delivers znodes at {RATIO_TARGET:g} times the rate of pipelined"
        " get_async, same ensemble",
        figures.ratio >= RATIO_TARGET,
        (
            (
                f"ratio {figures.ratio}: multiRead {figures.multi_read_per_s:,} znodes/s, get_async"
                f" {figures.get_async_per_s:,} znodes/s; {figures.ledgers:,} ledgers,"
                f" {figures.znode_bytes:,} bytes"
            ),
        ),
    )


def fallback(ledgers: int = FALLBACK_LEDGERS) -> Target:
    """Read `ledgers` znodes from ZooKeeper 3.5.10 by the function that reads newer servers by
    multiRead.
    """
    paths = [ROOT + znode_paths.ledger_path(LAYOUT, ledger_id) for ledger_id in range(ledgers)]
    with _server(None, release_classpath("3.5.10")) as hosts, znodes(hosts) as writer:
        writer.ledgers(ROOT, LAYOUT, range(ledgers))
        with connect(uri(hosts, ROOT), LIMITS) as session:
            start = time.perf_counter()
            received = sum(1 for znode in read_many(session, paths) if znode.data == ledger_bytes())
            seconds = time.perf_counter() - start
            refused = session.multi_read is False
    return Target(
        "metadata: a ZooKeeper before 3.6, without multiRead, is read all the same",
        refused and received == ledgers,
        (
            (
                f"{received:,} of {ledgers:,} znodes whole from ZooKeeper 3.5.10,"
                f" {ledgers / seconds:,.0f} znodes/s by single reads"
            ),
        ),
    )


@contextmanager
def _server(hosts: str | None, classpath: str | None = None) -> Iterator[str]:
    if hosts:
        yield hosts
        return
    with (
        tempfile.TemporaryDirectory() as directory,
        zookeeper(Path(directory) / "zookeeper", classpath) as process,
    ):
        yield process.hosts


def targets(hosts: str | None = None, ledgers: int = LEDGERS, rounds: int = ROUNDS) -> list[Target]:
    """Both promises, about 15 s. `hosts`: a ZooKeeper that may be written to below ROOT."""
    with _server(hosts) as server:
        figures = measure(server, ledgers, rounds)
    return [target(figures), fallback()]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--hosts",
        help="a ZooKeeper that may be written to below /benchmark; default: one of our own",
    )
    parser.add_argument("--ledgers", type=int, default=LEDGERS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args(arguments)
    found = targets(options.hosts, options.ledgers, options.rounds)
    print(*found, sep="\n")
    return 0 if all(one.met for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
