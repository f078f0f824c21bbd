"""For notebooks and scripts: the result of a finished run, and the audit of one ledger, as objects.

The names here are stable, like those of docs/names.md. They raise `auditor.errors.AuditorError` on
purpose, with a text that says what happened and what to do.
"""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

import pyarrow as pa
import pyarrow.compute as pc
import structlog

from auditor.after.finished_run import open_finished_run, read_all_findings
from auditor.after.stored_runs import run_at
from auditor.clock import utc_now
from auditor.commands.calling import check_needed_credentials
from auditor.commands.ledger import judge_ledgers
from auditor.config import parse, read_layers
from auditor.context import Context, new_run_id
from auditor.errors import ConfigError
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, BOOKIES, LEDGERS, LISTING, READS, VERDICTS
from auditor.model import finding_record
from auditor.model.judged_ledger import NO_SUCH_LEDGER
from auditor.model.summary import Summary
from auditor.model.verdict import Exempt, Standing, Unknown
from auditor.report.layout import of
from auditor.stop import StopRequest
from auditor.telemetry.progress import Silent
from auditor.witness.pulsar_commands import pulsar_ledger

if TYPE_CHECKING:
    import pandas

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")
TABLES: Mapping[str, pa.Schema] = {
    "verdicts": VERDICTS,
    "evidence/listing": LISTING,
    "evidence/ledgers": LEDGERS,
    "evidence/answers": ANSWERS,
    "evidence/reads": READS,
    "evidence/bookies": BOOKIES,
}
"""The tables of a run that `Run.table` reads. auditor/evidence/schemas.py describes their rows."""
LEDGER_COLUMNS = ("ledger_id", "standing", "exempt", "unknowns", "assurance", "looks")
"""Columns of the verdicts that `Run.ledgers` has."""
STATE_COLUMNS = ("state", "ensemble_size", "write_quorum", "ack_quorum", "last_entry_id")
"""Columns of the metadata that `Run.ledgers` has, as the newest look saw it."""
FRAME_COLUMNS = (
    *("id", "kind", "severity", "family", "ledger_id", "bookie_id", "topic", "entries_total"),
    *("copies_confirmed", "change", "first_seen", "runs_seen", "is_muted", "witness"),
)
"""Columns of `Run.findings_frame`."""


class FindingRecord(finding_record.FindingRecord):
    """A finding of a run, with the topic of its ledger."""

    __slots__ = ()

    @classmethod
    def of(cls, record: finding_record.FindingRecord) -> FindingRecord:
        """Return the finding of a record."""
        return cls(**{field.name: getattr(record, field.name) for field in fields(record)})

    @property
    def topic(self) -> str | None:
        """The Pulsar topic of the ledger, `persistent://...`, as far as its owner says.

        None for other ledgers, for bookies and for the cluster.
        """
        used = pulsar_ledger(self.owner)
        return None if used is None else used.topic

    def __repr__(self) -> str:
        on = f"bookie {self.bookie_id}" if self.bookie_id else f"ledger {self.ledger_id}"
        on = "the cluster" if self.is_on_cluster else on
        return f"<{self.kind.value} ({self.severity.word}) on {on}, id {self.id}>"


@dataclass(frozen=True, slots=True)
class LedgerVerdict:
    """What is known of one ledger. `exempt` and `unknowns` say why it could not be judged sound.

    `assurance` is "listed", or "probed" where a sample of entries was read instead of lists.
    """

    ledger_id: int
    standing: Standing
    exempt: Exempt | None
    unknowns: tuple[Unknown, ...]
    assurance: str
    findings: tuple[FindingRecord, ...]

    @classmethod
    def from_fields(
        cls, fields: Mapping[str, Any], findings: Sequence[FindingRecord]
    ) -> LedgerVerdict:
        """Return the verdict of a row of `verdicts`."""
        return cls(
            fields["ledger_id"],
            Standing[fields["standing"].upper()],
            Exempt(fields["exempt"]) if fields["exempt"] else None,
            tuple(Unknown(unknown) for unknown in fields["unknowns"]),
            fields["assurance"],
            tuple(findings),
        )


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run. `summary` is its summary.json (docs/names.md)."""

    summary: Summary
    directory: Place

    def __repr__(self) -> str:
        counts = self.summary.ledgers
        return (
            f"<Run {self.run_id}: {self.outcome}, {counts.violated} of {counts.listed} ledgers"
            f" violated, {of(self.summary.findings_total, 'finding')}, in {self.directory.address}>"
        )

    @property
    def run_id(self) -> str:
        """Return the id of the run."""
        return self.summary.run_id

    @property
    def outcome(self) -> str:
        """Return the outcome word, such as "SOUND" or "VIOLATED"."""
        return self.summary.outcome

    def findings(self) -> list[FindingRecord]:
        """Return all findings, in the order of findings.jsonl.

        Each takes some 6 kB of memory. Raises OutputError if they are not those that the summary
        counts: then a part of what the run stored is lost.
        """
        return list(map(FindingRecord.of, read_all_findings(self.directory, self.summary)))

    def findings_frame(self) -> pandas.DataFrame:
        """Return all findings as a table of pandas: a row for each, with FRAME_COLUMNS.

        Raises ConfigError without pandas, and what `findings` raises.
        """
        try:
            import pandas
        except ImportError as error:
            raise ConfigError(
                f"findings_frame() needs pandas, which cannot be imported ({error}): pip install"
                " pandas, or use findings()"
            ) from error
        return pandas.DataFrame(list(map(_frame_row, self.findings())), columns=FRAME_COLUMNS)

    def ledgers(self) -> pa.Table:
        """Return one row for each ledger, in the order of their ids: its verdict, and its metadata
        as the newest look saw it.

        The columns are LEDGER_COLUMNS and STATE_COLUMNS. Costs a scan of two tables.
        """
        verdicts = self.table("verdicts", LEDGER_COLUMNS)
        looks = self.looks(("ledger_id", "look", *STATE_COLUMNS))
        newest = looks.group_by("ledger_id").aggregate([("look", "max")])
        newest = newest.rename_columns({"look_max": "look"})
        states = newest.join(looks, keys=["ledger_id", "look"]).drop_columns(["look"])
        joined = verdicts.drop_columns(["unknowns"]).join(states, keys="ledger_id")
        unknowns = verdicts.select(["ledger_id", "unknowns"]).sort_by("ledger_id")["unknowns"]
        ordered = joined.sort_by("ledger_id").append_column("unknowns", unknowns)
        return ordered.select([*LEDGER_COLUMNS, *STATE_COLUMNS])

    def looks(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return one row for each ledger and look: its metadata as ZooKeeper had it then."""
        return self.table("evidence/ledgers", columns)

    def verdict(self, ledger_id: int) -> LedgerVerdict | None:
        """Return the verdict on a ledger; None if the run did not list it.

        Costs a scan of the verdicts. Findings on what topics reference do not belong to a verdict;
        they are among `findings`.
        """
        row = next(iter(self._rows_of(ledger_id)), None)
        if row is None:
            return None
        ids = {FindingRecord.from_line(line).id for line in row["findings"]}
        return LedgerVerdict.from_fields(
            row, [finding for finding in self.findings() if finding.id in ids]
        )

    def table(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Return a table of the run, whole or some columns of it.

        Raises ConfigError for a name that is not in TABLES, OutputError if it cannot be read.
        """
        if name not in TABLES:
            raise ConfigError(f"{name} is not a table of a run: use one of {', '.join(TABLES)}")
        return self.directory.read_table(name, TABLES[name], columns=list(columns or ()) or None)

    def uri(self, name: str) -> str:
        """Return where a table is, for `spark.read.parquet` and the like."""
        if name not in TABLES:
            raise ConfigError(f"{name} is not a table of a run: use one of {', '.join(TABLES)}")
        return f"{self.directory.uri}/{name}"

    def _rows_of(self, ledger_id: int) -> list[dict[str, Any]]:
        columns = ["ledger_id", "standing", "exempt", "unknowns", "assurance", "findings"]
        of_it = pc.field("ledger_id") == ledger_id
        rows: list[dict[str, Any]] = self.directory.read_table(
            "verdicts", VERDICTS, of_it, columns
        ).to_pylist()
        return rows


def _frame_row(finding: FindingRecord) -> tuple[object, ...]:
    """Return the FRAME_COLUMNS of a finding."""
    history = finding.history or finding_record.FindingHistory()
    return (
        *(finding.id, finding.kind.value, finding.severity.word, finding.family.value),
        *(finding.ledger_id, finding.bookie_id, finding.topic, finding.entries_total),
        None if finding.copies is None else finding.copies.confirmed,
        *(history.change, history.first_seen, history.runs_seen),
        *(finding.is_muted, finding.witness),
    )


def open_run(directory: str | os.PathLike[str]) -> Run:
    """Open a finished run by its directory, or the newest one by the directory of its output.

    The directory is a local path or a URI. Raises ConfigError if there is no finished run,
    OutputError if it cannot be read.
    """
    run, summary = open_finished_run(run_at(os.fspath(directory)))
    return Run(summary, run)


def audit_ledger(ledger_id: int, **settings: Any) -> LedgerVerdict | None:
    """Audit one ledger now, like `auditor ledger`; None if there is no such ledger.

    `settings` are keys of docs/configuration.md. `metadata_service_uri` is required, here, in the
    environment or in a file that `config` names. Takes about a second; for a suspect, the
    second-look delay more. Nothing is written or logged. Raises ConfigError, StoreUnavailable,
    BookieRefused, KdcUnreachable or TooManyPoisoned.
    """
    parsed = parse(read_layers(settings, os.environ), command="ledger")
    check_needed_credentials("ledger", parsed)
    quiet = structlog.wrap_logger(None, processors=[_drop])
    context = Context(parsed, io.StringIO(), quiet, Silent(), StopRequest())
    report = _outside_event_loops(judge_ledgers, context, [ledger_id], new_run_id(utc_now()))
    (ledger,) = report.ledgers
    if ledger.standing == NO_SUCH_LEDGER:
        return None
    return LedgerVerdict(
        ledger.ledger_id,
        Standing[ledger.standing.upper()],
        ledger.exempt,
        ledger.unknowns,
        ledger.assurance or "",
        tuple(map(FindingRecord.of, report.findings)),
    )


def _outside_event_loops(
    function: Callable[[*Arguments], Result], *arguments: *Arguments
) -> Result:
    """Call a function that runs event loops of its own, and return its result.

    The cells of a notebook run in a loop. There, the function is called in another thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return function(*arguments)
    with ThreadPoolExecutor(1, "audit-ledger") as thread:
        return thread.submit(function, *arguments).result()


def _drop(_logger: Any, _method: str, _event: structlog.typing.EventDict) -> str:
    raise structlog.DropEvent
