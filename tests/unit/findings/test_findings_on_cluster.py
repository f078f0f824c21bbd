"""The findings of listings, marks and references as one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from support.topics import closed

from auditor.evidence.rows import ledger_row, table
from auditor.evidence.run_directory import place
from auditor.evidence.schemas import LEDGERS, LISTING, LISTINGS, MARKS, REFERENCES
from auditor.findings.on_cluster import (
    FIRST_LISTING,
    LISTINGS_AT,
    SECOND_LISTING,
    MarkFindings,
    OnCluster,
    Population,
    findings_on_cluster,
    listing_row,
    mark_row,
)
from auditor.findings.reference_findings import ReferenceFindings
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import LastPopulation, Terms
from auditor.model.ledger import LedgerRecord, Mark, RecordStatus
from auditor.model.topic import ManagedLedger, TopicRecord, TopicStatus
from auditor.pulsar.reference_rows import reference_rows
from auditor.pulsar.topic_paths import parse_topic
from auditor.summary.about import About
from auditor.summary.counts import UnlistedMark

LAST = LastPopulation("20251231T030000Z-000001", "2025-12-31T03:01:00Z", 200, 50)
ALL = OnCluster(
    Population(("listing",), ("listing withheld",), LAST),
    MarkFindings(("mark",), ("mark withheld",), (UnlistedMark(5, True),), (3, 4)),
    ReferenceFindings(("reference",), ("reference withheld",), {}, False, (7, 8)),
)
NOTHING = OnCluster(Population(), MarkFindings(), ReferenceFindings())


def test_listings_come_first_then_marks_then_references() -> None:
    """This is the order of findings, and of sentences on what is withheld."""
    assert ("listing", "mark", "reference") == ALL.findings
    assert ("listing withheld", "mark withheld", "reference withheld") == ALL.withheld


def test_each_finding_on_many_ledgers_has_a_file_of_their_ids() -> None:
    """Ledger ids have 64 bits."""
    files = ALL.files
    contents = {name: (ids.tolist(), ids.dtype) for name, ids in files.items()}
    assert {
        "marks/without_ledger.txt": ([3, 4], np.dtype(np.int64)),
        "references/orphaned.txt": ([7, 8], np.dtype(np.int64)),
    } == contents


def test_there_is_no_file_without_an_id() -> None:
    """An empty file would look like a lost list."""
    assert {} == NOTHING.files


def test_the_tables_of_a_run_are_judged_for_all_three(tmp_path: Path) -> None:
    """The run has far fewer ledgers than the last, a mark without a ledger, and a referenced ledger
    without metadata.
    """
    run = place(str(tmp_path))
    for listing in (FIRST_LISTING, SECOND_LISTING):
        run.write_table(LISTINGS_AT[listing], table(LISTING, [(n,) for n in range(99)]), "all")
        rows = table(LISTINGS, [listing_row(listing, listing * 60_000, [])])
        run.write_table("evidence/listings", rows, f"l{listing}")
    marks = [mark_row(500, look, look, Mark(1_000), False) for look in (1, 2)]
    run.write_table("evidence/marks", table(MARKS, marks), "all")
    topic = TopicRecord(
        parse_topic("public/default/t"), 5, TopicStatus.FOUND, ManagedLedger((closed(700),))
    )
    uses = [row for look in (1, 2) for row in reference_rows(topic, look)]
    run.write_table("evidence/references", table(REFERENCES, uses), "all")
    gone = [ledger_row(LedgerRecord(700, look, 1_000 * look, RecordStatus.GONE)) for look in (1, 2)]
    run.write_table("evidence/referenced_ledgers", table(LEDGERS, gone), "all")
    run.write_table("evidence/ledgers", table(LEDGERS, []), "all")
    facts = ClusterFacts(
        "zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", "inst", False, None
    )
    terms = Terms(1_000_000, 1_000, 16, 5)
    about = About(
        "20260101T030000Z-000001",
        "2026-01-01T03:00:00Z",
        facts,
        terms,
        "warning",
        False,
        previous_population=LAST,
    )
    found = findings_on_cluster(run, about)
    kinds = [one.kind.value for one in found.findings]
    assert [
        "LEDGER_POPULATION_DROPPED",
        "MARK_WITHOUT_LEDGER",
        "REFERENCED_LEDGER_MISSING",
    ] == kinds
