"""Look at marks of unlisted ledgers: when the marks are listed, and at the end.

A ledger may have been created after the listing, or deleted since. Each such mark and its ledger's
znode are therefore read separately, after a sync. What was seen is written to evidence/marks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from auditor.clock import now_ms
from auditor.errors import StoreUnavailable
from auditor.evidence.rows import Row, table
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LISTING, MARKS
from auditor.first_checker.underreplication import age_ms
from auditor.model.evidence import Terms
from auditor.model.identity import LedgerId
from auditor.model.ledger import LedgerRecord, Mark, RecordStatus
from auditor.summary.cluster.on_cluster import (
    FIRST_LOOK,
    LAST_LOOK,
    LISTED,
    MARKS_AT,
    malformed_row,
    mark_row,
    problem_row,
    suspects_of,
)
from auditor.zookeeper.marks import Marks
from auditor.zookeeper.metadata_store import MetadataStore

MARKS_LOOKED_AT_MAX = 10_000
"""One run looks at the marks of at most this many unlisted ledgers, the oldest first: three reads
each, twice. The other marks are counted as they were listed."""


@dataclass(slots=True)
class MarkLooks:
    """The looks of one run at such marks.

    `is_partial`: only named ledgers are audited, and marks of other ledgers say nothing.
    """

    store: MetadataStore
    run: Place
    terms: Terms
    is_partial: bool = False

    def record_first(self, marks: Marks) -> None:
        """Look at the marks that were just listed. Raises StoreUnavailable."""
        if self.is_partial:
            return
        unlisted = self._unlisted_marks(marks)
        looked_at, left = unlisted[:MARKS_LOOKED_AT_MAX], unlisted[MARKS_LOOKED_AT_MAX:]
        at_ms = now_ms()
        rows: list[Row] = [problem_row(at_ms, marks.problem)] if marks.problem else []
        rows += [malformed_row(at_ms, path) for path in marks.malformed]
        rows += [mark_row(i, LISTED, at_ms, marks.by_ledger[i], None) for i in left]
        rows += self._look(FIRST_LOOK, looked_at, marks.by_ledger.get)
        self.run.write_table(MARKS_AT, table(MARKS, rows), f"look-{FIRST_LOOK}")

    def look_again(self, delay_ms: int, wait: Callable[[float], None]) -> str | None:
        """Look again at each suspect, at least `delay_ms` after the first look.

        Return a sentence if that failed.
        """
        if self.is_partial:
            return None
        suspects = suspects_of(self.run.read_table(MARKS_AT, MARKS), self.terms)
        if not suspects:
            return None
        wait(max(0, max(suspects.values()) + delay_ms - now_ms()) / 1000)
        try:
            rows = self._look(LAST_LOOK, sorted(suspects), lambda _: None)
        except StoreUnavailable as error:
            return f"marks of ledgers that were not listed could not be looked at again: {error}"
        self.run.write_table(MARKS_AT, table(MARKS, rows), f"look-{LAST_LOOK}")
        return None

    def _unlisted_marks(self, marks: Marks) -> list[LedgerId]:
        """Return the marked ledgers that were not listed, the oldest mark first."""
        marked = np.fromiter(marks.by_ledger, np.int64, len(marks.by_ledger))
        if not len(marked):
            return []
        ids = np.setdiff1d(
            marked, self.run.read_table("evidence/listing", LISTING)["ledger_id"].to_numpy()
        )
        now = self.terms.judged_at_ms
        return sorted(
            map(int, ids),
            key=lambda ledger_id: (-age_ms(marks.by_ledger[ledger_id], now), ledger_id),
        )

    def _look(
        self, look: int, ids: Iterable[LedgerId], listed: Callable[[LedgerId], Mark | None]
    ) -> list[Row]:
        ids = list(ids)
        if not ids:
            return []
        self.store.sync()
        return list(_rows(self.store.read_ledgers(ids, look, now_ms, with_marks=True), listed))


def _rows(
    records: Iterable[LedgerRecord], listed: Callable[[LedgerId], Mark | None]
) -> Iterator[Row]:
    """Yield a row for each record. If a mark or a ledger could not be read, the listed mark is
    kept.
    """
    for record in records:
        has_metadata = _has_metadata(record)
        mark = (
            listed(record.ledger_id)
            if has_metadata is None and record.mark is None
            else record.mark
        )
        yield mark_row(record.ledger_id, record.look, record.read_at_ms, mark, has_metadata)


def _has_metadata(record: LedgerRecord) -> bool | None:
    """Return whether the ledger's znode exists; None if its mark or the znode could not be read."""
    if record.status is RecordStatus.GONE:
        return False
    return True if record.stamp is not None else None
