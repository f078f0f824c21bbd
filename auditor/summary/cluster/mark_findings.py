"""Judge marks whose ledgers have no metadata.

The result is the finding on the cluster, or the reason why there is none.
"""

from __future__ import annotations

from dataclasses import dataclass

from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import MARKS
from auditor.first_checker.underreplication import (
    ConfirmedMark,
    confirmed_marks,
    judge_marks,
    withheld_marks,
)
from auditor.model.finding import Finding
from auditor.model.finding_record import FindingRecord
from auditor.model.identity import LedgerId
from auditor.summary.about import About
from auditor.summary.cluster.seen_marks import WHERE, SeenMarks, seen_marks
from auditor.summary.mark_counts import UnlistedMark
from auditor.wire.znode_paths import mark_path
from auditor.witness.finding_lines import ClusterLook, cluster_testimony


@dataclass(frozen=True, slots=True)
class MarkFindings:
    """What the marks of unlisted ledgers show.

    `findings` has one or none. `withheld` says in sentences what could not be judged.
    `ledger_ids` are those of the finding, ascending. `malformed` are paths of znodes among the
    marks that mark no ledger.
    """

    findings: tuple[FindingRecord, ...] = ()
    withheld: tuple[str, ...] = ()
    unlisted: tuple[UnlistedMark, ...] = ()
    ledger_ids: tuple[LedgerId, ...] = ()
    malformed: tuple[str, ...] = ()


def mark_findings(run: Place, about: About) -> MarkFindings:
    """Return what evidence/marks shows; nothing in a partial run.

    Holds the marks of all ledgers that were not listed.
    """
    if about.partial:
        return MarkFindings()
    seen = seen_marks(run.read_table(WHERE, MARKS))
    now_ms, grace_ms = about.terms.judged_at_ms, about.terms.underreplication_grace_ms
    found = confirmed_marks(seen.marks, now_ms, grace_ms)
    finding = _mark_finding(seen, about)
    return MarkFindings(
        findings=(_record(finding, found, about),) if finding else (),
        withheld=tuple(
            withheld_marks(
                seen.marks, now_ms, grace_ms, unchecked=len(seen.unchecked), problem=seen.problem
            )
        ),
        unlisted=seen.as_unlisted(now_ms),
        ledger_ids=tuple(sorted(one.ledger_id for one in found)) if finding else (),
        malformed=seen.malformed,
    )


def _mark_finding(seen: SeenMarks, about: About) -> Finding | None:
    return judge_marks(
        seen.marks,
        about.terms.judged_at_ms,
        about.terms.underreplication_grace_ms,
        unchecked=len(seen.unchecked),
        path_of=lambda ledger_id: about.facts.root + mark_path(ledger_id),
        replication_disabled=about.facts.replication_disabled,
    )


def _record(finding: Finding, found: list[ConfirmedMark], about: About) -> FindingRecord:
    times = (max(one.first_at_ms for one in found), min(one.again_at_ms for one in found))
    looks = [ClusterLook(at_ms, "marks", f"{len(found)} without a ledger") for at_ms in times]
    return cluster_testimony(finding, looks, about.facts)
