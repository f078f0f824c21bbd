"""What the scrubs of listers report: asked once in a run, and which entries it names.

A named entry accuses nobody. It is read on the bookie like an entry that tests a list, and at the
second look again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass

import pyarrow as pa

from auditor.bookie.listers import Listers, ask_scrubs
from auditor.clock import now_ms
from auditor.config import BookieLimits
from auditor.evidence.ids import Shard
from auditor.evidence.journal import StageResult
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import SCRUBS, SCRUBS_TABLE
from auditor.first_checker.coverage import Copy
from auditor.first_checker.spot_reads import NamedEntries
from auditor.model.identity import BookieId, LedgerId
from auditor.model.scrub import ScrubReport
from auditor.zookeeper.metadata_store import MetadataStore


@dataclass(slots=True)
class ScrubReports:
    """The reports of one run's listers. `listers` is None if no lister is asked."""

    store: MetadataStore
    run: Place
    limits: BookieLimits
    listers: Listers | None
    _named: dict[LedgerId, list[Copy]] | None = None

    def ask(self) -> StageResult:
        """Ask each lister for its scrub's report -> evidence/scrubs. Writes nothing without one.

        Costs one connection to each lister. Raises StoreUnavailable.
        """
        if self.listers is not None:
            addresses = {
                bookie.bookie_id: (bookie.host, bookie.port)
                for bookie in self.store.bookies(0, now_ms)
                if bookie.is_registered and bookie.host is not None and bookie.port is not None
            }
            found = asyncio.run(ask_scrubs(addresses, self.listers, self.limits, now_ms))
            self._write(found)
        return {}

    def _write(self, found: Mapping[BookieId, ScrubReport]) -> None:
        if not found:
            return
        asked_at_ms = now_ms()
        rows = [
            {"bookie_id": bookie, "asked_at_ms": asked_at_ms, **_cells(report)}
            for bookie, report in sorted(found.items())
        ]
        self.run.write_table(SCRUBS_TABLE, pa.Table.from_pylist(rows, schema=SCRUBS), "asked")

    def ledgers(self) -> Collection[LedgerId]:
        """Return the ledgers of which scrubs named entries. Call `ask` before."""
        return self._read_once().keys()

    def entries_of(self, shard: Shard) -> NamedEntries:
        """Return the copies that scrubs named of a shard's ledgers."""
        return {
            ledger: copies
            for ledger, copies in self._read_once().items()
            if shard.first <= ledger <= shard.last
        }

    def _read_once(self) -> Mapping[LedgerId, list[Copy]]:
        if self._named is None:
            self._named = self._read()
        return self._named

    def _read(self) -> dict[LedgerId, list[Copy]]:
        named: dict[LedgerId, list[Copy]] = {}
        if self.run.has_table(SCRUBS_TABLE):
            columns = ["bookie_id", "candidates"]
            for row in self.run.read_table(SCRUBS_TABLE, SCRUBS, None, columns).to_pylist():
                for one in row["candidates"]:
                    named.setdefault(one["ledger_id"], []).append(
                        (row["bookie_id"], one["entry_id"])
                    )
        return named


def _cells(report: ScrubReport) -> dict[str, object]:
    cells = asdict(report)
    cells["candidates"] = [candidate._asdict() for candidate in report.candidates]
    return cells
