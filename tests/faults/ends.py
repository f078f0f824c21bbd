"""Ways to end or to stop a run from outside, and the plans made of them.

A plan has one end for each life. The seed draws the frame, or the number of stages, that an end
waits for (`faults.resuming`).
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from faults.processes import parent
from faults.scene import ALL, Act
from support.started_command import Started, in_session

STOPPED_S = 13.0
"""Longer than a ZooKeeper session, which is 10 s: the driver's session has expired when it
wakes.
"""
FULL_BYTES = 1_500
"""The largest file on the full disk, in bytes: enough for output, but not for a table."""
FINDINGS, USAGE, UNREACHABLE, STOPPED = 1, 2, 5, 128 + signal.SIGTERM
"""Exit codes."""


@dataclass(frozen=True)
class End:
    """How a life ends: the action, and its occasion, one (from `first` on, before `last`) of the
    `of` that it reaches.

    "stage" is one more in the journal, "list" and "read" are requests to one bookie; "results" is
    summary.json, of which there is one. `code` is the exit code, negative for a signal that cannot
    be handled. `attempts`: how often Spark tries a task that fails. `over`: an action before the
    run is resumed. `leaves_jvm`: a stopped JVM is left, and the run must not be resumed before it
    is woken.
    """

    deed: Callable[[Act, Started], object]
    code: int
    of: str
    first: int
    last: int
    attempts: int = 1
    over: Callable[[Act], object] = lambda act: None
    leaves_jvm: bool = False


@dataclass(frozen=True)
class LivesPlan:
    """The ends of a run's lives, one after another; then it is finished, and its verdict on these
    ledgers is owed.

    `stops`: what happens to the last life, which continues all the same. `on_spark`: Spark does the
    first look.
    """

    name: str
    ends: Sequence[End]
    owed: frozenset[int] = ALL
    quick: bool = False
    stops: Sequence[End] = ()
    on_spark: bool = True


def jvm_of(command: Started) -> int:
    """Return the JVM of a run. A process that it is about to start has its name for a moment."""
    processes = [line.split() for line in in_session(command.pid)]
    java = {int(words[0]) for words in processes if words[1:] and words[1].endswith("/java")}
    (pid,) = [pid for pid in java if parent(pid) not in java]
    return pid


def _kill_driver(act: Act, command: Started) -> None:
    os.kill(command.pid, signal.SIGKILL)


def _kill_jvm(act: Act, command: Started) -> None:
    os.kill(jvm_of(command), signal.SIGKILL)


def _freeze_jvm(act: Act, command: Started) -> None:
    """Kill the driver and stop its JVM, which therefore does not notice."""
    os.kill(jvm_of(command), signal.SIGSTOP)
    os.kill(command.pid, signal.SIGKILL)


def _stop_driver_a_while(act: Act, command: Started) -> None:
    os.kill(command.pid, signal.SIGSTOP)
    time.sleep(STOPPED_S)
    os.kill(command.pid, signal.SIGCONT)


def _terminate(act: Act, command: Started) -> None:
    os.kill(command.pid, signal.SIGTERM)


def _terminate_all(act: Act, command: Started) -> None:
    os.killpg(command.pid, signal.SIGTERM)


def _fill_disk(act: Act, command: Started) -> None:
    """Limit file sizes for every process of the run and those that they start. Files that are
    already open are limited, too.
    """
    for line in in_session(command.pid):
        with suppress(ProcessLookupError):  # it ended meanwhile
            resource.prlimit(int(line.split()[0]), resource.RLIMIT_FSIZE, (FULL_BYTES, FULL_BYTES))


def _lose_zookeeper(act: Act, command: Started) -> None:
    act.proxies.lose(act.by_name["zookeeper"])


def _find_zookeeper(act: Act) -> None:
    act.proxies.find(act.by_name["zookeeper"])


def _killed(of: str, first: int, last: int) -> End:
    return End(_kill_driver, -signal.SIGKILL, of, first, last)


def _jvm_killed(of: str, first: int, last: int) -> End:
    return End(_kill_jvm, UNREACHABLE, of, first, last)


def _terminated(
    of: str, first: int, last: int, deed: Callable[[Act, Started], object] = _terminate
) -> End:
    return End(deed, STOPPED, of, first, last)


def _stopped(of: str, first: int, last: int) -> End:
    return End(_stop_driver_a_while, FINDINGS, of, first, last)


def _full(of: str, first: int, last: int) -> End:
    return End(_fill_disk, UNREACHABLE, of, first, last, attempts=2)


def _lost(of: str, first: int, last: int) -> End:
    return End(_lose_zookeeper, UNREACHABLE, of, first, last, over=_find_zookeeper)


LIST = ("list", 7, 13)
"""Occasions among lists: a bookie is asked for six or seven lists of either shard at the first
look, and for four or five in all at the second.
"""
LATE_LIST = ("list", 14, 17)
READ = ("read", 0, 1)
"""Occasions among reads: one bookie is asked for a single entry at each look, the others for
more.
"""
STAGE = ("stage", 1, 14)
"""Occasions among stages: a run has some two dozen."""
NEXT_STAGE = ("stage", 1, 5)
JVM_STAGE, NEXT_JVM_STAGE = ("stage", 4, 14), ("stage", 4, 5)
"""Occasions of the first of several ends. The first three stages, `references` to `referenced
ledgers`, are done before there is a JVM, and after the first look few suspects are finished without
one.
"""
PLANS: Mapping[str, LivesPlan] = {
    plan.name: plan
    for plan in (
        LivesPlan(
            "SIGKILL of a run without Spark, at a list",
            [_killed(*LIST)],
            quick=True,
            on_spark=False,
        ),
        LivesPlan("SIGKILL of the driver, at a list", [_killed(*LIST)]),
        LivesPlan("SIGKILL of the driver, at a list of the second look", [_killed(*LATE_LIST)]),
        LivesPlan("SIGKILL of the driver, at a read", [_killed(*READ)]),
        LivesPlan("SIGKILL of the driver, behind a stage", [_killed(*STAGE)]),
        LivesPlan("SIGKILL of the JVM, at a list", [_jvm_killed(*LIST)]),
        LivesPlan("SIGKILL of the JVM, behind a stage", [_jvm_killed(*JVM_STAGE)]),
        LivesPlan("SIGTERM, at a list", [_terminated(*LIST)]),
        LivesPlan("SIGTERM, behind a stage", [_terminated(*STAGE)]),
        LivesPlan("SIGTERM of all processes, at a list", [_terminated(*LIST, _terminate_all)]),
        LivesPlan("a full disk, at a list", [_full(*LIST)]),
        LivesPlan("a full disk, behind a stage", [_full(*STAGE)]),
        LivesPlan("ZooKeeper lost, at a list", [_lost(*LIST)]),
        LivesPlan("ZooKeeper lost, behind a stage", [_lost(*STAGE)]),
        LivesPlan(
            "SIGKILL of the driver, and again when it has gone on",
            [_killed(*LIST), _killed(*NEXT_STAGE)],
        ),
        LivesPlan(
            "SIGTERM, then SIGKILL of the JVM", [_terminated(*STAGE), _jvm_killed(*NEXT_JVM_STAGE)]
        ),
        LivesPlan(
            "each of them, one after another",
            [
                _jvm_killed(*NEXT_JVM_STAGE),
                *(end(*NEXT_STAGE) for end in (_terminated, _lost, _full, _killed)),
            ],
        ),
        LivesPlan("ZooKeeper lost, then a full disk", [_lost(*LIST), _full(*NEXT_STAGE)]),
        LivesPlan(
            "SIGSTOP of the driver beyond its session, at a list", [], stops=[_stopped(*LIST)]
        ),
        LivesPlan(
            "SIGSTOP of the driver beyond its session, behind a stage", [], stops=[_stopped(*STAGE)]
        ),
        LivesPlan(
            "SIGKILL of the driver, then one that is stopped",
            [_killed(*LIST)],
            stops=[_stopped(*NEXT_STAGE)],
        ),
        LivesPlan(
            "SIGKILL of the driver, its JVM stopped for a while",
            [End(_freeze_jvm, -signal.SIGKILL, *LIST, attempts=2, leaves_jvm=True)],
        ),
    )
}


UNPUBLISHED = LivesPlan(
    "SIGKILL of the driver, its results written",
    [End(_kill_driver, -signal.SIGKILL, "results", 0, 1)],
)
"""An end that needs a latest.json that cannot be written: no other event lies between the results
and it.
"""
