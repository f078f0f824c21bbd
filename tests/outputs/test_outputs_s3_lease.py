"""The lock of an output in S3: one run at a time, even after one that died or slept."""

from __future__ import annotations

import threading
import time

import pytest
from support.s3_server import S3Server

from auditor.errors import OutputError
from auditor.evidence import file_systems, output_lock
from auditor.evidence.output_directory import Output
from auditor.evidence.output_lock import S3Lease
from auditor.evidence.run_directory import Place, place

LEASE_S = 60.0
"""Longer than any pause of the machine."""
RUNS = [f"run-2026010{day}T030000Z-{day:06x}" for day in range(1, 4)]


@pytest.fixture(autouse=True)
def quick_renewals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_lock, "LEASE_S", LEASE_S)
    monkeypatch.setattr(output_lock, "RENEWAL_S", 0.1)
    monkeypatch.setattr(output_lock, "WATCH_S", 0.05)


@pytest.fixture
def output(bucket: str) -> Output:
    return Output(place(f"s3a://{bucket}/deep/audits"))


def test_two_runs_at_once_are_noticed(output: Output, server: S3Server, bucket: str):
    """The second run changes nothing and names the lock; after the first, the lock is free."""
    with output.hold_lock():
        before = server.keys(bucket)
        with pytest.raises(OutputError, match=r"another run is at work in s3a://.*\.lock"):
            output.hold_lock().__enter__()
        assert before == server.keys(bucket)
    with output.hold_lock():
        pass
    assert not [key for key in server.keys(bucket) if key.endswith(".lock")]


def test_of_many_runs_that_start_together_one_holds_the_lock(output: Output):
    """The store decides: `If-None-Match: *` succeeds once."""
    output.root.create()
    held, refused = [], []
    finish = threading.Barrier(8)

    def run() -> None:
        try:
            with output.hold_lock() as lock:
                held.append(lock)
                finish.wait(30)
        except OutputError as error:
            refused.append(error)
            finish.wait(30)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (1, 7) == (len(held), len(refused))


def test_a_slow_renewal_that_succeeds_keeps_the_lease(
    output: Output, monkeypatch: pytest.MonkeyPatch
):
    """The store would have refused it if another run had taken the lock."""
    take = S3Lease._take

    def take_slowly(lease: S3Lease, replaced: str | None) -> bool:
        time.sleep(0.5 if replaced else 0)
        return take(lease, replaced)

    monkeypatch.setattr(output_lock, "LEASE_S", 0.2)
    monkeypatch.setattr(S3Lease, "_take", take_slowly)
    with output.hold_lock() as lock:
        assert isinstance(lock, S3Lease)
        deadline = time.monotonic() + 30
        while lock.renewals < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not lock.is_lost


def test_a_renewal_gives_up_well_before_the_lease_lapses():
    """All attempts together take less than the lease, with room for another one."""
    attempt_s = file_systems.CONNECT_TIMEOUT_S + file_systems.READ_TIMEOUT_S
    assert file_systems.ATTEMPTS_MAX * attempt_s <= 60 / 2


def test_one_run_publishes_as_often_as_it_likes(output: Output):
    """Each time the condition is its own last latest.json."""
    with output.hold_lock() as lock:
        for name in RUNS:
            output.publish(output.root / name, lock)
            assert (output.root / name) == output.latest()


def test_a_server_that_ignores_conditions_is_found_out(output: Output, server: S3Server):
    """The run continues without a lock, and says so."""
    server.keeps_conditions = False
    with output.hold_lock() as lock:
        assert lock.problem is not None and "does not keep conditional writes" in lock.problem
        output.publish(output.root / RUNS[0], lock)
    assert (output.root / RUNS[0]) == output.latest()


def test_a_bucket_that_does_not_exist_is_a_sentence(server: S3Server):
    """The bucket is not created."""
    missing: Place = place("s3a://no-such-bucket/audits")
    with pytest.raises(
        OutputError, match=r"cannot write s3a://no-such-bucket/audits/\.lock.*NoSuch"
    ):
        Output(missing).hold_lock().__enter__()
