"""Choose the ledgers that a run with a period asks about: `auditor run --within PERIOD`.

The listing is compared with what the base stored, range of ids by range of ids. The znode of each
ledger that nothing else makes due is read again, and compared by czxid and version: nothing is
decoded. At the end, copies of the ledgers that are left are read for `--verify-within`
(`auditor.run.carried_reads`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor.after.history import bookies_with, unchecked_bookies
from auditor.clock import now_ms
from auditor.errors import OutputError
from auditor.evidence.ids import Ids, Shard, are_among, distinct_numbers
from auditor.evidence.portions import LedgerTable, id_ranges
from auditor.evidence.rows import bookie_records, rows_of
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
from auditor.model.finding import Kind
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import LedgerState, RecordStatus
from auditor.model.summary import DueFor
from auditor.model.verdict import Standing
from auditor.run.carried_reads import (
    COPY_COLUMNS,
    Lengths,
    Reader,
    arcs_of,
    draw_copies,
    refuted_ledgers,
)
from auditor.stages.asking import COUNTED_READS
from auditor.stages.selection import DUE_LISTING
from auditor.summary.about import About
from auditor.summary.carried import bookies_named
from auditor.summary.due_copies import DUE_COLUMNS, Due, add_due
from auditor.summary.due_ledgers import Bookies, Rotation, newly_doubted
from auditor.summary.previous_run import read_findings
from auditor.summary.verification import bookies_read
from auditor.witness.finding_lines import LISTED
from auditor.zookeeper.metadata_store import MetadataStore

FIRST_LOOK = 1
CHOSEN_AT_ONCE = 250_000
"""Listed ledgers that are chosen from at a time: some 100 bytes each."""
CHECKED_AT_ONCE = 20_000
"""Znodes that are compared between two checks for a signal."""
ROWS_AT_ONCE = 100_000
"""Rows of evidence/carried in one batch."""
KEPT = "steps/carried"
"""CARRIED rows of the ledgers that only a read may still make due."""
READS_FILE = "carried"
"""The file of evidence/reads with the reads of ledgers that may be carried over."""
MARKS_UNREAD = "no verdict is carried over, because not all marks can be read"

Places: TypeAlias = npt.NDArray[Any]
"""Numbers of candidates, or a flag for each."""
NOT_DUE = -1
_NUMBER = {why: number for number, why in enumerate(DueFor)}
_SOUND_COLUMNS = [
    *("ledger_id", "standing", "todo", "assurance", "looks", "listing_false_negatives"),
    *("findings", "lacks"),
]
_ZNODE_COLUMNS = [*("ledger_id", "status", "mark", "czxid", "znode_version"), *DUE_COLUMNS]


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


@dataclass(frozen=True, slots=True)
class _Base:
    """What the base stored. `bookies` are those whose ledgers may keep their verdicts."""

    run: Place
    verdicts: LedgerTable
    ledgers: LedgerTable
    carried: LedgerTable | None
    bookies: Bookies

    @classmethod
    def of(cls, run: Place, bookies: Bookies) -> _Base:
        """Return the tables of a run. Costs reading the end of each file. Raises OutputError."""
        verdicts, ledgers = run.scan("verdicts", VERDICTS), run.scan("evidence/ledgers", LEDGERS)
        carried = None
        if run.has_table(CARRIED_TABLE):
            carried = LedgerTable.of(run.scan(CARRIED_TABLE, CARRIED))
        return cls(run, LedgerTable.of(verdicts), LedgerTable.of(ledgers), carried, bookies)


@dataclass(slots=True)
class Chosen:
    """What was chosen. `due`: how many ledgers are due, by the reason. `problem`: why nothing is
    carried over, or "".

    `named` are the bookies that carried ledgers may name, and `arcs` what is read on them. Ledgers
    in `refuted` are due by what was read.
    """

    due: Counter[DueFor] = field(default_factory=Counter)
    kept: int = 0
    named: frozenset[BookieId] = frozenset()
    arcs: Mapping[BookieId, Arc] = field(default_factory=dict)
    refuted: Ids | None = None
    problem: str = ""


class _MarksUnread(Exception):
    """Not all marks can be read."""


@dataclass(frozen=True, slots=True)
class Chooser:
    """Chooses for one run. `check` raises Interrupted after a signal. `read` reads entries."""

    run: Place
    about: About
    store: MetadataStore
    check: Callable[[], None]
    read: Reader

    def choose(self, base: Place | None, scrubbed: Iterable[LedgerId]) -> Chosen:
        """Choose the ledgers to ask about -> steps/due, evidence/carried, evidence/due.

        Reads what is due of the others -> evidence/reads. `scrubbed` are the ledgers of which a
        scrub names entries. Costs a scan of the base's verdicts and two of its metadata, one read
        of each znode that nothing else makes due, and the reads. Holds the ledgers of one range of
        ids at a time. Raises StoreUnavailable.
        """
        listing = LedgerTable.of(self.run.scan("evidence/listing", LISTING))
        ranges = id_ranges(listing.scan, CHOSEN_AT_ONCE)
        chosen = Chosen()
        if base is not None:
            named = np.array(sorted(scrubbed), np.int64)
            try:
                chosen = self._choose_by(base, listing, ranges, named)
            except OutputError as error:
                chosen = Chosen(problem=f"no verdict is carried over: {error}")
            except _MarksUnread as unread:
                chosen = Chosen(problem=f"{MARKS_UNREAD}: {unread}")
        self.run.write_stream(CARRIED_TABLE, self._carried_rows(chosen), CARRIED, "carried")
        self.run.write_stream(DUE_LISTING, self._due_rows(listing, ranges), LISTING, "due")
        why = DueFor.UNREADABLE if chosen.problem else DueFor.NEW
        others = self.run.count(DUE_LISTING, LISTING) - chosen.due.total()
        counts = {**{one: chosen.due[one] for one in DueFor}, why: chosen.due[why] + others}
        cells = [[one.value for one in counts], list(counts.values())]
        self.run.write_table(DUE_TABLE, pa.table(cells, DUE), "due")
        return chosen

    def _choose_by(
        self, run: Place, listing: LedgerTable, ranges: Sequence[Shard], scrubbed: Ids
    ) -> Chosen:
        """Choose by what the base stored. Raises OutputError and _MarksUnread."""
        base = _Base.of(run, self._bookies(run))
        chosen, copies = Chosen(named=base.bookies.fit), dict[BookieId, Due]()

        def rows_in(shard: Shard) -> Iterator[pa.RecordBatch]:
            found = self._candidates(base, _ids_in(listing, shard), shard, copies)
            found.require(found.places(scrubbed)[1], DueFor.SCRUB)
            self._require(found)
            chosen.due.update(found.count_due())
            chosen.kept += len(found.kept)
            yield from found.rows()

        rows = chain.from_iterable(map(rows_in, ranges))
        self.run.write_stream(KEPT, rows, CARRIED, "kept")
        asked_share = 1 - chosen.kept / max(1, listing.scan.count())
        chosen.arcs = self._arcs(base, copies, asked_share)
        chosen.refuted = self._read_copies(base, ranges, chosen.arcs)
        chosen.due[DueFor.READ] += len(chosen.refuted)
        return chosen

    def _carried_rows(self, chosen: Chosen) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the ledgers that are kept and that no read refuted."""
        if chosen.refuted is None:
            return
        for batch in self.run.stream(KEPT, CARRIED, CARRIED.names):
            is_due = are_among(batch["ledger_id"].to_numpy(), chosen.refuted)
            yield rows_of(batch, pa.array(~is_due))

    def _due_rows(self, listing: LedgerTable, ranges: Sequence[Shard]) -> Iterator[pa.RecordBatch]:
        """Yield the listed ledgers that are not carried over, ascending."""
        carried = LedgerTable.of(self.run.scan(CARRIED_TABLE, CARRIED))
        for shard in ranges:
            listed = _ids_in(listing, shard)
            due = listed[~are_among(listed, _ids_in(carried, shard))]
            yield pa.RecordBatch.from_arrays([pa.array(due)], schema=LISTING)

    def _arcs(
        self, base: _Base, due: Mapping[BookieId, Due], asked_share: float
    ) -> dict[BookieId, Arc]:
        """Return what is read on these bookies. Nothing is, where a lister listed for the base.

        `due`: how much each bookie should hold of all closed ledgers of the base.
        """
        spot_reads, fit = self.about.terms.spot_reads, base.bookies.fit
        if spot_reads < 1:
            return {}
        records = bookie_records(base.run.read_table("evidence/bookies", BOOKIES))
        are_read = fit & bookies_read(self.about, records)
        mine = {bookie: share for bookie, share in due.items() if bookie in are_read}
        arcs = arcs_of(self.about.reading, mine, asked_share, spot_reads)
        return {**dict.fromkeys(fit - are_read, NO_ARC), **arcs}

    def _read_copies(
        self, base: _Base, ranges: Sequence[Shard], arcs: Mapping[BookieId, Arc]
    ) -> Ids:
        """Read the copies in the arcs of the ledgers that are kept -> evidence/reads. Return the
        ledgers of which an entry could not be read, ascending.
        """
        refuted = [np.empty(0, np.int64)]
        if not any(arc.length for arc in arcs.values()):
            return refuted[0]

        def ledgers() -> Iterator[tuple[pa.RecordBatch, Ids]]:
            kept = LedgerTable.of(self.run.scan(KEPT, CARRIED))
            for shard in ranges:
                ids = _ids_in(kept, shard)
                yield from ((rows, ids) for rows in base.ledgers.batches(COPY_COLUMNS, shard))

        def read() -> Iterator[pa.RecordBatch]:
            lengths = Lengths()
            for rows in self.read(draw_copies(ledgers(), self.about.reading, arcs, lengths)):
                refuted.append(refuted_ledgers(rows, lengths))
                yield rows

        self.run.write_stream("evidence/reads", read(), COUNTED_READS, READS_FILE)
        return distinct_numbers(np.concatenate(refuted))

    def _candidates(
        self, base: _Base, listed: Ids, shard: Shard, copies: dict[BookieId, Due]
    ) -> Candidates:
        """Return the listed ledgers of a range on which the base has a verdict. Those are kept that
        it found sound by lists of one look, and whose metadata it read as closed and unmarked.

        Add to `copies` how much each bookie should hold of the closed ledgers of the base.
        """
        ids, is_sound = [listed[:0]], [np.empty(0, np.bool_)]
        for batch in base.verdicts.batches(_SOUND_COLUMNS, shard):
            mine = batch["ledger_id"].to_numpy()
            is_listed = are_among(mine, listed)
            ids.append(mine[is_listed])
            is_sound.append(_are_sound(batch)[is_listed])
        every, flags = np.concatenate(ids), np.concatenate(is_sound)
        ids.clear()
        order = np.argsort(every)
        found = Candidates(every[order], [(str(self.about.base.run_id), self.about.base.began_ms)])
        if base.carried is not None:
            for batch in base.carried.batches(CARRIED.names, shard):
                _note_runs(found, batch)
        flags = flags[order]
        for batch in base.ledgers.batches(_ZNODE_COLUMNS, shard):
            add_due(copies, batch)
            self._keep_unless_unfit(batch, found, flags, base.bookies)
        return found

    def _keep_unless_unfit(
        self, batch: pa.RecordBatch, found: Candidates, is_sound: Places, bookies: Bookies
    ) -> None:
        """Keep the sound ledgers of a batch whose bookies are those that the base knew."""
        is_known, at = found.places(batch["ledger_id"].to_numpy())
        is_known[is_known] = is_sound[at]
        is_kept = is_known & _are_clear(batch)
        rows = rows_of(batch, pa.array(is_kept))
        at = found.places(rows["ledger_id"].to_numpy())[1]
        found.keep(at, rows["czxid"].to_numpy(), rows["znode_version"].to_numpy())
        is_old = found.listed_at_ms(at) < self.about.base.began_ms
        unfit = ~bookies_named(rows, bookies.fit).all_named
        if is_old.any():
            unfit |= is_old & bookies_named(rows, bookies.doubted).any_named
        found.require(at[unfit], DueFor.BOOKIE)

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

    def _require(self, found: Candidates) -> None:
        """Make ledgers due by their marks, their age, their turn and their znodes."""
        marks = self.store.marks()
        if marks.problem:
            raise _MarksUnread(marks.problem)
        _, at = found.places(np.fromiter(marks.by_ledger, np.int64, len(marks.by_ledger)))
        found.require(at, DueFor.MARKED)
        began_ms, base_began_ms = self.about.reading.began_at_ms, self.about.base.began_ms
        rotation = Rotation(self.about.within_ms, began_ms, base_began_ms)
        for part in found.parts():
            listed_at_ms = found.listed_at_ms(part)
            found.require(part[rotation.is_old(listed_at_ms)], DueFor.AGE)
            found.require(part[rotation.is_passed(found.ids[part], listed_at_ms)], DueFor.TURN)
        self._require_changed(found)

    def _require_changed(self, found: Candidates) -> None:
        """Make ledgers due whose znode is not as the base read it, or is not there."""
        kept = found.kept
        self.store.sync()
        for start in range(0, len(kept), CHECKED_AT_ONCE):
            self.check()
            at = kept[start : start + CHECKED_AT_ONCE]
            changed = self.store.changed_ids(
                found.ids[at], found.czxid[at], found.version[at].astype(np.int64)
            )
            found.require(found.places(changed)[1], DueFor.CHANGED)


def _ids_in(table: LedgerTable, shard: Shard) -> Ids:
    """Return the ledgers of a range that a table has, ascending."""
    return distinct_numbers(table.table(["ledger_id"], shard)["ledger_id"].to_numpy())


def _note_runs(found: Candidates, batch: pa.RecordBatch) -> None:
    """Note which ledgers the base itself carried over, and from which runs."""
    is_known, at = found.places(batch["ledger_id"].to_numpy())
    codes = batch["run_id"].dictionary_encode()
    of_run = codes.indices.to_numpy()[is_known]
    times = batch["listed_at_ms"].to_numpy()[is_known]
    for code, run_id in enumerate(codes.dictionary.to_pylist()):
        for began_ms in np.unique(times[of_run == code]).tolist():
            found.note_run(at[(of_run == code) & (times == began_ms)], run_id, began_ms)


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


def _are_clear(ledgers: pa.RecordBatch) -> Places:
    """Return which rows of a first look are of ledgers that were read, closed and unmarked."""
    are_clear: Places = all_true(
        pc.equal(ledgers["look"], FIRST_LOOK),
        pc.equal(ledgers["status"], RecordStatus.FOUND.value),
        pc.equal(ledgers["state"], LedgerState.CLOSED.value),
        pc.is_null(ledgers["mark"]),
        pc.is_valid(ledgers["czxid"]),
        pc.is_valid(ledgers["znode_version"]),
    ).to_numpy(zero_copy_only=False)
    return are_clear
