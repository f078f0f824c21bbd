"""A history applied to a world action by action, with every property checked after each; and the
shortest failing one.
"""

from __future__ import annotations

import random
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from traceback import extract_tb
from typing import TypeVar

from support.model import actions
from support.model.across import wrong_across
from support.model.engines import Judged, SparkFree
from support.model.properties import broken, broken_by_one
from support.model.rows import Row
from support.model.truth import Cut, Truth
from support.model.worlds import World

T = TypeVar("T")

SHRINKS_MAX = 400
"""Histories tried in search of a shorter failing one."""
HISTORIES_DRAWN = 200
"""Histories among which `histories_with` chooses."""


class Seeded:
    """A chooser with a seed."""

    def __init__(self, seed: object) -> None:
        self._random = random.Random(f"{seed}")

    def pick(self, options: Sequence[T]) -> T:
        return self._random.choice(options)


class Broken(AssertionError):
    """A property does not hold. `lines` are the history up to there."""

    def __init__(self, lines: Sequence[str], sentences: Sequence[str], where: str = "") -> None:
        self.lines = list(lines)
        self.sentences = list(sentences)
        history = "\n".join(f"    {line}" for line in self.lines)
        listed = "\n".join(f"- {sentence}" for sentence in self.sentences)
        again = (
            f".venv/bin/python tests/model/replay.py {where}{shlex.quote('; '.join(self.lines))}"
        )
        super().__init__(f"after the history\n{history}\n{listed}\nto see it again:\n    {again}")


def raised(error: Exception) -> str:
    """Return what was raised, and where, as a sentence."""
    at = extract_tb(error.__traceback__)[-1]
    return (
        f"{type(error).__name__}, raised by {at.name} ({Path(at.filename).name}, line {at.lineno}):"
        f" {error}"
    )


class Cluster:
    """One world under audit, history by history. `where` is what the replay command needs to build
    the same kind of world.
    """

    def __init__(
        self, world: World, auditor: SparkFree, where: str = "", sample: int | None = None
    ) -> None:
        self.world = world
        self.auditor = auditor
        self.where = where
        self.sample = sample
        self.begin()

    def begin(self) -> None:
        """Begin a new history: all bookies up, no ledger."""
        self.truth: Truth = self.world.at_first
        self.truth.sample = self.sample
        self.lines: list[str] = []
        self.rows: dict[int, Row] = {}
        self.went_on: dict[int, Row] = {}
        """What the last resumed audit said."""
        self.world.become(self.truth)

    def happen(self, line: str) -> bool:
        """Apply the action without an audit, and return whether it could happen."""
        could = actions.happen(self.truth, line)
        if could:
            self.lines.append(line)
        return could

    def step(self, line: str) -> None:
        """Apply the action and check all properties; do nothing if it cannot happen. Raises
        Broken.
        """
        cut = self.truth.cut
        if not self.happen(line):
            return
        with self.naming_the_history():
            if sentences := self._checked(line, cut):
                raise Broken(self.lines, sentences, self.where)

    def _checked(self, line: str, cut: Cut | None) -> list[str]:
        """Return what is broken after the last action, as sentences. `cut`: the audit that could be
        resumed before it.
        """
        untouched = self.truth.ledgers.keys() - actions.touched(self.truth, line)
        sentences = self.gone_on_with(cut) if line == "resume" and cut is not None else []
        judged = self.judged()
        sentences += broken(self.truth, judged, self.rows, untouched)
        rows = {number: one.row for number, one in judged.items()}
        if line == "audit":
            alone = {number: self.auditor.audit([number])[number].row for number in reversed(rows)}
            sentences += [
                f"ledger {n} alone is {alone[n]}\n  and among others {rows[n]}"
                for n in rows
                if alone[n] != rows[n]
            ]
        if line == "again":
            second = {number: one.row for number, one in self.judged().items()}
            sentences += [
                f"ledger {n} was {rows[n]}\n  and is {second[n]}"
                for n in rows
                if second[n] != rows[n]
            ]
        self.rows = rows
        return sentences

    @contextmanager
    def naming_the_history(self) -> Iterator[None]:
        """Raise Broken for whatever the block raises, including errors of the product."""
        try:
            yield
        except Broken:
            raise
        except Exception as error:
            raise Broken(self.lines, [raised(error)], self.where) from error

    def end(self, lines: Sequence[str]) -> None:
        """Run a whole history, with an audit at its end and one at each resumption. Raises
        Broken.
        """
        self.begin()
        for line in lines:
            cut = self.truth.cut
            if self.happen(line) and line == "resume" and cut is not None:
                with self.naming_the_history():
                    if sentences := self.gone_on_with(cut):
                        raise Broken(self.lines, sentences, self.where)
        self.step("again")

    def judged(self) -> dict[int, Judged]:
        """Return the Spark-free engine's verdicts on all ledgers now."""
        self._become(self.truth)
        return self.auditor.audit(list(self.truth.ledgers))

    def _become(self, truth: Truth) -> None:
        """Make the world what the model says, and give the engine the bookies that cannot list."""
        self.world.become(truth)
        self.auditor.known_unable = frozenset(
            name for name, one in truth.bookies.items() if not one.lists
        )

    def gone_on_with(self, cut: Cut) -> list[str]:
        """Return what is broken, as sentences, if an audit pauses while the cluster becomes what it
        is now.

        The engine without Spark keeps nothing of an audit that ends early. Instead of being killed
        it pauses before its question number `cut.stage` to ZooKeeper.
        """
        self._become(cut.cluster)
        numbers = list(cut.cluster.ledgers)
        judged, heard = self.auditor.audit_across(
            numbers, cut.stage, lambda: self.world.become(self.truth)
        )
        self.went_on = rows = {number: one.row for number, one in judged.items()}
        sentences = [*wrong_across((cut.cluster, self.truth), rows, heard)]
        return sentences + [
            sentence for number, one in judged.items() for sentence in broken_by_one(number, one)
        ]

    def run(self, lines: Sequence[str]) -> None:
        """Run a whole history from its beginning. Raises Broken."""
        self.begin()
        for line in lines:
            self.step(line)


def draw_history(
    seed: object, steps: int, truth: Truth, only: Collection[str] = actions.BY_NAME
) -> list[str]:
    """Draw the history of a seed, with so many actions after its beginning.

    `truth` is where it begins, and is not changed. `only`: the names of the actions to draw.
    """
    chooser, truth = Seeded(seed), deepcopy(truth)
    urn = [action for action in actions.swarm(chooser) if action.name in only]
    lines = actions.draw_beginning(chooser, truth)
    for _ in range(steps):
        line = actions.draw(chooser, urn, truth)
        if actions.happen(truth, line):
            lines.append(line)
    return lines


def histories_with(names: Collection[str], steps: int, truth: Truth) -> list[list[str]]:
    """Return few histories in which each of these actions happens, each cut after the last one that
    it adds. The same names and steps give the same histories. Nothing is audited.

    Raises AssertionError if no drawn history has one of them.
    """
    left, found = set(names), []
    drawn = [draw_history(f"with/{number}", steps, truth) for number in range(HISTORIES_DRAWN)]
    while left:
        adds = [left.intersection(line.split()[0] for line in lines) for lines in drawn]
        at = max(range(HISTORIES_DRAWN), key=lambda number: len(adds[number]))
        assert adds[at], f"{HISTORIES_DRAWN} histories of {steps} actions have no {sorted(left)}"
        firsts = [[line.split()[0] for line in drawn[at]].index(name) for name in adds[at]]
        found.append(drawn[at][: max(firsts) + 1])
        left -= adds[at]
    return found


def shortest(
    lines: Sequence[str], fails: Callable[[Sequence[str]], bool], tries_max: int = SHRINKS_MAX
) -> list[str]:
    """Return the history without the actions it does not need to fail. Larger parts are tried
    first.
    """
    found, size, tries = list(lines), max(1, len(lines) // 2), 0
    while tries < tries_max:
        smaller = False
        at = 0
        while at < len(found) and tries < tries_max:
            candidate = found[:at] + found[at + size :]
            tries += 1
            if candidate and fails(candidate):
                found, smaller = candidate, True
            else:
                at += size
        if size == 1 and not smaller:
            return found
        size = max(1, size // 2)
    return found


def first_broken(
    run: Callable[[Sequence[str]], None],
    histories: Iterable[Sequence[str]],
    tries_max: int = SHRINKS_MAX,
) -> Broken | None:
    """Return the shortest form of the first failing history; None if none fails. `run` is
    `Cluster.run` or `Cluster.end`.
    """
    for lines in histories:
        failure = _failure(run, lines)
        if failure is not None:
            short = shortest(failure.lines, lambda some: _failure(run, some) is not None, tries_max)
            return _failure(run, short) or failure
    return None


def _failure(run: Callable[[Sequence[str]], None], lines: Sequence[str]) -> Broken | None:
    try:
        run(lines)
    except Broken as failure:
        return failure
    return None
