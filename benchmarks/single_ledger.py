"""How long `auditor ledger` takes on bookies that cannot list, Python's start included.

    .venv/bin/python -m benchmarks.single_ledger [--rounds 3]

The cluster is the sandbox: a real ZooKeeper, and three bookies that never answer a list of a ledger
they hold, as DbLedgerStorage. The settings are the product's own. A sound ledger takes one look.
One that lost every copy takes two looks, a second apart. With OUTPUT, the newest run knows that the
bookies cannot list.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from support.newest_runs import output_with_a_run

from auditor.config import ZooKeeperLimits
from auditor.sandbox.bookie import Storage
from auditor.sandbox.cluster import SandboxCluster
from auditor.wire.service_uri import parse as parse_uri
from auditor.zookeeper.metadata_store import open_store
from benchmarks.targets import Target

SECONDS_MAX = 3.0
ROUNDS = 3
SOUND, LOST = 1, 2
WAIT_S = 120.0
"""How long one command may take."""


def seconds_of(cluster: SandboxCluster, ledger_id: int, output: Path, word: str) -> float:
    """How long one command took. Fails where its outcome is not `word`."""
    uri = ["--metadata-service-uri", cluster.metadata_service_uri, "--output", str(output)]
    command = [sys.executable, "-m", "auditor", "ledger", str(ledger_id), *uri]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    took_s = time.perf_counter() - began
    assert done.stdout.splitlines()[-1].startswith(f"auditor: {word} "), done.stdout + done.stderr
    return took_s


def measured(scratch: Path, rounds: int) -> dict[str, float]:
    """The median of each case, in seconds."""
    with SandboxCluster(scratch / "cluster", 3, storage=[Storage.DB] * 3) as cluster:
        for ledger_id in (SOUND, LOST):
            cluster.place(ledger_id, cluster.ledger("e3 w3 a2 0:[b1 b2 b3] closed 99"))
        for bookie in cluster.bookie_ids:
            cluster.hold(bookie, LOST, "0-9")
        with open_store(parse_uri(cluster.metadata_service_uri), ZooKeeperLimits()) as store:
            known = output_with_a_run(
                scratch / "known", store.cluster_facts(), unable=cluster.bookie_ids
            )
        cases = {
            "a sound ledger": (SOUND, scratch / "none", "SOUND"),
            "a sound ledger, newest run known": (SOUND, known, "SOUND"),
            "a ledger with a loss, two looks": (LOST, scratch / "none", "VIOLATED"),
            "a ledger with a loss, newest run known": (LOST, known, "VIOLATED"),
        }
        return {
            name: median(seconds_of(cluster, *case) for _ in range(rounds))
            for name, case in cases.items()
        }


def target(scratch: Path, rounds: int = ROUNDS) -> Target:
    """What is promised of all cases."""
    found = measured(scratch, rounds)
    return Target(
        f"auditor ledger answers within {SECONDS_MAX:g} s on bookies that cannot list",
        max(found.values()) <= SECONDS_MAX,
        tuple(f"{took_s:5.2f} s  {name}" for name, took_s in found.items()),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    with tempfile.TemporaryDirectory() as directory:
        found = target(Path(directory), parser.parse_args().rounds)
    print(found)
    return 0 if found.met else 1


if __name__ == "__main__":
    sys.exit(main())
