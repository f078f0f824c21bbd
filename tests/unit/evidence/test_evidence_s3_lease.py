"""The lease on an output in S3, on a store in memory and a clock that only sleeping moves.

The same laws hold on a real server in `tests/outputs/test_outputs_s3_lease.py`.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from support.sleeping_clock import SleepingTime

from auditor.errors import OutputError
from auditor.evidence import output_lock
from auditor.evidence.file_systems import ConditionUnsupportedError
from auditor.evidence.output_lock import LEASE_S, RENEWAL_S, WATCH_S, S3Lease, hold_s3_lease
from auditor.evidence.run_directory import Place
from auditor.stop import Interrupted

LOCK, LATEST = ".lock", "latest.json"
ROOT = Place(SimpleNamespace(region="eu-north-1"), "bucket/deep/audits", "s3a://bucket/deep/audits")


class ObjectsInMemory:
    """Objects whose store keeps conditions, as S3 does. An ETag is a digest of the content."""

    uri = "s3a://bucket/deep/audits"

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self.keeps_conditions = True
        self.fault: Exception | None = None
        self.before_put: Callable[[], None] = lambda: None

    def put(self, name: str, body: bytes, replaced: str | None) -> str | None:
        assert isinstance(name, str) and isinstance(body, bytes)
        self.before_put()
        if self.keeps_conditions and replaced != self.etag(name):
            return None
        self.bodies[name] = body
        return self.etag(name)

    def read(self, name: str) -> tuple[bytes, str] | None:
        etag = self.etag(name)
        return None if etag is None else (self.bodies[name], etag)

    def etag(self, name: str) -> str | None:
        if self.fault is not None:
            raise self.fault
        body = self.bodies.get(name)
        return None if body is None else hashlib.sha256(body).hexdigest()

    def delete(self, name: str) -> None:
        del self.bodies[name]


class Renewals:
    """The event that ends a lease, set after so many renewals. `before` is called before each."""

    def __init__(self, clock: SleepingTime, *before: Callable[[], None]) -> None:
        self.clock, self.before = clock, list(before)

    def wait(self, seconds: float) -> bool:
        self.clock.sleep(seconds)
        if not self.before:
            return True
        self.before.pop(0)()
        return False


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SleepingTime:
    found = SleepingTime()
    monkeypatch.setattr(output_lock, "time", found)
    return found


@pytest.fixture
def store() -> ObjectsInMemory:
    return ObjectsInMemory()


def nothing() -> None:
    """Do nothing."""


def held(store: ObjectsInMemory) -> S3Lease:
    lease = S3Lease(store, LOCK, LATEST)
    lease.acquire(nothing)
    return lease


def renew(lease: S3Lease, clock: SleepingTime, *before: Callable[[], None]) -> None:
    """Renew a lease as often as there are things to do before."""
    lease.released = Renewals(clock, *before)
    lease.renew()


def renewals_in(store: ObjectsInMemory) -> int:
    return int(json.loads(store.bodies[LOCK])["renewals"])


def test_a_free_lock_is_taken_at_once_and_says_by_whom(store: ObjectsInMemory, clock: SleepingTime):
    """A person who finds it sees where its run is."""
    lease = held(store)
    host, pid = socket.gethostname(), os.getpid()
    expected = {"holder": lease.holder, "host": host, "pid": pid, "renewals": 0}
    assert expected == json.loads(store.bodies[LOCK])
    assert [] == clock.sleeps
    assert lease.etag == store.etag(LOCK)


def test_no_two_holders_are_called_alike(store: ObjectsInMemory):
    """Also within one process."""
    assert S3Lease(store, LOCK, LATEST).holder != S3Lease(store, LOCK, LATEST).holder


def test_a_lease_that_is_renewed_is_left_alone(store: ObjectsInMemory, clock: SleepingTime):
    """The second run ends as soon as it sees one renewal."""
    first = held(store)

    def renew_after_a_while() -> None:
        if len(clock.sleeps) == 9:
            first.renewals += 1
            assert first._take(first.etag)

    clock.on_sleep = renew_after_a_while
    with pytest.raises(OutputError, match=r"another run is at work in s3a://.*renews \.lock"):
        held(store)
    assert [WATCH_S] * 9 == clock.sleeps
    assert first.holder in store.bodies[LOCK].decode()


def test_a_lease_that_nobody_renews_lapses(store: ObjectsInMemory, clock: SleepingTime):
    """After LEASE_S and not before. Whoever takes it over knows latest.json."""
    store.bodies |= {LOCK: b"of a run that died", LATEST: b"old"}
    began_s = clock.now_s
    lease = held(store)
    assert LEASE_S < clock.now_s - began_s <= LEASE_S + 2 * WATCH_S
    assert lease.holder in store.bodies[LOCK].decode()
    lease.write_latest("new")
    assert b"new" == store.bodies[LATEST]


def test_a_lease_is_watched_for_its_whole_time_however_slow_the_first_requests_are(
    store: ObjectsInMemory, clock: SleepingTime
):
    """The time before the first look at the lock says nothing about its holder."""
    store.bodies[LOCK] = b"of a run that died"

    def answer_slowly_once() -> None:
        store.before_put = nothing
        clock.now_s += LEASE_S

    store.before_put = answer_slowly_once
    held(store)
    assert LEASE_S < sum(clock.sleeps)


def test_of_two_that_wait_for_one_lapsed_lease_one_gets_it(
    store: ObjectsInMemory, clock: SleepingTime
):
    """It is taken over only where it still is what was watched."""
    store.bodies[LOCK] = b"of a run that died"

    def take_first() -> None:
        if clock.now_s > began_s + LEASE_S:
            store.bodies[LOCK] = b"of another that waited"

    began_s, store.before_put = clock.now_s, take_first
    with pytest.raises(OutputError, match="another run is at work"):
        held(store)
    assert b"of another that waited" == store.bodies[LOCK]


def test_a_lock_that_is_removed_while_it_is_looked_at_is_taken(
    store: ObjectsInMemory, clock: SleepingTime
):
    """The other run has just ended. Nobody waits for it."""
    store.bodies |= {LOCK: b"of a run that ends"}
    etag = store.etag

    def etag_or_none(name: str) -> str | None:
        found = etag(name)
        if store.bodies.get(name) == b"of a run that ends":
            looks.append(name)
            if len(looks) == 2:
                del store.bodies[name]
                return None
        return found

    looks: list[str] = []
    store.etag = etag_or_none  # type: ignore[method-assign]
    lease = held(store)
    assert [] == clock.sleeps
    assert lease.holder in store.bodies[LOCK].decode()


@pytest.mark.usefixtures("clock")
def test_a_store_that_ignores_conditions_is_found_out(store: ObjectsInMemory):
    """Two runs could hold such a lock. It is removed."""
    store.keeps_conditions = False
    with pytest.raises(ConditionUnsupportedError):
        held(store)
    assert {} == store.bodies


def test_each_renewal_changes_the_lock(store: ObjectsInMemory, clock: SleepingTime):
    """Its content has the number of the renewal: a store may make the ETag from the content."""
    lease, etags = held(store), []
    renew(lease, clock, *[lambda: etags.append(store.etag(LOCK))] * 4)
    assert 4 == renewals_in(store) == len(set(etags))
    assert [RENEWAL_S] * 5 == clock.sleeps
    assert not lease.is_lost


def test_a_lease_that_another_run_took_is_lost_at_the_next_renewal(
    store: ObjectsInMemory, clock: SleepingTime
):
    """It is not renewed any more, and nothing is published."""
    lease = held(store)

    def take_over() -> None:
        store.bodies[LOCK] = b"of another run"

    renew(lease, clock, nothing, take_over, nothing)
    assert lease.is_lost is True
    assert [RENEWAL_S] * 2 == clock.sleeps
    with pytest.raises(OutputError, match="could not renew its lock"):
        lease.write_latest("new")
    lease.release()
    assert {LOCK: b"of another run"} == store.bodies


@pytest.mark.usefixtures("clock")
def test_a_lease_whose_lock_was_removed_is_lost(store: ObjectsInMemory, clock: SleepingTime):
    """Another run may have begun and ended meanwhile."""
    lease = held(store)
    renew(lease, clock, store.bodies.clear, nothing)
    assert lease.is_lost is True
    assert {} == store.bodies


def test_a_renewal_whose_answer_was_lost_keeps_the_lease(
    store: ObjectsInMemory, clock: SleepingTime
):
    """The SDK repeats the request, and its condition fails because of what the first one wrote."""
    lease = held(store)

    def write_without_an_answer() -> None:
        store.bodies[LOCK] = json.dumps({"holder": lease.holder}).encode()

    renew(lease, clock, write_without_an_answer, nothing)
    assert not lease.is_lost
    assert 2 == renewals_in(store)


@pytest.mark.parametrize(
    "fault", [OutputError("the store is out of order"), ConditionUnsupportedError("501")]
)
def test_renewals_may_fail_for_as_long_as_the_lease_lasts(
    store: ObjectsInMemory, clock: SleepingTime, fault: Exception
):
    """Each is tried again. The lease lapses after LEASE_S without one that succeeded."""
    lease = held(store)

    def fail() -> None:
        store.fault = fault

    def mend() -> None:
        store.fault = None

    up_to_lapse = int(LEASE_S / RENEWAL_S)
    renew(lease, clock, *[fail] * up_to_lapse, mend, nothing)
    assert not lease.is_lost
    assert up_to_lapse + 2 == renewals_in(store)
    clock.sleeps.clear()
    renew(lease, clock, *[fail] * 20)
    assert lease.is_lost is True
    assert up_to_lapse + 1 == len(clock.sleeps)


@pytest.mark.usefixtures("clock")
def test_a_run_publishes_as_often_as_it_likes(store: ObjectsInMemory):
    """The condition is each time its own last latest.json, at first the one of its beginning."""
    store.bodies[LATEST] = b"old"
    lease = held(store)
    for text in ("first", "second", "third"):
        lease.write_latest(text)
        assert text.encode() == store.bodies[LATEST]


@pytest.mark.parametrize(
    ("before", "meanwhile"),
    [
        ({LATEST: b"old"}, {LATEST: b"of another run"}),
        ({}, {LATEST: b"of another run"}),
        ({LATEST: b"old"}, {}),
    ],
)
@pytest.mark.usefixtures("clock")
def test_what_another_run_published_is_not_replaced(
    store: ObjectsInMemory, before: dict[str, bytes], meanwhile: dict[str, bytes]
):
    """Nor is it written where another run removed it."""
    store.bodies |= before
    lease = held(store)
    store.bodies = dict(meanwhile)
    with pytest.raises(OutputError, match=r"latest\.json was replaced while this run"):
        lease.write_latest("new")
    assert meanwhile == store.bodies


@pytest.mark.usefixtures("clock")
def test_a_lost_answer_to_latest_json_costs_nothing(store: ObjectsInMemory):
    """What is there is what this run wrote: it publishes on from there."""
    lease = held(store)
    store.bodies[LATEST] = b"new"
    lease.write_latest("new")
    lease.write_latest("newer")
    assert b"newer" == store.bodies[LATEST]


@pytest.mark.usefixtures("clock")
def test_only_its_own_lock_is_removed_at_the_end(store: ObjectsInMemory):
    """It may have been taken over since the last renewal."""
    first = held(store)
    first.release()
    assert {} == store.bodies
    second = held(store)
    store.bodies[LOCK] = b"of another run"
    second.release()
    assert {LOCK: b"of another run"} == store.bodies


@pytest.mark.usefixtures("clock")
def test_a_lock_that_was_lost_is_not_removed(store: ObjectsInMemory):
    """Whatever its content is by now."""
    lease = held(store)
    lease.is_lost = True
    lease.release()
    assert {LOCK} == set(store.bodies)


@pytest.mark.usefixtures("clock")
def test_a_store_that_fails_at_the_end_ends_no_run(store: ObjectsInMemory):
    """The lock lapses."""
    lease = held(store)
    store.fault = OutputError("the store is out of order")
    lease.release()
    assert {LOCK} == set(store.bodies)


@pytest.fixture
def asked(store: ObjectsInMemory, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What the objects in memory were asked to be: path, URI and region."""
    found: list[tuple[str, ...]] = []

    def open_objects(path: str, uri: str, region: str) -> ObjectsInMemory:
        found.append((path, uri, region))
        return store

    monkeypatch.setattr(output_lock, "S3Objects", open_objects)
    return found


@pytest.mark.usefixtures("clock")
def test_the_lease_of_a_directory_is_renewed_by_a_thread_that_ends_with_it(
    store: ObjectsInMemory, asked: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
):
    """The thread is a daemon. The lock is removed after it has ended."""
    renewed: list[tuple[S3Lease, threading.Thread]] = []

    def wait_for_release(lease: S3Lease) -> None:
        renewed.append((lease, threading.current_thread()))
        lease.released.wait(20)
        assert LOCK in store.bodies

    monkeypatch.setattr(S3Lease, "renew", wait_for_release)
    with hold_s3_lease(ROOT, LOCK, LATEST, nothing) as lease:
        assert LOCK in store.bodies
        lease.write_latest("new")
    assert [("bucket/deep/audits", "s3a://bucket/deep/audits", "eu-north-1")] == asked
    assert {LATEST: b"new"} == store.bodies
    ((of_thread, thread),) = renewed
    assert of_thread is lease
    assert ("s3-lease", True, False) == (thread.name, thread.daemon, thread.is_alive())


@pytest.mark.usefixtures("asked")
def test_a_signal_ends_the_wait_for_a_lease(store: ObjectsInMemory, clock: SleepingTime):
    """Before the first second of it, and the lock stays whose it is."""
    store.bodies[LOCK] = b"of a run that died"

    def stop() -> None:
        raise Interrupted(signal.SIGTERM)

    with pytest.raises(Interrupted), hold_s3_lease(ROOT, LOCK, LATEST, stop):
        pass
    assert [] == clock.sleeps
    assert {LOCK: b"of a run that died"} == store.bodies
