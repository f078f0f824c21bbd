"""Judge ledgers in a child process: a ledger that ends it does not end the run, and is known.

A child judges ledgers one after another and sends each result at once. When it dies, the ledger
whose result is due is the one that killed it, and the kernel says how. Another child continues with
the next ledger. Costs a fork, and some ten microseconds a ledger.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import resource
import select
import signal
import struct
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeVar

from auditor.config import JudgingLimits
from auditor.errors import LocalFault
from auditor.judging.guard import Guard, Raised, Stopped, too_long
from auditor.local_faults import local_fault, start_fault

A = TypeVar("A")
T = TypeVar("T")

GRACE_MS = 5_000
"""How much longer than the time limit a child may stay silent before it is killed. The child checks
the limit itself.
"""
WAITS = 5
"""Parts in which that wait is counted: a pause of the whole machine must not look like silence."""
FILES_MAX = 65_536
"""File descriptors closed in a child: it inherits sockets that it does not need."""
_LENGTH = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class _Failed:
    """What a child raised, which is not a property of a ledger: our own fault, or, if `is_local`,
    that of this host.
    """

    words: str
    is_local: bool = False


def judge_in_child(
    ledgers: Sequence[A], judge: Callable[[A], T], limits: JudgingLimits
) -> Iterator[T | Stopped | Raised]:
    """Yield `judge` of each ledger, in order: results are plain, picklable values.

    A ledger whose child was killed is judged once more: its memory is limited, and it may be other
    processes of this host that took too much. Raises AssertionError for a failed assertion of
    `judge`, and LocalFault where this host gives no process or no memory.
    """
    done, tried_again = 0, -1
    while done < len(ledgers):
        with contextlib.closing(_child_on(ledgers[done:], judge, limits)) as results:
            for result in results:
                if isinstance(result, Stopped) and result.was_killed and tried_again != done:
                    tried_again = done
                    break
                done += 1
                yield result


def _child_on(
    ledgers: Sequence[A], judge: Callable[[A], T], limits: JudgingLimits
) -> Generator[T | Stopped | Raised]:
    """Yield results until the last ledger, or until the one that ended the child.

    No child is left behind, and none that has ended gets a signal.
    """
    reading, writing = os.pipe()
    try:
        child = os.fork()
    except OSError as error:
        os.close(reading)
        os.close(writing)
        raise start_fault(error) or error from error
    if child == 0:
        _serve(writing, ledgers, judge, limits)
    os.close(writing)
    try:
        for _ in ledgers:
            message = _receive(reading, limits)
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
    """Judge the ledgers and send the results, then end without running the parent's exit
    handlers.
    """
    try:
        _stand_apart(writing)
        with Guard(limits) as guard:
            for ledger in ledgers:
                sent = guard.run(lambda one: pickle.dumps(judge(one)), ledger)
                _send(writing, sent if isinstance(sent, bytes) else pickle.dumps(sent))
    except BaseException as error:  # sent to the parent, which raises it
        fault = local_fault(error)
        words = f"{type(error).__name__}: {error}" if fault is None else str(fault)
        _send(writing, pickle.dumps(_Failed(words, is_local=fault is not None)))
    finally:
        os._exit(0)  # also if nothing can be sent


def _stand_apart(writing: int) -> None:
    """Detach the child: drop the parent's files, be the first victim of a lack of memory, write no
    core.
    """
    gc.freeze()  # finalizers of the parent's objects may wait for threads a child lacks
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


def _receive(reading: int, limits: JudgingLimits) -> bytes | None:
    """Return the next message, None if the child ended or stays silent."""
    head = _read(reading, _LENGTH.size, limits)
    return None if head is None else _read(reading, _LENGTH.unpack(head)[0], limits)


def _read(reading: int, length: int, limits: JudgingLimits) -> bytes | None:
    poller = select.poll()
    poller.register(reading, select.POLLIN)
    parts, waits = bytearray(), 0
    while len(parts) < length:
        if not poller.poll((limits.ledger_time_max_ms + GRACE_MS) / WAITS):
            waits += 1
            if waits > WAITS:
                return None
            continue
        part = os.read(reading, length - len(parts))
        if not part:
            return None
        parts += part
    return bytes(parts)


def _end(child: int) -> int | None:
    """Return the child's wait status; None where it had to be killed.

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
    except ChildProcessError:  # whoever runs this process waits for children itself
        return child, 0


def _how(status: int | None, limits: JudgingLimits) -> str:
    """Say how the child ended, from its wait status; None: it was killed."""
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
