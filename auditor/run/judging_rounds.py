"""Do the judgings of a run. Each belongs to a look, and leaves something to do for some ledgers.

Which entries are read by rank is set as soon as the number of entries is known. A bookie that comes
into doubt at the first look is read more densely: one that failed to send an entry that it should
hold, denied one that it lists, or lacks one. One such word is enough to read more there; an
accusation needs two looks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from auditor.clock import now_ms
from auditor.errors import WorkerDied
from auditor.evidence.gathered import ledger_records
from auditor.evidence.ids import Shard
from auditor.evidence.journal import PROBLEMS, Journal, StageResult
from auditor.evidence.run_directory import Place, write_json
from auditor.evidence.schemas import LEDGERS, READS, VERDICTS
from auditor.findings.lost_content import lacks_of
from auditor.first_checker.circle import Arc, Starts
from auditor.first_checker.probing import step_within
from auditor.first_checker.recheck import same_state
from auditor.first_checker.spot_reads import Density, ListTests
from auditor.judging.settle import Todo
from auditor.judging.verdict_rows import spoil_rows
from auditor.model.availability import ABSENT_READS, UNREADABLE_READS
from auditor.model.evidence import Terms
from auditor.model.identity import BookieId, LedgerId
from auditor.model.verdict import Standing
from auditor.stages.stages import Stages
from auditor.stages.steps import STEPS, steps_name
from auditor.summary.about import About
from auditor.summary.counts import HAS_DETAIL, disputed_ledgers
from auditor.summary.doubted_lists import spoiled_ledgers
from auditor.summary.due_copies import DUE_COLUMNS, Due, due_by_bookie
from auditor.summary.reading_plan import ReadingPlan
from auditor.zookeeper.metadata_store import MetadataStore


@dataclass(slots=True)
class SweepPlanner:
    """Derives from the first shard which entries the sweeps read.

    The step for bookies that cannot list is kept in run.json, and so are the arcs for the others. A
    resumed run gets the same: they are derived from what is written. `about` is the content of
    run.json. `carried_arcs`: what is read on bookies that carried ledgers may name.
    """

    run: Place
    about: About
    carried_arcs: Mapping[BookieId, Arc] = field(default_factory=dict)

    def terms_by(self, first: Shard, shards: int) -> Terms:
        """Return the terms of judgement with the step, before anything is judged. `about` gets what
        is read on bookies that list.

        The metadata of the first of `shards` shards must have been read. The shards hold equal
        numbers of ledgers: the first one stands for the others, together with the count of the last
        whole run.
        """
        terms, due = self.about.terms, due_by_bookie(self._ledgers(first))
        sweep = terms.sweep
        if sweep.budget > 0 and terms.probe_entries > 0:
            sweep = replace(sweep, step=step_within(sweep.budget, self._copies(due, shards)))
        about = replace(
            self.about,
            terms=replace(terms, sweep=sweep),
            reading=self._reading(due, shards, terms.spot_reads),
        )
        if about != self.about:
            self.about = about
            write_json(self.run, "run.json", about.as_json())
        return about.terms

    def _reading(self, due: Mapping[BookieId, Due], shards: int, spot_reads: int) -> ReadingPlan:
        """Return which copies are read on bookies that list."""
        plan = self.about.reading
        arcs = {**plan.for_bookies(due, shards, spot_reads).arcs, **self.carried_arcs}
        return replace(plan, arcs=arcs)

    def _copies(self, due: Mapping[BookieId, Due], shards: int) -> float:
        """Return how many entries the fullest bookie should hold; an estimate if there are more
        shards.
        """
        counted = max((share.copies for share in due.values()), default=0.0)
        if shards == 1:
            return counted
        return max(
            counted * shards, 0.0 if self.about.partial else self.about.terms.sweep.copies_before
        )

    def _ledgers(self, first: Shard) -> list[pa.RecordBatch]:
        """Return the columns that say how many entries bookies should hold of the shard's
        ledgers.
        """
        mine = (pc.field("ledger_id") >= first.first) & (pc.field("ledger_id") <= first.last)
        keep = mine & (pc.field("look") == 1)
        ledgers = self.run.read_table("evidence/ledgers", LEDGERS, keep, DUE_COLUMNS)
        return list(ledgers.to_batches())


LEDGERS_CHECKED_MAX = 100
"""Ledgers of one bookie whose metadata is read again before it counts as in doubt. A ledger that
was deleted or replicated meanwhile gives no reason. If more do, the bookie has the benefit."""

_REFUTED = pc.field("status").isin(
    sorted(status.value for status in ABSENT_READS | UNREADABLE_READS)
)
"""Selects the reads that contradict a list, if they test one."""
DENSITIES = "densities"
"""The field of the journal with the density of each bookie in doubt."""


@dataclass(frozen=True, slots=True)
class DoubtSearch:
    """Finds the bookies that are in doubt after the first look."""

    run: Place
    store: MetadataStore
    terms: Terms

    def densities(self, listing: Collection[BookieId], judgings: Collection[str]) -> StageResult:
        """Return how densely each bookie in doubt is read, for the journal.

        `listing`: bookies that gave lists; `judgings`: the tables of the first look's judgings.
        Costs a scan of the spot reads and of the open ledgers, and where a bookie is in doubt the
        metadata of some ledgers and a scan of all.
        """
        if self.terms.spot_reads < 1 or self.terms.doubt_reads < 1:
            return {DENSITIES: {}}
        why: dict[BookieId, set[LedgerId]] = defaultdict(set)
        for bookie, ledger_id in self._signs(judgings):
            if bookie in listing:
                why[bookie].add(ledger_id)
        checked = {bookie: sorted(ids)[:LEDGERS_CHECKED_MAX] for bookie, ids in why.items()}
        unchanged = self._unchanged({i for ids in checked.values() for i in ids})
        doubted = {bookie for bookie, ids in checked.items() if not unchanged.isdisjoint(ids)}
        if not doubted:
            return {DENSITIES: {}}
        ledgers = self.run.scan("evidence/ledgers", LEDGERS, ["segments"])
        due = due_by_bookie(ledgers.batches(DUE_COLUMNS))
        budget = self.terms.doubt_reads
        return {
            DENSITIES: {
                bookie: Density.within(budget, due[bookie].copies, due[bookie].ends)
                for bookie in sorted(doubted & due.keys())
            }
        }

    def tests_of(self, result: StageResult) -> ListTests | None:
        """Return the tests that `densities` asks for, None if no bookie is in doubt."""
        found = {
            bookie: Density(Arc(*arc), ends_step)
            for bookie, (arc, ends_step) in result[DENSITIES].items()
        }
        if not found:
            return None
        return ListTests(Starts(self.terms.probe_seed), found, of_lists=True, is_denser=True)

    def _signs(self, judgings: Collection[str]) -> Iterator[tuple[BookieId, LedgerId]]:
        """Yield the bookies that gave a reason for doubt, each with the ledger."""
        refuted = pc.field("is_spot") & _REFUTED
        reads = self.run.read_table("evidence/reads", READS, refuted, ["bookie_id", "ledger_id"])
        yield from zip(*reads.to_pydict().values(), strict=True)
        is_open = pc.field("todo") == Todo.LOOK.value
        for name in judgings:
            lacks = lacks_of(self.run.scan(name, STEPS), is_open)
            yield from zip(
                lacks["bookie_id"].to_pylist(), lacks["ledger_id"].to_pylist(), strict=True
            )

    def _unchanged(self, ids: Collection[LedgerId]) -> set[LedgerId]:
        """Return which of these ledgers have the metadata that the first look read."""
        if not ids:
            return set()
        these = pc.field("ledger_id").isin(list(ids))
        rows = self.run.read_table("evidence/ledgers", LEDGERS, these)
        before = {record.ledger_id: record for record in ledger_records(rows)}
        self.store.sync()
        now = self.store.read_ledgers(sorted(ids), 1, now_ms, with_marks=False)
        return {record.ledger_id for record in now if same_state(record, before[record.ledger_id])}


REOPENS = "reopens"
"""The field of the journal with which a judging says that it replaces verdicts (`Judging`)."""
DIFFERING_MAX = 100
"""In one judging, the checkers may differ on at most this many ledgers. Up to it, the other ledgers
are judged again without them."""


COUNTED_WRONGLY = (
    "by the counts of its answers it is sound; by the answers themselves, the first checker says"
    " otherwise"
)
"""How the checkers differ on a ledger that counting found healthy."""


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
        result = self.journal.run_once(name, self._judge, look, number, shard, only, retested)
        self.done.append(Judging(look, number, shard.number, retested or REOPENS in result))

    def tables(self, look: int) -> list[str]:
        """Return the tables of the judgings of a look, oldest first."""
        return [steps_name(look, judging.number) for judging in self.done if judging.look == look]

    def _judge(
        self, look: int, number: int, shard: Shard, only: tuple[int, Todo] | None, retested: bool
    ) -> StageResult:
        """Judge a shard, and once more if the process that judged cannot be trusted.

        It cannot if the checkers differ or the process died. Then the first result is removed, and
        the ledgers are judged again from the same evidence, without those on which the checkers
        differ. If the checkers differ on a ledger that was left by counting answers, or a ledger of
        the sample was counted as healthy and is not, no ledger of the shard that was settled by
        counts is believed: all are judged again.
        """
        name = steps_name(look, number)
        counted = None
        if only is not None and only[1] is Todo.EVIDENCE:
            counted = steps_name(look, only[0])
        try:
            self.stages.judge(look, number, shard, only, retested=retested)
            differing = self._differences(name)
            if counted is not None:
                differing = differing | self._wrongly_counted(counted, name)
            why = f"the two checkers differ on ledger {min(differing)}" if differing else ""
        except WorkerDied as died:
            differing, why = {}, died.said
        if not why:
            return {}
        self.run.remove(name)
        reopens = bool(differing) and counted is not None
        these = None if reopens else only
        self.stages.judge(look, number, shard, these, retested=retested, again_without=differing)
        result = {PROBLEMS: [f"judging at look {look} was done again, ledger by ledger: {why}"]}
        return {**result, REOPENS: True} if reopens else result

    def _differences(self, name: str) -> dict[LedgerId, str]:
        """Return the ledgers of a judging on which the two checkers differ, and how.

        Empty above DIFFERING_MAX: that many differences mean a wrong rule, not a broken process.
        """
        rows = self.run.read_table(name, STEPS, HAS_DETAIL, ["ledger_id", "unknowns", "detail"])
        differing = dict(disputed_ledgers(rows))
        return differing if len(differing) <= DIFFERING_MAX else {}

    def _wrongly_counted(self, counted: str, name: str) -> dict[LedgerId, str]:
        """Return the ledgers of the sample that the judging `counted` found healthy by the counts
        of their answers, and that the judging `name` did not by their evidence.

        At most DIFFERING_MAX: however many they are, all ledgers of the shard are judged again.
        """
        is_sound = pc.field("standing") == Standing.SOUND.word
        is_left = pc.field("todo") == Todo.EVIDENCE.value
        claimed = self.run.read_table(counted, STEPS, is_sound & is_left, ["ledger_id"])
        mine = pc.field("ledger_id").isin(claimed["ledger_id"].combine_chunks())
        is_settled = is_sound & (pc.field("todo") == Todo.NOTHING.value)
        rows = self.run.read_table(name, STEPS, mine & ~is_settled & ~HAS_DETAIL, ["ledger_id"])
        found = sorted(rows["ledger_id"].to_pylist())[:DIFFERING_MAX]
        return dict.fromkeys(found, COUNTED_WRONGLY)

    def count_left(self, look: int, todo: Todo, shard: Shard | None = None) -> int:
        """Return how many ledgers (of a shard) some judging of a look left with that todo."""
        mine = [
            judging
            for judging in self.done
            if judging.look == look and (shard is None or judging.shard == shard.number)
        ]
        return sum(self._count(judging, pc.field("todo") == todo.value) for judging in mine)

    def count_left_by_latest(self, todo: Todo) -> int:
        """Return how many ledgers the newest judging left with that todo."""
        return self._count(self.done[-1], pc.field("todo") == todo.value)

    def wants_second_opinion(self, look: int) -> bool:
        """Return whether bookies must be asked again about some ledger, or only its metadata
        read.
        """
        waiting = (pc.field("todo") == Todo.LOOK.value) & pc.field("wait")
        return any(self._count(judging, waiting) for judging in self.done if judging.look == look)

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

        Some verdicts may rest on lists that do not count, as a bookie or the sample showed in a
        later shard: these are corrected.
        """
        spoiled = spoiled_ledgers(self.run)
        replaced = [(one, self._ids(one)) for one in self.done if one.reopens]
        for judging in self.done:
            if replaced and judging == replaced[0][0]:
                del replaced[0]
            for batch in self.run.stream(
                steps_name(judging.look, judging.number), STEPS, VERDICTS.names
            ):
                settled = batch.filter(pc.equal(batch["todo"], Todo.NOTHING.value))
                for again, ids in replaced:
                    if again.shard == judging.shard:
                        settled = settled.filter(pc.invert(pc.is_in(settled["ledger_id"], ids)))
                if settled.num_rows:
                    yield spoil_rows(settled, spoiled)

    def _ids(self, judging: Judging) -> pa.Array:
        """Return the ledgers of a judging, in any order."""
        name = steps_name(judging.look, judging.number)
        return self.run.read_table(name, STEPS, None, ["ledger_id"])["ledger_id"].combine_chunks()

    def _count(self, judging: Judging, keep: ds.Expression) -> int:
        return self.run.count(steps_name(judging.look, judging.number), STEPS, keep)
