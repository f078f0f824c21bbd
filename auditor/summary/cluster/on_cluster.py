"""Collect the findings on listings, marks and references: neither on verdicts nor on bookies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from auditor.evidence.ids import Ids
from auditor.evidence.run_directory import Place
from auditor.model.finding_record import FindingRecord
from auditor.summary.about import About
from auditor.summary.cluster.mark_findings import MarkFindings, mark_findings
from auditor.summary.cluster.population import Population, population
from auditor.summary.references.reference_findings import ReferenceFindings, reference_findings

MARKS_WITHOUT_LEDGER, ORPHANED = "marks/without_ledger.txt", "references/orphaned.txt"
"""Files with ids of ledgers, one a line: marked ledgers without metadata, and Pulsar's ledgers
without a reference."""


@dataclass(frozen=True, slots=True)
class OnCluster:
    """The findings on the cluster, and on ledgers that topics reference."""

    listed: Population
    marked: MarkFindings
    referenced: ReferenceFindings

    @property
    def findings(self) -> tuple[FindingRecord, ...]:
        """The findings of all three."""
        return (*self.listed.findings, *self.marked.findings, *self.referenced.findings)

    @property
    def withheld(self) -> tuple[str, ...]:
        """What could not be decided, in sentences."""
        return (*self.listed.withheld, *self.marked.withheld, *self.referenced.withheld)

    @property
    def files(self) -> Mapping[str, Ids]:
        """The files of ledger ids that are not empty, by name."""
        ids = {MARKS_WITHOUT_LEDGER: self.marked.ledger_ids, ORPHANED: self.referenced.orphaned}
        return {name: np.array(ledgers, np.int64) for name, ledgers in ids.items() if ledgers}

    def as_run_facts(self) -> dict[str, Any]:
        """Return the fields of RunFacts that only these findings provide."""
        return {
            "listing_was_short": bool(self.listed.withheld),
            "unlisted_marks": self.marked.unlisted,
            "malformed_marks": self.marked.malformed,
            "baseline": self.listed.baseline,
            "are_references_known": self.referenced.is_complete,
        }


def findings_on_cluster(run: Place, about: About) -> OnCluster:
    """Return what the written listings, marks and references show."""
    return OnCluster(
        population(run, about), mark_findings(run, about), reference_findings(run, about)
    )
