"""Make the summary of a run (docs/names.md, "summary.json"). Counts come only from written
tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from auditor import __version__
from auditor.evidence.table_scan import TableScan
from auditor.model.cluster import BookieRecord, ClusterFacts
from auditor.model.evidence import LastPopulation, Terms
from auditor.model.finding import Kind
from auditor.model.finding_record import FindingRecord
from auditor.model.summary import Summary
from auditor.model.verdict import Exempt, Standing
from auditor.summary import circumstances
from auditor.summary.costs import Costs
from auditor.summary.counts import (
    HAS_DETAIL,
    UnlistedMark,
    copies_of_verdicts,
    marks_of,
    oldest_mark_s,
    poison_json,
    unjudged_ledgers,
)
from auditor.summary.outcome import counts_of, exit_code, findings_by_kind, is_fault, outcome_of
from auditor.summary.previous_run import Previous, absences_json
from auditor.summary.sweeps import SAMPLING, SweptRun, sampling_json
from auditor.witness.finding_lines import PROBED

Json = dict[str, Any]

NO_TOPICS: Mapping[str, Any] = {"references": None, "topics_hit": None, "topics_worst": None}
"""The fields on topics in the summary of a run that did not look for topics."""

STAGES = ("load", "ask", "judge", "second_look", "report")


MALFORMED_IN_SUMMARY = 20
"""At most this many malformed marks are named in the summary; evidence/marks has at most a
thousand."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is known of a run beside its tables.

    Times are RFC 3339 in UTC. `duration_s` has seconds by stage.
    """

    run_id: str
    facts: ClusterFacts
    started_at: str
    finished_at: str
    duration_s: Mapping[str, float]
    fail_on: str
    allow_empty: bool
    partial: bool
    """Whether the run is limited to ledgers that an operator named."""
    nobody_answered: bool
    not_there: int
    """Number of ledgers named by an operator that did not exist at any look."""
    withheld: tuple[str, ...]
    """Sentences on what could not be decided, and why."""
    terms: Terms
    listing_was_short: bool = False
    """Whether the audited listing lacked, or may have lacked, ledgers that exist."""
    resumed_at: tuple[str, ...] = ()
    """When the run was resumed."""
    unlisted_marks: tuple[UnlistedMark, ...] = ()
    """Marks whose ledgers the listing did not name. Empty in a partial run."""
    malformed_marks: tuple[str, ...] = ()
    """Paths of znodes among the marks that mark no ledger. Empty in a partial run."""
    baseline: LastPopulation | None = None
    """The run with whose number of ledgers the next run's is compared; None for this run."""
    absences: Mapping[str, list[Json]] = field(default_factory=lambda: absences_json({}, []))
    """The summary fields on bookies that are not registered (`summary.previous_run`)."""
    are_references_known: bool = True
    """Whether it is known of each referenced ledger whether it is lost."""
    topics: Mapping[str, Any] = field(default_factory=lambda: dict(NO_TOPICS))
    """The summary fields on Pulsar's topics."""


def findings_of(
    verdicts: TableScan, beside_verdicts: Iterable[FindingRecord]
) -> list[FindingRecord]:
    """Return all findings, worst severity first, then by kind, ledger, bookie, segment.

    Each takes some 6 kB of memory. This is the only place that reads them from VERDICTS in a run.
    """
    found = list(beside_verdicts)
    for batch in verdicts.batches(["findings"]):
        found += map(FindingRecord.from_line, batch["findings"].flatten().to_pylist())
    return sorted(found, key=_rank)


def _rank(found: FindingRecord) -> tuple[Any, ...]:
    """Return a sort key. Findings of one kind have the same kind of subject: None is compared with
    None.
    """
    first = found.segment.first_entry_id if found.segment else -1
    place = _PLACES[found.kind]
    return (-found.severity, place, found.ledger_id, found.bookie_id, first)


_PLACES = {kind: place for place, kind in enumerate(Kind)}


def summarise(
    run: RunFacts,
    verdicts: TableScan,
    bookies: Sequence[BookieRecord],
    costs: Costs,
    findings: Sequence[FindingRecord],
    previous: Previous,
    copies: float,
) -> Summary:
    """Return summary.json of VERDICTS rows and all findings. `copies` is as in `Series`."""
    standings = _count_words(batch["standing"] for batch in verdicts.batches(["standing"]))
    unknowns = _count_words(batch["unknowns"].flatten() for batch in verdicts.batches(["unknowns"]))
    listed = standings.total()
    complete = not unknowns and not run.nobody_answered and run.are_references_known
    all_judged = complete and _is_whole(run, listed)
    fault = is_fault(unknowns)
    around = circumstances.circumstances_json(
        bookies, costs.bookies_named, run.terms, verdicts, findings
    )
    return Summary(
        {
            **_identity(run),
            **counts_of(standings, _count_exempt(verdicts), unknowns),
            "findings": findings_by_kind(findings),
            **around,
            SAMPLING: _sampling_field(run, around["assurance"][PROBED], previous, copies),
            **run.absences,
            **run.topics,
            **_requests(costs, verdicts),
            "totals": previous.totals_after(findings),
            "request_totals": previous.request_totals_after(costs),
            **_of_verdicts(run, verdicts, listed),
            **_limits(run, verdicts),
            "complete": complete,
            "outcome": outcome_of(findings, complete=all_judged, fault=fault),
            "exit_code": exit_code(findings, run.fail_on, incomplete=not all_judged, fault=fault),
            "exit_code_if_clean": exit_code(
                (), run.fail_on, incomplete=not all_judged, fault=fault
            ),
        }
    )


def _is_whole(run: RunFacts, listed: int) -> bool:
    """Return whether the run lacks no ledger that it should have judged."""
    if run.not_there or run.listing_was_short:
        return False
    return listed > 0 or run.allow_empty


def _identity(run: RunFacts) -> Json:
    """Return the fields that identify the run: which run, of which cluster, and when."""
    return {
        "run_id": run.run_id,
        "auditor_version": __version__,
        "cluster": _cluster(run.facts),
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "resumed_at": list(run.resumed_at),
        "duration_s": {stage: round(run.duration_s.get(stage, 0.0), 3) for stage in STAGES},
    }


def _sampling_field(run: RunFacts, probed: int, previous: Previous, copies: float) -> Json:
    """Return the probability that losses were found, if `probed` ledgers were judged by probes."""
    swept = SweptRun(run.terms.sweep, run.started_at, run.partial, probed, copies)
    return sampling_json(swept, previous.series)


def _limits(run: RunFacts, verdicts: TableScan) -> Json:
    """Return what limits the run's results: its scope, what could not be judged, and what was
    withheld.
    """
    aside = verdicts.table(["ledger_id", "unknowns", "detail"], HAS_DETAIL)
    return {
        "nobody_answered": run.nobody_answered,
        "replication_disabled": run.facts.replication_disabled,
        "partial": run.partial,
        **poison_json(aside),
        "withheld": list(run.withheld),
    }


def _of_verdicts(run: RunFacts, verdicts: TableScan, listed: int) -> Json:
    """Return what is counted from the verdicts beside standings, reasons and findings."""
    return {
        "coverage": _coverage(verdicts, listed),
        **copies_of_verdicts(verdicts),
        "oldest_underreplicated_s": oldest_mark_s(verdicts),
        **marks_of(verdicts, run.unlisted_marks, run.terms.underreplication_grace_ms),
        "unjudged": unjudged_ledgers(verdicts).as_json(),
        "malformed_marks": list(run.malformed_marks[:MALFORMED_IN_SUMMARY]),
        "population": None if run.partial else _population(run, listed),
    }


def _population(run: RunFacts, listed: int) -> Json:
    """Return the number of ledgers with which the next whole run is compared.

    It is this run's, or an earlier run's if this run lists far fewer ledgers.
    """
    baseline = run.baseline or LastPopulation(run.run_id, run.finished_at, listed, 0)
    return {
        "baseline_run": baseline.run_id,
        "baseline_finished_at": baseline.finished_at,
        "baseline_listed": baseline.listed,
        "low_listed": list(baseline.low_listed),
        "low_runs": baseline.low_runs,
    }


def _cluster(facts: ClusterFacts) -> Json:
    """Return what identifies the cluster: the instance id, or without one the root and the
    hosts.
    """
    named = {"metadata_service_uri": facts.metadata_service_uri, "instance_id": facts.instance_id}
    return {**named, "root": facts.root, "hosts": list(facts.hosts)}


def _count_words(columns: Iterable[pa.Array]) -> Counter[str]:
    """Return how often each word occurs in the parts of a column."""
    found: Counter[str] = Counter()
    for words in columns:
        for row in pc.value_counts(words).to_pylist():
            if row["values"] is not None:
                found[row["values"]] += row["counts"]
    return found


def _count_exempt(verdicts: TableScan) -> Counter[str]:
    exempt = pc.field("standing") == Standing.EXEMPT.word
    return _count_words(batch["exempt"] for batch in verdicts.batches(["exempt"], exempt))


def _requests(costs: Costs, verdicts: TableScan) -> Json:
    """Return the requests, and which bookies were asked less than the limits allow."""
    column = "listing_false_negatives"
    late = (batch[column] for batch in verdicts.batches([column]))
    requests = {
        "zookeeper_reads": costs.zookeeper_reads,
        "bookie_requests": costs.bookie_requests,
        "bookie_bytes": costs.bookie_bytes,
        "retries": costs.retries,
        "confirming_reads": costs.confirming_reads,
        "spot_reads": costs.spot_reads,
        "doubt_reads": costs.doubt_reads,
        "listing_false_negatives": sum(int(pc.sum(counts).as_py() or 0) for counts in late),
    }
    return {"requests": requests, "paces": costs.paces}


def _coverage(verdicts: TableScan, listed: int) -> float:
    """Return the share of ledgers with no reason to be unknown and not exempt for their mark.

    1.0 if there are no ledgers.
    """
    if listed == 0:
        return 1.0
    uncovered = 0
    for batch in verdicts.batches(["unknowns", "standing", "exempt"]):
        unknown = pc.greater(pc.list_value_length(batch["unknowns"]), 0)
        standing = pc.equal(batch["standing"], Standing.EXEMPT.word)
        marked = pc.and_kleene(
            standing, pc.equal(batch["exempt"], Exempt.MARKED_UNDERREPLICATED.value)
        )
        uncovered += int(pc.sum(pc.or_(unknown, marked)).as_py() or 0)
    return round(1 - uncovered / listed, 6)
