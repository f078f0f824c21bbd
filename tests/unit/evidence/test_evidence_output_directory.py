"""OUTPUT: tried before the run, locked by one run at a time, published and pruned."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from auditor.errors import OutputError
from auditor.evidence import output_lock
from auditor.evidence.newest_run import LATEST
from auditor.evidence.output_directory import Output
from auditor.evidence.output_lock import LOCK
from auditor.evidence.run_directory import Place, place, write_json
from auditor.model.cluster import ClusterFacts
from auditor.stop import Interrupted

LINE_TIMEOUT_S = 30
NAMES = [f"run-2026010{day}T030000Z-{day:06x}" for day in range(1, 6)]


@pytest.fixture
def root(tmp_path: Path) -> Place:
    """An OUTPUT that can be written to."""
    found = place(str(tmp_path / "audits"))
    found.create()
    return found


CLUSTER = {"metadata_service_uri": "zk://h:2181/ledgers", "instance_id": "inst"}
FACTS = ClusterFacts(
    "zk://h:2181/ledgers", ("h:2181",), "/ledgers", "hierarchical", "inst", False, None
)


def finished(root: Place, name: str, **summary: object) -> Place:
    """A run with a summary."""
    run = Output(root).start(name.removeprefix("run-"))
    write_json(run, "summary.json", {"cluster": CLUSTER, **summary})
    return run


def test_an_output_that_cannot_be_written_is_noticed_before_the_run(tmp_path: Path):
    """A file in its way, now and not after an hour."""
    (tmp_path / "audits").write_text("a file")
    with (
        pytest.raises(OutputError, match=r"cannot write (to )?file:.*audits"),
        Output(place(str(tmp_path / "audits"))).hold_lock(),
    ):
        pass


def test_a_full_disk_is_noticed_before_the_run(root: Place, monkeypatch: pytest.MonkeyPatch):
    """An empty lock file can still be made there: a run's files cannot."""

    def full(place: Place, name: str, text: str) -> None:
        raise OutputError(f"cannot write {place.uri}/{name}: no space left on device")

    monkeypatch.setattr(Place, "write_text", full)
    with pytest.raises(OutputError, match="no space left"), Output(root).hold_lock():
        pass


@contextmanager
def no_room() -> Iterator[None]:
    """Files can be made and no byte be written to them, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_noticed_though_an_empty_file_fits(root: Place):
    """Something is written to the file with which a run tries its directory."""
    with (
        pytest.raises(OutputError, match=r"cannot write file:.*audits/.writable"),
        no_room(),
        Output(root).hold_lock(),
    ):
        pass


def test_the_lock_is_a_file_that_others_can_read(root: Place):
    """Its descriptor is open while it is held, and closed afterwards; nothing but the file is
    left.
    """
    before = os.umask(0)
    try:
        with Output(root).hold_lock() as lock:
            held = lock.descriptor
            assert held is not None
            assert os.path.samestat(os.fstat(held), os.stat(f"{root.path}/{LOCK}"))
            assert 0o644 == stat.S_IMODE(os.fstat(held).st_mode)
    finally:
        os.umask(before)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(held)
    assert [LOCK] == os.listdir(root.path)


@pytest.fixture
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the wait for a lock zero."""
    monkeypatch.setattr(output_lock, "LOCK_WAIT_S", 0.0)


def test_a_file_system_without_locks_is_not_another_run(
    root: Place, monkeypatch: pytest.MonkeyPatch
):
    """It is said at once, with what the kernel says. The descriptor is closed."""

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("auditor.evidence.output_lock.fcntl.flock", no_locks)
    before = len(os.listdir("/proc/self/fd"))
    with (
        pytest.raises(OutputError, match=r"cannot lock file:.*No locks available"),
        Output(root).hold_lock(),
    ):
        pass
    assert before == len(os.listdir("/proc/self/fd"))


def test_a_lock_that_cannot_be_looked_at_publishes_nothing(
    root: Place, monkeypatch: pytest.MonkeyPatch
):
    """It is a fault of the output, not of the auditor."""
    with Output(root).hold_lock() as lock:
        run = finished(root, "20261121T050618Z-000001")

        def fail(*_: object, **__: object) -> None:
            raise PermissionError(errno.EACCES, "Permission denied")

        monkeypatch.setattr("auditor.evidence.output_lock.os.stat", fail)
        with pytest.raises(OutputError, match=r"cannot look at file:.*Permission denied"):
            Output(root).publish(run, lock)
    assert Output(root).latest() is None


def test_a_lock_that_is_released_soon_is_waited_for(root: Place):
    """The JVM of a run that was killed holds the lock for a moment longer; the next run starts all
    the same.
    """
    held = Output(root).hold_lock()
    held.__enter__()
    release = threading.Timer(0.3, held.__exit__, (None, None, None))
    release.start()
    with Output(root).hold_lock():
        pass
    release.join()


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_run_whose_lock_file_was_removed_publishes_nothing(root: Place, is_replaced: bool):
    """Another run may hold the lock of a new file, and may have published."""
    with Output(root).hold_lock() as lock:
        run = Output(root).start(NAMES[2].removeprefix("run-"))
        Path(root.path, LOCK).unlink()
        if is_replaced:
            Path(root.path, LOCK).touch()
        with pytest.raises(OutputError, match="removed or replaced while this run held it"):
            Output(root).publish(run, lock)
    assert Output(root).latest() is None


def test_a_signal_ends_the_wait_for_a_lock(root: Place):
    """At once, and the lock of the other run stays held."""

    def stop() -> None:
        raise Interrupted(signal.SIGTERM)

    output = Output(root)
    began_at = time.monotonic()
    with output.hold_lock():
        with pytest.raises(Interrupted), output.hold_lock(stop):
            pass
        assert time.monotonic() - began_at < output_lock.LOCK_WAIT_S


@pytest.mark.usefixtures("without_waiting")
def test_a_run_that_finds_the_lock_held_touches_nothing(root: Place, tmp_path: Path):
    """Only the holder of the lock writes and removes the file with which a run tries its
    directory.
    """
    output = Output(root)
    with output.hold_lock():
        before = tmp_path / "audits" / ".writable"
        before.write_text("of the run at work")
        with pytest.raises(OutputError, match="another run is at work"), output.hold_lock():
            pass
        assert "of the run at work" == before.read_text()


@pytest.mark.usefixtures("without_waiting")
def test_two_runs_at_once_are_noticed(root: Place):
    """The second one's error names the lock, and what to do; afterwards the lock is free."""
    output = Output(root)
    with (
        output.hold_lock(),
        pytest.raises(OutputError, match=rf"another run is at work in .*{LOCK}.*another --output"),
        output.hold_lock(),
    ):
        pass
    with output.hold_lock():
        pass


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_lock_lapses_with_its_process(root: Place, end: signal.Signals):
    """Whatever ended the run, the next one starts: no stale lock file has to be removed by hand."""
    program = (
        "import sys, time\n"
        "from auditor.evidence.output_directory import Output\n"
        "from auditor.evidence.run_directory import place\n"
        f"with Output(place({root.path!r})).hold_lock():\n"
        "    print('held', flush=True)\n"
        f"    time.sleep({LINE_TIMEOUT_S})\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert "held\n" == holder.stdout.readline()
        with pytest.MonkeyPatch.context() as patch, pytest.raises(OutputError):
            patch.setattr(output_lock, "LOCK_WAIT_S", 0.0)
            with Output(root).hold_lock():
                pass
        os.kill(holder.pid, end)
        holder.wait(LINE_TIMEOUT_S)
        with Output(root).hold_lock():
            pass


def test_the_newest_finished_run_is_the_one_that_was_published(root: Place):
    """Not the newest directory: a run that died leaves the old one in place."""
    output = Output(root)
    assert output.latest() is None
    output.publish(finished(root, NAMES[0]))
    output.start(NAMES[1].removeprefix("run-"))
    latest = output.latest()
    assert latest is not None
    assert latest.path.endswith(NAMES[0])


def test_a_run_is_published_through_the_lock_that_it_holds(root: Place):
    """The lock may know that another run has followed."""
    output = Output(root)
    with output.hold_lock() as lock:
        output.publish(finished(root, NAMES[0]), lock)
    assert root / NAMES[0] == output.latest()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        '{"run": 7}',
        '{"run": "../../etc"}',
        '{"run": "run-x"}',
        '{"other": 1}',
        "\x00",
    ],
)
def test_a_latest_that_cannot_be_read_counts_as_none(root: Place, text: str):
    """Counters start anew; a run is not lost over it, and nothing outside OUTPUT is opened."""
    root.write_text(LATEST, text)
    assert Output(root).latest() is None


def test_runs_that_died_are_not_kept_instead_of_finished_ones(root: Place):
    """A month of failures does not cost the history: what died goes when it is older than the
    oldest run kept.
    """
    for name in (NAMES[0], NAMES[2]):
        finished(root, name)
    for name in (NAMES[1], NAMES[3], NAMES[4]):
        root.files.create_dir(f"{root.path}/{name}")
    Output(root).publish(root / NAMES[2])
    assert [] == Output(root).prune(2)
    assert [NAMES[0], NAMES[1]] == Output(root).prune(1)


def test_where_all_are_kept_nothing_is_removed(root: Place):
    """Not even what died before them; nor is anything where fewer runs finished than are kept."""
    for name in (NAMES[0], NAMES[2]):
        root.files.create_dir(f"{root.path}/{name}")
    assert [] == Output(root).prune(0)
    assert [] == Output(root).prune(1)
    finished(root, NAMES[1])
    assert [] == Output(root).prune(0)
    assert [] == Output(root).prune(2)
    assert [NAMES[0]] == Output(root).prune(1)


@pytest.mark.parametrize(
    ("kept", "keep", "latest"),
    [
        (NAMES[3:], 2, NAMES[4]),
        (NAMES[4:], 1, NAMES[4]),
        (NAMES, 0, NAMES[4]),
        (NAMES, 9, NAMES[4]),
        ([NAMES[0], *NAMES[3:]], 2, NAMES[0]),
        (NAMES[3:], 2, None),
    ],
)
def test_old_runs_go_and_the_newest_finished_one_never(
    root: Place, kept: list[str], keep: int, latest: str | None
):
    """0 keeps all; a directory that is not a run's stays."""
    for name in NAMES:
        finished(root, name)
    for name in ("mine", "run-of-mine", "run-20260101T030000Z-XYZ"):
        root.files.create_dir(f"{root.path}/{name}")
    if latest:
        Output(root).publish(root / latest)
    removed = Output(root).prune(keep)
    assert sorted(set(NAMES) - set(kept)) == removed
    left = {path.name for path in Path(root.path).iterdir() if path.is_dir()}
    assert {*kept, "mine", "run-of-mine", "run-20260101T030000Z-XYZ"} == left
