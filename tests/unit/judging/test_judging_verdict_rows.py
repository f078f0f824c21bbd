"""A verdict as a row: what it rests on, what is lacking, and that columns and values agree."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from support.findings_by_kind import finding_of

from auditor.evidence.rows import table
from auditor.evidence.schemas import VERDICTS
from auditor.judging.settle import Step, Todo
from auditor.judging.verdict_rows import verdict_row
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import LedgerEvidence, Look, Terms
from auditor.model.finding import Kind
from auditor.model.ledger import LedgerRecord, Mark, RecordStatus
from auditor.model.verdict import BookieLack, CopyCounts, Exempt, Probes, Standing, Unknown, Verdict

FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", None, False, None)
EVIDENCE = LedgerEvidence(7, (Look(LedgerRecord(7, 1, 0, RecordStatus.GONE)),))


def row_of(verdict: Verdict, todo: Todo = Todo.NOTHING) -> dict[str, Any]:
    """Return the verdict as a row of VERDICTS."""
    row = verdict_row(EVIDENCE, Step(verdict, todo), Terms(0, 0, 1, 2), FACTS)
    found: dict[str, Any] = table(VERDICTS, [row]).to_pylist()[0]
    return found


def test_a_verdict_by_lists_is_listed() -> None:
    """No probes and no lacks are zero and empty, not null."""
    row = row_of(Verdict(7, Standing.SOUND))
    assert ("listed", 0, 0, [], False) == tuple(
        row[name] for name in ("assurance", "probes", "random_probes", "lacks", "only_maintenance")
    )


def test_a_verdict_by_reads_says_how_many() -> None:
    """The row has all answered probes, and those drawn at random."""
    row = row_of(Verdict(7, Standing.SOUND, probes=Probes(read=14, random=8)))
    assert ("probed", 14, 8) == (row["assurance"], row["probes"], row["random_probes"])


def test_what_a_bookie_lacks_stands_with_what_it_should_hold() -> None:
    """One item a bookie, in the verdict's order."""
    row = row_of(
        Verdict(7, Standing.SOUND, lacks=(BookieLack("b2", 10, 3), BookieLack("b1", 2**40, 2**40)))
    )
    assert [
        {"bookie_id": "b2", "expected": 10, "absent": 3},
        {"bookie_id": "b1", "expected": 2**40, "absent": 2**40},
    ] == row["lacks"]


def test_a_bookie_may_lack_more_than_a_column_can_count() -> None:
    """Metadata may claim 2^63 entries. Its row must be written, or all other ledgers would lose
    their verdicts.
    """
    row = row_of(
        Verdict(
            7,
            Standing.SOUND,
            lacks=(BookieLack("b1", 2**63, 2**63), BookieLack("b2", 2**63, 2**63 - 1)),
        )
    )
    assert [(2**63 - 1, 2**63 - 1)] * 2 == [
        (one["expected"], one["absent"]) for one in row["lacks"]
    ]


def test_planned_maintenance_is_reported() -> None:
    """The column says whether only maintenance prevented judging the ledger."""
    verdict = Verdict(
        7, Standing.INDETERMINATE, unknowns=(Unknown.BOOKIE_SILENT,), only_maintenance=True
    )
    assert row_of(verdict)["only_maintenance"]


def test_findings_are_reported_of_a_verdict_that_stands() -> None:
    """As long as anything is left to do, they are provisional."""
    verdict = Verdict(7, Standing.VIOLATED, findings=(finding_of(Kind.METADATA_MALFORMED),))
    counts = {todo: len(row_of(verdict, todo)["findings"]) for todo in Todo}
    assert {todo: int(todo is Todo.NOTHING) for todo in Todo} == counts


def test_a_row_says_since_when_the_newest_look_saw_a_mark_and_why_the_ledger_is_exempt() -> None:
    """The age is that at the time of judgement, which is the same for the whole run. There is no
    detail unless one is given.
    """
    looks = tuple(
        Look(LedgerRecord(7, look, 0, RecordStatus.GONE, mark=mark))
        for look, mark in ((1, None), (2, Mark(400)))
    )
    step = Step(Verdict(7, Standing.EXEMPT, Exempt.DELETED), Todo.NOTHING)
    row = table(
        VERDICTS, [verdict_row(LedgerEvidence(7, looks), step, Terms(1_000, 0, 1, 2), FACTS)]
    ).to_pylist()[0]
    assert ("deleted", 600, 2, "") == tuple(
        row[name] for name in ("exempt", "mark_age_ms", "looks", "detail")
    )
    assert (None, None) == tuple(
        row_of(Verdict(7, Standing.SOUND))[name] for name in ("exempt", "mark_age_ms")
    )


def test_a_finding_says_what_it_rests_on() -> None:
    """Lists or probes, as for the verdict."""
    finding = finding_of(Kind.METADATA_MALFORMED)
    probed = Verdict(7, Standing.VIOLATED, findings=(finding,), probes=Probes(read=14, random=8))
    findings = [
        json.loads(row_of(verdict)["findings"][0])
        for verdict in (replace(probed, probes=None), probed)
    ]
    assert [("METADATA_MALFORMED", 7, one) for one in ("listed", "probed")] == [
        (one["kind"], one["ledger_id"], one["assurance"]) for one in findings
    ]


def test_copies_are_reported_as_far_as_sums_over_them_can_be_held() -> None:
    """Four counts, each at most 2^53; null if no bookie had to be asked."""
    names = ("copies_expected", "copies_listed", "copies_read", "copies_assumed")
    row = row_of(Verdict(7, Standing.SOUND, copies=CopyCounts(2**63 - 1, 2**53, 3, 0)))
    assert (2**53, 2**53, 3, 0) == tuple(row[name] for name in names)
    assert (None,) * 4 == tuple(row_of(Verdict(7, Standing.SOUND))[name] for name in names)
