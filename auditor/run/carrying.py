"""Carry verdicts over from an earlier run: `auditor run --within PERIOD`.

Before the looks, `choose` compares the listing with what the base stored, and leaves the ledgers to
ask about. Each other one has its znode read again, and compared by czxid and version: nothing is
decoded. After the looks, the rows of the others are copied, column by column, into the tables of
this run. Each of its tables then has every listed ledger, as those of any run have. Copies of them
are read for `--verify-within` (`auditor.run.carried_reads`).

What this run learns meanwhile ends verdicts that it carries: a bookie that does not answer, lists
of a lister that do not count, a comparison that was wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor.after.history import bookies_with, unchecked_bookies
from auditor.clock import now_ms
from auditor.errors import OutputError
from auditor.evidence.gathered import has_wrong_comparison
from auditor.evidence.ids import Ids, are_among, distinct_numbers
from auditor.evidence.journal import PROBLEMS, StageResult
from auditor.evidence.rows import bookie_records
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import (
    BOOKIES,
    CARRIED,
    CARRIED_TABLE,
    DUE,
    DUE_TABLE,
    LEDGERS,
    LISTING,
    VERDICTS,
)
from auditor.first_checker.circle import NO_ARC, Arc
from auditor.judging.healthy_ledgers import all_true
from auditor.judging.settle import Todo
from auditor.judging.verdict_rows import mark_waiting, spoil_rows
from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord, newest_records
from auditor.model.finding import Kind
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import LedgerState, RecordStatus
from auditor.model.summary import DueFor
from auditor.model.verdict import AWAY, Standing, Unknown
from auditor.run.carried_reads import Lengths, Reader, arcs_of, draw_copies, refuted_ledgers
from auditor.stages.asking import COUNTED_READS
from auditor.stages.reading import COUNTED_LEDGERS
from auditor.stages.selection import DUE_LISTING
from auditor.summary.about import About
from auditor.summary.carried import bookies_named, carried_on, read_carried_ids
from auditor.summary.doubted_lists import contradicting_bookies
from auditor.summary.due_copies import DUE_COLUMNS, Due, add_due
from auditor.summary.due_ledgers import Bookies, Rotation, newly_doubted
from auditor.summary.previous_run import read_findings
from auditor.summary.verification import bookies_read
from auditor.witness.finding_lines import LISTED
from auditor.zookeeper.metadata_store import MetadataStore

FIRST_LOOK = 1
CHECKED_AT_ONCE = 20_000
"""Znodes that are compared between two checks for a signal."""
ROWS_AT_ONCE = 100_000
"""Rows of evidence/carried in one batch."""
FILE = "carried"
CARRIED_VERDICTS = f"verdicts/{FILE}.parquet"
"""The file of a run's verdicts that come from earlier runs."""
NAMED = "bookies"
"""The key of the result of `choose` with the bookies that carried ledgers may name."""
ARCS = "arcs"
"""The key with what is read on the bookies that carried ledgers may name."""
MARKS_UNREAD = "no verdict is carried over, because not all marks can be read"

Places: TypeAlias = npt.NDArray[Any]
"""Numbers of candidates, or a flag for each."""
NOT_DUE = -1
_NUMBER = {why: number for number, why in enumerate(DueFor)}


@dataclass(slots=True)
class Candidates:
    """The listed ledgers on which the base has a verdict, ascending by id.

    `runs` are the runs that asked for their lists, each with the time when it began; `run_of` has
    the number of each ledger's run, at first that of the base. `due_for` has the number of a
    reason, or NOT_DUE. A ledger is due until `keep` says otherwise. Memory: 25 bytes a ledger.
    """

    ids: Ids
    runs: list[tuple[str, int]]
    run_of: npt.NDArray[np.int32] = field(init=False)
    czxid: npt.NDArray[np.int64] = field(init=False)
    version: npt.NDArray[np.int32] = field(init=False)
    due_for: npt.NDArray[np.int8] = field(init=False)

    def __post_init__(self) -> None:
        self.run_of = np.zeros(len(self.ids), np.int32)
        self.czxid = np.zeros(len(self.ids), np.int64)
        self.version = np.zeros(len(self.ids), np.int32)
        self.due_for = np.full(len(self.ids), _NUMBER[DueFor.NOT_SOUND], np.int8)

    def places(self, ids: npt.NDArray[np.int64]) -> tuple[Places, Places]:
        """Return which of these ids are candidates, and the numbers of those."""
        at = np.searchsorted(self.ids, ids)
        is_known = at < len(self.ids)
        is_known[is_known] = self.ids[at[is_known]] == ids[is_known]
        return is_known, at[is_known]

    def note_run(self, places: Places, run_id: str, began_ms: int) -> None:
        """Note that these ledgers were listed by a run that began then."""
        if (run_id, began_ms) not in self.runs:
            self.runs.append((run_id, began_ms))
        self.run_of[places] = self.runs.index((run_id, began_ms))

    def listed_at_ms(self, places: Places) -> npt.NDArray[np.int64]:
        """Return when the runs began that asked for the lists of these ledgers."""
        return np.array([began_ms for _, began_ms in self.runs], np.int64)[self.run_of[places]]

    def parts(self) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the numbers of all candidates, ROWS_AT_ONCE at a time."""
        for start in range(0, len(self.ids), ROWS_AT_ONCE):
            yield np.arange(start, min(start + ROWS_AT_ONCE, len(self.ids)))

    def keep(self, places: Places, czxid: Places, version: Places) -> None:
        """Let these ledgers be carried, if nothing else makes them due."""
        self.due_for[places] = NOT_DUE
        self.czxid[places], self.version[places] = czxid, version

    def require(self, places: Places, why: DueFor) -> None:
        """Make these ledgers due, unless they are due for a reason that comes before."""
        before, number = self.due_for[places], _NUMBER[why]
        is_later = (before == NOT_DUE) | (before > number)
        self.due_for[places] = np.where(is_later, number, before)

    def require_all(self, why: DueFor) -> None:
        """Make all ledgers due for a reason."""
        self.due_for[:] = _NUMBER[why]

    @property
    def kept(self) -> npt.NDArray[np.int64]:
        """The numbers of the ledgers that are not due."""
        return np.flatnonzero(self.due_for == NOT_DUE)

    def count_due(self) -> dict[DueFor, int]:
        """Return how many are due for each reason."""
        counts = np.bincount(self.due_for[self.due_for != NOT_DUE], minlength=len(_NUMBER))
        return {why: int(counts[number]) for why, number in _NUMBER.items()}

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield CARRIED rows of the ledgers that are not due."""
        names, kept = pa.array([run_id for run_id, _ in self.runs], pa.string()), self.kept
        for start in range(0, len(kept), ROWS_AT_ONCE):
            these = kept[start : start + ROWS_AT_ONCE]
            runs = names.take(pa.array(self.run_of[these]))
            columns = [pa.array(self.ids[these]), runs, pa.array(self.listed_at_ms(these))]
            yield pa.RecordBatch.from_arrays(columns, schema=CARRIED)


_SOUND_COLUMNS = [
    *("ledger_id", "standing", "todo", "assurance", "looks", "listing_false_negatives"),
    *("findings", "lacks"),
]
_ZNODE_COLUMNS = [*("ledger_id", "status", "mark", "czxid", "znode_version"), *DUE_COLUMNS]


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
        """Choose the ledgers to ask about -> steps/due, evidence/carried, evidence/due. Return the
        bookies on which every carried verdict rests, for `write_verdicts`, and what is read on
        them. `scrubbed` are the ledgers of which a scrub names entries.

        Reads what is due of the others -> evidence/reads. Costs a scan of the base's verdicts and
        two of its metadata, one read of each znode that nothing else makes due, and the reads.
        Raises StoreUnavailable.
        """
        listing = self.run.read_table("evidence/listing", LISTING)["ledger_id"]
        listed, problem = distinct_numbers(listing.to_numpy()), ""
        unread = DueFor.NEW
        bookies = Bookies(frozenset())
        found, arcs = Candidates(listed[:0], []), dict[BookieId, Arc]()
        if self.base is not None:
            try:
                bookies = self._bookies(self.base)
                found, due_copies = self._candidates(self.base, listed, bookies)
                _, named = found.places(np.array(sorted(scrubbed), np.int64))
                found.require(named, DueFor.SCRUB)
                problem = self._require(found)
                unread = DueFor.UNREADABLE if problem else DueFor.NEW
                if not problem:
                    asked_share = 1 - len(found.kept) / max(1, len(listed))
                    arcs = self._arcs(self.base, bookies, due_copies, asked_share)
                    self._read_copies(self.base, found, arcs)
            except OutputError as error:
                problem, unread = f"no verdict is carried over: {error}", DueFor.UNREADABLE
                found, arcs = Candidates(listed[:0], []), {}
        due = np.setdiff1d(listed, found.ids[found.kept], assume_unique=True)
        counts = found.count_due()
        counts[unread] += len(listed) - len(found.ids)
        cells = [[why.value for why in counts], list(counts.values())]
        self.run.write_table(DUE_TABLE, pa.table(cells, DUE), "due")
        self.run.write_table(DUE_LISTING, pa.table([due], LISTING), "due")
        self.run.write_stream(CARRIED_TABLE, found.rows(), CARRIED, "carried")
        return {
            NAMED: sorted(bookies.fit),
            ARCS: {bookie: list(arc) for bookie, arc in sorted(arcs.items())},
            PROBLEMS: [problem] if problem else [],
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

    def _arcs(
        self, base: Place, bookies: Bookies, due: Mapping[BookieId, Due], asked_share: float
    ) -> dict[BookieId, Arc]:
        """Return what is read on these bookies. Nothing is, where a lister listed for the base."""
        spot_reads = self.about.terms.spot_reads
        if spot_reads < 1:
            return {}
        records = bookie_records(base.read_table("evidence/bookies", BOOKIES))
        are_read = bookies.fit & bookies_read(self.about, records)
        mine = {bookie: share for bookie, share in due.items() if bookie in are_read}
        arcs = arcs_of(self.about.reading, mine, asked_share, spot_reads)
        return {**dict.fromkeys(bookies.fit - are_read, NO_ARC), **arcs}

    def _read_copies(self, base: Place, found: Candidates, arcs: Mapping[BookieId, Arc]) -> None:
        """Read the copies in the arcs of the ledgers that are not due -> evidence/reads. Those
        become due of which an entry could not be read.
        """
        if not any(arc.length for arc in arcs.values()):
            return
        refuted: list[npt.NDArray[np.int64]] = []

        def read() -> Iterator[pa.RecordBatch]:
            ids, lengths = found.ids[found.kept], Lengths()
            for rows in self.read(draw_copies(base, ids, self.about.reading, arcs, lengths)):
                refuted.append(refuted_ledgers(rows, lengths))
                yield rows

        self.run.write_stream("evidence/reads", read(), COUNTED_READS, FILE)
        for ids in refuted:
            found.require(found.places(ids)[1], DueFor.READ)

    def _candidates(
        self, base: Place, listed: Ids, bookies: Bookies
    ) -> tuple[Candidates, Mapping[BookieId, Due]]:
        """Return the listed ledgers on which the base has a verdict. Those are kept that it found
        sound by lists of one look, and whose metadata it read as closed and unmarked.

        Return also how much each bookie should hold of all closed ledgers of the base.
        """
        ids, is_sound = [listed[:0]], [np.empty(0, np.bool_)]
        for batch in base.stream("verdicts", VERDICTS, _SOUND_COLUMNS):
            mine = batch["ledger_id"].to_numpy()
            is_listed = are_among(mine, listed)
            ids.append(mine[is_listed])
            is_sound.append(_are_sound(batch)[is_listed])
        every, flags = np.concatenate(ids), np.concatenate(is_sound)
        ids.clear()
        order = np.argsort(every)
        found = Candidates(every[order], [(str(self.about.base.run_id), self.about.base.began_ms)])
        self._note_runs(base, found)
        return found, self._keep_unless_unfit(base, found, flags[order], bookies)

    def _note_runs(self, base: Place, found: Candidates) -> None:
        """Note which ledgers the base itself carried over, and from which runs."""
        if not base.has_table(CARRIED_TABLE):
            return
        for batch in base.stream(CARRIED_TABLE, CARRIED, CARRIED.names):
            is_known, at = found.places(batch["ledger_id"].to_numpy())
            codes = batch["run_id"].dictionary_encode()
            of_run = codes.indices.to_numpy()[is_known]
            times = batch["listed_at_ms"].to_numpy()[is_known]
            for code, run_id in enumerate(codes.dictionary.to_pylist()):
                for began_ms in np.unique(times[of_run == code]).tolist():
                    found.note_run(at[(of_run == code) & (times == began_ms)], run_id, began_ms)

    def _keep_unless_unfit(
        self, base: Place, found: Candidates, is_sound: Places, bookies: Bookies
    ) -> Mapping[BookieId, Due]:
        """Keep the sound ledgers whose bookies are those that the base knew. Return how much each
        bookie should hold of all closed ledgers of the base.
        """
        due: dict[BookieId, Due] = {}
        for batch in base.stream("evidence/ledgers", LEDGERS, _ZNODE_COLUMNS):
            add_due(due, batch)
            batch = batch.filter(_are_clear(batch))
            is_known, at = found.places(batch["ledger_id"].to_numpy())
            batch = batch.filter(pa.array(is_known))
            batch, at = batch.filter(pa.array(is_sound[at])), at[is_sound[at]]
            czxid, version = batch["czxid"].to_numpy(), batch["znode_version"].to_numpy()
            found.keep(at, czxid, version)
            is_old = found.listed_at_ms(at) < self.about.base.began_ms
            unfit = ~bookies_named(batch, bookies.fit).all_named
            unfit |= is_old & bookies_named(batch, bookies.doubted).any_named
            found.require(at[unfit], DueFor.BOOKIE)
        return due

    def _bookies(self, base: Place) -> Bookies:
        """Return which bookies may keep their verdicts."""
        before = bookie_records(base.read_table("evidence/bookies", BOOKIES))
        findings, doubted = read_findings(base), frozenset[BookieId]()
        if base.has_table(CARRIED_TABLE):
            doubted = newly_doubted(findings)
        unreadable = bookies_with(Kind.BOOKIE_UNREADABLE_ENTRIES, findings)
        unreadable |= unchecked_bookies(base, Kind.BOOKIE_UNREADABLE_ENTRIES)
        about = About.from_json(json.loads(base.read_text("run.json") or "null"))
        now = self.store.bookies(FIRST_LOOK, now_ms)
        return Bookies.of(before, now, about, doubted, unreadable)

    def _require(self, found: Candidates) -> str:
        """Make ledgers due by their marks, their age, their turn and their znodes. Return why
        nothing is carried, "" if something may be.
        """
        marks = self.store.marks()
        if marks.problem:
            found.require_all(DueFor.UNREADABLE)
            return f"{MARKS_UNREAD}: {marks.problem}"
        _, at = found.places(np.fromiter(marks.by_ledger, np.int64, len(marks.by_ledger)))
        found.require(at, DueFor.MARKED)
        began_ms, base_began_ms = self.about.reading.began_at_ms, self.about.base.began_ms
        rotation = Rotation(self.about.within_ms, began_ms, base_began_ms)
        for part in found.parts():
            listed_at_ms = found.listed_at_ms(part)
            found.require(part[rotation.is_old(listed_at_ms)], DueFor.AGE)
            found.require(part[rotation.is_passed(found.ids[part], listed_at_ms)], DueFor.TURN)
        self._require_changed(found)
        return ""

    def _require_changed(self, found: Candidates) -> None:
        """Make ledgers due whose znode is not as the base read it, or is not there."""
        kept = found.kept
        self.store.sync()
        for start in range(0, len(kept), CHECKED_AT_ONCE):
            self.check()
            at = kept[start : start + CHECKED_AT_ONCE]
            changed = self.store.changed_ids(found.ids[at], found.czxid[at], found.version[at])
            found.require(found.places(changed)[1], DueFor.CHANGED)

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
        self.run.write_stream(
            table, (_widened(change(batch), written) for batch in rows), written, FILE
        )

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


def _are_sound(verdicts: pa.RecordBatch) -> Places:
    """Return which verdicts are sound by lists of one look, with nothing found beside them."""
    is_sound: Places = all_true(
        pc.equal(verdicts["standing"], Standing.SOUND.word),
        pc.equal(verdicts["todo"], Todo.NOTHING.value),
        pc.equal(verdicts["assurance"], LISTED),
        pc.equal(verdicts["looks"], 1),
        pc.equal(verdicts["listing_false_negatives"], 0),
        pc.equal(pc.list_value_length(verdicts["findings"]), 0),
        pc.equal(pc.list_value_length(verdicts["lacks"]), 0),
    ).to_numpy(zero_copy_only=False)
    return is_sound


def _are_clear(ledgers: pa.RecordBatch) -> pa.BooleanArray:
    """Return which rows of a first look are of ledgers that were read, closed and unmarked."""
    return all_true(
        pc.equal(ledgers["look"], FIRST_LOOK),
        pc.equal(ledgers["status"], RecordStatus.FOUND.value),
        pc.equal(ledgers["state"], LedgerState.CLOSED.value),
        pc.is_null(ledgers["mark"]),
        pc.is_valid(ledgers["czxid"]),
        pc.is_valid(ledgers["znode_version"]),
    )


def _rows_of(run: Place, table: str, schema: pa.Schema, ids: Ids) -> Iterator[pa.RecordBatch]:
    """Yield the rows of these ledgers, batch by batch."""
    for batch in run.stream(table, schema, schema.names):
        mine = batch.filter(pa.array(are_among(batch["ledger_id"].to_numpy(), ids)))
        if mine.num_rows:
            yield mine


def _widened(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows with nulls in the further columns of the schema."""
    nulls = [pa.nulls(rows.num_rows, one.type) for one in list(schema)[rows.num_columns :]]
    return pa.RecordBatch.from_arrays([*rows.columns, *nulls], schema=schema)
