"""Java processes that never outlive the test run, and ports that no other process takes."""

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
"""JVM flags for small and quick starts rather than speed: several JVMs share two cores."""
STOP_WAIT_S = 20.0
"""How long a killed process may take to be gone, in seconds."""
LOG_TAIL_BYTES = 3000
"""Characters of a process's log that an error shows."""
READ_BYTES = 2**16
"""Bytes of an answer that are read at once."""
PORT_FIRST, PORT_LAST = 20_000, 32_000
"""Below Linux's ephemeral ports, so that no outgoing connection takes one between choosing and
listening.
"""
PORT_SHARES = 4
"""Processes of one test run that draw from ports of their own; a fifth one shares the first one's.
"""
PORT_TRIES_MAX = 200

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _ports() -> Iterator[int]:
    """Yield every port of this process's share, in random order, again and again. Two ports chosen
    in sequence differ even before a process listens on the first.
    """
    name = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    share = int(name.removeprefix("gw")) % PORT_SHARES
    size = (PORT_LAST - PORT_FIRST) // PORT_SHARES
    mine = [PORT_FIRST + share * size + number for number in range(size)]
    random.SystemRandom().shuffle(mine)
    return cycle(mine)


_drawn = _ports()


def free_port() -> int:
    """Return a free loopback port that no other process of this test run chooses. It is random, so
    two test runs rarely choose the same.
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
    """One JVM with its log file. The kernel kills it when the process that started it dies."""

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
        """Send SIGKILL, and wait until it has ended. A paused process dies as well; a dead one is
        left alone.
        """
        if self.is_running:
            self._process.kill()
        self._process.wait(STOP_WAIT_S)

    def end(self, number: signal.Signals, wait_s: float) -> None:
        """Send a signal that it may handle in its own time, and wait until it has ended."""
        self._process.send_signal(number)
        self._process.wait(wait_s)

    def pause(self) -> None:
        """Send SIGSTOP, and wait until all its threads stand: it keeps its connections and its
        port, and answers nothing. On a busy machine its threads run on for some milliseconds after
        the signal was sent.
        """
        self._process.send_signal(signal.SIGSTOP)
        if self._process.returncode is None:  # sending reaps a process that has ended
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Send SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def log_tail(self) -> str:
        """Return the end of its log, for an error message."""
        if not self.log.exists():
            return "(no log)"
        return self.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")

    def assert_running(self) -> None:
        """Raise, with the end of its log, if it has ended."""
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
        """Return the next line of its stdout. Raises TimeoutError, and RuntimeError if it has
        ended.
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
        """Kill it as any process, and close the pipes."""
        super().kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def class_path(jars: Path, *more: Path) -> str:
    """Return every jar of a folder, always in the same order, and then `behind`. An archive of
    classes is for one class path.
    """
    return os.pathsep.join(map(str, (*sorted(jars.glob("*.jar")), *more)))


def archive_of(jars: Path) -> Path:
    """Return where the class-data archive of these jars is, once `real_archive.make_archive` has
    made it.

    A JVM silently ignores an archive of other jars, of moved jars or of another Java. The name
    therefore contains all three.
    """
    made_of = [os.path.realpath(shutil.which("java") or "")]
    for jar in sorted(jars.glob("*.jar")):
        state = jar.stat()
        made_of.append(f"{jar} {state.st_size} {state.st_mtime_ns}")
    digest = hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:16]
    return jars.parent / f"classes-{digest}.jsa"


def sharing_flags(jars: Path) -> list[str]:
    """Return the flags with which a JVM maps its classes from the archive; none if there is no
    archive yet.
    """
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

    `flag` has more JVM flags, separated by spaces. `temporary` is where it unpacks its native
    libraries: a killed JVM leaves them. `opens` are packages of the JDK to open, `classes` a folder
    of classes after the jars.
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
    # PR_SET_PDEATHSIG fires when the *thread* that forked ends, so a thread of a pool would end its
    # JVM, too.
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
