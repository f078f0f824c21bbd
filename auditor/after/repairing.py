"""How fast marked ledgers are repaired: the marks of two moments, compared ledger by ledger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from auditor.after.finished_run import open_finished_run, read_about
from auditor.after.stored_copies import Ints, zero_counts
from auditor.after.stored_runs import StoredRuns
from auditor.errors import ConfigError, OutputError
from auditor.evidence.ids import are_among, distinct_numbers
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LEDGERS
from auditor.report.layout import duration, moment, of, printable


@dataclass(frozen=True, slots=True)
class MarkedLedgers:
    """Ledgers that were there at some moment, and those that were marked, ascending.

    `ledger_ids` has at least those that are compared with the marks of another moment.
    """

    ledger_ids: Ints
    marked: Ints


_KEY = ["ledger_id", "look"]
_NO_IDS = zero_counts(0)


def read_marked(directory: Place, among: Ints = _NO_IDS) -> MarkedLedgers:
    """Return the ledgers of a run that were marked when it read them last, and which of the ledgers
    `among` it read.

    Where nothing was marked and `among` is empty, this costs reading the end of each file; else a
    scan. Memory: a few numbers for each of these ledgers. Raises OutputError if the evidence cannot
    be read.
    """
    ledgers = directory.scan("evidence/ledgers", LEDGERS)
    marks = ledgers.parts_with("mark").table(_KEY, pc.field("mark").is_valid())
    marked_once, marked_at = (marks[name].to_numpy() for name in _KEY)
    wanted = distinct_numbers(np.concatenate([marked_once, among]))
    newest = zero_counts(len(wanted))
    if len(wanted):
        for batch in ledgers.batches(_KEY):
            ids, looks = (batch[name].to_numpy() for name in _KEY)
            is_wanted = are_among(ids, wanted)
            np.maximum.at(newest, np.searchsorted(wanted, ids[is_wanted]), looks[is_wanted])
    places = np.searchsorted(wanted, marked_once)
    is_newest = newest[places] == marked_at
    return MarkedLedgers(wanted[newest > 0], distinct_numbers(marked_once[is_newest]))


@dataclass(frozen=True, slots=True)
class MarksSince:
    """What became of marks since a run, which began `since_s` seconds before the later moment.

    marked_then and marked_now: ledgers that were marked at the two moments. repaired: how many of
    the first exist and are no longer marked. new: how many of the second were not marked.
    """

    run_id: str
    since_s: float
    marked_then: int
    marked_now: int
    repaired: int
    new: int

    @property
    def per_hour(self) -> float | None:
        """Repairs an hour; None if there was none, or the time is not known."""
        return self.repaired * 3600 / self.since_s if self.repaired and self.since_s > 0 else None


def marks_since(run_id: str, since_s: float, then: MarkedLedgers, now: MarkedLedgers) -> MarksSince:
    """Compare the marks of a run with later ones."""
    still = np.intersect1d(then.marked, now.marked, assume_unique=True)
    there = np.intersect1d(then.marked, now.ledger_ids, assume_unique=True)
    return MarksSince(
        run_id,
        since_s,
        len(then.marked),
        len(now.marked),
        len(np.union1d(there, still)) - len(still),
        len(now.marked) - len(still),
    )


def marks_since_earlier_run(run_dir: str) -> MarksSince | None:
    """Compare the marks of a run with those of the whole run before it in the same directory.

    None if there is no such run of the same cluster that can be read, or if this one is of named
    ledgers. Raises OutputError if the evidence of this run cannot be read.
    """
    directory, summary = open_finished_run(run_dir)
    if summary.is_partial:
        return None
    home, _, _ = directory.path.rpartition("/")
    try:
        runs = StoredRuns(Output(Place(directory.files, home, home)))
        earlier, before = open_finished_run(runs.before(directory))
        facts, of_earlier = read_about(directory).facts, read_about(earlier).facts
        if not facts.is_of(of_earlier.instance_id, of_earlier.root, of_earlier.hosts):
            return None
        then = read_marked(earlier)
    except (ConfigError, OutputError):
        return None
    began, ended = moment(before.started_at), moment(summary.started_at)
    if began is None or ended is None:
        return None
    since_s = (ended - began).total_seconds()
    now = read_marked(directory, then.marked)
    return marks_since(before.run_id, since_s, then, now)


def repair_sentences(marks: MarksSince | None) -> Iterator[str]:
    """Yield how far the repair of marked ledgers went, and how long the rest needs at that rate."""
    if marks is None:
        yield "No earlier run is there to compare: no progress of the repair of marks is known."
        return
    if not marks.marked_now and not marks.marked_then:
        return
    run, rate = printable(marks.run_id), marks.per_hour
    yield f"{of(marks.marked_now, 'ledger is', 'ledgers are')} marked under-replicated."
    if marks.since_s <= 0:
        yield f"How fast they are repaired is not known: a clock was wrong in run {run}."
    elif rate is not None:
        left = duration(marks.marked_now / rate * 3600)
        rest = f"; the others need {left} at that rate" if marks.marked_now else ""
        yield (
            f"Repaired since run {run}: {marks.repaired:,} of {of(marks.marked_then, 'ledger')},"
            f" {rate:,.1f} an hour{rest}."
        )
    elif marks.marked_then:
        yield (
            f"Of {of(marks.marked_then, 'ledger that was', 'ledgers that were')} marked in run"
            f" {run}, none has been repaired since: no progress is known."
        )
    if marks.new:
        yield f"Marked since then: {of(marks.new, 'ledger')}."


def repair_json(marks: MarksSince) -> dict[str, Any]:
    """Return the progress as JSON."""
    return {
        "run_id": marks.run_id,
        "since_s": round(marks.since_s),
        "marked_then": marks.marked_then,
        "marked_now": marks.marked_now,
        "repaired": marks.repaired,
        "new": marks.new,
        "per_hour": None if marks.per_hour is None else round(marks.per_hour, 2),
    }
