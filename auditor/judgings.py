"""The judgings of a run: which look each belongs to, and what each left to do. The tables they write are `Stages`'."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow.compute as pc
import pyarrow.dataset as ds

from auditor.errors import WorkerDied
from auditor.judgement import Todo
from auditor.report.run_directory import Place
from auditor.tables.stages import Stages
from auditor.tables.verdicts import STEPS


@dataclass(slots=True)
class Judgings:
    """Every judging as (look, number within the look), oldest first."""

    stages: Stages
    run: Place
    done: list[tuple[int, int]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Sentences on judgings that had to be done again."""

    @property
    def latest(self) -> int:
        """The number of the newest judging within its look."""
        return self.done[-1][1]

    def judge(self, look: int, only: tuple[int, Todo] | None = None) -> None:
        """Judge the open ledgers once more; `only` those that judging `only[0]` of this look left with that todo."""
        number = self.latest + 1 if self.done and self.done[-1][0] == look else 0
        try:
            self.stages.judge(look, number, only)
        except WorkerDied as died:
            # Nothing of that job counts, whatever it left. Once more from the same evidence, each ledger in a child's hands.
            self.run.remove(self.stages.steps_name(look, number))
            self.problems.append(f"judging at look {look} was done again, ledger by ledger: {died}")
            self.stages.judge(look, number, only, careful=True)
        self.done.append((look, number))

    def left(self, look: int, todo: Todo) -> int:
        """How many ledgers some judging of a look left with that todo."""
        return sum(self._count(one, pc.field("todo") == todo.value) for one in self.done if one[0] == look)

    def left_by_latest(self, todo: Todo) -> int:
        """How many ledgers the newest judging left with that todo."""
        return self._count(self.done[-1], pc.field("todo") == todo.value)

    def wants_second_opinion(self, look: int) -> bool:
        """Whether an open ledger wants to be asked about again, not just its metadata read once more."""
        waiting = (pc.field("todo") == Todo.LOOK.value) & pc.field("wait")
        return any(self._count(one, waiting) for one in self.done if one[0] == look)

    def commit(self) -> None:
        """One verdict a ledger, from whichever judging settled it; the judgings themselves are removed."""
        self.stages.commit(self.done)
        self.run.remove("steps")

    def _count(self, judging: tuple[int, int], keep: ds.Expression) -> int:
        return self.run.count(self.stages.steps_name(*judging), STEPS, keep)
