"""The bookies under test: real ones, and the sandbox's on sockets of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from support.raw_bookie import RawBookie
from support.real_cluster import RealCluster

from auditor.sandbox.bookie import Bookie, LedgerFault
from auditor.sandbox.listener import HOST, Listener

STORAGES = {"sorted": "SortedLedgerStorage", "interleaved": "InterleavedLedgerStorage"}
ENTRIES_AN_INDEX_PAGE = 1024
"""pageSize / 8: Interleaved storage leaves an unflushed last entry out of the list when its id is a multiple of this."""
LOOP_WAIT_S = 10.0
"""How long the sandbox's event loop may take to do what it is told, in seconds."""


@dataclass(frozen=True)
class RealBookieUnderTest:
    """A real bookie, written to as BookKeeper's client would."""

    implementation: str
    storage: str
    host: str
    port: int

    def hold(self, ledger_id: int, *runs: tuple[int, int]) -> None:
        with RawBookie(self.host, self.port) as connection:
            connection.add(ledger_id, runs)

    def know_empty(self, ledger_id: int) -> None:
        with RawBookie(self.host, self.port) as connection:
            status = connection.fence(ledger_id)
        assert status == "ENOENTRY", f"fencing ledger {ledger_id}: {status}"


@dataclass(frozen=True)
class SandboxBookieUnderTest:
    """A bookie of the sandbox, told what it holds as `auditor demo` tells it.

    The sandbox has the listing defect of Interleaved storage as a fault to choose; here it is chosen where the real one has it.
    """

    implementation: str
    storage: str
    host: str
    port: int
    bookie: Bookie = field(repr=False)

    def hold(self, ledger_id: int, *runs: tuple[int, int]) -> None:
        self.bookie.hold(ledger_id, runs)
        last = max(last for _, last in runs)
        if self.storage == "InterleavedLedgerStorage" and last % ENTRIES_AN_INDEX_PAGE == 0:
            self.bookie.faults[ledger_id] = LedgerFault.LAST_ENTRY_UNLISTED

    def know_empty(self, ledger_id: int) -> None:
        self.bookie.hold(ledger_id, ())


def real_bookie(cluster: RealCluster, kind: str) -> RealBookieUnderTest:
    """The first bookie of the cluster with this storage (`sorted`, `interleaved`)."""
    bookie_id = next(one for one in cluster.bookie_ids if cluster.storage(one) == STORAGES[kind])
    return RealBookieUnderTest(f"real-{kind}", STORAGES[kind], *cluster.address(bookie_id))


@contextmanager
def sandbox_bookies(kinds: Iterable[str] = tuple(STORAGES)) -> Iterator[dict[str, SandboxBookieUnderTest]]:
    """One listening sandbox bookie a kind, without ZooKeeper or Java, served by a thread that ends with the context."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="sandbox bookies", daemon=True)
    thread.start()

    def in_loop(work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, loop).result(LOOP_WAIT_S)

    listeners = {kind: Listener(Bookie()) for kind in kinds}
    try:
        for listener in listeners.values():
            in_loop(listener.start())
        yield {
            kind: SandboxBookieUnderTest(f"sandbox-{kind}", STORAGES[kind], HOST, listener.port, listener.bookie)
            for kind, listener in listeners.items()
        }
    finally:
        for listener in listeners.values():
            in_loop(listener.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LOOP_WAIT_S)
        loop.close()
