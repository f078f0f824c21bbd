"""Which lock an output has goes by its file system. The local lock itself is held to its laws in
`test_evidence_output_directory.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem
from pyarrow import fs

from auditor.evidence import output_lock
from auditor.evidence.file_systems import ConditionUnsupportedError
from auditor.evidence.output_lock import hold_output_lock
from auditor.evidence.run_directory import Place, place


def check() -> None:
    """Let the wait go on."""


class Lock:
    """A lock of another module: who asked for it, and whether it is held."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault
        self.asked: list[tuple[object, ...]] = []
        self.is_held = False

    @contextmanager
    def hold(self, *given: object) -> Iterator[Lock]:
        self.asked.append(given)
        if self.fault is not None:
            raise self.fault
        self.is_held = True
        yield self
        self.is_held = False


def in_s3() -> Place:
    """A directory of a bucket. Nothing is asked of it."""
    files = fs.S3FileSystem(anonymous=True, region="eu-north-1")
    return Place(files, "bucket/audits", "s3a://bucket/audits")


def as_in_hdfs(directory: Path) -> Place:
    """A local directory behind the interface that HDFS has."""
    files = fs.PyFileSystem(fs.FSSpecHandler(LocalFileSystem()))
    return Place(files, str(directory), "hdfs://nn/audits")


def elsewhere(directory: Path) -> Place:
    """A local directory that does not look like one."""
    files = fs.SubTreeFileSystem(str(directory), fs.LocalFileSystem())
    return Place(files, "audits", "gs://bucket/audits")


def test_a_local_lock_replaces_latest_json(tmp_path: Path):
    """Its descriptor is there for processes that go on with the run, and nothing is wrong."""
    with hold_output_lock(place(str(tmp_path)), check) as lock:
        assert (int, None) == (type(lock.descriptor), lock.problem)
        lock.write_latest("the newest")
    assert "the newest" == (tmp_path / "latest.json").read_text()


def test_a_directory_in_s3_has_a_lease(monkeypatch: pytest.MonkeyPatch):
    """It is held as long as the lock of the output."""
    lease, root = Lock(), in_s3()
    monkeypatch.setattr(output_lock, "hold_s3_lease", lease.hold)
    with hold_output_lock(root, check) as lock:
        assert lock is lease
        assert lease.is_held
    assert not lease.is_held
    assert [(root, ".lock", "latest.json", check)] == lease.asked


def test_a_store_without_conditions_has_no_lock_and_says_so(monkeypatch: pytest.MonkeyPatch):
    """A run there is not refused, and writes latest.json as on any other store."""
    texts: list[tuple[object, ...]] = []
    monkeypatch.setattr(output_lock, "hold_s3_lease", Lock(ConditionUnsupportedError()).hold)
    monkeypatch.setattr(Place, "write_text", lambda *given: texts.append(given))
    root = in_s3()
    with hold_output_lock(root, check) as lock:
        assert lock.descriptor is None
        assert lock.problem is not None
        assert lock.problem.startswith("s3a://bucket/audits: this S3 server does not keep")
        lock.write_latest("the newest")
    assert [(root, "latest.json", "the newest")] == texts


def test_a_directory_in_hdfs_has_the_lock_of_hdfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """latest.json needs no condition: the name node lets no other run in."""
    held, root = Lock(), as_in_hdfs(tmp_path)
    monkeypatch.setattr(output_lock, "hold_hdfs_lock", held.hold)
    with hold_output_lock(root, check) as lock:
        assert held.is_held
        assert (None, None) == (lock.descriptor, lock.problem)
        lock.write_latest("the newest")
    assert not held.is_held
    assert [(root, ".lock", check)] == held.asked
    assert "the newest" == (tmp_path / "latest.json").read_text()


@pytest.mark.parametrize("fault", [ConditionUnsupportedError, KeyboardInterrupt])
def test_what_ends_a_run_in_s3_is_not_taken_for_a_missing_lock(
    monkeypatch: pytest.MonkeyPatch, fault: type[BaseException]
):
    """It goes through."""
    monkeypatch.setattr(output_lock, "hold_s3_lease", Lock().hold)
    with pytest.raises(fault), hold_output_lock(in_s3(), check):
        raise fault


def test_a_store_of_another_kind_has_no_lock_and_says_so(tmp_path: Path):
    """Whoever schedules the runs must keep them apart."""
    (tmp_path / "audits").mkdir()
    with hold_output_lock(elsewhere(tmp_path), check) as lock:
        assert lock.descriptor is None
        assert lock.problem is not None
        assert lock.problem.startswith("gs://bucket/audits has no lock")
        lock.write_latest("the newest")
    assert "the newest" == (tmp_path / "audits" / "latest.json").read_text()
