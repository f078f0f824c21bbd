"""The one place that decides who does a stage: Spark, or this process for few ledgers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import current_thread, main_thread

from auditor.evidence.shards import EVERYTHING, Shard
from auditor.judging.settle import Todo
from auditor.model.evidence import Terms
from auditor.model.identity import LedgerId
from auditor.model.ledger import Mark
from auditor.spark.lanes import Directory
from auditor.spark.stages import Stages
from auditor.suspects.in_process import InProcessStages
from auditor.suspects.remaining import Suspects


@dataclass(frozen=True, slots=True)
class StagesBySize:
    """Run each stage on Spark, or in this process where it has at most `suspects_max` suspects.

    0 leaves everything to Spark, and so does a caller that is not the main thread.

    Both ways read and write the same tables, so a run may change between them at any stage.
    """

    on_spark: Stages
    in_process: InProcessStages
    suspects: Suspects
    suspects_max: int

    @property
    def terms(self) -> Terms:
        """The terms of judgement, the same both ways."""
        return self.on_spark.terms

    def with_terms(self, terms: Terms) -> StagesBySize:
        """Return the same stages under other terms of judgement."""
        on_spark, in_process = replace(self.on_spark, terms=terms), replace(self.in_process, terms=terms)
        return replace(self, on_spark=on_spark, in_process=in_process)

    def read_ledgers(self, look: int, shard: Shard = EVERYTHING, marks: Mapping[LedgerId, Mark] | None = None) -> None:
        """The listed ledgers, or after the first look the open ones -> evidence/ledgers."""
        if look == 1:
            self.on_spark.read_ledgers(look, shard, marks)
        else:
            self._of(self.suspects.open_ledgers(look - 1, shard)).read_ledgers(look, shard)

    def ask_lists(self, look: int, directory: Directory, shard: Shard = EVERYTHING, judging: int | None = None) -> None:
        """Each bookie about the ledgers that demand it, and a greeting to each -> evidence/answers."""
        if judging is None:
            self.on_spark.ask_lists(look, directory, shard)
        else:
            self._of(self.suspects.ledgers_left(look, judging, Todo.LISTS)).ask_lists(look, directory, shard, judging)

    def read_entries(self, look: int, judging: int, directory: Directory) -> None:
        """The confirming reads that the given judging of this look demanded -> evidence/reads."""
        self._of(self.suspects.ledgers_left(look, judging, Todo.READS)).read_entries(look, judging, directory)

    def judge(
        self,
        look: int,
        judging: int,
        shard: Shard = EVERYTHING,
        only: tuple[int, Todo] | None = None,
        *,
        again_without: Mapping[LedgerId, str] | None = None,
    ) -> None:
        """Where each open ledger stands now -> steps."""
        stages: Stages | InProcessStages = self.on_spark
        if only is not None:
            stages = self._of(self.suspects.ledgers_left(look, *only))
        elif look > 1:
            stages = self._of(self.suspects.open_ledgers(look - 1, shard))
        stages.judge(look, judging, shard, only, again_without=again_without)

    def _of(self, suspects: list[LedgerId]) -> Stages | InProcessStages:
        are_few = len(suspects) <= self.suspects_max and self.suspects_max > 0
        return self.in_process if are_few and current_thread() is main_thread() else self.on_spark
