"""The bookies under test: real ones, and the sandbox's on sockets of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from support.raw_bookie import RawBookie
from support.real_cluster import RealCluster

from auditor.sandbox.bookie import Behaviour, Bookie, Storage
from auditor.sandbox.listener import HOST, Listener, LoopThread

STORAGES = {"sorted": "SortedLedgerStorage", "interleaved": "InterleavedLedgerStorage"}
"""The storages that can list, by the name of an implementation under test."""


@dataclass(frozen=True)
class RealBookieUnderTest:
    """A real bookie, written to as BookKeeper's client does."""

    implementation: str
    storage: str
    host: str
    port: int

    def hold(self, ledger_id: int, *runs: tuple[int, int]) -> None:
        with RawBookie(self.host, self.port) as connection:
            connection.add(ledger_id, runs)

    def know_empty(self, ledger_id: int) -> None:
        fence_unknown(self.host, self.port, ledger_id)


@dataclass(frozen=True)
class SandboxBookieUnderTest:
    """A bookie of the sandbox, filled as `auditor demo` fills it."""

    implementation: str
    storage: str
    host: str
    port: int
    bookie: Bookie = field(repr=False)

    def hold(self, ledger_id: int, *runs: tuple[int, int]) -> None:
        self.bookie.hold(ledger_id, runs)

    def know_empty(self, ledger_id: int) -> None:
        fence_unknown(self.host, self.port, ledger_id)


def fence_unknown(host: str, port: int, ledger_id: int) -> None:
    """Fence a ledger that the bookie does not know. This makes it known and empty."""
    with RawBookie(host, port) as connection:
        status = connection.fence(ledger_id)
    assert status == "ENOENTRY", f"fencing ledger {ledger_id}: {status}"


def real_bookie(cluster: RealCluster, kind: str) -> RealBookieUnderTest:
    """Return the first bookie of the cluster with this storage (`sorted`, `interleaved`)."""
    bookie_id = next(one for one in cluster.bookie_ids if cluster.storage(one) == STORAGES[kind])
    return RealBookieUnderTest(f"real-{kind}", STORAGES[kind], *cluster.address(bookie_id))


@contextmanager
def sandbox_bookies(
    storages: dict[str, str] = STORAGES,
) -> Iterator[dict[str, SandboxBookieUnderTest]]:
    """Yield one listening sandbox bookie for each storage.

    They need no ZooKeeper and no Java. A thread serves them until the context ends.
    """
    thread = LoopThread("sandbox bookies under test")
    listeners = {
        kind: Listener(Bookie(Behaviour(storage=Storage(storage))))
        for kind, storage in storages.items()
    }
    try:
        for listener in listeners.values():
            thread.call(listener.start())
        yield {
            kind: SandboxBookieUnderTest(
                f"sandbox-{kind}", storages[kind], HOST, listener.port, listener.bookie
            )
            for kind, listener in listeners.items()
        }
    finally:
        for listener in listeners.values():
            thread.call(listener.stop())
        thread.stop()
