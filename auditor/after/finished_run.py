"""Read a finished run: its directory, its summary, its findings, and what of it was lost.

A finished run that has lost a part of what it stored is refused: a table that lacks a file looks
like one with fewer rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import pyarrow as pa

from auditor.errors import ConfigError, OutputError
from auditor.evidence.findings_file import parse_json
from auditor.evidence.run_directory import Place, place
from auditor.evidence.run_tables import require_stored
from auditor.evidence.schemas import VERDICTS
from auditor.model.finding_record import FindingRecord
from auditor.model.identity import LedgerId
from auditor.model.summary import Summary
from auditor.report.layout import of
from auditor.summary.about import About
from auditor.summary.previous_run import are_as_counted, read_findings, read_summary

UNREADABLE = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, StopIteration,
    TypeError, ValueError,
    pa.ArrowException,
)  # fmt: skip
"""Exceptions that code raises for a value of an unexpected shape. Errors of the machine, such as
MemoryError, are not among them."""


def open_finished_run(run_dir: str | Place) -> tuple[Place, Summary]:
    """Return the directory and the summary of a run. Raises ConfigError if it is not finished.

    Raises OutputError if the run has lost a part of its stored data. A missing table is an error,
    unless the run found no ledger.
    """
    directory = place(run_dir) if isinstance(run_dir, str) else run_dir
    summary = read_summary(directory)
    if summary is None:
        raise ConfigError(
            f"{directory.address} holds no summary.json: it is not the directory of a finished run"
        )
    require_stored(directory, summary.stored)
    return replace(directory, missing_is_empty=summary.ledgers.listed == 0), summary


def require_fields(directory: Place, summary: Summary, *names: str) -> None:
    """Raise ConfigError unless the summary has all these fields."""
    missing = [name for name in names if not summary.has(name)]
    if missing:
        raise ConfigError(
            f"{directory.address}/summary.json lacks {', '.join(missing)}: it was not written by"
            " this version"
        )


def require_verdicts(directory: Place, summary: Summary) -> None:
    """Raise OutputError unless the run has the verdict on every ledger that its summary counts."""
    stored, listed = directory.count("verdicts", VERDICTS), summary.ledgers.listed
    if stored != listed:
        raise OutputError(
            f"{directory.address} has {of(stored, 'verdict')}, and its summary counts {listed}"
            " ledgers: a part of what the run stored is lost; use another run"
        )


def read_all_findings(directory: Place, summary: Summary) -> list[FindingRecord]:
    """Return the findings of a run. Raises OutputError unless they match the summary's counts."""
    findings = read_findings(directory)
    if not are_as_counted(findings, summary):
        counted = summary.findings_total
        raise OutputError(
            f"{directory.address}/findings.jsonl has {of(len(findings), 'finding')}, and"
            f" summary.json counts {counted}, or of other kinds: a part of what the run stored is"
            " lost; use another run"
        )
    return findings


def read_about(directory: Place) -> About:
    """Return run.json of a run. Raises OutputError if it is damaged."""
    return About.from_json(
        parse_json(directory.read_text("run.json") or "null", f"{directory.uri}/run.json")
    )


def read_rows_of(
    directory: Place,
    name: str,
    schema: pa.Schema,
    ledger_ids: Sequence[LedgerId] | pa.Array,
    columns: list[str],
) -> pa.Table:
    """Return these columns of a table's rows on these ledgers.

    If there are no ledgers, the table need not exist.
    """
    parts = [pa.schema([schema.field(column) for column in columns]).empty_table()]
    if len(ledger_ids):
        parts += directory.scan(name, schema).tables_of_ledgers(ledger_ids, columns)
    return pa.concat_tables(parts)


def require_time(directory: Place, name: str, text: str | None) -> datetime:
    """Return a time of the summary. Raises ConfigError unless it is RFC 3339 with an offset."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise ConfigError(
            f"{directory.address}/summary.json: {name} is not a time with an offset: the run's"
            " directory is damaged"
        )
    return found
