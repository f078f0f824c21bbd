"""Decide where each stage runs: on Spark, or in this process if it is for few ledgers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import current_thread, main_thread

from auditor.evidence.ids import EVERYTHING, Shard
from auditor.first_checker.spot_reads import ListTests
from auditor.judging.settle import Todo
from auditor.model.evidence import Terms
from auditor.model.identity import LedgerId
from auditor.model.ledger import Mark
from auditor.spark.lanes import Directory
from auditor.spark.stages import Stages
from auditor.summary.costs import BookieCost
from auditor.suspects.in_process import InProcessStages
from auditor.suspects.remaining import Suspects
from auditor.zookeeper.ledgers import ListingPartition


@dataclass(frozen=True, slots=True)
class StagesBySize:
    """Run each stage on Spark, or in this process where it is for few ledgers.

    This process does all stages of a run that listed at most `ledgers_max` ledgers, and of a larger
    one those stages that follow a judging and have at most `suspects_max` ledgers of the shard.
    `ledgers_max` of 0 leaves the first look to Spark, and `suspects_max` of 0 everything. So does
    a caller that is not the main thread.

    Both ways read and write the same tables, so a run may change between them at any stage.
    `on_spark` returns Spark's stages. Its first call may start Spark, and raise SparkUnavailable.
    """

    on_spark: Callable[[], Stages]
    in_process: InProcessStages
    suspects: Suspects
    suspects_max: int
    ledgers_max: int

    @property
    def terms(self) -> Terms:
        """Return the terms of judgement, the same for both."""
        return self.in_process.terms

    def list_ledgers(
        self, portions: Sequence[ListingPartition], name: str = "evidence/listing"
    ) -> bool:
        """List every ledger id -> evidence/listing, or another table. Return whether Spark listed
        them.

        A single portion is always listed here, which takes a moment where a Spark job takes two
        seconds. Several portions are tried here if they may hold few ledgers: BookKeeper removes a
        parent that has none.
        """
        ids_max = None if len(portions) <= 1 else self._ledgers_max()
        parents = sum(len(portion.parents) for portion in portions)
        may_be_few = ids_max is None or parents <= ids_max
        if may_be_few and self.in_process.list_ledgers(portions, ids_max, name):
            return False
        self.on_spark().list_ledgers(portions, name)
        return True

    def take_listing(self, ids: Sequence[LedgerId]) -> None:
        """Write the ledger ids that an operator named -> evidence/listing."""
        self.in_process.take_listing(ids, "evidence/listing")

    def with_terms(self, terms: Terms) -> StagesBySize:
        """Return the same stages under other terms of judgement."""
        in_process = replace(self.in_process, terms=terms)
        return replace(
            self, on_spark=lambda: replace(self.on_spark(), terms=terms), in_process=in_process
        )

    def read_ledgers(
        self, look: int, shard: Shard = EVERYTHING, marks: Mapping[LedgerId, Mark] | None = None
    ) -> None:
        """Read the listed ledgers, after the first look the open ones -> evidence/ledgers."""
        self._of_look(look, shard).read_ledgers(look, shard, marks)

    def plan(self) -> list[BookieCost]:
        """Return what the first look would ask each bookie. Nothing is asked."""
        return self._of_look(1, EVERYTHING).plan()

    def ask_lists(
        self, look: int, directory: Directory, shard: Shard = EVERYTHING, judging: int | None = None
    ) -> None:
        """Ask each bookie for the lists that are due, and greet it -> evidence/answers."""
        stages = (
            self._of_look(look, shard)
            if judging is None
            else self._of_judging(look, judging, Todo.LISTS)
        )
        stages.ask_lists(look, directory, shard, judging)

    def test_lists(self, directory: Directory, shard: Shard, tests: ListTests) -> None:
        """Read the entries that test the lists of some bookies at the first look ->
        evidence/reads.
        """
        self._of_look(1, shard).test_lists(directory, shard, tests)

    def read_entries(self, look: int, judging: int, directory: Directory) -> None:
        """Make the confirming reads that the given judging of this look demanded ->
        evidence/reads.
        """
        self._of_judging(look, judging, Todo.READS).read_entries(look, judging, directory)

    def judge(
        self,
        look: int,
        judging: int,
        shard: Shard = EVERYTHING,
        only: tuple[int, Todo] | None = None,
        *,
        retested: bool = False,
        again_without: Mapping[LedgerId, str] | None = None,
    ) -> None:
        """Judge each open ledger -> steps."""
        if retested and not self._is_small_run():
            stages = self._of(len(self.suspects.retested_ledgers(shard)))
        else:
            stages = self._of_look(look, shard) if only is None else self._of_judging(look, *only)
        stages.judge(look, judging, shard, only, retested=retested, again_without=again_without)

    def _of_look(self, look: int, shard: Shard) -> Stages | InProcessStages:
        """Return who runs a stage that begins a look, over all its ledgers of the shard."""
        if self._is_small_run():
            return self.in_process
        return (
            self.on_spark()
            if look == 1
            else self._of(len(self.suspects.open_ledgers(look - 1, shard)))
        )

    def _of_judging(self, look: int, judging: int, todo: Todo) -> Stages | InProcessStages:
        """Return who runs a stage over the ledgers that a judging left with that todo."""
        return (
            self.in_process
            if self._is_small_run()
            else self._of(len(self.suspects.ledgers_left(look, judging, todo)))
        )

    def _of(self, suspects: int) -> Stages | InProcessStages:
        return (
            self.in_process
            if self._may_work_here() and suspects <= self.suspects_max
            else self.on_spark()
        )

    def _is_small_run(self) -> bool:
        ledgers_max = self._ledgers_max()
        return ledgers_max > 0 and self.suspects.count_listed() <= ledgers_max

    def _ledgers_max(self) -> int:
        """Return how many listed ledgers this process may take a first look at."""
        return self.ledgers_max if self._may_work_here() else 0

    def _may_work_here(self) -> bool:
        return self.suspects_max > 0 and current_thread() is main_thread()
