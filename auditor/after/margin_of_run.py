"""Read from a finished run the copies that it confirms, and what the failure of bookies would do.

What the answer rests on (its age, what is unconfirmed) is part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.after.confirmed_copies import (
    ANSWER_COLUMNS,
    VERDICT_COLUMNS,
    confirmed_copies,
    join_parts,
    ledgers_in_doubt,
)
from auditor.after.copies_now import ZNODE_COLUMNS, ZNODE_WORDS, StoredZnodes, stored_znodes
from auditor.after.copy_patterns import join_portions
from auditor.after.finished_run import (
    open_finished_run,
    read_about,
    read_all_findings,
    require_fields,
    require_time,
    require_verdicts,
)
from auditor.after.history import bookies_with, unchecked_bookies
from auditor.after.margin import (
    copies_of_worst_entry,
    exposure_by_bookie,
    ledgers_in_order,
    losses_without,
)
from auditor.after.margin_text import Cluster, MarginBasis
from auditor.after.promised_copies import LEDGER_COLUMNS, LEDGER_WORDS
from auditor.after.stored_copies import PORTION_LEDGERS, Flags, StoredCopies, doubt_bookies
from auditor.clock import utc_now
from auditor.errors import OutputError
from auditor.evidence.ids import Ids, are_among
from auditor.evidence.portions import LedgerTable
from auditor.evidence.rows import bookie_records
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, BOOKIES, LEDGERS, VERDICTS
from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord, Registration, newest_records
from auditor.model.finding import Kind
from auditor.model.identity import BookieId
from auditor.model.summary import Summary
from auditor.model.verdict import Unknown
from auditor.report.layout import moment, of
from auditor.summary.about import About
from auditor.summary.carried import read_carried_ids
from auditor.summary.doubted_lists import contradicting_bookies


@dataclass(frozen=True, slots=True)
class StoredRun:
    """What the answer needs from a finished run."""

    summary: Summary
    started: datetime
    about: About
    bookies: dict[BookieId, BookieRecord]
    """The bookies as of the last look."""
    copies: StoredCopies

    def locations(self) -> dict[BookieId, str]:
        """Return the known location of every bookie that ledgers name or that is registered."""
        around = self.about.terms.around
        found = {
            bookie: around.location_of(bookie) for bookie in {*self.copies.bookies, *self.bookies}
        }
        return {bookie: location for bookie, location in found.items() if location is not None}

    def writable(self) -> frozenset[BookieId]:
        """Return the bookies that were registered as writable at the last look."""
        return frozenset(
            bookie
            for bookie, record in self.bookies.items()
            if record.registration is Registration.WRITABLE
        )

    def count_unlocated(self) -> int:
        """Return how many bookies that ledgers name have no known location."""
        return len(set(self.copies.bookies) - self.locations().keys())


def read_copies(run_dir: str | Place) -> StoredRun:
    """Return the copies that a finished run confirms.

    Raises ConfigError if it is not a finished run, OutputError if a part of it is lost.
    """
    directory, summary = open_finished_run(run_dir)
    require_fields(directory, summary, "started_at")
    require_verdicts(directory, summary)
    started = require_time(directory, "started_at", summary.started_at)
    bookies = bookie_records(directory.read_table("evidence/bookies", BOOKIES))
    copies = _copies(directory, _Doubts.of(directory, summary, bookies))
    return StoredRun(summary, started, read_about(directory), newest_records(bookies), copies)


def read_znodes(directory: Place, copies: StoredCopies) -> StoredZnodes:
    """Return which znodes the run read. `copies` are those of the run."""
    ledgers = LedgerTable.of(directory.scan("evidence/ledgers", LEDGERS, ZNODE_WORDS))
    portions = ledgers.portions(PORTION_LEDGERS)
    return stored_znodes((ledgers.table(ZNODE_COLUMNS, one) for one in portions), copies)


def unreadable_bookies(directory: Place, summary: Summary) -> frozenset[BookieId]:
    """Return the bookies that could not send what they list: no list of theirs vouches for a
    copy.
    """
    kind = Kind.BOOKIE_UNREADABLE_ENTRIES
    if kind.value not in summary.findings_by_kind:
        return frozenset()
    return bookies_with(kind, read_all_findings(directory, summary))


@dataclass(frozen=True, slots=True)
class _Doubts:
    """Which copies are doubtful, whatever verdicts count.

    `bookies` contradicted their lister, or could not send what they list: in this run, or in an
    earlier one if this run could not check that again. What `carried` ledgers count on a bookie
    outside `answered` is what an earlier run listed.
    """

    bookies: frozenset[BookieId]
    answered: frozenset[BookieId]
    carried: Ids

    @classmethod
    def of(cls, directory: Place, summary: Summary, records: Sequence[BookieRecord]) -> _Doubts:
        """Return what is doubtful in a run that saw these bookies. Costs a scan of the greetings if
        lists of listers do not count.
        """
        bookies = unreadable_bookies(directory, summary)
        bookies |= unchecked_bookies(directory, Kind.BOOKIE_UNREADABLE_ENTRIES)
        if summary.unknown(Unknown.ANSWER_INVALID):
            bookies |= frozenset(contradicting_bookies(directory).to_pylist())
        answered = frozenset(one.bookie_id for one in records if one.greeting is Greeting.ANSWERED)
        return cls(bookies, answered, read_carried_ids(directory))

    def copies_of(self, ledgers: pa.Table, verdicts: pa.Table, answers: pa.Table) -> StoredCopies:
        """Return the copies that the run confirms. The tables are those of `confirmed_copies`."""
        copies = doubt_bookies(confirmed_copies(ledgers, verdicts, answers), self.bookies)
        unheard = set(copies.bookies) - self.answered
        if not unheard or not len(self.carried):
            return copies
        parts = []
        for keep_carried, bookies in ((False, self.bookies), (True, self.bookies | unheard)):
            tables = (
                _rows_where(one, are_among(_ids_of(one), self.carried) == keep_carried)
                for one in (ledgers, verdicts, answers)
            )
            parts.append(doubt_bookies(confirmed_copies(*tables), bookies))
        return join_parts(parts)


def _ids_of(rows: pa.Table) -> Ids:
    ids: Ids = rows["ledger_id"].to_numpy()
    return ids


def _rows_where(rows: pa.Table, keep: Flags) -> pa.Table:
    return rows.filter(pa.array(keep))


def _copies(directory: Place, doubts: _Doubts) -> StoredCopies:
    """Return the copies of the run.

    Takes the memory of PORTION_LEDGERS ledgers, and what `join_portions` takes. Raises OutputError
    if the evidence lacks a ledger with a verdict.
    """
    ledgers = LedgerTable.of(directory.scan("evidence/ledgers", LEDGERS, LEDGER_WORDS))
    verdicts = LedgerTable.of(directory.scan("verdicts", VERDICTS))
    answers = cache(lambda: LedgerTable.of(directory.scan("evidence/answers", ANSWERS)))
    lost = 0

    def portions() -> Iterator[StoredCopies]:
        nonlocal lost
        for portion in ledgers.portions(PORTION_LEDGERS):
            judged = verdicts.table(VERDICT_COLUMNS, portion)
            rows = ledgers.table(LEDGER_COLUMNS, portion)
            lost += int((~np.isin(judged["ledger_id"].to_numpy(), rows["ledger_id"])).sum())
            ids = ledgers_in_doubt(judged)
            said = _NO_ANSWERS
            if len(ids):
                said = answers().table(ANSWER_COLUMNS, portion)
                said = said.filter(pc.is_in(said["ledger_id"], ids))
            yield doubts.copies_of(rows, judged, said)

    copies = join_portions(portions())
    if lost:
        raise OutputError(
            f"{directory.address}/evidence/ledgers lacks {of(lost, 'ledger')} that the run judged: "
            "a part of what the run stored is lost; use another run"
        )
    return copies


_NO_ANSWERS = pa.schema([ANSWERS.field(name) for name in ANSWER_COLUMNS]).empty_table()


def margin_basis(run: StoredRun, age_max_s: float) -> MarginBasis:
    """Return what the answer rests on. The age of a run that lies in the future is unknown: its
    clock was wrong. A run is as old as the lists that it carried over.
    """
    carried = run.summary.carried
    oldest = moment(carried.oldest_listed_at) if carried else None
    age_s = (utc_now() - (oldest or run.started)).total_seconds()
    in_order, closed = int(ledgers_in_order(run.copies).sum()), len(run.copies.ledger_ids)
    return MarginBasis(
        run_id=run.summary.run_id,
        started_at=str(run.summary.started_at),
        age_s=age_s,
        is_too_old=not 0 <= age_s <= age_max_s,
        is_partial=run.about.partial,
        in_order=in_order,
        unconfirmed=closed - in_order,
        others=run.summary.ledgers.listed - closed - run.copies.unread,
        unread=run.copies.unread,
        assumed_copies=run.summary.copies.assumed if run.summary.copies else 0,
        has_carried=oldest is not None,
    )


def margin_of_cluster(run: StoredRun) -> Cluster:
    """Return what the failure of each bookie, and of all bookies at each location, would do."""
    locations = run.locations()
    racks = {
        rack: losses_without(
            run.copies, [bookie for bookie, location in locations.items() if location == rack]
        )
        for rack in sorted(set(locations.values()))
    }
    unlocated = run.count_unlocated() if racks else 0
    return Cluster(
        copies_of_worst_entry(run.copies), exposure_by_bookie(run.copies), racks, unlocated
    )
