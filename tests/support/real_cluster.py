"""A real BookKeeper cluster for tests: ZooKeeper, one JVM for each bookie, ledgers placed entry by
entry.

    with RealCluster(tmp_path, bookies=4) as cluster:          # 4-8 s on two cores
        metadata = cluster.ledger("e3 w2 a2  0:[b1 b2 b3]  closed 9")
        cluster.place(7, metadata, lose={"b2": "4"})           # znode and entries, without 4 on b2
        cluster.add_ledger(8, metadata, format_version=2)      # the znode alone
        cluster.hold("b1", 8, "0 2-3 5-6 8-9")                 # ADD_ENTRY of exactly these entries
        cluster.mark(7, replicas=["b2"])
        cluster.lose_bookie("b3")                              # SIGKILL, unregistered, no cookie
        cluster.shell("ledgermetadata", "-ledgerid", "7")      # BookKeeper's own reading of it
        cluster.metadata_service_uri                           # what `auditor run` gets

Methods have the names of `auditor.sandbox.cluster.SandboxCluster` if they mean the same, so that a
story runs on both. A sandbox made with `named=True` has the same bookie ids, `b1` ... `bN`
(BookKeeper's `bookieId` setting). Differences: here `hold` adds to what the bookie holds, one entry
cannot be deleted (`wipe` the bookie and `hold` all others, or never send it), and registrations
are the bookies' own. `storage` is one class name for all bookies, or one for each:
SortedLedgerStorage, InterleavedLedgerStorage, DbLedgerStorage. `settings` go into each bookie's
configuration. `version` is the release of bookies, client, shell and ZooKeeper.
Entries carry a right digest of the ledger's digest type (CRC32C if its znode was not written
before), so that they read back sound. Bookies collect the entries of a ledger without a znode after
an hour, not before.

What a test can do to a bookie: `stop_bookie` (killed, its registration stays: registered, but
silent), `kill_bookie` (killed; its registration disappears after the session time-out, 4 s),
`lose_bookie` (killed, unregistered, no cookie unless asked), `pause` / `resume` (SIGSTOP:
connections stay, nothing answers; unregistered after 4 s), `unregister`, `readonly`,
`start_bookie`, `wipe` (back with empty folders). `write_as_client` writes with the ordinary client.

Fixtures (tests/cluster/conftest.py), all for tests marked `real`: `shared_cluster` is one cluster
for the whole run, 3 Sorted (`b1` `b2` `b3`) and 2 Interleaved (`b4` `b5`) bookies, for tests that
destroy nothing; `ledger_ids` draws ids that no other test uses; `real_cluster(...)` starts a
separate cluster and stops it after the test. Everything is on loopback and dies with the process
that started it.
"""

from __future__ import annotations

import re
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from kazoo.client import KazooClient
from support.raw_bookie import info_request
from support.real_archive import make_archive
from support.real_bookkeeper import (
    DATA,
    RealBookie,
    close_with_client,
    run_client,
    run_shell,
    start_zookeeper,
)
from support.real_jars import NEWEST, bookkeeper_jars
from support.real_ledgers import RealLedgers
from support.real_new_cluster import copy_new_cluster, renew_instance_id
from support.real_processes import JavaProcess, free_port

from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import DigestType
from auditor.wire import znode_paths

START_TIMEOUT_S = 90.0
"""How long ZooKeeper or the bookies may take to be up, in seconds: many times the usual time, for a
busy machine.
"""
END_TIMEOUT_S = 30.0
"""How long a bookie may take to flush and end, in seconds."""
POLL_S = 0.05
"""Pause between two checks of a condition that will soon hold, in seconds."""
ZOOKEEPER_SESSION_S = 30.0
"""Session time-out of the test's own client: long, because it writes no ephemeral znodes."""


class Closed(NamedTuple):
    """A ledger that a client closed, with its end and its length."""

    ledger_id: LedgerId
    last_entry_id: EntryId
    length_bytes: int


class RealCluster(RealLedgers):
    """The cluster of the module's description. The constructor starts everything; `stop` or the end
    of `with` stops it.
    """

    def __init__(
        self,
        workdir: Path,
        bookies: int = 4,
        storage: str | Sequence[str] = "SortedLedgerStorage",
        settings: Mapping[str, object] | None = None,
        zookeeper: Mapping[str, object] | None = None,
        zookeeper_flag: str = "",
        version: str = NEWEST,
    ) -> None:
        storages = [storage] * bookies if isinstance(storage, str) else list(storage)
        assert len(storages) == bookies, f"{bookies} bookies and {len(storages)} storages"
        self._jars = bookkeeper_jars(version)
        make_archive(self._jars)
        port = free_port()
        self.zookeeper_hosts = f"127.0.0.1:{port}"
        self.metadata_service_uri = f"zk+{self.layout.value}://{self.zookeeper_hosts}{self.root}"
        self._bookies = {
            name: RealBookie(
                name, kind, workdir / name, self.metadata_service_uri, settings=settings or {}
            )
            for name, kind in (
                (f"b{number}", kind) for number, kind in enumerate(storages, start=1)
            )
        }
        self._zookeeper_directory = workdir / "zookeeper"
        copy_new_cluster(self._jars, self._zookeeper_directory)
        self._zookeeper = start_zookeeper(
            self._jars, self._zookeeper_directory, port, zookeeper, zookeeper_flag
        )
        ports = {name: bookie.port for name, bookie in self._bookies.items()}
        super().__init__(KazooClient(self.zookeeper_hosts, timeout=ZOOKEEPER_SESSION_S), ports)
        try:
            self.zk.start(START_TIMEOUT_S)
            renew_instance_id(self.zk)
            self._start_bookies(list(self._bookies))
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> RealCluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End every process, and wait until all have ended."""
        self.zk.stop()
        self.zk.close()
        for server in (self._zookeeper, *self._bookies.values()):
            server.kill()
        processes = [
            self._zookeeper,
            *(b.process for b in self._bookies.values() if b.process is not None),
        ]
        alive = [process.name for process in processes if process.is_running]
        assert not alive, f"still running after SIGKILL: {alive}"

    # State of the cluster

    @property
    def jars(self) -> Path:
        """Return the folder of its jars: BookKeeper's and ZooKeeper's."""
        return self._jars

    @property
    def zookeeper_data(self) -> Path:
        """Return the dataDir of its ZooKeeper."""
        return self._zookeeper_directory / DATA

    def restore_zookeeper(self, saved: Path) -> None:
        """Replace what ZooKeeper has by a copy of its dataDir, and restart every bookie. 5-15 s.

        A client that has seen a newer state is refused: the bookies and this client begin anew.
        """
        self.zk.stop()
        self._zookeeper.kill()
        shutil.rmtree(self.zookeeper_data)
        shutil.copytree(saved, self.zookeeper_data)
        port = int(self.zookeeper_hosts.rpartition(":")[2])
        self._zookeeper = start_zookeeper(self._jars, self._zookeeper_directory, port)
        self.zk.start(START_TIMEOUT_S)
        self.restart_bookies({})

    def storage(self, bookie_id: BookieId) -> str:
        """Return the storage class of one bookie, by its short name."""
        return self._bookies[bookie_id].storage

    def directory(self, bookie_id: BookieId) -> Path:
        """Return the directory of one bookie: its folders, its configuration, its log."""
        return self._bookies[bookie_id].directory

    def shell(self, *arguments: str) -> str:
        """Run BookKeeper's own shell on this cluster; return what it printed. About 2 s."""
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
        """Write a ledger with BookKeeper's ordinary client, on bookies of its choice; return its
        id. 2-4 s.
        """
        sizes = [str(size) for size in (ensemble, write_quorum, ack_quorum)]
        digest_name = (
            "MAC" if digest is DigestType.HMAC else digest.name
        )  # the client's own name for the type
        rest = [digest_name, password, str(entries), "closed" if close else "open"]
        said = run_client(self._jars, self.metadata_service_uri, *sizes, *rest)
        found = re.search(r"^ledger (\d+)$", said, re.MULTILINE)
        assert found is not None, f"the client named no ledger: {said}"
        return int(found[1])

    def close_as_client(
        self, *arguments: object, digest: DigestType = DigestType.CRC32C, password: str = ""
    ) -> Closed:
        """Run CloseLedger.java with these arguments behind digest type and password; return how it
        closed the ledger. 2-4 s.
        """
        name = "MAC" if digest is DigestType.HMAC else digest.name
        rest = [name, password, *map(str, arguments)]
        said = close_with_client(self._jars, self.metadata_service_uri, *rest)
        found = re.search(r"^ledger (\d+) end (-?\d+) length (\d+)$", said, re.MULTILINE)
        assert found is not None, f"the client named no ledger: {said}"
        return Closed(*map(int, found.groups()))

    # Changes to bookies

    def stop_bookie(self, bookie_id: BookieId) -> None:
        """Send SIGKILL and keep the registration: the bookie is registered, but nobody listens at
        its address.
        """
        data, _ = self.zk.get(self._registration(bookie_id))
        self._bookies[bookie_id].kill()
        self.register(bookie_id, data)

    def kill_bookie(self, bookie_id: BookieId) -> None:
        """Send SIGKILL and nothing else: ZooKeeper drops the registration after
        ZOOKEEPER_SESSION_MS.
        """
        self._bookies[bookie_id].kill()

    def end_bookie(self, bookie_id: BookieId) -> Path:
        """End it in an orderly way, so that its folders have everything it stored; return their
        directory.
        """
        self._process(bookie_id).end(signal.SIGTERM, END_TIMEOUT_S)
        self.unregister(bookie_id)
        return self._bookies[bookie_id].directory

    def lose_bookie(self, bookie_id: BookieId, *, cookie: bool = False) -> None:
        """Kill and unregister it, and delete its cookie and folders, unless `cookie` keeps both (a
        slow restart).
        """
        self._bookies[bookie_id].kill()
        self.unregister(bookie_id)
        if not cookie:
            self.delete_cookie(bookie_id)
            self._bookies[bookie_id].empty_directories()

    def pause(self, bookie_id: BookieId) -> None:
        """Send SIGSTOP: connections are still accepted, nothing answers; registered until the
        session times out.
        """
        self._process(bookie_id).pause()

    def resume(self, bookie_id: BookieId) -> None:
        """Send SIGCONT."""
        self._process(bookie_id).resume()

    def await_registered(self, bookie_id: BookieId) -> None:
        """Wait until the bookie is registered again after a pause that outlived its session."""
        self._await_registered({bookie_id}, read_only=False)

    def start_bookie(self, bookie_id: BookieId, *, read_only: bool = False) -> None:
        """Start a stopped bookie with what it stored, and wait until it is registered. 1-4 s."""
        self.unregister(bookie_id)
        self._bookies[bookie_id].start(self._jars, read_only=read_only)
        self._await_registered({bookie_id}, read_only)

    def readonly(self, bookie_id: BookieId) -> None:
        """Restart it as read-only: it answers, accepts no entries, and is registered under
        `readonly`. 1-4 s.
        """
        self._bookies[bookie_id].kill()
        self.start_bookie(bookie_id, read_only=True)

    def restart_bookies(
        self, more: Mapping[str, object], flag: str = "", only: Sequence[BookieId] = ()
    ) -> None:
        """Kill all bookies, or `only` these, and start them with more settings and this flag.

        4-8 s.
        """
        chosen = list(only or self._bookies)
        for bookie_id in chosen:
            bookie = self._bookies[bookie_id]
            bookie.kill()
            self.unregister(bookie_id)
            bookie.settings, bookie.flag = more, flag
        self._start_bookies(chosen)

    def wipe(self, bookie_id: BookieId) -> None:
        """Lose it and start it: the same bookie without its data. 1-4 s."""
        self.lose_bookie(bookie_id)
        self.start_bookie(bookie_id)

    def register(self, bookie_id: BookieId, data: bytes) -> None:
        """Register these bytes in place of the bookie's, without a session that could end."""
        self.unregister(bookie_id)
        self.zk.create(self._registration(bookie_id), data)

    def unregister(self, bookie_id: BookieId) -> None:
        """Remove the registration. A running bookie continues, and does not notice before its
        session ends.
        """
        self.delete_raw(f"{self.root}{znode_paths.AVAILABLE}/{bookie_id}")
        self.delete_raw(f"{self.root}{znode_paths.READONLY}/{bookie_id}")

    def delete_cookie(self, bookie_id: BookieId) -> None:
        """Delete a cookie, as decommissioning does."""
        self.delete_raw(f"{self.root}{znode_paths.COOKIES}/{bookie_id}")

    def _start_bookies(self, bookie_ids: Sequence[BookieId]) -> None:
        for bookie_id in bookie_ids:
            self._bookies[bookie_id].start(self._jars)
        self._await_registered(set(bookie_ids), read_only=False)

    def _process(self, bookie_id: BookieId) -> JavaProcess:
        process = self._bookies[bookie_id].process
        assert process is not None, f"{bookie_id} was never started"
        return process

    def _registration(self, bookie_id: BookieId) -> str:
        return f"{self.root}{znode_paths.AVAILABLE}/{bookie_id}"

    def _await_registered(self, bookie_ids: set[BookieId], read_only: bool) -> None:
        parent = self.root + (znode_paths.READONLY if read_only else znode_paths.AVAILABLE)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not bookie_ids <= set(self.zk.get_children(parent)):
            for bookie_id in bookie_ids:
                self._process(bookie_id).assert_running()
            if time.monotonic() > deadline:
                late = sorted(bookie_ids - set(self.zk.get_children(parent)))
                raise TimeoutError(
                    f"not registered after {START_TIMEOUT_S:g} s: {late};"
                    f" {self._process(late[0]).log_tail()}"
                )
            time.sleep(POLL_S)
        for bookie_id in bookie_ids:  # a new JVM takes its time over its first request
            with suppress(OSError), self.connect(bookie_id) as connection:
                connection.ask(info_request(1, connection.next_txn_id()))
