"""Listing all ledgers again at the end of a run that listed far fewer than the last one: no
accusation on one look.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from auditor.clock import now_ms
from auditor.errors import OutputError, StoreUnavailable
from auditor.evidence.rows import table
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LISTING, LISTINGS
from auditor.first_checker.population import LastPopulation, has_dropped
from auditor.run.read_counts import count_silent_parents
from auditor.summary.cluster.listings import AGAIN, FIRST, WHERE, listing_row, some_gone
from auditor.suspects.by_size import StagesBySize
from auditor.zookeeper.metadata_store import MetadataStore


@dataclass(slots=True)
class Relisting:
    """What the listings of a whole run are held against. `last_run` is where the last run's
    evidence lies, if it still does.
    """

    stages: StagesBySize
    store: MetadataStore
    run: Place
    last: LastPopulation | None
    last_run: Place | None
    began_at_ms: int = 0

    def start(self) -> None:
        """The listing that is to be audited begins."""
        self.began_at_ms = now_ms()

    def record_first(self) -> None:
        """Write down when the listing began, where there is something to hold it against."""
        if self.last is not None:
            self._write(FIRST)

    def relist_if_dropped(self, delay_ms: int, wait: Callable[[float], None]) -> str | None:
        """List all ledgers once more if far fewer were listed than by the last run, `delay_ms`
        after that at the earliest.

        Returns a sentence where it failed: that is no end of the run.
        """
        if self.last is None or not has_dropped(self.last, self.run.count(WHERE[FIRST], LISTING)):
            return None
        wait(max(0, self.began_at_ms + delay_ms - now_ms()) / 1000)
        self.began_at_ms = now_ms()
        try:
            self.store.sync()
            listing = self.store.listing_partitions()
            if self.stages.list_ledgers(listing.partitions, WHERE[AGAIN]):
                count_silent_parents(self.run, WHERE[AGAIN], listing, self.store.counts)
        except StoreUnavailable as error:
            return f"the ledgers could not be listed again: {error}"
        self._write(AGAIN)
        return None

    def _write(self, listing: int) -> None:
        gone = self._gone_ledgers() if listing == AGAIN else []
        row = listing_row(listing, self.began_at_ms, gone)
        self.run.write_table("evidence/listings", table(LISTINGS, [row]), f"listing-{listing}")

    def _gone_ledgers(self) -> list[int]:
        """Some ledgers that the last run listed and that are gone; none where its evidence was
        removed meanwhile.
        """
        if self.last_run is None:
            return []
        try:
            before = self.last_run.read_table(WHERE[FIRST], LISTING)["ledger_id"]
        except OutputError:
            return []
        return some_gone(before, self.run.read_table(WHERE[AGAIN], LISTING)["ledger_id"])
