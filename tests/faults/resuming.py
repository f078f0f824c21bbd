"""Runs that are ended from outside and gone on with: how a plan of `faults.ends` is played.

    found = Play(PLANS["SIGKILL of the driver, at a list"], act, home).breaches()

Every life is a process of its own. Its end comes at a frame that a proxy sees, or when so many
stages are in the journal; which frame, and how many, is the seed's affair. The command that goes on
is taken from what the ended run said, where it can say anything; else the run's id is that of its
directory. What ended the run is over when it goes on: every ledger is owed.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random

from faults.detector import Breach
from faults.ends import FINDINGS, USAGE, End, LivesPlan, jvm_of
from faults.harm import Fault, Harm
from faults.lives import Life, Question, breaches_of_lives, journalled, written
from faults.playing import SEED
from faults.reported import of_run
from faults.scene import BOOKIES, Act, owed
from support.started_command import Started, started

SHARD_LEDGERS = 9
"""The scene's eighteen ledgers make two shards."""
ON_SPARK = ("--ledgers-in-process-max", "0")
SETTINGS = ("--shard-ledgers", str(SHARD_LEDGERS),
            "--second-look-delay", "0s", "--rpc-timeout", "60s",
            "--zookeeper-retries", "1", "--zookeeper-connect-timeout", "10s")  # fmt: skip
"""Of every life. A time-out on a busy machine would be a question asked again."""
LATEST = b'{"run": "run-20200101T000000Z-000000"}\n'
ENDS_WITHIN_S = 600.0
"""How long a life may take, on a machine that does other things too: some ten seconds where it has
two cores for itself.
"""
ADVICE = re.compile(r"auditor (run --resume \d{8}T\d{6}Z-[0-9a-f]{6})\b")


class Play:
    """One run of a plan. `before`: what is done to its home before it begins."""

    def __init__(
        self, plan: LivesPlan, act: Act, home: Path, before: Callable[[], object] = lambda: None
    ) -> None:
        self.plan, self.act, self.home = plan, act, home
        self._before = before
        way = ON_SPARK if plan.on_spark else ()
        self._settings = ("--metadata-service-uri", act.metadata_service_uri, *SETTINGS, *way)
        self._draw = Random(f"{SEED} {plan.name}")
        self._known: list[Question] = []
        self._lives: list[tuple[list[Question], int]] = []
        self._commands: list[Started] = []
        self._done: list[End] = []

    def breaches(self, meddle: Callable[[Path], object] = lambda run: None) -> list[Breach]:
        """What the detector finds when the run is over. `meddle` may do something to its directory
        before it goes on.
        """
        (self.home / "out").mkdir(parents=True)
        (self.home / "out" / "latest.json").write_bytes(LATEST)
        self._before()
        words: Sequence[str] = ("run",)
        with ExitStack() as processes:
            for end in self.plan.ends:
                words = self._life(end, words, processes)
                meddle(run_of(self.home))
            self._last_life(words, processes)
            assert [] == [left for command in self._commands for left in command.survivors()]
        assert [] == self.act.log.errors, self.act.log.errors
        lives = [
            Life(seen, *life) for seen, life in zip(self.act.log.epochs(), self._lives, strict=True)
        ]
        return breaches_of_lives(
            lives, of_run(run_of(self.home)), owed(self.plan.owed), SHARD_LEDGERS
        )

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
        (self.home / "out" / ".latest.json.tmp").unlink(missing_ok=True)
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
            self._do(end, command)
        elif end.of == "stage":
            self._await_stages(command, at)
            self._do(end, command)
        else:
            fault = Fault(
                Harm.CALL,
                reply=False,
                operation=end.of,
                frame=at,
                call=lambda _: self._do(end, command),
            )
            self.act.by_name[self._draw.choice(BOOKIES)].faults = [fault]

    def _do(self, end: End, command: Started) -> None:
        self._done.append(end)
        end.deed(self.act, command)

    def _await_stages(self, command: Started, more: int) -> None:
        wanted = len(stages_written(self.home)) + more
        command.reach(lambda _: len(stages_written(self.home)) >= wanted, ENDS_WITHIN_S)

    def _resumes(self, end: End, said: str) -> Sequence[str]:
        """The command as the ended run has it, word for word; where it could not say anything, with
        its directory's id.
        """
        if end.code == -signal.SIGKILL:
            return ("run", "--resume", run_of(self.home).name.removeprefix("run-"))
        advice = ADVICE.findall(said)
        assert 1 == len(advice), f"it should say on one line how to go on: {said}"
        return tuple(str(advice[0]).split())

    def _last_life(self, words: Sequence[str], processes: ExitStack) -> None:
        command = self._started(words, processes)
        ends = [*self.plan.ends, *self.plan.stops]
        for stop in self.plan.stops:
            self._await(stop, command)
        assert FINDINGS == command.ended(ENDS_WITHIN_S), command.said()
        assert ends == self._done, "not everything was done that the plan has"
        assert LATEST != (self.home / "out" / "latest.json").read_bytes()
        before = set(self._known)
        self._lives.append(([one for one in written(run_of(self.home)) if one not in before], 1))

    def _started(self, words: Sequence[str], processes: ExitStack) -> Started:
        self._commands.append(processes.enter_context(started(self.home, *words, *self._settings)))
        return self._commands[-1]


def nothing_published(command: Started, *, results: bool = False) -> None:
    """The earlier result to the byte, and no verdict of this run that anybody could take for one,
    unless it has `results`.
    """
    assert LATEST == (command.output / "latest.json").read_bytes()
    found = [
        str(path)
        for name in ("summary.json", "findings.jsonl")
        for path in command.output.glob(f"run-*/{name}")
    ]
    assert results or [] == found, f"FAULT_SEED={SEED}"


def run_of(home: Path) -> Path:
    """The directory of the only run."""
    (run,) = (home / "out").glob("run-*")
    return run


def stages_written(home: Path) -> list[Path]:
    """What the journal of the run has, oldest first; nothing before there is a run."""
    return sorted((home / "out").glob("run-*/journal/*.json"))
