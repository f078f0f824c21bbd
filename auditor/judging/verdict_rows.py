"""Make a row of VERDICTS from a verdict: the same bytes in run and replay."""

from __future__ import annotations

from auditor.evidence.rows import Row
from auditor.first_checker.underreplication import age_ms
from auditor.judging.copies import cap
from auditor.judging.settle import Step, Todo
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import LedgerEvidence, Terms
from auditor.model.verdict import CopyCounts
from auditor.witness.finding_lines import assurance, finding_line, ledger_testimony

ENTRIES_MAX = 2**63 - 1
"""Maximum of each count of entries: what a column holds. Metadata may claim one entry more."""


def verdict_row(
    evidence: LedgerEvidence, step: Step, terms: Terms, facts: ClusterFacts, detail: str = ""
) -> Row:
    """Return one row of VERDICTS.

    The row has findings only when nothing is left to do: until then the verdict is provisional.
    """
    verdict = step.verdict
    mark = evidence.looks[-1].record.mark
    reported = verdict.findings if step.todo is Todo.NOTHING else ()
    return (
        verdict.ledger_id,
        verdict.standing.word,
        verdict.exempt.value if verdict.exempt else None,
        [unknown.value for unknown in verdict.unknowns],
        [
            finding_line(ledger_testimony(finding, evidence.looks, facts, verdict.probes))
            for finding in reported
        ],
        verdict.listing_false_negatives,
        None if mark is None else age_ms(mark, terms.judged_at_ms),
        len(evidence.looks),
        step.todo.value,
        detail,
        assurance(verdict.probes),
        verdict.probes.read if verdict.probes else 0,
        verdict.probes.random if verdict.probes else 0,
        [
            (lack.bookie_id, min(lack.expected, ENTRIES_MAX), min(lack.absent, ENTRIES_MAX))
            for lack in verdict.lacks
        ],
        verdict.only_maintenance,
        *_copies(verdict.copies),
        verdict.is_mark_stale,
    )


def _copies(counts: CopyCounts | None) -> Row:
    """Return the four counts, each at most COPIES_MAX, or nulls where no bookie had to be asked."""
    if counts is None:
        return (None, None, None, None)
    counts = cap(counts)
    return (counts.expected, counts.listed, counts.read, counts.assumed)
