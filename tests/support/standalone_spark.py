"""A Spark standalone cluster on the loopback interface: a master and workers, each in a directory
and an environment of its own, which has neither the auditor nor its libraries.

    with standalone_spark(tmp_path, workers=2) as cluster:
        cluster.master                                         # spark://127.0.0.1:PORT
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from auditor.java import find_java

SPARK_HOME = Path(pyspark.__file__).parent
START_TIMEOUT_S = 180
MASTER_URI = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED = "Successfully registered with master"


@dataclass(frozen=True, slots=True)
class StandaloneSpark:
    """A master's URI, and the process ids of its workers. Executors are below these."""

    master: str
    worker_pids: tuple[int, ...]


@contextmanager
def standalone_spark(
    workdir: Path, workers: int, cores: int = 2, memory: str = "800m"
) -> Iterator[StandaloneSpark]:
    """Yield a cluster at whose master all workers are registered, each with so many cores."""
    with ExitStack() as stack:
        ports = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        log, _ = stack.enter_context(_daemon(workdir / "master", "master.Master", *ports))
        master = _wait_for(log, MASTER_URI).group(1)
        daemons = []
        for number in range(workers):
            home = workdir / f"worker-{number}"
            options = (*ports, "--cores", str(cores), "--memory", memory, "--work-dir", str(home))
            daemons.append(stack.enter_context(_daemon(home, "worker.Worker", *options, master)))
        for log, _ in daemons:
            _wait_for(log, re.compile(REGISTERED))
        yield StandaloneSpark(master, tuple(pid for _, pid in daemons))


@contextmanager
def _daemon(home: Path, name: str, *options: str) -> Iterator[tuple[Path, int]]:
    """Run a daemon of Spark in a directory of its own, and yield its log and its process id."""
    home.mkdir()
    environment = {
        "PATH": "/usr/bin:/bin",
        "JAVA_HOME": str(find_java().path),
        "HOME": str(home),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(home),
        "SPARK_CONF_DIR": str(home),
    }
    command = [str(SPARK_HOME / "bin/spark-class"), f"org.apache.spark.deploy.{name}", *options]
    with (home / "daemon.log").open("w") as log:
        process = subprocess.Popen(command, cwd=home, env=environment, stdout=log, stderr=log)
    try:
        yield home / "daemon.log", process.pid
    finally:
        process.terminate()
        process.wait(60)


def _wait_for(log: Path, pattern: re.Pattern[str]) -> re.Match[str]:
    deadline = time.monotonic() + START_TIMEOUT_S
    while (found := pattern.search(log.read_text(errors="replace"))) is None:
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-2000:]
        time.sleep(0.2)
    return found
