"""Carry verdicts over from an earlier run: `auditor run --within PERIOD`.

Before the looks, `auditor.run.choosing` finds the ledgers to ask about. After the looks, the rows
of the others are copied, column by column, into the tables of this run. Each of its tables then has
every listed ledger, as those of any run have.

What this run learns meanwhile ends verdicts that it carries: a bookie that does not answer, lists
of a lister that do not count, a comparison that was wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.gathered import has_wrong_comparison
from auditor.evidence.ids import Ids, are_among
from auditor.evidence.journal import PROBLEMS, StageResult
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LEDGERS, VERDICTS
from auditor.evidence.shard_files import CARRIED_FILES
from auditor.first_checker.circle import Arc
from auditor.judging.verdict_rows import mark_waiting, spoil_rows
from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord, newest_records
from auditor.model.identity import BookieId, LedgerId
from auditor.model.verdict import AWAY, Unknown
from auditor.run.carried_reads import Reader
from auditor.run.choosing import Chooser
from auditor.stages.reading import COUNTED_LEDGERS
from auditor.summary.about import About
from auditor.summary.carried import carried_on, read_carried_ids
from auditor.summary.doubted_lists import contradicting_bookies
from auditor.zookeeper.metadata_store import MetadataStore

ROWS_A_FILE = 250_000
"""Rows that are copied into one file, if each ledger has one: those of a shard. Readers take the
files of a table one after the other, and only those that they need."""
NAMED = "bookies"
"""The key of the result of `choose` with the bookies that carried ledgers may name."""
ARCS = "arcs"
"""The key with what is read on the bookies that carried ledgers may name."""


@dataclass(frozen=True, slots=True)
class Carrying:
    """What one run carries over. `base` is None if it may carry nothing: `about` says why.

    `check` raises Interrupted after a signal. `read` reads entries.
    """

    run: Place
    base: Place | None
    about: About
    store: MetadataStore
    check: Callable[[], None]
    read: Reader

    def choose(self, scrubbed: Collection[LedgerId] = ()) -> StageResult:
        """Choose the ledgers to ask about, as `Chooser.choose` does. Return the bookies on which
        every carried verdict rests, for `write_verdicts`, and what is read on them.
        """
        chooser = Chooser(self.run, self.about, self.store, self.check, self.read)
        chosen = chooser.choose(self.base, scrubbed)
        return {
            NAMED: sorted(chosen.named),
            ARCS: {bookie: list(arc) for bookie, arc in sorted(chosen.arcs.items())},
            PROBLEMS: [chosen.problem] if chosen.problem else [],
        }

    def write_ledgers(self) -> None:
        """Copy the metadata of the carried ledgers -> evidence/ledgers."""
        self._copy("evidence/ledgers", LEDGERS, COUNTED_LEDGERS)

    def write_verdicts(self, chosen: StageResult, bookies: Sequence[BookieRecord]) -> None:
        """Copy the verdicts on the carried ledgers -> verdicts. Those become unknown that this run
        cannot support.

        `chosen` is the result of `choose`. `bookies` are those that this run saw, at every look.
        """
        unheard = self._unheard(chosen[NAMED], bookies)
        spoiled = self._spoiled(unheard)
        waiting = self._waiting(unheard, spoiled)
        self._copy(
            *("verdicts", VERDICTS, VERDICTS),
            lambda rows: mark_waiting(spoil_rows(rows, spoiled), waiting),
        )

    def _copy(
        self,
        table: str,
        schema: pa.Schema,
        written: pa.Schema,
        change: Callable[[pa.RecordBatch], pa.RecordBatch] = lambda rows: rows,
    ) -> None:
        """Copy the rows of the carried ledgers from a table of the base."""
        ids = read_carried_ids(self.run)
        if self.base is None or not len(ids):
            return
        rows = _rows_of(self.base, table, schema, ids)
        copies = (_widened(change(batch), written) for batch in rows)
        for number, first in enumerate(copies):
            part = chain([first], _up_to(ROWS_A_FILE - first.num_rows, copies))
            self.run.write_stream(table, part, written, f"{CARRIED_FILES}-{number:04}")

    def _unheard(
        self, named: Sequence[BookieId], bookies: Sequence[BookieRecord]
    ) -> dict[BookieId, Unknown]:
        """Return the bookies that answered at no look, each with what that leaves unknown."""
        answered = {one.bookie_id for one in bookies if one.greeting is Greeting.ANSWERED}
        said = {name: one.greeting for name, one in newest_records(bookies).items()}
        return {
            bookie: _SAID_BY.get(said.get(bookie), Unknown.BOOKIE_SILENT)
            for bookie in set(named) - answered
        }

    def _waiting(
        self, unheard: Mapping[BookieId, Unknown], spoiled: Mapping[Unknown, pa.Array]
    ) -> pa.Array:
        """Return the carried ledgers that are unknown only because of bookies that are down for
        planned maintenance.
        """
        maintenance = self.about.terms.around.maintenance
        away = {bookie for bookie, why in unheard.items() if bookie in maintenance and why in AWAY}
        if not away:
            return pa.array([], pa.int64())
        others = [carried_on(self.run, unheard.keys() - away)]
        others += [ids for why, ids in spoiled.items() if why not in unheard.values()]
        ids = carried_on(self.run, away)
        return ids.filter(pc.invert(pc.is_in(ids, pa.concat_arrays(others))))

    def _spoiled(self, unheard: Mapping[BookieId, Unknown]) -> dict[Unknown, pa.Array]:
        """Return the carried ledgers whose verdicts this run cannot support, by the reason."""
        by_reason: dict[Unknown, set[BookieId]] = {}
        for bookie, why in unheard.items():
            by_reason.setdefault(why, set()).add(bookie)
        denied = contradicting_bookies(self.run).to_pylist()
        if denied:
            by_reason.setdefault(Unknown.ANSWER_INVALID, set()).update(denied)
        spoiled = {why: carried_on(self.run, names) for why, names in by_reason.items()}
        if has_wrong_comparison(self.run):
            spoiled[Unknown.CHECKERS_DISAGREE] = pa.array(read_carried_ids(self.run))
        return spoiled


_SAID_BY: Mapping[Greeting | None, Unknown] = {
    Greeting.REFUSED: Unknown.BOOKIE_REFUSED,
    Greeting.UNSUPPORTED: Unknown.BOOKIE_UNSUPPORTED,
    Greeting.ADDRESS_UNKNOWN: Unknown.ADDRESS_UNKNOWN,
    Greeting.AUDITOR_LIMITED: Unknown.AUDITOR_LIMITED,
}
"""Why a ledger is unknown, by the greeting of a bookie that gave no answer. Others were silent."""


def arcs_in(chosen: StageResult) -> dict[BookieId, Arc]:
    """Return what is read on the bookies that carried ledgers may name, by what `choose`
    returned.
    """
    return {bookie: Arc(*arc) for bookie, arc in chosen[ARCS].items()}


def _rows_of(run: Place, table: str, schema: pa.Schema, ids: Ids) -> Iterator[pa.RecordBatch]:
    """Yield the rows of these ledgers, batch by batch."""
    for batch in run.stream(table, schema, schema.names):
        mine = batch.filter(pa.array(are_among(batch["ledger_id"].to_numpy(), ids)))
        if mine.num_rows:
            yield mine


def _up_to(rows: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the next batches until they have so many rows, or a few more."""
    while rows > 0 and (batch := next(batches, None)) is not None:
        rows -= batch.num_rows
        yield batch


def _widened(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows with nulls in the further columns of the schema."""
    nulls = [pa.nulls(rows.num_rows, one.type) for one in list(schema)[rows.num_columns :]]
    return pa.RecordBatch.from_arrays([*rows.columns, *nulls], schema=schema)
