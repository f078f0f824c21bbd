"""A real ZooKeeper server for tests: from the jars that pyspark contains, or an older one from
Maven Central.

One server, one loopback port, one data directory. SIGTERM ends it, and it dies with the process
that started it.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from support.real_jars import zookeeper_jars
from support.real_processes import JavaProcess, free_port

START_TIMEOUT_S = 60.0
"""How long a server may take until it answers `srvr`, in seconds; it needs about one."""
STOP_TIMEOUT_S = 10.0
"""How long a server may take to end after SIGTERM before it is killed, in seconds; it needs about
half of one.
"""
POLL_S = 0.05
STANDALONE_MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"
QUORUM_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
SERVER_JARS = (
    "zookeeper-3*.jar",
    "zookeeper-jute-*.jar",
    "slf4j-api-*.jar",
    "netty-*.jar",
    "snappy-java-*.jar",
    "metrics-core-*.jar",
    "commons-io-*.jar",
    "commons-cli*.jar",
    "audience-annotations*.jar",
)
"""The jars of Spark's that a ZooKeeper server needs. Without a logging binding it logs nowhere and
starts sooner.
"""


def pyspark_classpath() -> str:
    """Return the class path of a ZooKeeper server among pyspark's own jars (3.9.x)."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None and spec.submodule_search_locations, (
        "pyspark is not installed: install the project's dependencies"
    )
    jars = Path(spec.submodule_search_locations[0]) / "jars"
    found = sorted(str(jar) for pattern in SERVER_JARS for jar in jars.glob(pattern))
    assert found, f"no ZooKeeper jars in {jars}: this pyspark brings none"
    return os.pathsep.join(found)


def release_classpath(version: str) -> str:
    """Return the class path of a ZooKeeper server of this release. Maven fetches it once. 3.5.10
    has no multiRead.
    """
    return f"{zookeeper_jars(version)}/*"


def java() -> str:
    """Return JAVA_HOME's java, else the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    assert found, "no Java: set JAVA_HOME or put java on the PATH"
    return found


class ZooKeeperProcess:
    """One standalone server. `stop` and `start` again keep its port and its data, as a restart in
    the field does.

    `cut_off_from_quorum`: one of two servers, and the other does not exist; it serves its data
    read-only. `more` are further settings, `flags` further flags of its JVM. A server that has much
    to load needs a longer `start_timeout_s`.
    """

    def __init__(
        self,
        directory: Path,
        classpath: str | None = None,
        *,
        cut_off_from_quorum: bool = False,
        more: Mapping[str, object] | None = None,
        flags: Sequence[str] = (),
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        self.directory = directory
        self.classpath = classpath or pyspark_classpath()
        self.port = free_port()
        self._process: JavaProcess | None = None
        self._cut_off = cut_off_from_quorum
        self._flags = tuple(flags)
        self._start_timeout_s = start_timeout_s
        (directory / "data").mkdir(parents=True, exist_ok=True)
        config = (
            f"tickTime=500\nminSessionTimeout=500\nmaxSessionTimeout=60000\ndataDir={directory}/data\nclientPort={self.port}\n"
            "clientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n4lw.commands.whitelist=*\n"
        )
        config += "".join(f"{key}={value}\n" for key, value in (more or {}).items())
        (directory / "zoo.cfg").write_text(
            config + (self._two_servers() if cut_off_from_quorum else "")
        )

    @property
    def hosts(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server was not started"
        return self._process.pid

    def start(self) -> ZooKeeperProcess:
        """Start the server and wait until it serves."""
        command = [
            java(),
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Dzookeeper.forceSync=no",
            *self._flags,
            f"-Dreadonlymode.enabled={str(self._cut_off).lower()}",
            "-cp",
            self.classpath,
            QUORUM_MAIN if self._cut_off else STANDALONE_MAIN,
            str(self.directory / "zoo.cfg"),
        ]
        self._process = JavaProcess("zookeeper", command, self.directory / "zookeeper.log")
        deadline = time.monotonic() + self._start_timeout_s
        serving = b"Mode: read-only" if self._cut_off else b"Mode: standalone"
        while serving not in self.four_letter_word(b"srvr"):
            self._process.assert_running()
            assert time.monotonic() < deadline, (
                f"ZooKeeper did not serve within {self._start_timeout_s:g} s:"
                f" {self._process.log_tail()}"
            )
            time.sleep(POLL_S)
        return self

    def _two_servers(self) -> str:
        (self.directory / "data" / "myid").write_text("1")
        ports = [free_port() for _ in range(4)]
        servers = (f"server.{n}=127.0.0.1:{ports[2 * n - 2]}:{ports[2 * n - 1]}\n" for n in (1, 2))
        return "initLimit=5\nsyncLimit=2\n" + "".join(servers)

    def stop(self) -> None:
        """Send SIGTERM, then SIGKILL if it takes too long. A server that has ended is left
        alone.
        """
        process, self._process = self._process, None
        if process is None or not process.is_running:
            return
        process.resume()  # a paused server would not see SIGTERM
        os.kill(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while process.is_running and time.monotonic() < deadline:
            time.sleep(POLL_S)
        process.kill()

    def pause(self) -> None:
        """Send SIGSTOP: it keeps its port and its connections, and answers nothing."""
        assert self._process is not None
        self._process.pause()

    def resume(self) -> None:
        assert self._process is not None
        self._process.resume()

    def four_letter_word(self, word: bytes) -> bytes:
        """Return the server's answer to an administrative word; nothing if it does not listen."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as sock:
                sock.sendall(word)
                answer = b""
                while chunk := sock.recv(4096):
                    answer += chunk
                return answer
        except OSError:
            return b""


@contextmanager
def zookeeper(directory: Path, classpath: str | None = None) -> Iterator[ZooKeeperProcess]:
    """Yield a running server; it ends with the block."""
    server = ZooKeeperProcess(directory, classpath)
    try:
        yield server.start()
    finally:
        server.stop()
