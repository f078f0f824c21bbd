"""A real BookKeeper cluster for tests: ZooKeeper and one JVM a bookie, ledgers placed entry by entry.

    with RealCluster(tmp_path, bookies=4) as cluster:                   # 4-8 s on two cores
        cluster.add_ledger(7, metadata, format_version=3)               # the znode alone
        cluster.hold("b1", 7, "0 2-3 5-6 8-9")                          # ADD_ENTRY of exactly these entries
        cluster.place(8, metadata, lose={"b2": "4"})                    # znode, and all that striping says but entry 4 on b2
        cluster.mark(7, missing=["b2"])
        cluster.stop_bookie("b3")                                       # SIGKILL; unregistered at once
        cluster.shell("ledgermetadata", "-ledgerid", "7")               # BookKeeper's own reading of it

Bookie ids are `b1` ... `bN` (BookKeeper's `bookieId` setting), so that the same story runs on the sandbox's cluster.
`storage` is one class name for all, or one a bookie: SortedLedgerStorage, InterleavedLedgerStorage, DbLedgerStorage. Entries
carry a right digest (CRC32C unless told otherwise), so they read back sound. A ledger without a znode is collected after an
hour, not before.

What a test can do to a bookie: `stop_bookie` (dead, unregistered), `leave_registered_yet_silent` (dead, its registration
stays), `pause` / `resume` (SIGSTOP: connections stand, nothing answers), `start_bookie` (also `read_only=True`), `wipe` (back
with empty folders). One entry can't be deleted on a bookie: wipe it and `hold` all but that one, or never send it.

Fixtures (tests/cluster/conftest.py), all for tests marked `real`: `shared_cluster` is one cluster for the whole run, 3 Sorted
(`b1` `b2` `b3`) and 2 Interleaved (`b4` `b5`) bookies, for tests that destroy nothing; `ledger_ids` draws ids no other test
uses; `real_cluster(...)` makes a cluster of one's own and stops it after the test. Everything is on loopback and dies with
the process that started it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError
from support.raw_bookie import RawBookie, Runs
from support.real_bookkeeper import RealBookie, run_client, run_shell, start_zookeeper
from support.real_jars import bookkeeper_jars
from support.real_processes import JavaProcess, free_port

from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import DigestType, LedgerMetadata
from auditor.sandbox.notation import holds, placement, without
from auditor.wire import ledger_metadata, underreplication_mark, znode_paths
from auditor.wire.layout import LedgerLayout

START_TIMEOUT_S = 90.0
"""How long ZooKeeper or the bookies may take to be up, in seconds: many times what it takes, for a busy machine."""
POLL_S = 0.05
"""Pause between two looks at something that will be so soon."""
ROOT = "/ledgers"
LAYOUT = LedgerLayout.HIERARCHICAL
"""What initnewcluster lays out."""


class RealCluster:
    """See the module. Everything is started by the constructor, stopped by `stop` or at the end of `with`."""

    def __init__(self, workdir: Path, bookies: int = 4, storage: str | Sequence[str] = "SortedLedgerStorage") -> None:
        storages = [storage] * bookies if isinstance(storage, str) else list(storage)
        assert len(storages) == bookies, f"{bookies} bookies and {len(storages)} storages"
        self._jars = bookkeeper_jars()
        port = free_port()
        self.zookeeper_hosts = f"127.0.0.1:{port}"
        self.metadata_service_uri = f"zk+hierarchical://{self.zookeeper_hosts}{ROOT}"
        self._bookies = {
            name: RealBookie(name, kind, workdir / name, self.metadata_service_uri)
            for name, kind in ((f"b{number}", kind) for number, kind in enumerate(storages, start=1))
        }
        self._zookeeper = start_zookeeper(self._jars, workdir / "zookeeper", port)
        self.zk = KazooClient(self.zookeeper_hosts, timeout=30)
        try:
            self.zk.start(START_TIMEOUT_S)
            self._start_bookies()
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> RealCluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """End every process and see that it is gone."""
        self.zk.stop()
        self.zk.close()
        processes = [self._zookeeper, *(b.process for b in self._bookies.values() if b.process is not None)]
        for process in processes:
            process.kill()
        alive = [process.name for process in processes if process.is_running]
        assert not alive, f"still running after SIGKILL: {alive}"

    # What the cluster is

    @property
    def bookie_ids(self) -> tuple[BookieId, ...]:
        """`b1` ... `bN`."""
        return tuple(self._bookies)

    def storage(self, bookie_id: BookieId) -> str:
        """The storage class of one bookie, by its short name."""
        return self._bookies[bookie_id].storage

    def address(self, bookie_id: BookieId) -> tuple[str, int]:
        """Where the bookie listens, or would."""
        return "127.0.0.1", self._bookies[bookie_id].port

    def connect(self, bookie_id: BookieId) -> RawBookie:
        """A raw connection to one bookie."""
        return RawBookie(*self.address(bookie_id))

    def shell(self, *arguments: str) -> str:
        """BookKeeper's own shell on this cluster; returns what it printed. About 2 s."""
        return run_shell(self._jars, next(iter(self._bookies.values())).config, *arguments)

    def write_as_client(
        self,
        ensemble: int,
        write_quorum: int,
        ack_quorum: int,
        entries: int,
        *,
        digest: DigestType = DigestType.CRC32C,
        password: str = "",
        close: bool = True,
    ) -> LedgerId:
        """Write a ledger with BookKeeper's ordinary client, on bookies of its own choice; returns its id. 2-4 s."""
        sizes = [str(size) for size in (ensemble, write_quorum, ack_quorum)]
        rest = [digest.name, password, str(entries), "closed" if close else "open"]
        said = run_client(self._jars, self.metadata_service_uri, *sizes, *rest)
        found = re.search(r"^ledger (\d+)$", said, re.MULTILINE)
        assert found is not None, f"the client named no ledger: {said}"
        return int(found[1])

    # What happens to bookies

    def stop_bookie(self, bookie_id: BookieId) -> None:
        """SIGKILL; its registration is removed at once instead of after the session time-out."""
        self._bookies[bookie_id].kill()
        self._unregister(bookie_id)

    def leave_registered_yet_silent(self, bookie_id: BookieId) -> None:
        """SIGKILL, and a persistent registration with the same address, where nobody listens any more."""
        data, _ = self.zk.get(self._registration(bookie_id))
        self.stop_bookie(bookie_id)
        self.zk.create(self._registration(bookie_id), data)

    def pause(self, bookie_id: BookieId) -> None:
        """SIGSTOP: connections are still accepted, nothing answers; registered until the session times out."""
        self._process(bookie_id).pause()

    def resume(self, bookie_id: BookieId) -> None:
        """SIGCONT."""
        self._process(bookie_id).resume()

    def start_bookie(self, bookie_id: BookieId, read_only: bool = False) -> None:
        """Start a stopped bookie with what it stored, and wait until it is registered. 2-4 s."""
        self._unregister(bookie_id)
        self._bookies[bookie_id].start(self._jars, read_only)
        self._await_registered({bookie_id}, read_only)

    def wipe(self, bookie_id: BookieId) -> None:
        """Stop it, empty its folders, delete its cookie, start it: the same bookie without anything it stored. 2-4 s."""
        self.stop_bookie(bookie_id)
        self._bookies[bookie_id].empty_directories()
        self._delete(f"{ROOT}{znode_paths.COOKIES}/{bookie_id}")
        self.start_bookie(bookie_id)

    # What is stored

    def add_ledger(self, ledger_id: LedgerId, metadata: LedgerMetadata, format_version: int = 3, password: bytes = b"") -> None:
        """Create the ledger's znode; entries are `hold`'s business."""
        self.set_raw(ledger_id, ledger_metadata.encode(metadata, password=password, version=format_version))

    def set_raw(self, ledger_id: LedgerId, data: bytes) -> None:
        """Write any bytes as the ledger's metadata, new or in place of what is there."""
        self._write(ROOT + znode_paths.ledger_path(LAYOUT, ledger_id), data)

    def delete_ledger(self, ledger_id: LedgerId) -> None:
        """Delete the znode; the bookies keep the entries until they collect garbage."""
        self._delete(ROOT + znode_paths.ledger_path(LAYOUT, ledger_id))

    def mark(self, ledger_id: LedgerId, missing: Iterable[BookieId] = (), ctime_ms: int | None = None) -> None:
        """Mark the ledger under-replicated, now (`ctime_ms` is the mark's own field; None: the clock's)."""
        now_ms = int(time.time() * 1000)
        data = underreplication_mark.encode(missing, now_ms if ctime_ms is None else ctime_ms)
        self._write(ROOT + znode_paths.mark_path(ledger_id), data)

    def unmark(self, ledger_id: LedgerId) -> None:
        """Delete the mark; the folders above it stay, as a listing must bear."""
        self._delete(ROOT + znode_paths.mark_path(ledger_id))

    def hold(
        self,
        bookie_id: BookieId,
        ledger_id: LedgerId,
        runs: str | Runs,
        *,
        digest: DigestType = DigestType.CRC32C,
        password: bytes = b"",
    ) -> int:
        """Store exactly these entries on one bookie over the wire (`"0-4 9"`, inclusive pairs, groups); returns how many."""
        with self.connect(bookie_id) as connection:
            return connection.add(ledger_id, holds(runs) if isinstance(runs, str) else runs, digest=digest, password=password)

    def place(
        self,
        ledger_id: LedgerId,
        metadata: LedgerMetadata,
        *,
        written: EntryId | None = None,
        lose: Mapping[BookieId, str] | None = None,
        password: bytes = b"",
    ) -> None:
        """Write the ledger as BookKeeper would, but for the entries in `lose` (`{"b2": "4 7-9"}`).

        `written` is the last entry there is, where the metadata does not say. Bookies of an ensemble that this cluster does not
        have are left out: they are the story's.
        """
        digest = metadata.digest_type or DigestType.CRC32C
        for bookie_id, runs in placement(metadata, written).items():
            kept = without(runs, holds((lose or {}).get(bookie_id, "")))
            if bookie_id in self._bookies and kept:
                self.hold(bookie_id, ledger_id, kept, digest=digest, password=password)
        self.add_ledger(ledger_id, metadata, metadata.format_version, password)

    def _start_bookies(self) -> None:
        first = next(iter(self._bookies.values()))
        first.write_config()
        run_shell(self._jars, first.config, "initnewcluster")
        for bookie in self._bookies.values():
            bookie.start(self._jars)
        self._await_registered(set(self._bookies), read_only=False)

    def _process(self, bookie_id: BookieId) -> JavaProcess:
        process = self._bookies[bookie_id].process
        assert process is not None, f"{bookie_id} was never started"
        return process

    def _registration(self, bookie_id: BookieId) -> str:
        return f"{ROOT}{znode_paths.AVAILABLE}/{bookie_id}"

    def _await_registered(self, bookie_ids: set[BookieId], read_only: bool) -> None:
        parent = ROOT + (znode_paths.READONLY if read_only else znode_paths.AVAILABLE)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not bookie_ids <= set(self.zk.get_children(parent)):
            for bookie_id in bookie_ids:
                self._process(bookie_id).assert_running()
            if time.monotonic() > deadline:
                late = sorted(bookie_ids - set(self.zk.get_children(parent)))
                raise TimeoutError(f"not registered after {START_TIMEOUT_S:g} s: {late}; {self._process(late[0]).log_tail()}")
            time.sleep(POLL_S)

    def _unregister(self, bookie_id: BookieId) -> None:
        self._delete(f"{ROOT}{znode_paths.AVAILABLE}/{bookie_id}")
        self._delete(f"{ROOT}{znode_paths.READONLY}/{bookie_id}")

    def _write(self, path: str, data: bytes) -> None:
        try:
            self.zk.create(path, data, makepath=True)
        except NodeExistsError:
            self.zk.set(path, data)

    def _delete(self, path: str) -> None:
        with suppress(NoNodeError):
            self.zk.delete(path)
