"""Audit a few ledgers without Spark in about a second: the looks and the stages of a run.

The tables are in memory, and only bookies that the ledgers name are asked. They have less time to
list than in a run (`auditor.bookie.exchange.Hurry`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from sys import maxsize

import pyarrow.compute as pc

from auditor.bookie.exchange import Hurry
from auditor.bookie.listers import Listers
from auditor.context import Context
from auditor.evidence.gathered import evidence_by_ledger
from auditor.evidence.ids import EVERYTHING
from auditor.evidence.journal import Journal
from auditor.evidence.run_directory import MemoryDirectory, Place
from auditor.evidence.run_tables import read_seen_rows
from auditor.evidence.schemas import VERDICTS
from auditor.judging.settle import Step, end_unjudged, settle
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import LedgerEvidence, Terms
from auditor.model.identity import BookieId, LedgerId
from auditor.model.verdict import Unknown
from auditor.run.bookie_register import BookieRegister
from auditor.run.judging_rounds import Judgings
from auditor.run.looks import Looks
from auditor.run.open_hours import OpenHours
from auditor.stages.local import LocalExecutor
from auditor.stages.selection import Suspects
from auditor.stages.stages import Stages
from auditor.summary.counts import HAS_DETAIL, disputed_ledgers, poisoned_ledgers
from auditor.summary.doubted_lists import spoil_verdict, spoiled_ledgers
from auditor.telemetry.progress import Silent
from auditor.zookeeper.metadata_store import MetadataStore


@dataclass(frozen=True, slots=True)
class Asker:
    """How a command without Spark reaches a cluster."""

    context: Context
    store: MetadataStore
    facts: ClusterFacts
    known_unable: frozenset[BookieId] = frozenset()
    """Bookies that an earlier run recorded as unable to list: their lists are awaited less long."""
    listers: Listers | None = None
    """Where the bookies' listers are; None if no lister is asked."""
    set_aside: dict[LedgerId, str] = field(default_factory=dict)
    """Filled by the audit: ledger id -> why the ledger could not be judged."""

    def looks(self, terms: Terms) -> Looks:
        """Return the looks of an audit by these terms, with empty tables."""
        settings, run = self.context.settings, MemoryDirectory()
        stop, suspects, journal = self.context.stop, Suspects(run), Journal(run)
        local = LocalExecutor(stop, run, suspects, self.store.lent(), self.store.counts)
        stages = Stages(
            on_spark=lambda: local,
            local=local,
            suspects=suspects,
            facts=self.facts,
            terms=terms,
            limits=settings.bookie_limits(),
            suspects_max=maxsize,
            ledgers_max=maxsize,
            judging=settings.judging_limits(),
        )
        bookies = BookieRegister(
            self.store,
            run,
            journal,
            self.facts,
            terms.around.maintenance,
            settings.search_reads_max,
            listers=self.listers,
            greets_all=False,
            hurry=Hurry(self.known_unable),
        )
        hours = OpenHours(None, stop, Silent(), self.context.logger)
        waits_ms = (settings.second_look_delay_ms, 0)
        return Looks(bookies, Judgings(stages, run, journal), hours, waits_ms, ahead=None)


def audit_ledgers(
    asker: Asker, ids: Sequence[LedgerId], terms: Terms
) -> list[tuple[LedgerEvidence, Step]]:
    """Return each ledger's evidence and final step, in the order of `ids`.

    Takes looks until every verdict may stand, as the terms allow.
    """
    looks = asker.looks(terms)
    looks.take_listing(list(dict.fromkeys(ids)))
    looks.take([EVERYTHING])
    looks.judgings.commit()
    judged = _settle_stored(looks.directory, terms, asker.set_aside)
    return [judged[ledger_id] for ledger_id in dict.fromkeys(ids)]


def _settle_stored(
    run: Place, terms: Terms, set_aside: dict[LedgerId, str]
) -> Mapping[LedgerId, tuple[LedgerEvidence, Step]]:
    """Return the evidence on each ledger, and its verdict as the stages left it.

    Each ledger was judged by this evidence before, in a child process. Its row of VERDICTS has the
    findings as the records that a run writes. The commands need the values behind them: these
    ledgers are few, and are judged again.
    """
    columns = ["ledger_id", "unknowns", "detail"]
    troubled = run.read_table("verdicts", VERDICTS, HAS_DETAIL, columns)
    poisoned, disputed = dict(poisoned_ledgers(troubled)), dict(disputed_ledgers(troubled))
    set_aside |= poisoned | disputed
    unjudged = dict.fromkeys(poisoned, Unknown.POISON)
    unjudged |= dict.fromkeys(disputed, Unknown.CHECKERS_DISAGREE)
    spoiled = {reason: frozenset(ids.to_pylist()) for reason, ids in spoiled_ledgers(run).items()}
    found = {}
    for batch in read_seen_rows(run, pc.field("ledger_id").is_valid()):
        for evidence in evidence_by_ledger(batch):
            ledger = evidence.ledger_id
            why = unjudged.get(ledger)
            step = settle(evidence, terms) if why is None else end_unjudged(ledger, why)
            for reason, ids in spoiled.items():
                if ledger in ids:
                    step = replace(step, verdict=spoil_verdict(step.verdict, reason))
            found[ledger] = evidence, step
    return found
