"""Listers for tests, on ports of their own: in this process, or as the command beside a real
bookie.
"""

from __future__ import annotations

import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from support.location_index import LocationIndex, write_cookie
from support.raw_bookie import RawBookie, list_request, status_name
from support.real_cluster import RealCluster

from auditor import __version__
from auditor.credentials.tls import RenewedContext
from auditor.lister.bookie_configuration import BookieConfiguration
from auditor.lister.directory_reader import DirectoryReader
from auditor.lister.ledger_lists import ListLimits
from auditor.lister.scrub import Scrub
from auditor.lister.server import ListerServer, ServerLimits, report_to
from auditor.lister.serving import ServingCheck, check_cookie
from auditor.model.identity import BookieId
from auditor.model.ledger import LedgerMetadata
from auditor.model.scrub import ScrubReport
from auditor.sandbox import cluster as notation
from auditor.sandbox.bookie import Behaviour, Bookie, Storage
from auditor.sandbox.cluster import SandboxCluster
from auditor.sandbox.listener import HOST, Listener, LoopThread
from auditor.telemetry.lister_metrics import ListerMetrics

INSTANCE = "the-instance"
LIMITS = ListLimits(answer_bytes_max=64 * 2**20, keys_per_second=0, view_age_max_s=0)
END_TIMEOUT_S = 30.0
FLUSH_TIMEOUT_S = 60.0
POLL_S = 0.2
EMPTY_LIST_BYTES = 64


@dataclass(frozen=True)
class ListerUnderTest:
    """A lister on an index that this process writes, beside a sandbox bookie with the same entries.

    `bookie_listener` is the bookie's port. `hold` puts entries on both.
    """

    implementation: str
    storage: str
    host: str
    port: int
    bookie_id: str
    bookie: Bookie = field(repr=False)
    bookie_listener: Listener = field(repr=False)
    index: LocationIndex = field(repr=False)
    thread: LoopThread = field(repr=False)
    reader: DirectoryReader = field(repr=False)
    server: ListerServer = field(repr=False)
    metrics: ListerMetrics = field(repr=False)
    context: ssl.SSLContext | None = field(default=None, repr=False)
    """The TLS context with which clients ask it."""

    def hold(self, ledger_id: int, *runs: tuple[int, int]) -> None:
        self.bookie.hold(ledger_id, runs)
        for first, last in runs:
            self.index.put(ledger_id, range(first, last + 1))

    def know_empty(self, ledger_id: int) -> None:
        self.bookie.hold(ledger_id, ())


@contextmanager
def lister_in_process(
    workdir: Path,
    bookie_id: str = "b1",
    limits: ListLimits = LIMITS,
    tls: RenewedContext | None = None,
    context: ssl.SSLContext | None = None,
) -> Iterator[ListerUnderTest]:
    """Yield a lister, its bookie and its index. The index reader is a process; the rest runs in
    threads of this one.
    """
    directory = workdir / "bookie"
    thread = LoopThread("lister under test")
    with ExitStack() as stack:
        stack.callback(thread.stop)
        index = stack.enter_context(LocationIndex(directory))
        write_cookie(directory, bookie_id, instance=INSTANCE)
        configured = BookieConfiguration((directory,), (directory,), bookie_id)
        listener = Listener(Bookie(Behaviour(storage=Storage.DB)))
        thread.call(listener.start())
        stack.callback(lambda: thread.call(listener.stop()))
        cookie = check_cookie(configured)
        logger = structlog.get_logger("auditor")
        links = workdir / "links"
        metrics = ListerMetrics(bookie_id, __version__)
        report = report_to(logger, metrics, str(directory))
        reader = DirectoryReader(index.locations, index.logs, links, limits, report)
        serving = ServingCheck((HOST, listener.port), configured, cookie)
        server = ListerServer(
            configured, cookie, [reader], serving, ServerLimits(16, 64), logger, metrics, tls
        )
        port = thread.call(server.start(HOST, 0))
        stack.callback(lambda: thread.call(server.stop()))
        yield ListerUnderTest(
            "lister",
            "LocationIndex",
            HOST,
            port,
            bookie_id,
            listener.bookie,
            listener,
            index,
            thread,
            reader,
            server,
            metrics,
            context,
        )


@contextmanager
def lister_command(*flags: str, prepare: Callable[[], object] | None = None) -> Iterator[str]:
    """Run `auditor lister` with these flags on a free port, yield its address, and end it with
    SIGTERM. Its process calls `prepare` before it becomes a lister.
    """
    command = [
        sys.executable,
        "-m",
        "auditor",
        "lister",
        *flags,
        "--listen",
        f"{HOST}:0",
        "--quiet",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=prepare)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on "), f"the lister said {line!r}"
        yield line.split()[-1]
    finally:
        process.terminate()
        code = process.wait(END_TIMEOUT_S)
        if process.stdout is not None:
            process.stdout.close()
        assert code == 0, f"the lister ended with {code}"


def await_listed(where: str, ledger_id: int, context: ssl.SSLContext | None = None) -> None:
    """Wait until the lister at HOST:PORT lists the ledger written last.

    A bookie flushes all ledgers at once, so the others are listed then, too. With `context` the
    lister is asked inside TLS.
    """
    host, port = where.rsplit(":", 1)
    deadline = time.monotonic() + FLUSH_TIMEOUT_S
    with RawBookie(host, int(port)) as connection:
        if context is not None:
            connection.start_tls(context)
        while True:
            response = connection.ask(list_request(ledger_id, connection.next_txn_id()))
            payload = response.getListOfEntriesOfLedgerResponse.availabilityOfEntriesOfLedger
            if len(payload) > EMPTY_LIST_BYTES:
                return
            assert time.monotonic() < deadline, f"not flushed: {status_name(response.status)}"
            time.sleep(POLL_S)


@contextmanager
def listers_of(
    cluster: RealCluster,
    workdir: Path,
    prepare: Callable[[BookieId], Callable[[], object] | None] = lambda _: None,
) -> Iterator[Path]:
    """Start a lister beside each real bookie, and yield the map of their addresses. `prepare` says
    what the process of a bookie's lister calls first.
    """
    with ExitStack() as stack:
        found = workdir / "listers"
        with found.open("w") as file:
            for bookie in cluster.bookie_ids:
                configuration = cluster.directory(bookie) / "bookie.conf"
                where = stack.enter_context(
                    lister_command("--bookkeeper-conf", str(configuration), prepare=prepare(bookie))
                )
                file.write(f"{bookie} {where}\n")
        yield found


@contextmanager
def listers_of_sandbox(cluster: SandboxCluster, workdir: Path) -> Iterator[SandboxListers]:
    """Start a lister beside each bookie of a sandbox cluster with names. Its indexes are empty at
    first.
    """
    with ExitStack() as stack:
        yield SandboxListers(cluster, workdir, stack)


class SandboxListers:
    """The listers of a sandbox cluster: `index` has the index of each bookie, `addresses` their
    map.
    """

    def __init__(self, cluster: SandboxCluster, workdir: Path, stack: ExitStack) -> None:
        self.thread = LoopThread("listers of a sandbox")
        stack.callback(self.thread.stop)
        self.index: dict[str, LocationIndex] = {}
        self.servers: dict[str, ListerServer] = {}
        self.map = workdir / "listers"
        lines = []
        for bookie in cluster.bookie_ids:
            directory = workdir / bookie
            self.index[bookie] = stack.enter_context(LocationIndex(directory))
            write_cookie(directory, bookie, instance=cluster.instance_id)
            configured = BookieConfiguration((directory,), (directory,), bookie)
            cookie = check_cookie(configured)
            logger = structlog.get_logger("auditor")
            links = workdir / f"links-{bookie}"
            index = self.index[bookie]
            metrics = ListerMetrics(bookie, __version__)
            report = report_to(logger, metrics, bookie)
            reader = DirectoryReader(index.locations, index.logs, links, LIMITS, report)
            serving = ServingCheck(cluster.address(bookie), configured, cookie)
            server = ListerServer(
                configured, cookie, [reader], serving, ServerLimits(16, 64), logger, metrics
            )
            self.servers[bookie] = server
            lines.append(f"{bookie} {HOST}:{self.thread.call(server.start(HOST, 0))}\n")
            stack.callback(lambda one=server: self.thread.call(one.stop()))
        self.map.write_text("".join(lines))

    def place(
        self, ledger_id: int, metadata: LedgerMetadata, lose: Mapping[str, str] | None = None
    ) -> None:
        """Index what the bookies hold of a ledger, except the entries that `lose` takes from an
        index.
        """
        for bookie, runs in notation.placement(metadata, None).items():
            for first, last in notation.without(runs, notation.holds((lose or {}).get(bookie, ""))):
                self.index[bookie].put(ledger_id, range(first, last + 1))

    def stop(self, bookie: str) -> None:
        """End one lister."""
        self.thread.call(self.servers[bookie].stop())


@dataclass(frozen=True)
class FixedScrub(Scrub):
    """The scrub of a lister, with a fixed report."""

    fixed: ScrubReport

    def report(self) -> ScrubReport:
        return self.fixed

    def start(self) -> None:
        """Do nothing: there is no process."""

    def stop(self) -> None:
        """Do nothing: there is no process."""


@contextmanager
def scrubs_of_sandbox(
    cluster: SandboxCluster, workdir: Path, reports: Mapping[str, ScrubReport]
) -> Iterator[Path]:
    """Start a lister that only scrubs beside each of these bookies of a sandbox, and yield the map
    of their addresses.
    """
    with ExitStack() as stack:
        thread = LoopThread("scrubs of a sandbox")
        stack.callback(thread.stop)
        lines = []
        for bookie, report in reports.items():
            directory = workdir / bookie
            write_cookie(directory, bookie, instance=cluster.instance_id)
            configured = BookieConfiguration((directory,), (directory,), bookie)
            cookie = check_cookie(configured)
            serving = ServingCheck(cluster.address(bookie), configured, cookie)
            logger, metrics = structlog.get_logger("auditor"), ListerMetrics(bookie, __version__)
            bounds = ServerLimits(16, 64)
            server = ListerServer(
                configured, cookie, [], serving, bounds, logger, metrics, None, FixedScrub(report)
            )
            lines.append(f"{bookie} {HOST}:{thread.call(server.start(HOST, 0))}\n")
            stack.callback(lambda one=server: thread.call(one.stop()))
        (workdir / "listers").write_text("".join(lines))
        yield workdir / "listers"
