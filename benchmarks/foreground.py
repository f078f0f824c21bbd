"""What an audit costs those who use the bookies: adds and reads with an audit beside them and
without.

    .venv/bin/python -m benchmarks.foreground [--ledgers 4000] [--rounds 5]

One client adds entries to a real bookie and reads some that it stored, one after another: alone,
beside processes that only compute, and while `auditor run`, with the default limits, audits the
cluster again and again. There are three rows: bookies that list, bookies that are read
(DbLedgerStorage), and these with a lister beside each.

An audit runs on another machine than the bookies. Here it has another processor: the bookie that
is asked, its client and its lister keep to the first, the audit and the rest of the cluster to the
others. As two processors share more than two machines do, the turns of the audit are held against
those beside processes that compute on the same processors and ask nobody anything.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from statistics import median, quantiles

from support.listers import await_listed, listers_of
from support.raw_bookie import RawBookie, add_request, entry_body, master_key, read_request
from support.real_cluster import RealCluster

from auditor.model.identity import BookieId
from benchmarks import PROJECT
from benchmarks.seeding import ensemble_of, seed
from benchmarks.targets import Target, measure_rows

LEDGERS, ROUNDS, BOOKIES = 4_000, 5, 3
RATIO_MAX = 1.2
PAIRS = 1_500
"""Adds, and as many reads, of one turn: 15 of each are beyond the 99th percentile."""
PAUSE_S = 0.002
"""Pause of the client between two requests: it is a load, and leaves the bookie room."""
FIRST_AUDIT_S = 2.0
"""How long the client waits for an audit's interpreter to have started."""
RUN_TIMEOUT_S = 900
ADD_LEDGERS = count(10_000_000)
"""Ledgers of the adds: no metadata names them."""
ASKED = "b1"
PROCESSORS = sorted(os.sched_getaffinity(0))
HERE, ELSEWHERE = set(PROCESSORS[:1]), set(PROCESSORS[1:])
"""Processors: of the bookie that is asked and of its client; of the audit and of all others."""
AUTOGROUP = Path("/proc/self/autogroup")
"""Weighs a session against others where the kernel weighs sessions (sched(7))."""

P99 = tuple[float, float]
"""The 99th percentiles of the times of adds and of reads, in ms."""


def targets(scratch: Path, ledgers: int = LEDGERS, rounds: int = ROUNDS) -> Iterator[Target]:
    """Measure the three rows, two clusters one after another; some twelve minutes."""
    scratch.mkdir(exist_ok=True)
    with separated_cluster(scratch / "sorted") as cluster:
        seed(cluster, ledgers)
        yield compare("lists", cluster, scratch / "lists", ledgers, rounds)
    with separated_cluster(scratch / "db", storage="DbLedgerStorage") as cluster:
        seed(cluster, ledgers)
        yield compare("probes", cluster, scratch / "probes", ledgers, rounds)
        (scratch / "map").mkdir()
        with listers_of(cluster, scratch / "map", preparation) as listers:
            await_all_listed(cluster, listers, ledgers)
            flags = ("--lister-map", str(listers))
            yield compare("lister", cluster, scratch / "lister", ledgers, rounds, flags)


@contextmanager
def separated_cluster(workdir: Path, storage: str = "SortedLedgerStorage") -> Iterator[RealCluster]:
    """Start a cluster of which one bookie runs HERE, as this process does meanwhile, and the rest
    ELSEWHERE: a process has the processors of the one that starts it.
    """
    assert ELSEWHERE, "an audit needs a processor of its own"
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, ELSEWHERE)
    try:
        with RealCluster(workdir, bookies=BOOKIES, storage=storage) as cluster:
            os.sched_setaffinity(0, HERE)
            cluster.restart_bookies({}, only=[ASKED])
            yield cluster
    finally:
        os.sched_setaffinity(0, before)


def compare(
    how: str,
    cluster: RealCluster,
    scratch: Path,
    ledgers: int,
    rounds: int,
    flags: Sequence[str] = (),
) -> Target:
    """One row: turns with an audit and without, one right after the other."""
    alone: list[P99] = []
    computing: list[P99] = []
    audited: list[P99] = []
    with audits(cluster, scratch, flags):  # nobody finds it cold
        p99_ms(cluster, ledgers)
    runs = 0
    for _ in range(rounds):
        alone.append(p99_ms(cluster, ledgers))
        with processes_that_compute():
            computing.append(p99_ms(cluster, ledgers))
        with audits(cluster, scratch, flags) as finished:
            audited.append(p99_ms(cluster, ledgers))
        runs += len(finished)
    ratios = [
        median(there[one] / here[one] for here, there in zip(computing, audited, strict=True))
        for one in (0, 1)
    ]
    return Target(
        f"{how}: the p99 of adds and of reads is at most {RATIO_MAX:g} times as long during an"
        " audit as beside processes that only compute",
        max(ratios) <= RATIO_MAX,
        (
            f"median ratios {ratios[0]:.2f} (adds), {ratios[1]:.2f} (reads);"
            f" {runs} audits of {ledgers:,} ledgers",
            *_shown("adds", 0, alone, computing, audited),
            *_shown("reads", 1, alone, computing, audited),
        ),
    )


def _shown(what: str, one: int, *sides: Sequence[P99]) -> Iterator[str]:
    for side, values in zip(("alone", "computing", "audited"), sides, strict=True):
        yield f"{what:<6}{side:<10}" + " ".join(f"{value[one]:7.2f}" for value in values) + " ms"


def p99_ms(cluster: RealCluster, ledgers: int) -> P99:
    """Add and read by turns, each when the one before was answered."""
    drawn, key, adds, reads = random.Random(1), master_key(), [], []
    held = [i for i in range(ledgers) if cluster.bookie_ids[i % BOOKIES] == ASKED]
    ledger_id = next(ADD_LEDGERS)
    with cluster.connect(ASKED) as connection:
        for entry in range(PAIRS):
            body = entry_body(ledger_id, entry)
            request = add_request(ledger_id, entry, body, key, connection.next_txn_id())
            adds.append(_ms(connection, request))
            wanted = drawn.choice(held)
            reads.append(_ms(connection, read_request(wanted, 0, connection.next_txn_id())))
    return quantiles(adds, n=100)[98], quantiles(reads, n=100)[98]


def _ms(connection: RawBookie, request: object) -> float:
    began = time.perf_counter()
    assert connection.ask(request).status == 0, "an entry was not added, or not read"  # type: ignore[arg-type]
    taken = 1_000 * (time.perf_counter() - began)
    time.sleep(PAUSE_S)
    return taken


@contextmanager
def audits(cluster: RealCluster, scratch: Path, flags: Sequence[str]) -> Iterator[list[int]]:
    """Audit the cluster again and again; yields the exit codes of the audits that finished."""
    finished: list[int] = []
    is_over = threading.Event()
    command = [
        sys.executable, "-m", "auditor", "run", "--metadata-service-uri",
        cluster.metadata_service_uri, "--output", str(scratch), "--quiet", *flags,
    ]  # fmt: skip

    def repeat() -> None:
        while not is_over.is_set():
            done = subprocess.run(
                command,
                cwd=PROJECT,
                capture_output=True,
                timeout=RUN_TIMEOUT_S,
                check=False,
                preexec_fn=keep_elsewhere,
            )
            finished.append(done.returncode)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        time.sleep(FIRST_AUDIT_S)
        yield finished
    finally:
        is_over.set()
        thread.join()
    assert set(finished) == {0}, f"audits of a sound cluster ended with {finished}"


@contextmanager
def processes_that_compute() -> Iterator[None]:
    """Keep the other processors as busy as an audit may, without asking anybody anything."""
    compute = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(10_000))"
    command = [sys.executable, "-c", compute]
    with ExitStack() as stack:
        for _ in ELSEWHERE:
            process = stack.enter_context(subprocess.Popen(command, preexec_fn=keep_elsewhere))
            stack.callback(process.kill)
        time.sleep(FIRST_AUDIT_S)
        yield


def await_all_listed(cluster: RealCluster, lister_map: Path, ledgers: int) -> None:
    """Wait until each lister lists the last of its bookie's ledgers."""
    for line in lister_map.read_text().splitlines():
        name, where = line.split()
        last = max(i for i in range(ledgers) if name in ensemble_of(i, cluster.bookie_ids))
        await_listed(where, last)


def preparation(bookie: BookieId) -> Callable[[], None]:
    """Return what a bookie's lister begins with: it keeps to the bookie's processors, and has the
    least weight.
    """

    def prepare() -> None:
        os.sched_setaffinity(0, HERE if bookie == ASKED else ELSEWHERE)
        take_least_weight()

    return prepare


def take_least_weight() -> None:
    """Give this process a session with the least weight, as in
    deploy/systemd/bookkeeper-lister.service.
    """
    os.setsid()
    if AUTOGROUP.exists():
        AUTOGROUP.write_text("19")


def keep_elsewhere() -> None:
    """Let this process and its children run on the other processors alone."""
    os.sched_setaffinity(0, ELSEWHERE)


if __name__ == "__main__":
    sys.exit(measure_rows(__doc__, targets, LEDGERS, ROUNDS))
