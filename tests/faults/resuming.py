"""Runs that are ended from outside and gone on with: plans of one or more ends each, and how one is played.

    found = Play(PLANS["SIGKILL of the driver, at a list"], act, home).breaches()

Every life is a process of its own. Its end comes at a frame that a proxy sees, or when so many stages are in the journal; which
frame, and how many, is the seed's affair. The command that goes on is taken from what the ended run said, where it can say
anything; else the run's id is that of its directory. What ended the run is over when it goes on: every ledger is owed.
"""

from __future__ import annotations

import os
import re
import resource
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random

from faults.detector import Breach
from faults.harm import Fault, Harm
from faults.lives import Life, Question, breaches_of_lives, journalled, written
from faults.playing import SEED
from faults.scene import ALL, BOOKIES, Act, owed
from faults.told import of_run
from support.started_command import Started, in_session, started

SHARD_LEDGERS = 9
"""The scene's eighteen ledgers make two shards."""
SETTINGS = ("--shard-ledgers", str(SHARD_LEDGERS), "--second-look-delay", "0s", "--rpc-timeout", "60s",
            "--zookeeper-retries", "1", "--zookeeper-connect-timeout", "10s")  # fmt: skip
"""Of every life. A time-out on a busy machine would be a question asked again."""
LATEST = b'{"run": "run-20200101T000000Z-000000"}\n'
ENDS_WITHIN_S = 600.0
"""How long a life may take, on a machine that does other things too: some ten seconds where it has two cores for itself."""
FULL_BYTES = 1_500
"""The largest file that the full disk takes: what is said, and no table."""
ADVICE = re.compile(r"auditor (run --resume \d{8}T\d{6}Z-[0-9a-f]{6})\b")
FINDINGS, USAGE, FAULT, UNREACHABLE, STOPPED = 1, 2, 4, 5, 128 + signal.SIGTERM
"""Exit codes."""


@dataclass(frozen=True)
class End:
    """How a life ends: what is done, at which one (from `first` on, before `last`) of the `of` that it comes to: "stage" is one
    more in the journal, "list" and "read" are requests to one bookie; "results" is summary.json, of which there is one.

    `code` is the exit code, negative for a signal that says nothing. `attempts`: how often Spark tries a task that fails.
    `over`: what is done before the run goes on. `leaves_jvm`: it is stopped, and until it is woken the run may not go on.
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
    """The ends of a run's lives, one behind the other; then it is finished, and these ledgers are owed their verdict."""

    name: str
    ends: Sequence[End]
    owed: frozenset[int] = ALL
    quick: bool = False


def jvm_of(command: Started) -> int:
    """The JVM of a run."""
    processes = [line.split() for line in in_session(command.pid)]
    (pid,) = [int(words[0]) for words in processes if words[1].endswith("/java")]
    return pid


def _kill_driver(act: Act, command: Started) -> None:
    os.kill(command.pid, signal.SIGKILL)


def _kill_jvm(act: Act, command: Started) -> None:
    os.kill(jvm_of(command), signal.SIGKILL)


def _freeze_jvm(act: Act, command: Started) -> None:
    """The driver is killed; its JVM, stopped, does not notice."""
    os.kill(jvm_of(command), signal.SIGSTOP)
    os.kill(command.pid, signal.SIGKILL)


def _terminate(act: Act, command: Started) -> None:
    os.kill(command.pid, signal.SIGTERM)


def _terminate_all(act: Act, command: Started) -> None:
    os.killpg(command.pid, signal.SIGTERM)


def _fill_disk(act: Act, command: Started) -> None:
    """From now on, for every process of the run and those that they will start. What is open already is no exception."""
    for line in in_session(command.pid):
        resource.prlimit(int(line.split()[0]), resource.RLIMIT_FSIZE, (FULL_BYTES, FULL_BYTES))


def _lose_zookeeper(act: Act, command: Started) -> None:
    act.proxies.lose(act.by_name["zookeeper"])


def _find_zookeeper(act: Act) -> None:
    act.proxies.find(act.by_name["zookeeper"])


def _killed(of: str, first: int, last: int) -> End:
    return End(_kill_driver, -signal.SIGKILL, of, first, last)


def _jvm_killed(of: str, first: int, last: int) -> End:
    return End(_kill_jvm, FAULT, of, first, last)


def _terminated(of: str, first: int, last: int, deed: Callable[[Act, Started], object] = _terminate) -> End:
    return End(deed, STOPPED, of, first, last)


def _full(of: str, first: int, last: int) -> End:
    return End(_fill_disk, UNREACHABLE, of, first, last, attempts=2)


def _lost(of: str, first: int, last: int) -> End:
    return End(_lose_zookeeper, UNREACHABLE, of, first, last, over=_find_zookeeper)


LIST = ("list", 7, 13)
"""A bookie is asked for six lists or seven of either shard at the first look, and for four or five in all at the second."""
LATE_LIST = ("list", 14, 17)
READ = ("read", 0, 1)
"""One bookie is asked for a single entry of each look, the others for more."""
STAGE = ("stage", 1, 14)
"""In a run of some two dozen."""
NEXT_STAGE = ("stage", 1, 5)
PLANS: Mapping[str, LivesPlan] = {
    plan.name: plan
    for plan in (
        LivesPlan("SIGKILL of the driver, at a list", [_killed(*LIST)], quick=True),
        LivesPlan("SIGKILL of the driver, at a list of the second look", [_killed(*LATE_LIST)]),
        LivesPlan("SIGKILL of the driver, at a read", [_killed(*READ)]),
        LivesPlan("SIGKILL of the driver, behind a stage", [_killed(*STAGE)]),
        LivesPlan("SIGKILL of the JVM, at a list", [_jvm_killed(*LIST)]),
        LivesPlan("SIGKILL of the JVM, behind a stage", [_jvm_killed(*STAGE)]),
        LivesPlan("SIGTERM, at a list", [_terminated(*LIST)]),
        LivesPlan("SIGTERM, behind a stage", [_terminated(*STAGE)]),
        LivesPlan("SIGTERM of all processes, at a list", [_terminated(*LIST, _terminate_all)]),
        LivesPlan("a full disk, at a list", [_full(*LIST)]),
        LivesPlan("a full disk, behind a stage", [_full(*STAGE)]),
        LivesPlan("ZooKeeper lost, at a list", [_lost(*LIST)]),
        LivesPlan("ZooKeeper lost, behind a stage", [_lost(*STAGE)]),
        LivesPlan("SIGKILL of the driver, and again when it has gone on", [_killed(*LIST), _killed(*NEXT_STAGE)]),
        LivesPlan("SIGTERM, then SIGKILL of the JVM", [_terminated(*STAGE), _jvm_killed(*NEXT_STAGE)]),
        LivesPlan(
            "each of them, one after another",
            [end(*NEXT_STAGE) for end in (_terminated, _lost, _full, _jvm_killed, _killed)],
        ),
        LivesPlan("ZooKeeper lost, then a full disk", [_lost(*LIST), _full(*NEXT_STAGE)]),
        LivesPlan(
            "SIGKILL of the driver, its JVM stopped for a while",
            [End(_freeze_jvm, -signal.SIGKILL, *LIST, attempts=2, leaves_jvm=True)],
        ),
    )
}


UNPUBLISHED = LivesPlan("SIGKILL of the driver, its results written", [End(_kill_driver, -signal.SIGKILL, "results", 0, 1)])
"""Needs a Pushgateway that does not answer: between the results and `latest.json` there is nothing else to wait for."""


class Play:
    """One run of a plan. `more`: settings of every life beside those that all plans share."""

    def __init__(self, plan: LivesPlan, act: Act, home: Path, more: Sequence[str] = ()) -> None:
        self.plan, self.act, self.home = plan, act, home
        self._settings = ("--metadata-service-uri", act.metadata_service_uri, *SETTINGS, *more)
        self._draw = Random(f"{SEED} {plan.name}")
        self._known: list[Question] = []
        self._lives: list[tuple[list[Question], int]] = []
        self._commands: list[Started] = []

    def breaches(self, meddle: Callable[[Path], object] = lambda run: None) -> list[Breach]:
        """What the detector finds when the run is over. `meddle` may do something to its directory before it goes on."""
        (self.home / "out").mkdir(parents=True)
        (self.home / "out" / "latest.json").write_bytes(LATEST)
        words: Sequence[str] = ("run",)
        with ExitStack() as processes:
            for end in self.plan.ends:
                words = self._life(end, words, processes)
                meddle(run_of(self.home))
            self._last_life(words, processes)
            assert [] == [left for command in self._commands for left in command.survivors()]
        assert [] == self.act.log.errors, self.act.log.errors
        lives = [Life(seen, *life) for seen, life in zip(self.act.log.epochs(), self._lives, strict=True)]
        return breaches_of_lives(lives, of_run(run_of(self.home)), owed(self.plan.owed), SHARD_LEDGERS)

    def _life(self, end: End, words: Sequence[str], processes: ExitStack) -> Sequence[str]:
        """One life, with its end; how the run is gone on with."""
        command = self._started(words, processes)
        self._await(end, command)
        assert end.code == command.ended(ENDS_WITHIN_S), command.said()
        assert [] == self.act.log.errors, self.act.log.errors
        words = self._resumes(end, command.said())
        if end.leaves_jvm:
            self._refused(words, processes)
            os.kill(jvm_of(command), signal.SIGCONT)
        assert [] == command.survivors()
        nothing_published(command, results=end.of == "results")
        end.over(self.act)
        self.act.second_look(0, heal=True)  # an epoch of the log is a life
        now = journalled(run_of(self.home))
        assert self._known == now[: len(self._known)], "the journal forgot something"
        self._lives.append((now[len(self._known) :], end.attempts))
        self._known = now
        return words

    def _refused(self, words: Sequence[str], processes: ExitStack) -> None:
        """What might still write for the run holds its lock."""
        command = self._started(words, processes)
        assert USAGE == command.ended(ENDS_WITHIN_S), command.said()
        assert "another run is at work" in command.said()

    def _await(self, end: End, command: Started) -> None:
        """The end, at its moment."""
        at = self._draw.randrange(end.first, end.last)
        if end.of == "results":
            command.reach(lambda _: any(self.home.glob("out/run-*/summary.json")), ENDS_WITHIN_S)
            end.deed(self.act, command)
        elif end.of == "stage":
            self._await_stages(command, at)
            end.deed(self.act, command)
        else:
            fault = Fault(Harm.CALL, reply=False, operation=end.of, frame=at, call=lambda _: end.deed(self.act, command))
            self.act.by_name[self._draw.choice(BOOKIES)].faults = [fault]

    def _await_stages(self, command: Started, more: int) -> None:
        wanted = len(stages_written(self.home)) + more
        command.reach(lambda _: len(stages_written(self.home)) >= wanted, ENDS_WITHIN_S)

    def _resumes(self, end: End, said: str) -> Sequence[str]:
        """The command as the ended run has it, word for word; where it could not say anything, with its directory's id."""
        if end.code == -signal.SIGKILL:
            return ("run", "--resume", run_of(self.home).name.removeprefix("run-"))
        advice = ADVICE.findall(said)
        assert 1 == len(advice), f"it should say on one line how to go on: {said}"
        return tuple(str(advice[0]).split())

    def _last_life(self, words: Sequence[str], processes: ExitStack) -> None:
        command = self._started(words, processes)
        assert FINDINGS == command.ended(ENDS_WITHIN_S), command.said()
        assert LATEST != (self.home / "out" / "latest.json").read_bytes()
        before = set(self._known)
        self._lives.append(([one for one in written(run_of(self.home)) if one not in before], 1))

    def _started(self, words: Sequence[str], processes: ExitStack) -> Started:
        self._commands.append(processes.enter_context(started(self.home, *words, *self._settings)))
        return self._commands[-1]


def nothing_published(command: Started, *, results: bool = False) -> None:
    """The earlier result to the byte, and no verdict of this run that anybody could take for one, unless it has `results`."""
    assert LATEST == (command.output / "latest.json").read_bytes()
    found = [str(path) for name in ("summary.json", "findings.jsonl") for path in command.output.glob(f"run-*/{name}")]
    assert results or [] == found, f"FAULT_SEED={SEED}"


def run_of(home: Path) -> Path:
    """The directory of the only run."""
    (run,) = (home / "out").glob("run-*")
    return run


def stages_written(home: Path) -> list[Path]:
    """What the journal of the run has, oldest first; nothing before there is a run."""
    return sorted((home / "out").glob("run-*/journal/*.json"))
