"""Choose which entries a run reads by rank, as soon as the number of entries is known."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.ids import Shard
from auditor.evidence.run_directory import Place, write_json
from auditor.evidence.schemas import LEDGERS
from auditor.first_checker.probing import step_within
from auditor.first_checker.spot_reads import Density
from auditor.model.evidence import Terms
from auditor.model.identity import BookieId
from auditor.summary.about import About
from auditor.summary.due_copies import DUE_COLUMNS, due_by_bookie, fullest_bookie_copies


@dataclass(slots=True)
class SweepPlanner:
    """Derives the steps of the sweeps from the first shard.

    The step for bookies that cannot list is kept in run.json. A resumed run gets the same step: it
    is derived from what is written. `about` is the content of run.json.
    """

    run: Place
    about: About

    def terms_by(self, first: Shard, shards: int) -> Terms:
        """Return the terms of judgement with the step, before anything is judged.

        The metadata of the first of `shards` shards must have been read. The shards hold equal
        numbers of ledgers: the first one stands for the others, together with the count of the last
        whole run.
        """
        sweep = self.about.terms.sweep
        if sweep.budget > 0 and self.about.terms.probe_entries > 0:
            sweep = replace(sweep, step=step_within(sweep.budget, self._copies(first, shards)))
        if sweep != self.about.terms.sweep:
            self.about = replace(self.about, terms=replace(self.about.terms, sweep=sweep))
            write_json(self.run, "run.json", self.about.as_json())
        return self.about.terms

    def spot_densities(self, first: Shard, shards: int) -> dict[BookieId, Density]:
        """Return for each bookie how densely its lists are tested.

        Each bookie has a step of its own, so that all that a small one holds is read. A bookie that
        the first shard does not name has none. Empty if no list is tested.
        """
        budget = self.about.terms.spot_reads
        if budget < 1:
            return {}
        due = due_by_bookie(self._ledgers(first))
        return {
            bookie: Density(step_within(budget, one.copies * shards)) for bookie, one in due.items()
        }

    def _copies(self, first: Shard, shards: int) -> float:
        """Return how many entries the fullest bookie should hold; an estimate if there are more
        shards.
        """
        counted = fullest_bookie_copies(self._ledgers(first))
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
