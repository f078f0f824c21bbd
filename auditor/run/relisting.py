"""List all ledgers again at the end of a run that listed far fewer than the last run.

A single short listing is not reported as a drop.
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
from auditor.stages.stages import Stages
from auditor.summary.cluster.on_cluster import (
    FIRST_LISTING,
    LISTINGS_AT,
    SECOND_LISTING,
    listing_row,
    some_gone,
)
from auditor.zookeeper.metadata_store import MetadataStore


@dataclass(slots=True)
class Relisting:
    """The listings of a whole run, to compare with the last run.

    `last_run` is where the last run's evidence is, None if it was removed.
    """

    stages: Stages
    store: MetadataStore
    run: Place
    last: LastPopulation | None
    last_run: Place | None
    began_at_ms: int = 0

    def start(self) -> None:
        """Record when the listing that is audited begins."""
        self.began_at_ms = now_ms()

    def record_first(self) -> None:
        """Record when the listing began, if there is a run to compare with."""
        if self.last is not None:
            self._write(FIRST_LISTING)

    def relist_if_dropped(self, delay_ms: int, wait: Callable[[float], None]) -> str | None:
        """List all ledgers again if far fewer were listed than by the last run.

        Waits until `delay_ms` after the first listing. Returns a sentence if the listing failed:
        that does not end the run.
        """
        if self.last is None or not has_dropped(
            self.last, self.run.count(LISTINGS_AT[FIRST_LISTING], LISTING)
        ):
            return None
        wait(max(0, self.began_at_ms + delay_ms - now_ms()) / 1000)
        self.began_at_ms = now_ms()
        try:
            self.store.sync()
            listing = self.store.listing_partitions()
            if self.stages.list_ledgers(listing.partitions, LISTINGS_AT[SECOND_LISTING]):
                count_silent_parents(
                    self.run, LISTINGS_AT[SECOND_LISTING], listing, self.store.counts
                )
        except StoreUnavailable as error:
            return f"the ledgers could not be listed again: {error}"
        self._write(SECOND_LISTING)
        return None

    def _write(self, listing: int) -> None:
        gone = self._gone_ledgers() if listing == SECOND_LISTING else []
        row = listing_row(listing, self.began_at_ms, gone)
        self.run.write_table("evidence/listings", table(LISTINGS, [row]), f"listing-{listing}")

    def _gone_ledgers(self) -> list[int]:
        """Return some ledgers that the last run listed and that are gone; none if its evidence was
        removed.
        """
        if self.last_run is None:
            return []
        try:
            before = self.last_run.read_table(LISTINGS_AT[FIRST_LISTING], LISTING)["ledger_id"]
        except OutputError:
            return []
        return some_gone(
            before, self.run.read_table(LISTINGS_AT[SECOND_LISTING], LISTING)["ledger_id"]
        )
