"""Compare the metadata with what the newest earlier run stored, and read again what differs.

Only ledgers that differ are read again, after a sync and at least LOOKS_APART_MIN_MS after the
first look. What was seen is written to evidence/changed_ledgers and evidence/comparisons;
`findings.changed_metadata` draws the conclusions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow.compute as pc

from auditor.clock import now_ms
from auditor.errors import OutputError, StoreUnavailable
from auditor.evidence.ids import Ids
from auditor.evidence.journal import PROBLEMS, StageResult
from auditor.evidence.rows import ledger_row, table
from auditor.evidence.run_directory import Place
from auditor.evidence.run_tables import require_stored
from auditor.evidence.schemas import CHANGED_LEDGERS, COMPARISONS, LEDGERS
from auditor.findings.changed_metadata import (
    AGAIN,
    CHANGED_AT,
    COMPARISONS_AT,
    Compared,
    compare_metadata,
    comparison_row,
)
from auditor.findings.gone_ledgers import GONE_AT, compare_listings
from auditor.model.facts import LOOKS_APART_MIN_MS
from auditor.summary.previous_run import read_summary
from auditor.summary.reading_plan import milliseconds
from auditor.zookeeper.metadata_store import MetadataStore


@dataclass(frozen=True, slots=True)
class EarlierEvidence:
    """Where the newest earlier run of the cluster stored its evidence; None if there is none.

    `problem` says why it cannot be used. Then `run` is None. `began_ms` is when it began.
    """

    run: Place | None = None
    run_id: str | None = None
    problem: str = ""
    began_ms: int = 0

    @classmethod
    def of(cls, run: Place, run_id: str) -> EarlierEvidence:
        """Return the evidence of a finished run, if all is there that the run stored."""
        try:
            summary = read_summary(run)
            require_stored(run, None if summary is None else summary.stored)
        except OutputError as error:
            return cls(None, run_id, f"what run {run_id} stored cannot be read: {error}")
        started_at = None if summary is None else summary.started_at
        return cls(run, run_id, began_ms=milliseconds(started_at) if started_at else 0)


@dataclass(frozen=True, slots=True)
class MetadataLook:
    """The comparison of one run. `earlier` is None if only named ledgers are audited."""

    store: MetadataStore
    run: Place
    earlier: EarlierEvidence | None

    def compare(self, wait: Callable[[float], None]) -> StageResult | None:
        """Compare, and read again what differs. Returns a problem if that failed.

        An earlier run that cannot be read does not end this one.
        """
        if self.earlier is None:
            return None
        earlier_id = self.earlier.run_id
        if self.earlier.run is None or earlier_id is None:
            self._record(earlier_id, self.earlier.problem)
            return None
        try:
            began_ms = self.earlier.began_ms
            compared = compare_metadata(self.earlier.run, earlier_id, self.run, began_ms)
            gone = compare_listings(self.earlier.run, self.run)
        except OutputError as error:
            self._record(earlier_id, f"what run {earlier_id} stored cannot be read: {error}")
            return None
        self.run.write_table(CHANGED_AT, compared.rows, "earlier")
        self.run.write_table(GONE_AT, gone, "earlier")
        self._record(earlier_id, "", compared)
        problem = self._look_again(compared.ids, wait) if len(compared.ids) else None
        return {PROBLEMS: [problem]} if problem else None

    def _record(self, run_id: str | None, problem: str, compared: Compared | None = None) -> None:
        row = comparison_row(run_id, problem, compared)
        self.run.write_table(COMPARISONS_AT, table(COMPARISONS, [row]), "metadata")

    def _look_again(self, ids: Ids, wait: Callable[[float], None]) -> str | None:
        """Read the ledgers that differ. Return a sentence if that failed."""
        mine = pc.field("ledger_id").isin(ids)
        read_at = self.run.read_table("evidence/ledgers", LEDGERS, mine, ["read_at_ms"])
        newest_ms = pc.max(read_at["read_at_ms"]).as_py() or 0
        wait(max(0, newest_ms + LOOKS_APART_MIN_MS - now_ms()) / 1000)
        try:
            self.store.sync()
        except StoreUnavailable as error:
            return f"ledgers with changed metadata could not be read again: {error}"
        records = self.store.read_ledgers(ids.tolist(), AGAIN, now_ms, with_marks=False)
        rows = ((*ledger_row(record), None) for record in records)
        self.run.write_table(CHANGED_AT, table(CHANGED_LEDGERS, rows), f"look-{AGAIN}")
        return None
