"""The child process that judges: what it inherits, how long it may take, how it ends."""

from __future__ import annotations

import gc
import os
import resource
import select
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from auditor.config import JudgingLimits
from auditor.judging import judge as isolation
from auditor.judging.judge import (
    CHILDREN,
    LEDGERS_OF_CHILD_MIN,
    Stopped,
    judge_in_child,
    judge_in_children,
)

LONG = JudgingLimits(ledger_time_max_ms=60_000, ledger_memory_max=256 * 2**20)
"""Far longer than anything in these tests takes."""
PATIENT_POLLS = 15_000
"""How often a child is looked for that ends by itself: half a minute."""


@pytest.fixture
def files() -> Iterator[list[int]]:
    """Yield open files whose descriptors surround the next two to be opened."""
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(64)]
    gap = next(
        at
        for at in range(8, 60)
        if opened[at] + 1 == opened[at + 1] and opened[at + 1] + 1 == opened[at + 2]
    )
    os.close(opened[gap])
    os.close(opened[gap + 1])
    yield [opened[gap], opened[gap + 1]]
    for at, file in enumerate(opened):
        if at not in (gap, gap + 1):
            os.close(file)


def test_a_child_has_none_of_its_parents_files(files: list[int]) -> None:
    """Except the standard streams and the pipe for its results. The parent keeps its own files."""
    before = sorted(os.listdir("/proc/self/fd"))
    (found,) = judge_in_child([1], lambda _: sorted(os.listdir("/proc/self/fd")), LONG)
    listing = "3"
    assert sorted(["0", "1", "2", listing, str(files[1])]) == found
    assert before == sorted(os.listdir("/proc/self/fd"))


def test_a_child_is_the_first_to_go_and_leaves_no_core() -> None:
    """The child is the kernel's first victim and may write no core. The parent's limits are
    unchanged.
    """
    before = resource.getrlimit(resource.RLIMIT_CORE)

    def judge(_: int) -> tuple[str, tuple[int, int]]:
        return Path("/proc/self/oom_score_adj").read_text().strip(), resource.getrlimit(
            resource.RLIMIT_CORE
        )

    assert [("1000", (0, before[1]))] == list(judge_in_child([1], judge, LONG))
    assert before == resource.getrlimit(resource.RLIMIT_CORE)


def test_what_the_kernel_refuses_a_child_does_not_keep_it_from_judging(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A child judges even if it can set neither its core limit nor its OOM score."""

    def refuse(*_: object) -> None:
        raise PermissionError("not permitted")

    monkeypatch.setattr(isolation.Path, "write_text", refuse)
    for error in (ValueError("no such limit"), OSError("not permitted")):
        kernel = SimpleNamespace(**vars(resource))
        monkeypatch.setattr(isolation, "resource", kernel)

        def fail(*_: object, error: Exception = error) -> None:
            raise error

        kernel.setrlimit = fail
        assert [1] == list(judge_in_child([1], lambda one: one, LONG))


class Waits:
    """A stand-in for the module `select`. The first `silent` waits find nothing. They and all
    pauses return at once.
    """

    POLLIN = select.POLLIN

    def __init__(self, silent: int) -> None:
        self.silent = silent
        self.asked_ms: list[float] = []
        self.paused_s: list[float] = []

    def poll(self) -> SimpleNamespace:
        poller = select.poll()

        def register(file: int, events: int) -> None:
            assert events == select.POLLIN
            poller.register(file, events)

        def poll(timeout_ms: float) -> list[tuple[int, int]]:
            self.asked_ms.append(timeout_ms)
            return [] if len(self.asked_ms) <= self.silent else poller.poll(timeout_ms)

        return SimpleNamespace(register=register, poll=poll)

    def select(self, *given: float) -> None:
        self.paused_s.append(given[3])


def forever(_: int) -> None:
    """Run until the process is killed."""
    while True:
        signal.pause()


def record_children(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the ids of children as they are forked."""
    children: list[int] = []
    fork = os.fork

    def record() -> int:
        children.append(fork())
        return children[-1]

    monkeypatch.setattr(os, "fork", record)
    return children


def assert_collected(children: list[int]) -> None:
    """Assert that there was one child, and that it was waited for."""
    (child,) = children
    with pytest.raises(ChildProcessError):
        os.waitpid(child, os.WNOHANG)


def test_a_silent_child_is_waited_for_in_five_parts_and_one_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each part is a fifth of the limit plus a second of grace. A pause of the machine costs one
    part only.
    """
    waits = Waits(5)
    monkeypatch.setattr(isolation, "select", waits)
    assert ["judged"] == list(judge_in_child([1], lambda _: "judged", LONG))
    assert [13_000.0] * 6 == waits.asked_ms[:6]


def test_a_child_that_stays_silent_is_killed_after_a_second_of_grace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its ledger counts as having taken too long, and the next ledger gets a new child."""
    waits = Waits(6)
    monkeypatch.setattr(isolation, "select", waits)
    found = judge_in_child(
        ["forever", "judged"], lambda one: forever(1) if one == "forever" else one, LONG
    )
    assert [Stopped("it took longer than 60 s and could not be interrupted"), "judged"] == list(
        found
    )
    assert 1.0 == pytest.approx(sum(waits.paused_s[:500]))
    assert {0.002} == set(waits.paused_s)


def test_nobody_waits_for_a_child_that_is_not_needed_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is killed at once, without grace, and its exit status is collected."""
    waits, children = Waits(0), record_children(monkeypatch)
    monkeypatch.setattr(isolation, "select", waits)
    results = judge_in_child(
        ["judged", "forever"], lambda one: forever(1) if one == "forever" else one, LONG
    )
    assert "judged" == next(results)
    results.close()  # type: ignore[attr-defined]
    assert [] == waits.paused_s
    assert_collected(children)


def test_a_signal_that_comes_while_a_child_is_given_time_to_end_leaves_no_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The exception of the signal handler is raised."""
    waits, children = Waits(6), record_children(monkeypatch)

    def interrupt(*_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(waits, "select", interrupt)
    monkeypatch.setattr(isolation, "select", waits)
    with pytest.raises(KeyboardInterrupt):
        list(judge_in_child([1], forever, LONG))
    assert_collected(children)


@pytest.mark.parametrize("can_send", [True, False])
def test_a_child_ends_by_itself_with_exit_code_0(
    can_send: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if it cannot send anything."""
    statuses: list[int] = []
    waitpid = os.waitpid
    monkeypatch.setattr(isolation, "_END_POLLS", PATIENT_POLLS)

    def wait(pid: int, options: int) -> tuple[int, int]:
        ended, status = waitpid(pid, options)
        if ended:
            statuses.append(status)
        return ended, status

    def fail(*_: object) -> None:
        raise OSError("no such pipe")

    monkeypatch.setattr(os, "waitpid", wait)
    if not can_send:
        monkeypatch.setattr(isolation, "_send", fail)
    stopped = Stopped("it ended its process with exit code 0")
    assert [1 if can_send else stopped] == list(judge_in_child([1], lambda one: one, LONG))
    assert [0] == statuses


class Finalized:
    """An object in a reference cycle: only the garbage collector finalizes it."""

    def __init__(self, tell: int) -> None:
        self.myself, self.tell = self, tell

    def __del__(self) -> None:
        os.write(self.tell, f"{os.getpid()}".encode())


def test_a_child_finalizes_nothing_of_its_parent_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finalizer may wait for a thread that the child does not have. In the parent it still
    runs.
    """
    monkeypatch.setattr(
        isolation.os, "closerange", lambda *_: None
    )  # the finalizer's file stays open
    reading, writing = os.pipe()
    gc.disable()
    try:
        Finalized(writing)
        list(judge_in_child([1], lambda _: gc.collect(), LONG))
    finally:
        gc.enable()
    gc.collect()
    assert f"{os.getpid()}" == os.read(reading, 100).decode()
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("ends", [True, False])
def test_no_signal_goes_to_a_child_that_has_ended_by_itself(
    ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process id may belong to another process by then."""
    parent = os.getpid()
    kill = os.kill
    killed: list[int] = []
    monkeypatch.setattr(isolation, "_END_POLLS", PATIENT_POLLS)
    monkeypatch.setattr(
        os,
        "kill",
        lambda pid, number: killed.append(pid) if os.getpid() == parent else kill(pid, number),
    )
    results = list(judge_in_child([1, 2], lambda one: os._exit(7) if ends else one, LONG))
    stopped = Stopped("it ended its process with exit code 7")
    assert ([stopped] * 2 if ends else [1, 2]) == results
    assert [] == killed


def test_where_others_collect_children_judging_goes_on() -> None:
    """How a child ended is then unknown, and it counts as exit code 0."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        results = list(judge_in_child([7, 1], lambda one: os._exit(one) if one == 7 else one, LONG))
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert [Stopped("it ended its process with exit code 0"), 1] == results


def test_where_others_collect_children_one_that_is_not_needed_any_more_may_be_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A child that is gone already is not an error."""
    children = record_children(monkeypatch)
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        results = judge_in_child([1, 7], lambda one: os._exit(one) if one == 7 else one, LONG)
        assert 1 == next(results)
        while os.path.exists(f"/proc/{children[0]}"):
            time.sleep(0.001)
        results.close()  # type: ignore[attr-defined]
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_fault_of_ours_ends_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the exception is, no process is left behind."""
    children = record_children(monkeypatch)

    def fails(_: int) -> None:
        raise KeyboardInterrupt("now")

    with pytest.raises(AssertionError, match="KeyboardInterrupt: now"):
        list(judge_in_child([1], fails, LONG))
    assert_collected(children)


def meet(directory: Path, ledger: int) -> int:
    """Return the process that judges. The first and the last ledger wait for each other."""
    if ledger in (0, MANY - 1):
        (directory / str(ledger)).touch()
        deadline = time.monotonic() + WAIT_S
        while not (directory / str(MANY - 1 - ledger)).exists():
            assert time.monotonic() < deadline, "the other child is not at work"
            time.sleep(0.001)
    return os.getpid()


MANY = 2 * LEDGERS_OF_CHILD_MIN
WAIT_S = 60


def test_two_children_judge_many_ledgers_at_the_same_time(tmp_path: Path) -> None:
    """Each judges a half. Few ledgers have one child."""
    pids = list(judge_in_children(range(MANY), lambda one: meet(tmp_path, one), LONG))
    assert [LEDGERS_OF_CHILD_MIN] * CHILDREN == [*Counter(pids).values()]
    assert pids == sorted(pids, key=pids.index)
    few = list(judge_in_children(range(MANY // 2), lambda _: os.getpid(), LONG))
    assert [MANY // 2] == [*Counter(few).values()]
    assert [] == list(judge_in_children([], lambda one: one, LONG))


@pytest.mark.parametrize("dies", [3, MANY // 2 - 1, MANY // 2, MANY - 1])
def test_a_ledger_that_ends_its_child_is_found_in_each_half(dies: int) -> None:
    """The results stay in the order of the ledgers, also if they exceed what a pipe holds."""
    pad = "x" * 20_000

    def judge(one: int) -> tuple[int, str]:
        if one == dies:
            os._exit(7)
        return one, pad

    results = list(judge_in_children(range(MANY), judge, LONG))
    stopped = [number for number, one in enumerate(results) if isinstance(one, Stopped)]
    assert [dies] == stopped
    assert [n for n in range(MANY) if n != dies] == [
        one[0] for one in results if isinstance(one, tuple)
    ]


def test_no_child_is_left_if_the_results_are_no_longer_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both end with the generator."""
    begun: list[int] = []
    fork = os.fork

    def counted() -> int:
        begun.append(fork())
        return begun[-1]

    monkeypatch.setattr(os, "fork", counted)
    results = judge_in_children(range(MANY), lambda _: os.getpid(), LONG)
    assert isinstance(next(results), int)
    results.close()
    assert CHILDREN == len(begun)
    for child in begun:
        with pytest.raises(ChildProcessError):
            os.waitpid(child, os.WNOHANG)


def test_results_that_are_there_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for each of them took a quarter of the time of judging a healthy ledger."""
    reading, writing = os.pipe()
    sent = [bytes([number]) * (number * 100) for number in range(20)]
    for message in sent:
        isolation._send(writing, message)
    os.close(writing)
    right, reads = os.read, []

    def recorded(file: int, size: int) -> bytes:
        reads.append(size)
        return right(file, size)

    monkeypatch.setattr(os, "read", recorded)
    messages = isolation._Messages(reading, LONG)
    assert sent == [messages.receive() for _ in sent]
    assert len(reads) <= 4, reads
    assert messages.receive() is None
    os.close(reading)


def test_results_may_be_larger_than_the_pipe() -> None:
    """Neither side waits for the other for ever."""
    sizes = [0, 3 * isolation.PIPE_BYTES, 1, isolation.PIPE_BYTES, 5]
    assert [b"x" * size for size in sizes] == list(judge_in_child(sizes, lambda n: b"x" * n, LONG))


def test_a_message_that_is_cut_off_is_none() -> None:
    """The child ended while it sent it."""
    reading, writing = os.pipe()
    os.write(writing, isolation._LENGTH.pack(10) + b"nine byte")
    os.close(writing)
    assert isolation._Messages(reading, LONG).receive() is None
    os.close(reading)


def test_cycles_are_looked_for_seldom_while_ledgers_are_judged() -> None:
    """Afterwards as often as before, and among all objects."""
    before = gc.get_threshold()
    with isolation.few_collections():
        assert isolation.GARBAGE_THRESHOLDS == gc.get_threshold() != before
        assert gc.get_freeze_count() > 10_000
    assert (before, 0) == (gc.get_threshold(), gc.get_freeze_count())
