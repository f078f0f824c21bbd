"""A real ZooKeeper of three servers for tests, whose leader can be killed, and a sandbox on it.

with EnsembleCluster(tmp_path, 3, classpath=release_classpath("3.8.4")) as cluster:  # 3-6 s
    cluster.ensemble.kill_leader()
"""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from support.real_processes import JavaProcess, free_port
from support.zookeeper_process import QUORUM_MAIN, java

from auditor.sandbox.cluster import SandboxCluster

SERVERS = 3
START_TIMEOUT_S = 120.0
"""How long the servers may take to elect a leader, in seconds; they need one or two."""
POLL_S = 0.1
LEADER, FOLLOWER = "leader", "follower"
_MODE = re.compile(rb"^Mode: (\w+)", re.MULTILINE)


class ZooKeeperEnsemble:
    """SERVERS processes on loopback; a context manager that starts and ends them."""

    def __init__(self, directory: Path, classpath: str) -> None:
        self._directory, self._classpath = directory, classpath
        self.ports = [free_port() for _ in range(SERVERS)]
        self._peers = [(free_port(), free_port()) for _ in range(SERVERS)]
        self._processes: dict[int, JavaProcess] = {}

    @property
    def connect_string(self) -> str:
        """Every server, the dead ones too, as a client is given them."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def __enter__(self) -> Self:
        for number in range(SERVERS):
            self._processes[number] = self._start(number)
        try:
            self.await_leader()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End every process."""
        for process in self._processes.values():
            process.kill()

    def kill_leader(self) -> int:
        """SIGKILL the leader, and return its number. The others elect another."""
        leader = self.await_leader()
        self._processes[leader].kill()
        return leader

    def await_leader(self) -> int:
        """Return the number of the leader, once all that run serve under one."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            running = [n for n, process in self._processes.items() if process.is_running]
            modes = {number: _mode(self.ports[number]) for number in running}
            leaders = [number for number, mode in modes.items() if mode == LEADER]
            if len(leaders) == 1 and set(modes.values()) == {LEADER, FOLLOWER}:
                return leaders[0]
            if len(running) <= SERVERS // 2 or time.monotonic() > deadline:
                logs = [process.log_tail() for process in self._processes.values()]
                raise AssertionError(f"no leader: {modes}; {logs}")
            time.sleep(POLL_S)

    def _start(self, number: int) -> JavaProcess:
        home = self._directory / f"server-{number + 1}"
        (home / "data").mkdir(parents=True)
        (home / "data" / "myid").write_text(str(number + 1))
        settings = {
            "tickTime": 500,
            "initLimit": 40,
            "syncLimit": 20,
            "maxSessionTimeout": 60_000,
            "dataDir": home / "data",
            "clientPort": self.ports[number],
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "maxClientCnxns": 0,
            "4lw.commands.whitelist": "srvr",
        } | {f"server.{n}": f"127.0.0.1:{a}:{b}" for n, (a, b) in enumerate(self._peers, start=1)}
        config = home / "zoo.cfg"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command = [
            java(),
            *("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            "-Dzookeeper.forceSync=no",
            *("-cp", self._classpath, QUORUM_MAIN, str(config)),
        ]
        return JavaProcess(f"ZooKeeper {number + 1}", command, home / "zookeeper.log")


class EnsembleCluster(SandboxCluster):
    """A sandbox whose ZooKeeper is `ensemble`."""

    def __init__(self, workdir: Path, bookies: int, *, classpath: str, **options: Any) -> None:
        super().__init__(workdir, bookies, **options)
        self.ensemble = ZooKeeperEnsemble(workdir, classpath)
        self._zookeeper = self.ensemble  # in place of the one server of the product


def _mode(port: int) -> str:
    """What a server says it is; "" while it serves nobody."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as sock:
            sock.sendall(b"srvr")
            answer = b""
            while chunk := sock.recv(4096):
                answer += chunk
    except OSError:
        return ""
    found = _MODE.search(answer)
    return found[1].decode() if found else ""
