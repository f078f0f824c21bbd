"""Judge many ledgers within their limits, in this process or in a child that may die.

A ledger on which judging raises, does not end or ends its process is set aside.

Within a process, a signal interrupts Python code. C code that never checks for signals ends the
process instead: the kernel does it after a quarter more of the time spent computing, a thread after
twice the time spent waiting. Whoever runs the process then judges again in a child. Not noticed: C
code that waits for ever and holds Python's lock meanwhile.

A child judges ledgers one after another and sends each result at once. When it dies, the ledger
whose result is due is the one that killed it, and the kernel says how. Another child continues with
the next ledger. Costs a fork, and some ten microseconds a ledger. Of many ledgers two children
judge a half each, at the same time.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import pickle
import resource
import select
import signal
import struct
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Generic, NoReturn, Self, TypeVar

from auditor.config import JudgingLimits
from auditor.errors import AuditorError, LocalFault
from auditor.judging.settle import Step, end_unjudged
from auditor.local_faults import local_fault, start_fault
from auditor.model.evidence import LedgerEvidence
from auditor.model.identity import LedgerId
from auditor.model.verdict import Unknown

A = TypeVar("A")
T = TypeVar("T")

TICKS = 4
"""Parts in which the time limit is counted. A process that was paused (SIGSTOP, a suspended host)
counts only one part for the whole pause: a pause must not look like a loop."""
HARD_FACTOR = 1.25
"""CPU seconds for each second of the limit. After them the kernel ends a process whose code ignores
the signal."""


WATCH_FACTOR = 2
"""After this multiple of the limit, a thread ends a process that could not be interrupted: it waits
for something in C code."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """Judging a ledger was stopped. `why` says what happened, as half a sentence.

    `was_killed`: by a signal from outside, for example of a kernel that runs out of memory.
    """

    why: str
    was_killed: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Raised:
    """Judging a ledger raised an exception. `why` has its name and its message."""

    why: str


class _TimeUp(BaseException):
    """Raised by the signal. It is not an `Exception`: code that catches those must not swallow
    it.
    """


class Watch:
    """A thread that ends this process if one ledger takes too long, like the kernel's limit on CPU
    time.

    It counts how often it woke meanwhile: a pause of the process counts as one tick here too.
    """

    def __init__(self, seconds: float) -> None:
        self._tick_s = seconds / TICKS
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="auditor-watch", daemon=True)
        self.begun = 0
        """Ledgers begun so far."""
        self.is_at_work = False
        self._begun_before = 0
        self._ticks = 0

    def start(self) -> None:
        with suppress(RuntimeError):  # no thread can be started: there is no watchdog
            self._thread.start()

    def end(self) -> None:
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _watch(self) -> None:
        signal.pthread_sigmask(
            signal.SIG_BLOCK, signal.valid_signals()
        )  # they are for the thread that judges
        while not self._is_over.wait(self._tick_s):
            if self.tick():
                os.kill(os.getpid(), signal.SIGVTALRM)

    def tick(self) -> bool:
        """Count a tick. Return whether the current ledger has had too many."""
        is_same = self.is_at_work and self.begun == self._begun_before
        self._ticks = self._ticks + 1 if is_same else 0
        self._begun_before = self.begun
        return self._ticks >= TICKS * WATCH_FACTOR


class Guard:
    """Limits that hold while the guard is entered. Call `run` within, once a ledger.

    Costs some two microseconds. Python handles signals in the main thread only: in any other, only
    the memory is limited.
    """

    def __init__(self, limits: JudgingLimits) -> None:
        self._limits = limits
        self._takes_signals = threading.current_thread() is threading.main_thread()
        self._watch = Watch(limits.ledger_time_max_ms / 1000)
        self._is_armed = False
        self._ticks = 0

    def __enter__(self) -> Self:
        if self._takes_signals:
            self._handler: Any = signal.signal(signal.SIGALRM, self._tick)
            self._watch.start()  # before memory is limited: its stack must not count
        self._memory = _limit_memory(self._limits.ledger_memory_max)
        return self

    def __exit__(self, *_: object) -> None:
        self._disarm()
        if self._memory is not None:
            resource.setrlimit(resource.RLIMIT_AS, self._memory)
        if self._takes_signals:
            signal.signal(signal.SIGALRM, self._handler)
            self._watch.end()

    def run(self, work: Callable[[A], T], ledger: A) -> T | Stopped | Raised:
        """Return the result of `work` on the ledger, or why there is none.

        An exception of judging becomes a value only here. Raises AssertionError, which is our own
        fault and says nothing about the ledger, and LocalFault, which is the fault of this host.
        """
        try:
            self._arm()
            try:
                return work(ledger)
            finally:
                self._disarm()
        except _TimeUp:
            self._disarm()
            return Stopped(too_long(self._limits))
        except MemoryError as error:
            if self._memory is None:  # this host's limit is tighter, or we set none
                raise local_fault(error) or error from None
            return Stopped(
                f"it took more memory than {self._limits.ledger_memory_max // 2**20} MiB"
            )
        except AssertionError:
            raise
        except (Exception, SystemExit) as error:  # a ledger may cause anything
            if (fault := local_fault(error)) is not None:
                raise fault from error
            return Raised(f"{type(error).__name__}: {error}")

    def _arm(self) -> None:
        if not self._takes_signals:
            return
        seconds = self._limits.ledger_time_max_ms / 1000
        self._ticks, self._is_armed = 0, True
        self._watch.begun += 1
        self._watch.is_at_work = True
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds * HARD_FACTOR)
        signal.setitimer(signal.ITIMER_REAL, seconds / TICKS, seconds / TICKS)

    def _disarm(self) -> None:
        if self._takes_signals:
            self._is_armed = self._watch.is_at_work = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def _tick(self, _signal: int, _frame: FrameType | None) -> None:
        self._ticks += 1
        if self._is_armed and self._ticks >= TICKS:
            raise _TimeUp


def too_long(limits: JudgingLimits) -> str:
    """Return the text for a time limit that was reached."""
    return f"it took longer than {limits.ledger_time_max_ms / 1000:g} s"


def _limit_memory(bytes_max: int) -> tuple[int, int] | None:
    """Limit the address space of this process to its current size plus this many bytes.

    Return the limits before, None if none can be set.
    """
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:  # not Linux: the kernel enforces no such limit
        return None
    soft, hard = before = resource.getrlimit(resource.RLIMIT_AS)
    wanted = pages * os.sysconf("SC_PAGE_SIZE") + bytes_max
    if any(limit not in (resource.RLIM_INFINITY,) and limit < wanted for limit in (soft, hard)):
        return None  # a tighter limit is in force already
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
        return before
    return None


GARBAGE_THRESHOLDS = (50_000, 20, 50)
"""How many objects a process that judges allocates before Python looks for reference cycles.
Batches have tens of thousands of small values without cycles. Python's default of 700 took a third
of the time of judging."""


@contextlib.contextmanager
def few_collections() -> Iterator[None]:
    """Look for reference cycles seldom, and not among the objects that exist already."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


GRACE_MS = 5_000
"""How much longer than the time limit a child may stay silent before it is killed. The child checks
the limit itself."""
WAITS = 5
"""Parts in which that wait is counted: a pause of the whole machine must not look like silence."""
FILES_MAX = 65_536
"""File descriptors closed in a child: it inherits sockets that it does not need."""
READ_BYTES = 65_536
"""Bytes read of a child's pipe at once. Most messages have a kilobyte."""
_LENGTH = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class _Failed:
    """An exception in a child that is not caused by a ledger.

    It is our own fault or, if `is_local`, the fault of this host.
    """

    words: str
    is_local: bool = False


def judge_in_child(
    ledgers: Sequence[A], judge: Callable[[A], T], limits: JudgingLimits
) -> Iterator[T | Stopped | Raised]:
    """Yield `judge` of each ledger, in order. Results are plain, picklable values.

    A ledger whose child was killed is judged once more: its memory is limited, and other processes
    of this host may have taken too much. Raises AssertionError for a failed assertion of `judge`,
    and LocalFault if this host gives no process or no memory.
    """
    with contextlib.closing(_begin(ledgers, judge, limits)) as results:
        yield from results


CHILDREN = 2
"""Children that judge at a time: a driver has two cores. Each may take the memory of a ledger."""
LEDGERS_OF_CHILD_MIN = 200
"""A child is worth its start, some ten milliseconds, for so many ledgers."""
PIPE_BYTES = 2**20
"""Results that a child may send before its parent reads them: those of some hundred ledgers, while
the parent reads those of another child. Linux allows no more by default."""


def judge_in_children(
    ledgers: Sequence[A], judge: Callable[[A], T], limits: JudgingLimits
) -> Iterator[T | Stopped | Raised]:
    """Yield what `judge_in_child` yields. Up to CHILDREN children judge at a time, each a part of
    the ledgers.
    """
    size = max(LEDGERS_OF_CHILD_MIN, -(-len(ledgers) // CHILDREN))
    with contextlib.ExitStack() as stack:
        parts = [
            stack.enter_context(
                contextlib.closing(_begin(ledgers[start : start + size], judge, limits))
            )
            for start in range(0, len(ledgers), size)
        ]
        for results in parts:
            yield from results


def _begin(
    ledgers: Sequence[A], judge: Callable[[A], T], limits: JudgingLimits
) -> Generator[T | Stopped | Raised]:
    """Start a child on the ledgers, and return its results as they come."""
    results = _judge_by_children(ledgers, judge, limits)
    next(results, None)
    return results  # type: ignore[return-value]


def _judge_by_children(
    ledgers: Sequence[A], judge: Callable[[A], T], limits: JudgingLimits
) -> Generator[T | Stopped | Raised | None]:
    """Yield None when the first child has begun, then the results."""
    done, tried_again = 0, -1
    has_begun = False
    while done < len(ledgers):
        with contextlib.closing(_child_on(ledgers[done:], judge, limits)) as results:
            next(results)
            if not has_begun:
                has_begun = True
                yield None
            for result in results:
                if isinstance(result, Stopped) and result.was_killed and tried_again != done:
                    tried_again = done
                    break
                done += 1
                yield result


def _child_on(
    ledgers: Sequence[A], judge: Callable[[A], T], limits: JudgingLimits
) -> Generator[T | Stopped | Raised | None]:
    """Yield None when the child has begun, then results until the last ledger, or until the one
    that ended the child.

    No child is left behind, and none that has ended gets a signal.
    """
    reading, writing = os.pipe()
    with contextlib.suppress(OSError, AttributeError):  # not Linux, or this user has many pipes
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    try:
        child = os.fork()
    except OSError as error:
        os.close(reading)
        os.close(writing)
        raise start_fault(error) or error from error
    if child == 0:
        _serve(writing, ledgers, judge, limits)
    os.close(writing)
    messages = _Messages(reading, limits)
    try:
        yield None
        for _ in ledgers:
            message = messages.receive()
            if message is None:
                break
            result = pickle.loads(message)  # noqa: S301 - our own child wrote it, to a pipe that nobody else holds
            if isinstance(result, _Failed):
                raise (LocalFault if result.is_local else AssertionError)(result.words)
            yield result
        status = _end(child)
    except BaseException:
        _kill(child)
        raise
    finally:
        os.close(reading)
    if message is None:
        is_killed = status is not None and os.WIFSIGNALED(status)
        was_killed = is_killed and os.WTERMSIG(status or 0) == signal.SIGKILL
        yield Stopped(_how(status, limits), was_killed)


def _serve(
    writing: int, ledgers: Sequence[A], judge: Callable[[A], T], limits: JudgingLimits
) -> NoReturn:
    """Judge the ledgers and send the results, then end without the parent's exit handlers."""
    try:
        _stand_apart(writing)
        with Guard(limits) as guard:
            for ledger in ledgers:
                sent = guard.run(lambda ledger: pickle.dumps(judge(ledger)), ledger)
                _send(writing, sent if isinstance(sent, bytes) else pickle.dumps(sent))
    except BaseException as error:  # sent to the parent, which raises it
        fault = local_fault(error)
        words = f"{type(error).__name__}: {error}" if fault is None else str(fault)
        _send(writing, pickle.dumps(_Failed(words, is_local=fault is not None)))
    finally:
        os._exit(0)  # also if nothing can be sent


def _stand_apart(writing: int) -> None:
    """Detach the child from its parent.

    It drops the parent's files, becomes the first victim of a lack of memory, and writes no core.
    """
    gc.freeze()  # finalizers of the parent's objects may wait for threads that a child lacks
    os.closerange(3, writing)
    os.closerange(writing + 1, FILES_MAX)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _send(writing: int, message: bytes) -> None:
    rest = memoryview(_LENGTH.pack(len(message)) + message)
    while rest:
        rest = rest[os.write(writing, rest) :]


class _Messages:
    """The messages of a child. A read of the pipe takes as many as are there."""

    def __init__(self, reading: int, limits: JudgingLimits) -> None:
        self._reading, self._wait_ms = reading, (limits.ledger_time_max_ms + GRACE_MS) / WAITS
        self._poller = select.poll()
        self._poller.register(reading, select.POLLIN)
        self._unused = bytearray()

    def receive(self) -> bytes | None:
        """Return the next message, None if the child ended or stays silent."""
        head = self._take(_LENGTH.size)
        return None if head is None else self._take(_LENGTH.unpack(head)[0])

    def _take(self, length: int) -> bytes | None:
        waits = 0
        while len(self._unused) < length:
            if not self._poller.poll(self._wait_ms):
                waits += 1
                if waits > WAITS:
                    return None
                continue
            part = os.read(self._reading, max(READ_BYTES, length - len(self._unused)))
            if not part:
                return None
            self._unused += part
        taken = bytes(self._unused[:length])
        del self._unused[:length]
        return taken


def _end(child: int) -> int | None:
    """Return the child's wait status; None if it had to be killed.

    A child that closed its pipe ends by itself at once.
    """
    for _ in range(_END_POLLS):
        ended, status = _wait(child, os.WNOHANG)
        if ended:
            return status
        select.select([], [], [], _END_POLL_S)
    _kill(child)
    return None


def _kill(child: int) -> None:
    """Kill a child that was not waited for yet, and wait for it."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    _wait(child, 0)


_END_POLLS = 500
_END_POLL_S = 0.002
"""How long a child may take to end: to write its last message, or to be removed by the kernel."""


def _wait(child: int, options: int) -> tuple[int, int]:
    try:
        return os.waitpid(child, options)
    except ChildProcessError:  # the caller of this process waits for its children itself
        return child, 0


def _how(status: int | None, limits: JudgingLimits) -> str:
    """Return how the child ended, from its wait status; None: it was killed."""
    if status is None:
        return f"{too_long(limits)} and could not be interrupted"
    if not os.WIFSIGNALED(status):
        return f"it ended its process with exit code {os.waitstatus_to_exitcode(status)}"
    number = os.WTERMSIG(status)
    if number == signal.SIGVTALRM:
        return f"{too_long(limits)} and could not be interrupted"
    name = signal.Signals(number).name
    return f"it ended its process with {name}" + (
        ", as a kernel out of memory does" if number == signal.SIGKILL else ""
    )


_STOPPED = "judging was stopped: "


def poison_step(ledger_id: LedgerId) -> Step:
    """Return the final step of a ledger that could not be judged."""
    return end_unjudged(ledger_id, Unknown.POISON)


def stopped_detail(why: str) -> str:
    """Return the column `detail` of a ledger on which judging was stopped."""
    return f"{_STOPPED}{why}"


def is_stopped(detail: str) -> bool:
    """Return whether judging was stopped rather than raised: a replay does not try it again."""
    return detail.startswith(_STOPPED)


POISON_MAX = 20
"""One task may be stopped on at most this many ledgers. Each costs up to the time limit. If there
are more, the fault is not in the ledgers."""


class TooManyPoisoned(AuditorError):
    """Judging was stopped on more than POISON_MAX ledgers of one task: our fault. Exit code 4."""


class Judge(Generic[T]):
    """Judges ledgers, and sets aside each on which judging raises or must be stopped.

    `work` judges one ledger. `aside` makes a result from a ledger and a text that says why. Each
    task needs an instance: it counts the ledgers on which it was stopped.

    `careful` judges in a child process, which may die. Otherwise a ledger that kills its process
    also ends this one.
    """

    def __init__(
        self,
        work: Callable[[LedgerEvidence], T],
        aside: Callable[[LedgerEvidence, str], T],
        limits: JudgingLimits,
        *,
        careful: bool,
    ) -> None:
        self._work, self._aside, self._limits, self._careful = work, aside, limits, careful
        self._stopped: list[str] = []
        self._killed = 0

    def judge_all(self, ledgers: Sequence[LedgerEvidence]) -> list[T]:
        """Return a result for each ledger, in order. Raises TooManyPoisoned and LocalFault."""
        results = (
            judge_in_children(ledgers, self._work, self._limits)
            if self._careful
            else self._judge_here(ledgers)
        )
        return [
            self._or_aside(ledger, result) for ledger, result in zip(ledgers, results, strict=True)
        ]

    def _judge_here(self, ledgers: Sequence[LedgerEvidence]) -> Iterator[T | Stopped | Raised]:
        with Guard(self._limits) as guard:
            for ledger in ledgers:
                yield guard.run(self._work, ledger)

    def _or_aside(self, ledger: LedgerEvidence, result: T | Stopped | Raised) -> T:
        if isinstance(result, Raised):
            return self._aside(ledger, result.why)
        if not isinstance(result, Stopped):
            return result
        self._stopped.append(f"ledger {ledger.ledger_id}: {result.why}")
        self._killed += result.was_killed
        if len(self._stopped) > POISON_MAX:
            if self._killed == len(self._stopped):
                raise LocalFault(
                    f"the process that judges was killed on more than {POISON_MAX} ledgers, twice"
                    " on each: this host runs out of memory, or something ends our processes; see"
                    " the log of the kernel"
                )
            raise TooManyPoisoned(
                f"judging was stopped on more than {POISON_MAX} ledgers"
                f" ({'; '.join(self._stopped[:3])} ...): this is a fault of the auditor or of the"
                " machine, not of the ledgers"
            )
        return self._aside(ledger, stopped_detail(result.why))
