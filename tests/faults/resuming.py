"""Runs that are ended from outside and resumed, by a plan of `faults.ends`.

    found = Play(PLANS["SIGKILL of the driver, at a list"], act, home).breaches()

Every life is a process of its own. It ends at a frame that a proxy sees, or when so many stages are
in the journal. The seed draws which frame, and how many stages. The command that resumes the run is
the one that the ended run printed; if it printed none, the run's id is the name of its directory.
The harm is over when the run is resumed: every ledger is owed.
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
SETTINGS = ("--shard-ledgers", str(SHARD_LEDGERS), "--suspects-in-process-max", str(SHARD_LEDGERS),
            "--second-look-delay", "0s", "--rpc-timeout", "60s",
            "--zookeeper-retries", "1", "--zookeeper-connect-timeout", "10s")  # fmt: skip
"""Settings of every life. A time-out on a busy machine would repeat a question. A later look takes
no more ledgers together than the first one."""
LATEST = b'{"run": "run-20200101T000000Z-000000"}\n'
ENDS_WITHIN_S = 600.0
"""How long a life may take on a busy machine, in seconds. It takes some ten seconds with two idle
cores.
"""
ADVICE = re.compile(r"auditor (run --resume \d{8}T\d{6}Z-[0-9a-f]{6})\b")


class Play:
    """One run of a plan. `before`: what to do to its home before it begins."""

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
        """Return what the detector finds when the run is over. `meddle` may change its directory
        before it is resumed.
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
        """Run one life to its end; return the command that resumes the run."""
        command = self._started(words, processes)
        self._await(end, command)
        code = command.ended(ENDS_WITHIN_S)
        assert [] == self.act.log.errors, self.act.log.errors
        assert end.code == code, command.said()
        words = self._resumes(end, command.said())
        if end.leaves_jvm:
            self._refused(words, processes)
            os.kill(jvm_of(command), signal.SIGCONT)
        assert [] == command.survivors()
        nothing_published(command, results=end.of == "results")
        end.over(self.act)
        (self.home / "out" / ".latest.json.tmp").unlink(missing_ok=True)
        self.act.second_look(0, heal=True)  # each life has an epoch of the log
        now = journalled(run_of(self.home))
        assert self._known == now[: len(self._known)], "the journal forgot something"
        self._lives.append((now[len(self._known) :], end.attempts))
        self._known = now
        return words

    def _refused(self, words: Sequence[str], processes: ExitStack) -> None:
        """Assert that the lock of a process that might still write for the run prevents a
        resumption.
        """
        command = self._started(words, processes)
        assert USAGE == command.ended(ENDS_WITHIN_S), command.said()
        assert "another run is at work" in command.said()

    def _await(self, end: End, command: Started) -> None:
        """Wait for the moment of the end, and do it."""
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
        """Return the command that the ended run printed, word for word; if it could not print one,
        with its directory's id.
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
    """Assert that the earlier result is unchanged, byte for byte, and that there is no verdict of
    this run, unless it has `results`.
    """
    assert LATEST == (command.output / "latest.json").read_bytes()
    found = [
        str(path)
        for name in ("summary.json", "findings.jsonl")
        for path in command.output.glob(f"run-*/{name}")
    ]
    assert results or [] == found, f"FAULT_SEED={SEED}"


def run_of(home: Path) -> Path:
    """Return the directory of the only run."""
    (run,) = (home / "out").glob("run-*")
    return run


def stages_written(home: Path) -> list[Path]:
    """Return the stages in the journal of the run, oldest first; nothing before there is a run."""
    return sorted((home / "out").glob("run-*/journal/*.json"))
