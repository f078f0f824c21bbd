"""`auditor diff` compares the findings of two stored runs of one cluster."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.compute as pc

from auditor.commands.context import EXIT_FINDINGS, EXIT_SOUND, EXIT_UNKNOWN, Context
from auditor.errors import ConfigError, OutputError
from auditor.evidence.rows import bookie_records
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import BOOKIES, VERDICTS
from auditor.model.availability import Greeting
from auditor.model.cluster import ClusterFacts, Registration
from auditor.model.finding import Severity
from auditor.model.identity import BookieId, LedgerId
from auditor.report.differences_text import ComparedRun, differences_json, differences_text
from auditor.summary.differences import Change, Difference, Judged, Row, compare_findings
from auditor.summary.previous_run import read_findings, read_summary

LEDGERS_AT_ONCE = 10_000
"""Ledgers looked up in a table of verdicts at once: bounds the expression that filters them."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A finished run, as far as it is compared."""

    directory: Place
    summary: Mapping[str, Any]
    findings: list[dict[str, Any]]

    def as_compared(self) -> ComparedRun:
        """Return what the text says of the run."""
        return ComparedRun(
            run_id=str(self.summary["run_id"]),
            finished_at=str(self.summary["finished_at"]),
            outcome=str(self.summary["outcome"]),
            auditor_version=str(self.summary["auditor_version"]),
            is_complete=bool(self.summary["complete"]),
        )


def diff(context: Context, earlier_dir: str, later_dir: str) -> int:
    """Print what became of each finding, and return the exit code.

    1: something of warning or above is new or worse. 3: nothing is, but the later run left ledgers
    unjudged, or did not check again what the earlier one had found. Raises ConfigError if a run
    cannot be read, or if the two are of different clusters.
    """
    try:
        earlier, later = _open(earlier_dir), _open(later_dir)
        _refuse_other_cluster(earlier, later)
        differences = compare_findings(
            earlier.findings, later.findings, _known_of(earlier, later.findings), _known_of(later, earlier.findings)
        )
    except OutputError as error:
        raise ConfigError(str(error)) from error
    compared, notes = (earlier.as_compared(), later.as_compared()), _notes(earlier, later)
    if context.settings.format == "json":
        context.say(json.dumps(differences_json(*compared, notes, differences)) + "\n")
    else:
        context.say(differences_text(*compared, notes, differences, context.width, context.color))
    return _exit_code(differences, is_complete=bool(later.summary["complete"]))


def _exit_code(differences: Iterable[Difference], *, is_complete: bool) -> int:
    changes = {one.change for one in differences if one.severity >= Severity.WARNING}
    if changes & {Change.NEW, Change.WORSE}:
        return EXIT_FINDINGS
    return EXIT_SOUND if is_complete and Change.NOT_CHECKED_AGAIN not in changes else EXIT_UNKNOWN


def _open(run_dir: str) -> StoredRun:
    directory = replace(place(run_dir), missing_is_empty=True)
    summary = read_summary(directory)
    if summary is None:
        raise ConfigError(f"{run_dir} holds no summary.json: it is not the directory of a finished run")
    required = ("run_id", "finished_at", "outcome", "auditor_version", "complete", "partial", "withheld", "cluster")
    missing = [name for name in required if name not in summary]
    if missing:
        raise ConfigError(f"{run_dir}/summary.json lacks {', '.join(missing)}: it was not written by this version")
    return StoredRun(directory, summary, read_findings(directory))


def _refuse_other_cluster(earlier: StoredRun, later: StoredRun) -> None:
    one, other = (run.summary["cluster"] for run in (earlier, later))
    facts = ClusterFacts(
        str(one.get("metadata_service_uri")), tuple(one.get("hosts", ())), str(one.get("root")), "", one.get("instance_id"),
        replication_disabled=False, lost_bookie_recovery_delay_s=None,
    )  # fmt: skip
    if not facts.is_of(other.get("instance_id"), other.get("root"), other.get("hosts", ())):
        raise ConfigError(
            f"{earlier.directory.path} and {later.directory.path} are runs of different clusters "
            f"({one.get('instance_id') or one.get('root')} and {other.get('instance_id') or other.get('root')})"
        )


def _notes(earlier: StoredRun, later: StoredRun) -> list[str]:
    """Return what limits the comparison, a sentence each."""
    notes = []
    if str(earlier.summary["finished_at"]) > str(later.summary["finished_at"]):
        notes.append("The run given first finished after the other one: give the earlier run first.")
    if earlier.summary["auditor_version"] != later.summary["auditor_version"]:
        notes.append("The runs are of different versions of the auditor: some differences may come from how it judges.")
    if later.summary["partial"]:
        notes.append("The later run was of named ledgers only.")
    if not later.summary["complete"]:
        notes.append("The later run could not judge every ledger: there may be new findings that it does not have.")
    return notes


def _known_of(run: StoredRun, others: Iterable[Mapping[str, Any]]) -> Judged:
    """Return what a run knows of the subjects of the other run's findings."""
    ledgers = sorted({found["ledger_id"] for found in others if found["ledger_id"] is not None})
    rows: dict[LedgerId, Row] = {}
    for start in range(0, len(ledgers), LEDGERS_AT_ONCE):
        keep = pc.field("ledger_id").isin(ledgers[start : start + LEDGERS_AT_ONCE])
        table = run.directory.read_table("verdicts", VERDICTS, keep, ["ledger_id", "exempt", "unknowns"])
        rows |= {row["ledger_id"]: Row(row["exempt"], tuple(row["unknowns"])) for row in table.to_pylist()}
    references = run.summary.get("references") or {}
    are_known = bool(references) and not references["unreadable"] and not references["unknown"]
    return Judged(bool(run.summary["partial"]), bool(run.summary["withheld"]), are_known, rows, _bookies(run.directory))


def _bookies(run: Place) -> dict[BookieId, tuple[Registration, bool]]:
    records = sorted(bookie_records(run.read_table("evidence/bookies", BOOKIES)), key=lambda record: record.look)
    heard = (Greeting.ANSWERED, Greeting.UNSUPPORTED)
    return {one.bookie_id: (one.registration, one.greeting in heard) for one in records}
