"""The judgings of a run: which look each belongs to, and what each left to do. The tables they write are `Stages`'."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow.compute as pc
import pyarrow.dataset as ds

from auditor.errors import WorkerDied
from auditor.evidence.shards import Shard
from auditor.judgement import Todo
from auditor.report.journal import Journal
from auditor.report.run_directory import Place
from auditor.tables.stages import Stages
from auditor.tables.verdicts import STEPS


class Judging(NamedTuple):
    """One judging: of which look, its number within the look, and of which shard."""

    look: int
    number: int
    shard: int


@dataclass(slots=True)
class Judgings:
    """Every judging of the run, oldest first, also those that were written before it went on."""

    stages: Stages
    run: Place
    journal: Journal
    done: list[Judging] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Sentences on judgings that had to be done again."""

    @property
    def latest(self) -> int:
        """The number of the newest judging within its look."""
        return self.done[-1].number

    def judge(self, look: int, shard: Shard, only: tuple[int, Todo] | None = None) -> None:
        """Judge a shard's open ledgers once more; `only` those that judging `only[0]` of this look left with that todo."""
        number = self.latest + 1 if self.done and self.done[-1].look == look else 0
        name = self.stages.steps_name(look, number)

        def work() -> None:
            try:
                self.stages.judge(look, number, shard, only)
            except WorkerDied as died:
                # Nothing of that job counts, whatever it left. Once more from the same evidence, each ledger in a child.
                self.run.remove(name)
                self.problems.append(f"judging at look {look} was done again, ledger by ledger: {died}")
                self.stages.judge(look, number, shard, only, careful=True)

        self.journal.once(name, work)
        self.done.append(Judging(look, number, shard.number))

    def left(self, look: int, todo: Todo, shard: Shard | None = None) -> int:
        """How many ledgers, or how many of a shard, some judging of a look left with that todo."""
        mine = [one for one in self.done if one.look == look and (shard is None or one.shard == shard.number)]
        return sum(self._count(one, pc.field("todo") == todo.value) for one in mine)

    def left_by_latest(self, todo: Todo) -> int:
        """How many ledgers the newest judging left with that todo."""
        return self._count(self.done[-1], pc.field("todo") == todo.value)

    def wants_second_opinion(self, look: int) -> bool:
        """Whether an open ledger wants to be asked about again, not just its metadata read once more."""
        waiting = (pc.field("todo") == Todo.LOOK.value) & pc.field("wait")
        return any(self._count(one, waiting) for one in self.done if one.look == look)

    def commit(self) -> None:
        """One verdict a ledger, from whichever judging settled it. The judgings stay until the run is over."""
        self.journal.once("verdicts", lambda: self.stages.commit([(one.look, one.number) for one in self.done]))

    def _count(self, judging: Judging, keep: ds.Expression) -> int:
        return self.run.count(self.stages.steps_name(judging.look, judging.number), STEPS, keep)
