"""`auditor margin` says from a stored run how much more may fail before ledgers lose copies."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from auditor.clock import utc_now
from auditor.commands.context import EXIT_FINDINGS, EXIT_SOUND, EXIT_UNKNOWN, Context
from auditor.errors import ConfigError, OutputError
from auditor.evidence.rows import bookie_records
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import BOOKIES, LEDGERS, VERDICTS
from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord
from auditor.model.identity import BookieId
from auditor.report.margin_text import Cluster, MarginBasis, Without, margin_json, margin_text
from auditor.summary.about import About
from auditor.summary.margin import copies_of_worst_entry, exposure_by_bookie, ledgers_in_order, losses_without
from auditor.summary.previous_run import read_summary
from auditor.summary.stored_copies import LEDGER_COLUMNS, VERDICT_COLUMNS, StoredCopies, copies_of_run
from auditor.wire.location import is_within


@dataclass(frozen=True, slots=True)
class StoredRun:
    """What the answer needs of a finished run."""

    summary: dict[str, Any]
    about: About
    bookies: dict[BookieId, BookieRecord]
    """As of the last look."""
    copies: StoredCopies

    def locations(self) -> dict[BookieId, str]:
        """Return the location of every bookie that ledgers name or that is registered, where one is known."""
        around = self.about.terms.around
        found = {bookie: around.location_of(bookie) for bookie in {*self.copies.bookies, *self.bookies}}
        return {bookie: location for bookie, location in found.items() if location is not None}


def margin(context: Context, run_dir: str, without: Sequence[str]) -> int:
    """Print what would be lost, and return the exit code.

    With `without`: 1 if some ledger would surely have an entry without a copy; 3 if that is not
    ruled out, or if the evidence is older than --evidence-age-max; else 0. Without it: 3 if the
    evidence is too old, else 0. Raises ConfigError if the run cannot be read or a name is unknown.
    """
    try:
        run = _read(run_dir)
        named = [name.strip() for item in without for name in item.split(",")]
        answer = _without(run, named) if named else _whole_cluster(run)
        basis = _basis(run, context.settings.evidence_age_max_ms / 1000)
    except OutputError as error:
        raise ConfigError(str(error)) from error
    code = _exit_code(basis, answer)
    if context.settings.format == "json":
        context.say(json.dumps(margin_json(basis, answer, code)) + "\n")
    else:
        context.say(margin_text(basis, answer, code, context.width))
    return code


def _exit_code(basis: MarginBasis, answer: Without | Cluster) -> int:
    if isinstance(answer, Without) and answer.losses.no_copy.ledgers:
        return EXIT_FINDINGS
    is_open = isinstance(answer, Without) and answer.losses.may_have_no_copy.ledgers > 0
    return EXIT_UNKNOWN if is_open or basis.is_too_old else EXIT_SOUND


def _read(run_dir: str) -> StoredRun:
    directory = replace(place(run_dir), missing_is_empty=True)
    summary = read_summary(directory)
    if summary is None:
        raise ConfigError(f"{run_dir} holds no summary.json: it is not the directory of a finished run")
    records = sorted(bookie_records(directory.read_table("evidence/bookies", BOOKIES)), key=lambda record: record.look)
    bookies = {record.bookie_id: record for record in records}
    return StoredRun(summary, _about(directory), bookies, _copies(directory, bookies.values()))


def _about(directory: Place) -> About:
    try:
        return About.from_json(json.loads(directory.read_text("run.json") or "null"))
    except ValueError as error:
        raise OutputError(f"{directory.uri}/run.json is not JSON: {error}") from None


def _copies(directory: Place, bookies: Iterable[BookieRecord]) -> StoredCopies:
    heard = (Greeting.ANSWERED, Greeting.UNSUPPORTED)
    unheard = [record.bookie_id for record in bookies if record.greeting not in heard]
    ledgers = directory.read_table("evidence/ledgers", LEDGERS, columns=LEDGER_COLUMNS)
    return copies_of_run(ledgers, directory.read_table("verdicts", VERDICTS, columns=VERDICT_COLUMNS), unheard)


def _basis(run: StoredRun, age_max_s: float) -> MarginBasis:
    finished = datetime.fromisoformat(str(run.summary["finished_at"]))
    age_s = max(0.0, (utc_now() - finished).total_seconds())
    in_order, closed = int(ledgers_in_order(run.copies).sum()), len(run.copies.ledger_ids)
    return MarginBasis(
        run_id=str(run.summary["run_id"]),
        finished_at=str(run.summary["finished_at"]),
        age_s=age_s,
        is_too_old=age_s > age_max_s,
        is_partial=run.about.partial,
        in_order=in_order,
        unconfirmed=closed - in_order,
        others=int(run.summary["ledgers"]["listed"]) - closed,
        assumed_copies=int((run.summary.get("copies") or {}).get("assumed", 0)),
    )


def _without(run: StoredRun, named: Sequence[str]) -> Without:
    bookies = sorted({bookie for name in named for bookie in _bookies_meant(run, name)})
    return Without(tuple(named), tuple(bookies), losses_without(run.copies, bookies))


def _bookies_meant(run: StoredRun, name: str) -> list[BookieId]:
    """Return the bookies that a bookie id, or a location that begins with "/", stands for."""
    locations = run.locations()
    if name.startswith("/"):
        there = [bookie for bookie, location in locations.items() if is_within(location, name.rstrip("/"))]
        if not there:
            known = ", ".join(sorted(set(locations.values()))[:10]) or "none: the run had no --topology"
            raise ConfigError(f"--without {name}: the run knows no bookie there (locations it knows: {known})")
        return there
    known_ids = {*run.copies.bookies, *run.bookies}
    if name not in known_ids:
        near = get_close_matches(name, known_ids, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(f"--without {name}: no ledger of the run names this bookie, and it was not registered{hint}")
    return [name]


def _whole_cluster(run: StoredRun) -> Cluster:
    locations = run.locations()
    racks = {
        rack: losses_without(run.copies, [bookie for bookie, location in locations.items() if location == rack])
        for rack in sorted(set(locations.values()))
    }
    return Cluster(copies_of_worst_entry(run.copies), exposure_by_bookie(run.copies), racks)
