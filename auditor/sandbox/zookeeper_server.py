"""A real standalone ZooKeeper server, run from the jars of PySpark.

It listens only on loopback and keeps its data in a directory of the caller. On Linux the kernel
kills it when the thread that started it ends, even by SIGKILL (`prctl(PR_SET_PDEATHSIG)`): start it
from a thread that lives long enough. Elsewhere only `stop` ends it. The server ignores Ctrl-C,
which goes to the whole process group: the parent stops the server once nothing needs it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from auditor.errors import StoreUnavailable
from auditor.java import JavaHome, find_java

START_TIMEOUT_S = 60.0
"""How long the server may take to accept sessions. It needs about a second."""
START_ATTEMPTS_MAX = 3
"""Attempts, each with a new port: another program may take a free port before the server does."""
STOP_TIMEOUT_S = 10.0
"""How long the server may take to end after SIGTERM, and again after SIGKILL."""
POLL_INTERVAL_S = 0.05
"""Pause between two checks whether the server accepts sessions."""
HEAP_MB = 256
"""Java heap of the server."""
LOG_TAIL_CHARS = 2_000
"""How much of the end of the server's log an error quotes."""

_ZXID = re.compile(rb"Zxid: 0x([0-9a-f]+)")
_TICK_MS = 500
_SESSION_TIMEOUT_MAX_MS = 120_000
# Only what the server needs: all of Spark's jars make its start three times slower and bring log4j.
_JARS = ("zookeeper-3", "zookeeper-jute", "slf4j-api", "netty-", "snappy-java", "metrics-core",
"commons-io", "commons-cli",
         "audience-annotations")  # fmt: skip
_DIE_WITH_PARENT = """
import ctypes, os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
try:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
except (OSError, AttributeError):
    pass
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent is gone already")
os.execv(sys.argv[2], sys.argv[2:])
"""


class EmbeddedZooKeeper:
    """One server process, which runs inside `with`.

    `workdir` is created if missing. It holds `data`, configuration and log. A snapshot in
    `data/version-2` is loaded. `properties` are further Java properties, each `name=value`.
    `on_wait` is called while the server starts; what it raises leaves `start`.
    """

    def __init__(
        self,
        workdir: Path,
        java: JavaHome | None = None,
        *,
        heap_mb: int = HEAP_MB,
        start_timeout_s: float = START_TIMEOUT_S,
        properties: Sequence[str] = (),
        on_wait: Callable[[], None] = lambda: None,
    ) -> None:
        self._workdir = workdir
        self._java = java
        self._heap_mb, self._start_timeout_s = heap_mb, start_timeout_s
        self._properties = tuple(properties)
        self._on_wait = on_wait
        self._process: subprocess.Popen[bytes] | None = None
        self._port: int | None = None

    @property
    def connect_string(self) -> str:
        assert self._port is not None, "the server has not been started"
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int | None:
        """The server's process id; None before `start` and after `stop`."""
        return self._process.pid if self._process is not None else None

    def last_zxid(self) -> int | None:
        """Return the last transaction that the server has applied; None if it does not say."""
        assert self._port is not None, "the server has not been started"
        found = _ZXID.search(_four_letter_word(self._port, b"srvr"))
        return None if found is None else int(found[1], 16)

    def start(self) -> None:
        """Start the server and return when it accepts sessions.

        Raises StoreUnavailable if it does not start, SparkUnavailable if there is no Java.
        """
        assert self._process is None, "the server runs already"
        java = self._java or find_java()
        classpath = os.pathsep.join(str(jar) for jar in zookeeper_jars())
        for attempt in range(1, START_ATTEMPTS_MAX + 1):
            self._port = _free_port()
            self._process = self._launch(java, classpath, self._port)
            if self._wait_until_serving(self._process, self._port):
                return
            self.stop()
            if attempt == START_ATTEMPTS_MAX:
                raise StoreUnavailable(
                    "the embedded ZooKeeper ended as soon as it was started; it said:"
                    f" {self._said()}"
                )

    def stop(self) -> None:
        """End the server with SIGTERM, then SIGKILL. May be called when it does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_TIMEOUT_S)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _launch(self, java: JavaHome, classpath: str, port: int) -> subprocess.Popen[bytes]:
        data = self._workdir / "data"
        data.mkdir(parents=True, exist_ok=True)
        settings = self._workdir / "zoo.cfg"
        settings.write_text(
            f"tickTime={_TICK_MS}\nmaxSessionTimeout={_SESSION_TIMEOUT_MAX_MS}\ndataDir={data}\nclientPort={port}\n"
            "clientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n4lw.commands.whitelist=srvr\n"
        )
        options = [f"-Xmx{self._heap_mb}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        options += [
            "-Dzookeeper.forceSync=no",
            "-Dzookeeper.preAllocSize=1024",
            "-Dzookeeper.extendedTypesEnabled=true",
            *(f"-D{setting}" for setting in self._properties),
        ]
        server = [
            str(java.executable),
            *options,
            "-cp",
            classpath,
            "org.apache.zookeeper.server.ZooKeeperServerMain",
        ]
        wrapper = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid())]
        with self._log.open("wb") as log:
            return subprocess.Popen(  # noqa: S603 - our own server
                [*wrapper, *server, str(settings)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _wait_until_serving(self, process: subprocess.Popen[bytes], port: int) -> bool:
        """Return True when the server accepts sessions, False if it ended.

        Raises StoreUnavailable if it does neither in time.
        """
        deadline = time.monotonic() + self._start_timeout_s
        while time.monotonic() < deadline:
            self._on_wait()
            if process.poll() is not None:
                return False
            # The server says "Mode:" only after it has loaded its data and can serve requests.
            if b"Mode: standalone" in _four_letter_word(port, b"srvr"):
                return True
            time.sleep(POLL_INTERVAL_S)
        self.stop()
        raise StoreUnavailable(
            f"the embedded ZooKeeper accepted no session within {self._start_timeout_s:.0f} s; it"
            f" said: {self._said()}"
        )

    @property
    def _log(self) -> Path:
        return self._workdir / "zookeeper.log"

    def _said(self) -> str:
        text = self._log.read_text(errors="replace").strip() if self._log.exists() else ""
        return text[-LOG_TAIL_CHARS:] or "nothing"


def zookeeper_jars() -> list[Path]:
    """Return the server's jars, from PySpark's own folder or else `$SPARK_HOME/jars`.

    Raises StoreUnavailable if there are none.
    """
    package = importlib.util.find_spec("pyspark")
    folders = (
        [Path(package.origin).parent / "jars"]
        if package is not None and package.origin is not None
        else []
    )
    if home := os.environ.get("SPARK_HOME"):
        folders.append(Path(home) / "jars")
    for folder in folders:
        jars = sorted(jar for jar in folder.glob("*.jar") if jar.name.startswith(_JARS))
        if any(jar.name.startswith("zookeeper-3") for jar in jars):
            return jars
    looked = (
        " and ".join(str(folder) for folder in folders) or "nowhere, as pyspark is not installed"
    )
    raise StoreUnavailable(
        f"no ZooKeeper jar was found (looked in {looked}): pip install pyspark, or set SPARK_HOME"
    )


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _four_letter_word(port: int, word: bytes) -> bytes:
    """Return the answer to one of ZooKeeper's four-letter words; b"" if nobody listens yet."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0) as connection:
            connection.sendall(word)
            return connection.recv(4096)
    except OSError:
        return b""
