"""Class-data sharing for the JVMs of the tests: one JVM loads the classes of a bookie, and all
others map them.

A run of all tests starts more than a hundred JVMs. Each would spend most of its first two seconds
on the same five thousand classes. A bookie that is started and ended makes the archive once. It
lies beside the jars.
"""

from __future__ import annotations

import fcntl
import signal
import tempfile
import time
from pathlib import Path

from kazoo.client import KazooClient
from support.real_bookkeeper import RealBookie, run_shell, start_zookeeper
from support.real_processes import archive_of, free_port

REGISTERED_TIMEOUT_S = 90.0
"""How long the bookie that makes the archive may take to be up, in seconds."""
DUMP_TIMEOUT_S = 120.0
"""How long it may take to end, writing the archive on the way, in seconds."""
POLL_S = 0.1


def make_archive(jars: Path) -> None:
    """Make the archive for these jars unless it exists: some 15 s, once. Without it everything
    works, only slower. Only one process at a time makes one.

    Archives that no JVM can use any more, of another Java or of moved jars, are deleted.
    """
    with (jars.parent / "classes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released with the file, also when this process dies
        archive = archive_of(jars)
        if archive.exists():
            return
        for old in jars.parent.glob("classes*.jsa"):
            old.unlink()
        with tempfile.TemporaryDirectory(prefix="bookkeeper-classes-") as workdir:
            _train(jars, archive, Path(workdir))


def _train(jars: Path, archive: Path, workdir: Path) -> None:
    port = free_port()
    bookie = RealBookie(
        "trained",
        "SortedLedgerStorage",
        workdir / "bookie",
        f"zk+hierarchical://127.0.0.1:{port}/ledgers",
    )
    zookeeper = start_zookeeper(jars, workdir / "zookeeper", port)
    client = KazooClient(f"127.0.0.1:{port}")
    try:
        client.start(REGISTERED_TIMEOUT_S)
        bookie.write_config()
        run_shell(jars, bookie.config, "initnewcluster")
        bookie.start(jars, f"-XX:ArchiveClassesAtExit={archive}")
        assert bookie.process is not None
        deadline = time.monotonic() + REGISTERED_TIMEOUT_S
        while "trained" not in client.get_children("/ledgers/available"):
            bookie.process.assert_running()
            assert time.monotonic() < deadline, f"the bookie is not up: {bookie.process.log_tail()}"
            time.sleep(POLL_S)
        bookie.process.end(signal.SIGTERM, DUMP_TIMEOUT_S)
    finally:
        client.stop()
        client.close()
        bookie.kill()
        zookeeper.kill()
