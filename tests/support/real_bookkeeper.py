"""The servers of a real cluster: ZooKeeper, a bookie, the shell."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from support.compiled_java import compiled
from support.real_jars import POM
from support.real_processes import JavaProcess, free_port, java_command

LOG4J2_WARN = POM.parent / "log4j2-warn.xml"
LOG4J2_SHELL = POM.parent / "log4j2-shell.xml"
WRITE_LEDGER = POM.parent / "WriteLedger.java"
LIST_ENTRIES = POM.parent / "ListEntries.java"
CLOSE_LEDGER = POM.parent / "CloseLedger.java"
READ_LEDGER = POM.parent / "ReadLedger.java"
COMMAND_TIMEOUT_S = 90
"""How long one command may take, in seconds: a JVM start and a ZooKeeper session, on a busy
machine.
"""
ZOOKEEPER_SESSION_MS = 4_000
"""The session time-out of the bookies: how long a killed bookie stays registered, in ms."""

DATA = "data"
"""ZooKeeper's data, below its directory."""

STORAGE_CLASSES = {
    "SortedLedgerStorage": "org.apache.bookkeeper.bookie.SortedLedgerStorage",
    "InterleavedLedgerStorage": "org.apache.bookkeeper.bookie.InterleavedLedgerStorage",
    "DbLedgerStorage": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
}


def start_zookeeper(
    jars: Path, directory: Path, port: int, more: Mapping[str, object] | None = None, flag: str = ""
) -> JavaProcess:
    """Start a standalone ZooKeeper on loopback, its data under `directory`, with `more` settings
    and one more JVM flag.
    """
    directory.mkdir(parents=True, exist_ok=True)
    config = directory / "zoo.cfg"
    settings = {
        "dataDir": directory / DATA,
        "clientPort": port,
        "clientPortAddress": "127.0.0.1",
        "admin.enableServer": "false",
        "maxClientCnxns": 0,
        "tickTime": 1000,
        "4lw.commands.whitelist": "*",
        **(more or {}),
    }
    config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    command = java_command(jars, main, str(config), heap="128m", log4j2=LOG4J2_WARN, flag=flag)
    return JavaProcess("ZooKeeper", command, directory / "zookeeper.log")


@dataclass
class RealBookie:
    """One bookie: its id, its port (kept over restarts), its storage, its folders, and its process
    while it runs.

    `settings` of its configuration add to those of `write_config`, or replace them.
    """

    bookie_id: str
    storage: str
    directory: Path
    metadata_service_uri: str
    port: int = field(default_factory=free_port)
    process: JavaProcess | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    """Settings beside those of every bookie here, from its next start on."""
    flag: str = ""
    """One more flag for its JVM, from its next start on."""

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.is_running

    @property
    def config(self) -> Path:
        return self.directory / "bookie.conf"

    def write_config(self, read_only: bool = False) -> None:
        """Write bookie.conf: everything on loopback, and nothing is flushed or collected unless a
        test asks for it.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        settings = {
            "bookieId": self.bookie_id,
            "bookiePort": self.port,
            "metadataServiceUri": self.metadata_service_uri,
            "journalDirectories": self.directory / "journal",
            "ledgerDirectories": self.directory / "ledgers",
            "indexDirectories": self.directory / "ledgers",
            "ledgerStorageClass": STORAGE_CLASSES[self.storage],
            "ledgerManagerFactoryClass": (
                "org.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory"
            ),
            "listeningInterface": "lo",
            "allowLoopback": "true",
            "advertisedAddress": "127.0.0.1",
            "httpServerEnabled": "false",
            "journalSyncData": "false",
            "journalPreAllocSizeMB": 1,
            "diskUsageThreshold": 0.999,
            "diskUsageWarnThreshold": 0.998,
            "gcWaitTime": 3_600_000,
            "zkTimeout": ZOOKEEPER_SESSION_MS,
            "dbStorage_writeCacheMaxSizeMb": 32,
            "dbStorage_readAheadCacheMaxSizeMb": 32,
            "forceReadOnlyBookie": str(read_only).lower(),
            **self.settings,
        }
        self.config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def start(self, jars: Path, flag: str = "", read_only: bool = False) -> None:
        """Start its JVM, perhaps with one more flag. It is up when it is registered; the cluster
        waits for that.
        """
        assert not self.is_running, f"{self.bookie_id} runs already"
        self.write_config(read_only)
        self._remove_temporary()
        self._temporary.mkdir()
        command = java_command(
            jars,
            "org.apache.bookkeeper.server.Main",
            *("--conf", str(self.config)),
            heap="256m",
            log4j2=LOG4J2_WARN,
            flag=flag or self.flag,
            temporary=self._temporary,
        )
        self.process = JavaProcess(
            f"bookie {self.bookie_id}", command, self.directory / "bookie.log"
        )

    def kill(self) -> None:
        """Send SIGKILL and wait; do nothing if it does not run. Its unpacked libraries are removed
        in any case.
        """
        if self.process is not None:
            self.process.kill()
        self._remove_temporary()

    @property
    def _temporary(self) -> Path:
        """Where its JVM unpacks native libraries: 13 MB of RocksDB with DbLedgerStorage."""
        return self.directory / "temporary"

    def _remove_temporary(self) -> None:
        shutil.rmtree(self._temporary, ignore_errors=True)

    def empty_directories(self) -> None:
        """Delete everything it stored, including the cookie."""
        assert not self.is_running, (
            f"{self.bookie_id} must be stopped before its folders are emptied"
        )
        for name in ("journal", "ledgers"):
            shutil.rmtree(self.directory / name, ignore_errors=True)


def run_shell(jars: Path, config: Path, *arguments: str) -> str:
    """Run BookKeeper's own shell (`ledgermetadata -l 7`, `listunderreplicated`, ...) and return its
    output. 1-3 s.
    """
    main = "org.apache.bookkeeper.bookie.BookieShell"
    return _run(
        java_command(jars, main, "-conf", str(config), *arguments, heap="128m", log4j2=LOG4J2_SHELL)
    )


def run_client(jars: Path, *arguments: str) -> str:
    """Run WriteLedger.java, the ordinary client, and return its output. 1-2 s."""
    return _run_program(jars, WRITE_LEDGER, *arguments)


def close_with_client(jars: Path, *arguments: str) -> str:
    """Run CloseLedger.java, a client that closes a ledger short, and return its output. 1-2 s."""
    return _run_program(jars, CLOSE_LEDGER, *arguments)


def read_with_client(jars: Path, *arguments: str) -> str:
    """Run ReadLedger.java, which reads whole ledgers, and return its output. 1-2 s."""
    return _run_program(jars, READ_LEDGER, *arguments)


def list_with_client(jars: Path, address: str, *ledger_ids: int) -> str:
    """Run ListEntries.java, the ordinary client with one bookie, and return its output. 1-2 s."""
    return _run_program(jars, LIST_ENTRIES, address, *map(str, ledger_ids))


def _run_program(jars: Path, source: Path, *arguments: str) -> str:
    classes = compiled(jars, source)
    command = java_command(
        jars, source.stem, *arguments, heap="256m", log4j2=LOG4J2_WARN, classes=classes
    )
    return _run(command)


def _run(command: list[str]) -> str:
    # A client unpacks a library for its checksums, and removes the file alone.
    with tempfile.TemporaryDirectory() as temporary:
        done = subprocess.run(
            [command[0], f"-Djava.io.tmpdir={temporary}", *command[1:]],
            capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False,
        )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(
            f"{' '.join(command)} exited with {done.returncode}:"
            f" {(done.stdout + done.stderr)[-3000:]}"
        )
    return done.stdout
