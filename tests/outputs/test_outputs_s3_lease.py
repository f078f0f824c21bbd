"""The lock of an output in S3: one run at a time, even after one that died or slept."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from support.s3_server import S3Server

from auditor.errors import OutputError
from auditor.evidence import file_systems, output_lock
from auditor.evidence.file_systems import ConditionUnsupportedError, S3Objects
from auditor.evidence.output_directory import Output
from auditor.evidence.output_lock import S3Lease
from auditor.evidence.run_directory import Place, place
from auditor.stop import Interrupted

LEASE_S = 60.0
"""Longer than any pause of the machine."""
LAPSING_S = 4.0
"""The same, of a lease that a test waits for."""
RUNS = [f"run-2026010{day}T030000Z-{day:06x}" for day in range(1, 4)]


@pytest.fixture(autouse=True)
def quick_renewals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_lock, "LEASE_S", LEASE_S)
    monkeypatch.setattr(output_lock, "RENEWAL_S", 0.1)
    monkeypatch.setattr(output_lock, "WATCH_S", 0.05)


@pytest.fixture
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a lease lapse that a test waits for."""
    monkeypatch.setattr(output_lock, "LEASE_S", LAPSING_S)


@pytest.fixture
def output(bucket: str) -> Output:
    return Output(place(f"s3a://{bucket}/deep/audits"))


@pytest.fixture
def abandoned(output: Output) -> Iterator[S3Lease]:
    """Yield a lease whose holder neither renews nor releases it."""
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setattr(S3Lease, "renew", lambda lease: None)
        lease = stack.enter_context(output.hold_lock())
        assert isinstance(lease, S3Lease)
        yield lease
        lease.is_lost = True  # do not remove what belongs to another run by now


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


@pytest.mark.usefixtures("short_lease", "abandoned")
def test_the_lease_of_a_run_that_died_lapses(output: Output):
    """It does not lapse before LEASE_S have passed without a renewal."""
    began_at = time.monotonic()
    with output.hold_lock():
        assert time.monotonic() - began_at >= LAPSING_S


@pytest.mark.usefixtures("abandoned")
def test_a_signal_ends_the_wait_for_a_lease(output: Output):
    """It ends at once, although the lease has not lapsed."""

    def stop() -> None:
        raise Interrupted(signal.SIGTERM)

    began_at = time.monotonic()
    with pytest.raises(Interrupted):
        output.hold_lock(stop).__enter__()
    assert time.monotonic() - began_at < LEASE_S


@pytest.mark.usefixtures("short_lease")
def test_a_run_that_slept_past_its_lease_does_not_replace_what_followed(
    output: Output, abandoned: S3Lease
):
    """latest.json is replaced only if it is unchanged since the run began."""
    with output.hold_lock() as lock:
        output.publish(output.root / RUNS[1], lock)
    with pytest.raises(OutputError, match="replaced while this run was at work"):
        output.publish(output.root / RUNS[0], abandoned)
    assert (output.root / RUNS[1]) == output.latest()


def test_a_run_whose_lease_was_taken_over_notices(output: Output, server: S3Server):
    """Its next renewal fails, and it publishes nothing from then on."""
    with output.hold_lock() as lock:
        assert isinstance(lock, S3Lease)
        server.client().put_object(
            Bucket=lock.objects.bucket, Key="deep/audits/.lock", Body=b"of another run"
        )
        deadline = time.monotonic() + 30
        while not lock.is_lost and time.monotonic() < deadline:
            time.sleep(0.02)
        with pytest.raises(OutputError, match="could not renew its lock"):
            output.publish(output.root / RUNS[0], lock)
    assert output.latest() is None
    assert b"of another run" == read(server, lock.objects.bucket, "deep/audits/.lock")


def test_a_store_that_fails_for_less_than_a_lease_costs_nothing(output: Output, server: S3Server):
    """A renewal that failed is tried again."""
    with output.hold_lock() as lock:
        assert isinstance(lock, S3Lease)
        server.is_out_of_order = True
        time.sleep(0.3)
        server.is_out_of_order = False
        renewals = lock.renewals
        deadline = time.monotonic() + 30
        while lock.renewals < renewals + 3 and time.monotonic() < deadline:
            time.sleep(0.02)
        output.publish(output.root / RUNS[0], lock)
    assert (output.root / RUNS[0]) == output.latest()


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


def test_a_store_that_refuses_one_condition_does_not_end_the_renewals(
    output: Output, monkeypatch: pytest.MonkeyPatch
):
    """A gateway may answer 501 for a moment. The next renewal is tried all the same."""
    put, refusals = S3Objects.put, [ConditionUnsupportedError("501")]

    def put_or_refuse(objects: S3Objects, name: str, body: bytes, replaced: str | None):
        if replaced and refusals:
            raise refusals.pop()
        return put(objects, name, body, replaced)

    monkeypatch.setattr(S3Objects, "put", put_or_refuse)
    with output.hold_lock() as lock:
        assert isinstance(lock, S3Lease)
        deadline = time.monotonic() + 30
        while lock.renewals < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert lock.renewals >= 3
        assert not refusals


def test_a_lock_of_another_run_is_not_removed_at_the_end(
    output: Output, server: S3Server, monkeypatch: pytest.MonkeyPatch
):
    """Another run may have taken it over since the last renewal."""
    monkeypatch.setattr(output_lock, "RENEWAL_S", 600.0)
    with output.hold_lock() as lock:
        assert isinstance(lock, S3Lease)
        server.client().put_object(
            Bucket=lock.objects.bucket, Key="deep/audits/.lock", Body=b"of another run"
        )
    assert b"of another run" == read(server, lock.objects.bucket, "deep/audits/.lock")


def test_a_renewal_gives_up_well_before_the_lease_lapses():
    """All attempts together take less than the lease, with room for another one."""
    attempt_s = file_systems.CONNECT_TIMEOUT_S + file_systems.READ_TIMEOUT_S
    assert file_systems.ATTEMPTS_MAX * attempt_s <= 60 / 2


def test_a_lost_answer_to_latest_json_costs_nothing(output: Output, server: S3Server):
    """The request is repeated, and its condition fails because of what the first one wrote."""
    text = json.dumps({"run": RUNS[0]}) + "\n"
    with output.hold_lock() as lock:
        assert isinstance(lock, S3Lease)
        server.client().put_object(
            Bucket=lock.objects.bucket, Key="deep/audits/latest.json", Body=text.encode()
        )
        for name in RUNS[:2]:
            output.publish(output.root / name, lock)
            assert (output.root / name) == output.latest()


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


def test_the_lock_says_who_holds_it(output: Output, server: S3Server, bucket: str):
    """A person who finds it sees where its run is."""
    with output.hold_lock():
        facts = json.loads(read(server, bucket, "deep/audits/.lock"))
    assert {"holder", "host", "pid", "renewals"} == set(facts)


def read(server: S3Server, bucket: str, key: str) -> bytes:
    return bytes(server.client().get_object(Bucket=bucket, Key=key)["Body"].read())


def test_a_bucket_that_does_not_exist_is_a_sentence(server: S3Server):
    """The bucket is not created."""
    missing: Place = place("s3a://no-such-bucket/audits")
    with pytest.raises(
        OutputError, match=r"cannot write s3a://no-such-bucket/audits/\.lock.*NoSuch"
    ):
        Output(missing).hold_lock().__enter__()
