"""The lock of an output in HDFS, on a name node in memory and a clock that only sleeping moves.

The same laws hold on a real HDFS in `tests/outputs/test_outputs_on_spark.py`.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from support.sleeping_clock import SleepingTime

from auditor.errors import OutputError
from auditor.evidence import output_lock
from auditor.evidence.output_lock import HDFS_LAPSE_S, HDFS_POLL_S, HDFS_WAIT_S, hold_hdfs_lock
from auditor.evidence.run_directory import Place
from auditor.stop import Interrupted

PATH = "/deep/audits/.lock"


class Writer:
    """A file that is open. What is written is seen when it was flushed."""

    def __init__(self, node: NameNode, path: str) -> None:
        self.node, self.path, self.text = node, path, b""

    def write(self, text: bytes) -> None:
        if self.node.fault_of_writes is not None:
            raise self.node.fault_of_writes
        self.text += text

    def hsync(self) -> None:
        self.node.texts[self.path] += self.text
        self.text = b""

    def close(self) -> None:
        self.node.writers.discard(self.path)
        if self.node.fault_of_close is not None:
            raise self.node.fault_of_close


class NameNode:
    """Files that have one writer at a time. It raises what hdfs-native raises."""

    def __init__(self) -> None:
        self.texts: dict[str, bytes] = {}
        self.writers: set[str] = set()
        self.created: list[Any] = []
        self.faults: list[Exception] = []
        self.fault_of_writes: Exception | None = None
        self.fault_of_close: Exception | None = None

    def append(self, path: str) -> Writer:
        if self.faults:
            raise self.faults.pop(0)
        if path not in self.texts:
            raise FileNotFoundError(path)
        return self._open(path)

    def create(self, path: str, write_options: Any) -> Writer:
        assert path is not None
        if path in self.texts and not write_options.overwrite:
            raise FileExistsError(path)
        self.created.append(write_options)
        self.texts[path] = b""
        return self._open(path)

    def _open(self, path: str) -> Writer:
        if path in self.writers:
            raise FileExistsError(path)
        self.writers.add(path)
        return Writer(self, path)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SleepingTime:
    found = SleepingTime()
    monkeypatch.setattr(output_lock, "time", found)
    return found


@pytest.fixture
def node() -> NameNode:
    return NameNode()


@pytest.fixture
def root(node: NameNode) -> Place:
    files = SimpleNamespace(handler=SimpleNamespace(fs=SimpleNamespace(client=node)))
    return Place(files, "/deep/audits", "hdfs://nn/deep/audits")


@pytest.fixture
def umask() -> Iterator[None]:
    """The group may read what is made, and others may not."""
    before = os.umask(0o026)
    yield
    os.umask(before)


def nothing() -> None:
    """Do nothing."""


@pytest.mark.usefixtures("umask", "clock")
def test_the_lock_is_a_new_file_that_says_on_which_host_its_run_is(node: NameNode, root: Place):
    """Its permissions are what the umask leaves, and it replaces no file."""
    with hold_hdfs_lock(root, ".lock", nothing):
        assert {PATH: f"{socket.gethostname()}\n".encode()} == node.texts
        assert {PATH} == node.writers
    (options,) = node.created
    assert (False, 0o640) == (options.overwrite, options.permission)
    assert set() == node.writers


def test_a_lock_that_nobody_holds_is_taken_at_once(
    node: NameNode, root: Place, clock: SleepingTime
):
    """What other runs wrote into it stays."""
    node.texts[PATH] = b"before\n"
    with hold_hdfs_lock(root, ".lock", nothing):
        assert {PATH} == node.writers
    assert f"before\n{socket.gethostname()}\n".encode() == node.texts[PATH]
    assert [] == clock.sleeps
    assert [] == node.created


def test_a_lock_that_another_run_holds_is_waited_for_and_then_refused(
    node: NameNode, root: Place, clock: SleepingTime
):
    """Longer than the name node keeps it for a run that died, and no file is touched."""
    checks: list[float] = []
    with hold_hdfs_lock(root, ".lock", nothing):
        text = node.texts[PATH]
        with (
            pytest.raises(OutputError, match=f"another run is at work in {root.uri} .*{PATH}"),
            hold_hdfs_lock(root, ".lock", lambda: checks.append(clock.now_s)),
        ):
            pass
        assert ({PATH}, {PATH: text}) == (node.writers, node.texts)
    assert {HDFS_POLL_S} == set(clock.sleeps)
    assert len(checks) == len(clock.sleeps)
    assert HDFS_LAPSE_S < HDFS_WAIT_S <= sum(clock.sleeps) <= HDFS_WAIT_S + HDFS_POLL_S


def test_a_lock_that_is_released_meanwhile_is_taken(
    node: NameNode, root: Place, clock: SleepingTime
):
    """At the next look."""
    with ExitStack() as first:
        first.enter_context(hold_hdfs_lock(root, ".lock", nothing))
        clock.on_sleep = first.close
        with hold_hdfs_lock(root, ".lock", nothing):
            assert {PATH} == node.writers
    assert [HDFS_POLL_S] == clock.sleeps


def test_a_signal_ends_the_wait_for_a_lock(node: NameNode, root: Place, clock: SleepingTime):
    """At once, and the lock of the other run stays held."""

    def stop() -> None:
        raise Interrupted(signal.SIGTERM)

    with hold_hdfs_lock(root, ".lock", nothing):
        with pytest.raises(Interrupted), hold_hdfs_lock(root, ".lock", stop):
            pass
        assert {PATH} == node.writers
    assert [] == clock.sleeps


def test_a_lock_that_another_run_makes_at_this_moment_is_its_own(
    node: NameNode, root: Place, clock: SleepingTime
):
    """It was not there at the first look. The file of the other run is not replaced."""

    def make_it(path: str) -> Writer:
        node.append = append  # type: ignore[method-assign]
        node.create(path, SimpleNamespace(overwrite=False))
        raise FileNotFoundError(path)

    append, node.append = node.append, make_it  # type: ignore[method-assign]
    clock.on_sleep = node.writers.clear
    with hold_hdfs_lock(root, ".lock", nothing):
        pass
    assert [HDFS_POLL_S] == clock.sleeps
    assert 1 == len(node.created)


@pytest.mark.parametrize("kind", [OSError, RuntimeError])
@pytest.mark.parametrize(
    "text",
    [
        "RecoveryInProgressException: Failed to APPEND_FILE",
        "RpcNoSuchFile: lease recovery is in progress. Try again later.",
    ],
)
def test_a_file_whose_dead_writer_is_being_ended_is_waited_for(
    node: NameNode, root: Place, clock: SleepingTime, kind: type[Exception], text: str
):
    """The name node needs a moment for it."""
    node.texts[PATH] = b""
    node.faults = [kind(text)] * 2
    with hold_hdfs_lock(root, ".lock", nothing):
        assert {PATH} == node.writers
    assert [HDFS_POLL_S] * 2 == clock.sleeps


@pytest.mark.parametrize("kind", [OSError, RuntimeError, PermissionError])
def test_a_name_node_that_fails_is_a_sentence(
    node: NameNode, root: Place, clock: SleepingTime, kind: type[Exception]
):
    """Nobody waits for what will not come."""
    node.faults = [kind("Permission denied: user=a")]
    with (
        pytest.raises(OutputError, match=f"^cannot lock {root.uri}: Permission denied: user=a$"),
        hold_hdfs_lock(root, ".lock", nothing),
    ):
        pass
    assert [] == clock.sleeps


@pytest.mark.usefixtures("clock")
def test_a_lock_that_cannot_be_written_to_is_a_sentence_and_released(node: NameNode, root: Place):
    """As on a full disk."""
    node.fault_of_writes = OSError("no space left")
    with (
        pytest.raises(OutputError, match=rf"^cannot write {root.uri}/\.lock: no space left$"),
        hold_hdfs_lock(root, ".lock", nothing),
    ):
        pass
    assert set() == node.writers


@pytest.mark.parametrize("kind", [OSError, RuntimeError])
@pytest.mark.usefixtures("clock")
def test_a_name_node_that_fails_at_the_end_ends_no_run(
    node: NameNode, root: Place, kind: Callable[[str], Exception]
):
    """The lock lapses."""
    node.fault_of_close = kind("not in state active")
    with hold_hdfs_lock(root, ".lock", nothing):
        pass
    assert set() == node.writers
