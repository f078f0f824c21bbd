"""Do the judgings of a run. Each belongs to a look, and leaves something to do for some ledgers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from auditor.errors import WorkerDied
from auditor.evidence.ids import Shard
from auditor.evidence.journal import PROBLEMS, Journal, StageResult
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import VERDICTS
from auditor.judging.settle import Todo
from auditor.judging.verdict_rows import spoil_rows
from auditor.model.identity import LedgerId
from auditor.stages.stages import Stages
from auditor.stages.steps import STEPS, steps_name
from auditor.summary.contradicted_lists import spoiled_ledgers
from auditor.summary.counts import HAS_DETAIL, disputed_ledgers

DIFFERING_MAX = 100
"""In one judging, the checkers may differ on at most this many ledgers. Up to it, the other ledgers
are judged again without them."""


class Judging(NamedTuple):
    """One judging: of which look, its number within the look, and of which shard.

    `reopens`: it judged ledgers that an earlier judging of the look had settled, and replaces these
    verdicts.
    """

    look: int
    number: int
    shard: int
    reopens: bool = False


@dataclass(slots=True)
class Judgings:
    """Every judging of the run, oldest first, including those before it was resumed."""

    stages: Stages
    run: Place
    journal: Journal
    done: list[Judging] = field(default_factory=list)

    @property
    def latest(self) -> int:
        """The number of the newest judging within its look."""
        return self.done[-1].number

    def judge(
        self,
        look: int,
        shard: Shard,
        only: tuple[int, Todo] | None = None,
        *,
        retested: bool = False,
    ) -> None:
        """Judge a shard's open ledgers once more. `only`: those that judging `only[0]` of this look
        left with that todo. `retested`: those settled at the first look of which more was read on
        bookies in doubt.
        """
        number = self.latest + 1 if self.done and self.done[-1].look == look else 0
        name = steps_name(look, number)
        self.journal.run_once(name, self._judge, look, number, shard, only, retested)
        self.done.append(Judging(look, number, shard.number, retested))

    def tables(self, look: int) -> list[str]:
        """Return the tables of the judgings of a look, oldest first."""
        return [steps_name(look, one.number) for one in self.done if one.look == look]

    def _judge(
        self, look: int, number: int, shard: Shard, only: tuple[int, Todo] | None, retested: bool
    ) -> StageResult:
        """Judge a shard, and once more if the process that judged cannot be trusted.

        It cannot if the checkers differ or the process died. Then the first result is removed, and
        the shard is judged again from the same evidence, without the ledgers on which the checkers
        differ.
        """
        name = steps_name(look, number)
        try:
            self.stages.judge(look, number, shard, only, retested=retested)
            differing = self._differences(name)
            why = f"the two checkers differ on ledger {min(differing)}" if differing else ""
        except WorkerDied as died:
            differing, why = {}, died.said
        if not why:
            return {}
        self.run.remove(name)
        self.stages.judge(look, number, shard, only, retested=retested, again_without=differing)
        return {PROBLEMS: [f"judging at look {look} was done again, ledger by ledger: {why}"]}

    def _differences(self, name: str) -> dict[LedgerId, str]:
        """Return the ledgers of a judging on which the two checkers differ, and how.

        Empty above DIFFERING_MAX: that many differences mean a wrong rule, not a broken process.
        """
        rows = self.run.read_table(name, STEPS, HAS_DETAIL, ["ledger_id", "unknowns", "detail"])
        differing = dict(disputed_ledgers(rows))
        return differing if len(differing) <= DIFFERING_MAX else {}

    def count_left(self, look: int, todo: Todo, shard: Shard | None = None) -> int:
        """Return how many ledgers (of a shard) some judging of a look left with that todo."""
        mine = [
            one
            for one in self.done
            if one.look == look and (shard is None or one.shard == shard.number)
        ]
        return sum(self._count(one, pc.field("todo") == todo.value) for one in mine)

    def count_left_by_latest(self, todo: Todo) -> int:
        """Return how many ledgers the newest judging left with that todo."""
        return self._count(self.done[-1], pc.field("todo") == todo.value)

    def wants_second_opinion(self, look: int) -> bool:
        """Return whether bookies must be asked again about some ledger, or only its metadata
        read.
        """
        waiting = (pc.field("todo") == Todo.LOOK.value) & pc.field("wait")
        return any(self._count(one, waiting) for one in self.done if one.look == look)

    def commit(self) -> None:
        """Write one verdict a ledger, from the judging that settled it.

        The judgings stay until the run ends.
        """
        self.journal.run_once(
            "verdicts",
            lambda: self.run.write_stream("verdicts", self._settled_rows(), VERDICTS, "kept"),
        )

    def _settled_rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all judgings with nothing left to do, batch by batch.

        Some verdicts may rest on lists that a bookie contradicted in a later shard: these are
        corrected.
        """
        spoiled = spoiled_ledgers(self.run)
        replaced = {one.shard: self._ids(one) for one in self.done if one.reopens}
        for one in self.done:
            if one.reopens:
                del replaced[one.shard]
            for batch in self.run.stream(steps_name(one.look, one.number), STEPS, VERDICTS.names):
                settled = batch.filter(pc.equal(batch["todo"], Todo.NOTHING.value))
                if one.shard in replaced:
                    again = pc.is_in(settled["ledger_id"], replaced[one.shard])
                    settled = settled.filter(pc.invert(again))
                if settled.num_rows:
                    yield spoil_rows(settled, spoiled)

    def _ids(self, judging: Judging) -> pa.Array:
        """Return the ledgers of a judging, in any order."""
        name = steps_name(judging.look, judging.number)
        return self.run.read_table(name, STEPS, None, ["ledger_id"])["ledger_id"].combine_chunks()

    def _count(self, judging: Judging, keep: ds.Expression) -> int:
        return self.run.count(steps_name(judging.look, judging.number), STEPS, keep)
