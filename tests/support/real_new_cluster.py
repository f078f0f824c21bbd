"""The znodes of a cluster that BookKeeper's shell has just initialised: made once, and copied for
every cluster.

`initnewcluster` is a JVM that takes two seconds and always writes the same znodes, except for the
instance id.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from uuid import uuid4

from kazoo.client import KazooClient
from support.real_bookkeeper import DATA, RealBookie, run_shell, start_zookeeper
from support.real_processes import free_port

INSTANCE_ID = "/ledgers/INSTANCEID"
SERVING_TIMEOUT_S = 90.0
"""How long ZooKeeper may take to be up, in seconds."""


def copy_new_cluster(jars: Path, zookeeper: Path) -> None:
    """Copy the data of a new cluster into the directory of a ZooKeeper that is not yet started."""
    made = jars.parent / "new-cluster"
    with made.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released with the file, also when this process dies
        if not made.exists():
            _make(jars, made)
    shutil.copytree(made, zookeeper / DATA)


def renew_instance_id(client: KazooClient) -> None:
    """Give a copied cluster its own instance id."""
    client.set(INSTANCE_ID, str(uuid4()).encode())


def _make(jars: Path, made: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="new-cluster-", dir=made.parent) as name:
        workdir, port = Path(name), free_port()
        bookie = RealBookie(
            "any",
            "SortedLedgerStorage",
            workdir / "bookie",
            f"zk+hierarchical://127.0.0.1:{port}/ledgers",
        )
        zookeeper = start_zookeeper(jars, workdir / "zookeeper", port)
        client = KazooClient(f"127.0.0.1:{port}")
        try:
            client.start(SERVING_TIMEOUT_S)
            bookie.write_config()
            run_shell(jars, bookie.config, "initnewcluster")
        finally:
            client.stop()
            client.close()
            zookeeper.kill()
        data = workdir / "zookeeper" / DATA
        for log in data.glob("version-2/log.*"):
            log.write_bytes(
                log.read_bytes().rstrip(b"\0")
            )  # 64 MB are preallocated; the last byte of each record is not 0
        os.rename(data, made)
