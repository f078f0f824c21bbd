"""Java processes that never outlive the test run, and ports nobody else takes."""

from __future__ import annotations

import ctypes
import hashlib
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path

JVM_FLAGS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:MaxDirectMemorySize=256m",
    "-Djava.net.preferIPv4Stack=true",
)
"""Small and quick to start rather than fast: several JVMs share two cores."""
STOP_WAIT_S = 20.0
"""How long a killed process may take to be gone, in seconds."""
LOG_TAIL_BYTES = 3000
"""How much of a process's log an error shows."""
READ_BYTES = 2**16
"""How much of an answer is read at once."""
PORT_FIRST, PORT_LAST = 20_000, 32_000
"""Below Linux's ephemeral ports, so that no outgoing connection takes one between choosing and
listening.
"""
PORT_SHARES = 4
"""Processes of one run of tests that draw from ports of their own; a fifth shares the first's."""
PORT_TRIES_MAX = 200

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _ports() -> Iterator[int]:
    """Every port of this process's share, in an order drawn at random, again and again: two that
    are chosen one after another differ, before anybody listens on the first.
    """
    name = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    share = int(name.removeprefix("gw")) % PORT_SHARES
    size = (PORT_LAST - PORT_FIRST) // PORT_SHARES
    mine = [PORT_FIRST + share * size + number for number in range(size)]
    random.SystemRandom().shuffle(mine)
    return cycle(mine)


_drawn = _ports()


def free_port() -> int:
    """A loopback port nobody listens on now, and that no other process of this run of tests
    chooses. Drawn at random, so that two runs rarely draw the same.
    """
    for port in islice(_drawn, PORT_TRIES_MAX):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(
        f"no free port found between {PORT_FIRST} and {PORT_LAST} in {PORT_TRIES_MAX} tries"
    )


class JavaProcess:
    """One JVM with its log file. It is killed by the kernel when the process that started it
    dies.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        *,
        answers: bool = False,
    ) -> None:
        self.name = name
        self.log = log
        self._process = _spawn(command, log, environment, answers)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone. A paused process dies as well; a dead one is left
        alone.
        """
        if self.is_running:
            self._process.kill()
        self._process.wait(STOP_WAIT_S)

    def end(self, number: signal.Signals, wait_s: float) -> None:
        """Send a signal that it may heed in its own time, and wait until it is gone."""
        self._process.send_signal(number)
        self._process.wait(wait_s)

    def pause(self) -> None:
        """SIGSTOP: it keeps its connections and its port, and says nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def log_tail(self) -> str:
        """The end of its log, for an error message."""
        if not self.log.exists():
            return "(no log)"
        return self.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")

    def assert_running(self) -> None:
        """Raise with the end of its log when it has exited."""
        code = self._process.poll()
        if code is not None:
            raise RuntimeError(
                f"{self.name} exited with {code}; the end of {self.log}:\n{self.log_tail()}"
            )


class JavaConversation(JavaProcess):
    """A JVM that answers each line on its stdin with a line on its stdout. Its stderr is the
    log.
    """

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        super().__init__(name, command, log, answers=True)
        self._received = b""

    def ask(self, line: str, wait_s: float) -> str:
        """Send a line and return the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()
        return self.receive(wait_s)

    def receive(self, wait_s: float) -> str:
        """Return the next line that it says. Raises TimeoutError, and RuntimeError when it has
        exited.
        """
        assert self._process.stdout is not None
        deadline = time.monotonic() + wait_s
        while b"\n" not in self._received:
            ready, _, _ = select.select(
                [self._process.stdout], [], [], max(0.0, deadline - time.monotonic())
            )
            if not ready:
                raise TimeoutError(
                    f"{self.name} did not answer within {wait_s:g} s; the end of"
                    f" {self.log}:\n{self.log_tail()}"
                )
            more = os.read(self._process.stdout.fileno(), READ_BYTES)
            if not more:
                self._process.wait(STOP_WAIT_S)
                self.assert_running()
            self._received += more
        line, _, self._received = self._received.partition(b"\n")
        return line.decode()

    def kill(self) -> None:
        """As any; and close the pipes."""
        super().kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def class_path(jars: Path, *more: Path) -> str:
    """Every jar of a folder, in one order, for an archive of classes is for one class path alone,
    and what stands behind them.
    """
    return os.pathsep.join(map(str, (*sorted(jars.glob("*.jar")), *more)))


def archive_of(jars: Path) -> Path:
    """Where the class-data archive of these jars is, once `real_archive.make_archive` has made it.

    A JVM passes over an archive of other jars, of jars elsewhere or of another Java, and says
    nothing: so the name is made of all three.
    """
    made_of = [os.path.realpath(shutil.which("java") or "")]
    for jar in sorted(jars.glob("*.jar")):
        state = jar.stat()
        made_of.append(f"{jar} {state.st_size} {state.st_mtime_ns}")
    digest = hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:16]
    return jars.parent / f"classes-{digest}.jsa"


def sharing_flags(jars: Path) -> list[str]:
    """Flags of a JVM that maps its classes from the archive; none where that is not made yet."""
    archive = archive_of(jars)
    if not archive.exists():
        return []
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]


def java_command(
    jars: Path,
    main_class: str,
    *arguments: str,
    heap: str,
    log4j2: Path,
    flag: str = "",
    temporary: Path | None = None,
    opens: Sequence[str] = (),
    classes: Path | None = None,
) -> list[str]:
    """Return the command line of a small JVM on these jars.

    `flag` are more for the JVM itself, with spaces between. `temporary` is where it unpacks its
    native libraries: a killed JVM leaves them. `opens` are packages of the JDK that it needs open,
    `classes` a folder of classes behind the jars.
    """
    return [
        "java",
        *JVM_FLAGS,
        *flag.split(),
        *sharing_flags(jars),
        *([f"-Djava.io.tmpdir={temporary}"] if temporary else []),
        *(word for package in opens for word in ("--add-opens", f"{package}=ALL-UNNAMED")),
        f"-Xmx{heap}",
        f"-Dlog4j2.configurationFile={log4j2}",
        "-cp",
        class_path(jars, *([classes] if classes else [])),
        main_class,
        *arguments,
    ]


def _spawn(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None, answers: bool
) -> subprocess.Popen[bytes]:
    # PR_SET_PDEATHSIG fires when the *thread* that forked ends, so a pool thread would take its JVM
    # with it.
    assert threading.current_thread() is threading.main_thread(), (
        "start Java processes from the main thread only"
    )
    parent = os.getpid()
    with log.open("ab") as out:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE if answers else subprocess.DEVNULL,
            stdout=subprocess.PIPE if answers else out,
            stderr=out,
            env=None if environment is None else dict(environment),
            start_new_session=True,  # Ctrl-C ends the tests, and their teardown ends this
            preexec_fn=lambda: _die_with(parent),
        )


def _die_with(parent: int) -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # the parent died between fork and prctl
