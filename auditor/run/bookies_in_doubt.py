"""Find the bookies that come into doubt at the first look, and how densely they are read then.

A bookie is in doubt if it failed to send an entry that it should hold, denied one that it lists, or
lacks one. One such word is enough to read more there; an accusation needs two looks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import pyarrow.compute as pc

from auditor.clock import now_ms
from auditor.evidence.gathered import ledger_records
from auditor.evidence.journal import StageResult
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LEDGERS, READS
from auditor.first_checker.recheck import same_state
from auditor.first_checker.spot_reads import Density, ListTests
from auditor.judging.settle import Todo
from auditor.model.availability import ABSENT_READS, UNREADABLE_READS
from auditor.model.evidence import Terms
from auditor.model.identity import BookieId, LedgerId
from auditor.stages.steps import STEPS
from auditor.summary.cluster.content import lacks_of
from auditor.summary.due_copies import DUE_COLUMNS, due_by_bookie
from auditor.zookeeper.metadata_store import MetadataStore

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
        due = due_by_bookie(self.run.stream("evidence/ledgers", LEDGERS, DUE_COLUMNS))
        budget = self.terms.doubt_reads
        return {
            DENSITIES: {
                bookie: Density.within(budget, due[bookie].copies, due[bookie].ends)
                for bookie in sorted(doubted & due.keys())
            }
        }

    def tests_of(self, result: StageResult) -> ListTests | None:
        """Return the tests that `densities` asks for, None if no bookie is in doubt."""
        found = {bookie: Density(*cells) for bookie, cells in result[DENSITIES].items()}
        return ListTests(self.terms.probe_seed, found, is_denser=True) if found else None

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
        before = {one.ledger_id: one for one in ledger_records(rows)}
        self.store.sync()
        now = self.store.read_ledgers(sorted(ids), 1, now_ms, with_marks=False)
        return {one.ledger_id for one in now if same_state(one, before[one.ledger_id])}
