"""Compare the findings of two finished runs of one cluster.

What limits the comparison becomes notes: other versions, other settings, an incomplete later
run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from auditor.after.compared_finding import ComparedFinding
from auditor.after.differences import Difference, compare_findings
from auditor.after.differences_text import ComparedRun
from auditor.after.finished_run import (
    open_finished_run,
    read_about,
    read_all_findings,
    require_fields,
    require_time,
    require_verdicts,
)
from auditor.after.rechecks import Judged, judged_run, terms_json
from auditor.errors import ConfigError
from auditor.evidence.rows import bookie_records
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import BOOKIES, VERDICTS
from auditor.model.cluster import ClusterFacts
from auditor.model.summary import Summary
from auditor.report.layout import of, printable, size
from auditor.summary.about import About
from auditor.summary.space import disk_growth, earlier_bytes, with_orphan_growth

COMPARED_TERMS = (
    "placement", "underreplication_grace_ms", "stuck_after_ms", "orphan_age_ms", "probe_entries",
    "maintenance",
)  # fmt: skip
"""The terms of judgement on which findings depend, by their names in run.json."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A finished run, with what the comparison needs."""

    directory: Place
    summary: Summary
    finished: datetime
    findings: list[ComparedFinding]
    about: About

    def as_compared(self) -> ComparedRun:
        """Return what the text says about the run."""
        return ComparedRun(
            run_id=self.summary.run_id,
            finished_at=str(self.summary.finished_at),
            outcome=self.summary.outcome,
            auditor_version=self.summary.auditor_version,
            is_complete=self.summary.is_complete,
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """What became of each finding from the earlier run to the later one.

    `notes` limit it, and say how disks and orphans grew.
    """

    earlier: StoredRun
    later: StoredRun
    notes: list[str]
    differences: list[Difference]


def compare_runs(earlier_dir: str | Place, later_dir: str | Place) -> Comparison:
    """Compare the findings of two finished runs.

    Raises ConfigError if one is not finished or they are of different clusters, OutputError if a
    part of one is lost.
    """
    earlier, later = _open(earlier_dir), _open(later_dir)
    _refuse_other_cluster(earlier, later)
    differences = compare_findings(
        earlier.findings,
        later.findings,
        _known_of(earlier, later.findings, None),
        _known_of(later, earlier.findings, later.directory),
    )
    notes = [*_notes(earlier, later), *growth_notes(earlier.summary, later.summary)]
    return Comparison(earlier, later, notes, differences)


def _open(run_dir: str | Place) -> StoredRun:
    directory, summary = open_finished_run(run_dir)
    require_fields(directory, summary, "finished_at", "partial", "withheld")
    require_verdicts(directory, summary)
    finished = require_time(directory, "finished_at", summary.finished_at)
    findings = [ComparedFinding.of(finding) for finding in read_all_findings(directory, summary)]
    return StoredRun(directory, summary, finished, findings, read_about(directory))


def _refuse_other_cluster(earlier: StoredRun, later: StoredRun) -> None:
    one, other = (run.summary.cluster for run in (earlier, later))
    facts = ClusterFacts(
        one.metadata_service_uri, one.hosts, str(one.root), "", one.instance_id,
        replication_disabled=False, lost_bookie_recovery_delay_s=None,
    )  # fmt: skip
    if not facts.is_of(other.instance_id, other.root, other.hosts):
        raise ConfigError(
            f"{earlier.directory.address} and {later.directory.address} are runs of different"
            " clusters "
            f"({printable(one.instance_id or one.root)} and "
            f"{printable(other.instance_id or other.root)})"
        )


def _notes(earlier: StoredRun, later: StoredRun) -> list[str]:
    """Return what limits the comparison, as sentences."""
    notes = []
    if earlier.finished > later.finished:
        notes.append(
            "The run given first finished after the other one: give the earlier run first."
        )
    if earlier.summary.auditor_version != later.summary.auditor_version:
        notes.append(
            "The runs are of different versions of the auditor: some differences may come from how"
            " it judges."
        )
    earlier_terms, later_terms = terms_json(earlier.about), terms_json(later.about)
    settings = [name for name in COMPARED_TERMS if earlier_terms[name] != later_terms[name]]
    if settings:
        notes.append(
            f"The runs had different settings ({', '.join(settings)}): some differences may come"
            " from them."
        )
    if later.summary.is_partial:
        notes.append("The later run was of named ledgers only.")
    if not later.summary.is_complete:
        notes.append(
            "The later run could not judge every ledger: there may be new findings that it does not"
            " have."
        )
    return notes


def growth_notes(earlier: Summary, later: Summary) -> list[str]:
    """Return how much more of the disks is used than at the earlier run, and how much larger its
    orphans are, as sentences; none of what did not change or is not known of both runs.
    """
    before, notes = earlier_bytes(earlier), []
    growth = disk_growth(() if later.space is None else later.space.fullest, before)
    if growth is not None and growth.used_bytes:
        notes.append(
            f"On the {of(growth.bookies, 'bookie')} of which both runs know how full the disks are,"
            f" {more_bytes(growth.used_bytes)} is used."
        )
    own = None if later.references is None else replace(later.references, orphaned_growth=None)
    references = with_orphan_growth(own, before)
    orphans = None if references is None else references.orphaned_growth
    if orphans is not None and (orphans.ledgers or orphans.stored_bytes):
        number = f"{abs(orphans.ledgers):,} {'fewer' if orphans.ledgers < 0 else 'more'}"
        notes.append(
            f"There are {number} orphans, with {more_bytes(orphans.stored_bytes)} in all copies."
        )
    return notes


def more_bytes(number: int) -> str:
    """Return a difference of bytes: "1.0 MiB more", "2.0 KiB less"."""
    return f"{size(abs(number))} {'less' if number < 0 else 'more'}"


def _known_of(run: StoredRun, others: Sequence[ComparedFinding], evidence: Place | None) -> Judged:
    """Return what a run knows of the subjects of the other run's findings.

    `evidence` is where the later run stored what bookies said; None for the earlier run.
    """
    records = bookie_records(run.directory.read_table("evidence/bookies", BOOKIES))
    verdicts = run.directory.scan("verdicts", VERDICTS)
    known = judged_run(evidence, run.about, run.summary, verdicts, records, others)
    return replace(known, is_partial=run.summary.is_partial)
