"""Judging in a child: each ledger gets a result, in order, and a child's death is attributed to the
ledger that caused it.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from auditor.config import JudgingLimits
from auditor.errors import LocalFault
from auditor.judging import judge as isolation
from auditor.judging.judge import POISON_MAX, Guard, Judge, Stopped, TooManyPoisoned, judge_in_child
from auditor.model.evidence import LedgerEvidence, Look
from auditor.model.ledger import LedgerRecord, RecordStatus

SHORT = JudgingLimits(ledger_time_max_ms=400, ledger_memory_max=256 * 2**20)
LONG = JudgingLimits(ledger_time_max_ms=60_000, ledger_memory_max=256 * 2**20)
"""Enough for anything that ends by itself, however slow the machine is."""


def spins() -> None:
    while True:
        pass


def spins_in_c() -> None:
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)


def waits_in_c() -> None:
    """Wait in C code for a lock that the process itself holds, whatever signal comes."""
    lock, library = ctypes.create_string_buffer(64), ctypes.CDLL(None)
    library.pthread_mutex_lock(lock)
    library.pthread_mutex_lock(lock)


def hoards() -> None:
    hoard = []
    while True:
        hoard.append(bytes(2**26))


ENDS: dict[str, tuple[Callable[[], object], str]] = {
    "SIGSEGV": (lambda: ctypes.string_at(0), "it ended its process with SIGSEGV"),
    "SIGABRT": (os.abort, "it ended its process with SIGABRT"),
    "SIGKILL": (
        lambda: os.kill(os.getpid(), signal.SIGKILL),
        "it ended its process with SIGKILL, as a kernel out of memory does",
    ),
    "exit 7": (lambda: os._exit(7), "it ended its process with exit code 7"),
    "exit 0": (lambda: os._exit(0), "it ended its process with exit code 0"),
    "a loop": (spins, "it took longer than 0.4 s"),
    "a sleep": (lambda: time.sleep(1_000), "it took longer than 0.4 s"),
    "a loop in C": (spins_in_c, "it took longer than 0.4 s and could not be interrupted"),
    "a wait in C": (waits_in_c, "it took longer than 0.4 s and could not be interrupted"),
    "all memory": (hoards, "it took more memory than 256 MiB"),
}


def judged(ledger: int | str) -> str:
    if isinstance(ledger, str):
        ENDS[ledger][0]()
    return f"judged {ledger}"


@pytest.mark.parametrize("end", ENDS)
def test_what_ends_a_child_is_reported_only_on_its_ledger(end: str) -> None:
    """Whether it is the first ledger, one in between, one of two in a row, or the last."""
    ledgers = [end, 1, end, end, 2, end]
    stopped = Stopped(ENDS[end][1])
    limits = SHORT if stopped.why.startswith("it took longer") else LONG
    assert [stopped, "judged 1", stopped, stopped, "judged 2", stopped] == list(
        judge_in_child(ledgers, judged, limits)
    )


def test_results_come_in_order_whatever_their_size() -> None:
    """Even results that are too large for a pipe's buffer."""
    sizes = [0, 1, 70_000, 3, 2_000_000, 5]
    assert [b"x" * size for size in sizes] == list(
        judge_in_child(sizes, lambda size: b"x" * size, LONG)
    )


def test_no_ledgers_cost_no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ledgers nothing is forked."""
    monkeypatch.setattr(isolation.os, "fork", lambda: pytest.fail("a child for no ledger"))
    assert [] == list(judge_in_child([], judged, SHORT))


def test_what_judging_raises_is_our_fault() -> None:
    """Judging turns what a ledger causes into a value. Any other exception ends the run, with its
    own message.
    """

    def wrong(ledger: int) -> None:
        assert ledger != 2, "two answers of one bookie"

    results = judge_in_child([1, 2, 3], wrong, LONG)
    assert None is next(results)
    with pytest.raises(AssertionError, match="AssertionError: two answers of one bookie"):
        next(results)


def test_a_child_that_is_not_needed_any_more_is_ended() -> None:
    """A caller that stops iterating leaves no process behind."""
    before = children()
    results = judge_in_child([1, "a loop in C"], judged, JudgingLimits())
    assert "judged 1" == next(results)
    assert 1 == len(children() - before)
    results.close()  # type: ignore[attr-defined]
    assert set() == children() - before


def children() -> set[str]:
    listing = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(os.getpid())],
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        pid
        for pid in listing.stdout.split()
        if os.path.exists(f"/proc/{pid}") and "ps" not in comm(pid)
    }


def comm(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/comm") as name:
            return name.read()
    except FileNotFoundError:
        return "ps"


ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

PAUSED = """
import os, signal, sys
sys.path.insert(0, {root!r})
from auditor.config import JudgingLimits
from auditor.judging.judge import Guard

def judge(_):
    print("judging", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    return "judged"

with Guard(JudgingLimits(ledger_time_max_ms=1000)) as guard:
    print(guard.run(judge, 1), flush=True)
"""


def test_a_process_that_was_paused_is_not_taken_for_a_loop() -> None:
    """A child that was stopped (SIGSTOP) for longer than any limit continues and judges."""
    with subprocess.Popen(
        [sys.executable, "-c", PAUSED.format(root=ROOT)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert "judging\n" == process.stdout.readline()
        assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
        time.sleep(2.5)
        process.send_signal(signal.SIGCONT)
        assert "judged\n" == process.stdout.readline()


BLOCKED = """
import ctypes, sys
sys.path.insert(0, {root!r})
from auditor.config import JudgingLimits
from auditor.judging.judge import Guard

def judge(_):
    lock, library = ctypes.create_string_buffer(64), ctypes.CDLL(None)
    library.pthread_mutex_lock(lock)
    library.pthread_mutex_lock(lock)

with Guard(JudgingLimits(ledger_time_max_ms=200)) as guard:
    print(guard.run(lambda _: "judged", 1), flush=True)
    print(guard.run(judge, 2), flush=True)
"""


def test_a_process_that_waits_for_ever_in_c_ends() -> None:
    """The parent sees that the child died and does not wait with it."""
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED.format(root=ROOT)],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert ("judged\n", -signal.SIGVTALRM) == (done.stdout, done.returncode)


def test_many_ledgers_in_a_row_do_not_count_as_one_that_waits() -> None:
    """The guard may be entered for longer than the limit of one ledger, with many ledgers or
    none.
    """
    limits = JudgingLimits(ledger_time_max_ms=800, ledger_memory_max=256 * 2**20)
    ledgers = [*range(20)]

    def slowly(ledger: int) -> int:
        time.sleep(0.1)
        return ledger

    with Guard(limits) as guard:
        assert ledgers == [guard.run(slowly, ledger) for ledger in ledgers]
        time.sleep(2)
        assert 0 == guard.run(slowly, 0)


def test_a_guard_leaves_the_process_as_it_was() -> None:
    """It restores the memory limits and the handler of SIGALRM. No timer and no thread remains."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGALRM)
    threads = threading.active_count()
    with Guard(SHORT) as guard:
        assert before[0] != resource.getrlimit(resource.RLIMIT_AS)
        assert Stopped("it took longer than 0.4 s") == guard.run(lambda _: spins(), 1)
        assert Stopped("it took more memory than 256 MiB") == guard.run(lambda _: bytes(2**30), 1)
        assert 7 == guard.run(lambda one: one, 7)
    assert before == (resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGALRM))
    assert threads == threading.active_count()
    assert [(0.0, 0.0)] * 2 == [
        signal.getitimer(timer) for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL)
    ]


def test_a_loop_that_catches_every_exception_is_ended_too() -> None:
    """The signal raises an exception that `except Exception` does not catch."""

    def stubborn(_: int) -> None:
        while True:
            try:
                spins()
            except Exception:
                continue

    with Guard(SHORT) as guard:
        assert Stopped("it took longer than 0.4 s") == guard.run(stubborn, 1)


def evidence(count: int) -> Iterator[LedgerEvidence]:
    for ledger_id in range(1, count + 1):
        yield LedgerEvidence(ledger_id, (Look(LedgerRecord(ledger_id, 1, 0, RecordStatus.GONE)),))


def test_as_many_stopped_ledgers_as_a_task_may_have_are_set_aside_and_no_more() -> None:
    """The limit counts all batches of a task. Beyond it the fault is not in the ledgers."""

    def dies(_: LedgerEvidence) -> str:
        os._exit(7)

    judge = Judge(dies, lambda one, why: f"{one.ledger_id} {why}", LONG, careful=True)
    batch = list(evidence(POISON_MAX))
    assert [
        f"{one.ledger_id} judging was stopped: it ended its process with exit code 7"
        for one in batch
    ] == judge.judge_all(batch)
    with pytest.raises(TooManyPoisoned, match=f"more than {POISON_MAX} ledgers"):
        judge.judge_all(batch[:1])


def test_where_no_child_can_be_started_no_ledger_is_blamed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A limit on processes is this host's; nothing is left open."""

    def fork() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os, "fork", fork)
    with pytest.raises(LocalFault, match="no more threads or processes"):
        list(judge_in_child([1, 2], judged, LONG))
    assert before == len(os.listdir("/proc/self/fd"))


def test_a_lack_of_memory_under_a_limit_that_is_not_ours_blames_no_ledger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the shell's limit is the tighter one, none of ours is set."""
    monkeypatch.setattr(isolation, "_limit_memory", lambda _: None)

    def lacks(_: int) -> str:
        raise MemoryError

    with pytest.raises(LocalFault, match="no more memory"):
        list(judge_in_child([1], lacks, LONG))


def test_a_child_without_descriptors_blames_no_ledger() -> None:
    """It is neither poison nor our own fault."""

    def lacks(_: int) -> str:
        raise OSError(errno.EMFILE, "Too many open files")

    with pytest.raises(LocalFault, match="no file descriptor left"):
        list(judge_in_child([1], lacks, LONG))


def test_a_child_that_is_killed_once_costs_no_ledger(tmp_path: Path) -> None:
    """As where another process of this host took all memory. Killed again, the ledger is known."""
    tries = tmp_path / "tries"

    def killed_once(ledger: int) -> str:
        if ledger == 2 and not tries.exists():
            tries.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return f"judged {ledger}"

    assert ["judged 1", "judged 2", "judged 3"] == list(
        judge_in_child([1, 2, 3], killed_once, LONG)
    )


def test_where_every_child_is_killed_the_host_is_at_fault() -> None:
    """Not the auditor: on so many ledgers, twice on each, something ends our processes."""

    def is_killed(_: LedgerEvidence) -> str:
        os.kill(os.getpid(), signal.SIGKILL)
        return ""

    judge = Judge(is_killed, lambda one, why: why, LONG, careful=True)
    with pytest.raises(LocalFault, match=f"killed on more than {POISON_MAX} ledgers"):
        judge.judge_all(list(evidence(POISON_MAX + 1)))
