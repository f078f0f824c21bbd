"""Makes the summary of a run (contract section 5). Counts come only from written tables."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from auditor import __version__
from auditor.first_checker.population import LastPopulation
from auditor.model.cluster import BookieRecord, ClusterFacts
from auditor.model.evidence import Terms
from auditor.model.finding import CATALOGUE, Kind
from auditor.model.verdict import Exempt, Standing
from auditor.second_checker.finding_comparison import Difference
from auditor.summary import circumstances
from auditor.summary.absences import absences_json
from auditor.summary.mark_counts import UnlistedMark, marks_of, oldest_mark_s
from auditor.summary.outcome import counts_of, exit_code, findings_by_kind, is_fault, outcome_of
from auditor.summary.poisoned import poison_json
from auditor.summary.verdict_counts import copies_of_verdicts

Json = dict[str, Any]

NO_TOPICS: Mapping[str, Any] = {"references": None, "topics_hit": None, "topics_worst": None}
"""The fields of the summary on topics where none were looked for."""

STAGES = ("load", "ask", "judge", "second_look", "report")


@dataclass(frozen=True, slots=True)
class Costs:
    """The requests of a run, counted from the evidence.

    Each request for one znode's data or children is one ZooKeeper read.
    """

    zookeeper_reads: int
    zookeeper_reads_failed: int
    bookie_requests: int
    bookie_bytes: int
    retries: int
    confirming_reads: int
    unanswered: int
    """Requests to bookies without a valid response, including those that were sent again."""
    bookies_named: int
    """Number of bookies that had to be asked about some ledger."""


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
    """Sentences on what could not be said, and why."""
    terms: Terms
    listing_was_short: bool = False
    """Whether the audited listing lacked, or may have lacked, ledgers that exist."""
    resumed_at: tuple[str, ...] = ()
    """When the run was resumed."""
    unlisted_marks: tuple[UnlistedMark, ...] = ()
    """Marks whose ledgers the listing did not name. Empty in a partial run."""
    baseline: LastPopulation | None = None
    """What the next run's number of ledgers is compared with; None for this run's number."""
    absences: Mapping[str, list[Json]] = field(default_factory=lambda: absences_json({}, []))
    """The summary fields on bookies that are not registered (`summary.absences`)."""
    differ: tuple[Difference, ...] = ()
    """Findings that are on no verdict and on which the two checkers differ."""
    are_references_known: bool = True
    """Whether it is known of each ledger that topics reference whether it is lost."""
    topics: Mapping[str, Any] = field(default_factory=lambda: dict(NO_TOPICS))
    """The summary fields on Pulsar's topics."""


def findings_of(verdicts: pa.Table, bookie_findings: Iterable[str]) -> list[str]:
    """Return all findings as lines, worst severity first, then by kind, ledger, bookie, segment."""
    lines = [*bookie_findings, *pc.list_flatten(verdicts["findings"]).to_pylist()]
    return sorted(lines, key=_rank)


def _rank(line: str) -> tuple[Any, ...]:
    """Return a sort key. Findings of one kind have the same sort of subject, so None meets None."""
    found = json.loads(line)
    kind = Kind(found["kind"])
    first = found["segment"]["first_entry_id"] if found["segment"] else -1
    return -CATALOGUE[kind].severity, list(Kind).index(kind), found["ledger_id"], found["bookie_id"], first


def summarise(
    run: RunFacts,
    verdicts: pa.Table,
    bookies: Sequence[BookieRecord],
    costs: Costs,
    findings: Sequence[str],
    previous: Previous,
) -> Json:
    """Return summary.json. `verdicts` is a VERDICTS table, `findings` lines of findings.jsonl."""
    standings = _count_words(verdicts["standing"])
    unknowns = _count_words(pc.list_flatten(verdicts["unknowns"]))
    told = [json.loads(line) for line in findings]
    complete = not unknowns and not run.nobody_answered and run.are_references_known
    fault = is_fault(unknowns) or bool(run.differ)
    all_judged = complete and not run.not_there and not run.listing_was_short and (verdicts.num_rows > 0 or run.allow_empty)
    return {
        "run_id": run.run_id,
        "auditor_version": __version__,
        "cluster": _cluster(run.facts),
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "resumed_at": list(run.resumed_at),
        "duration_s": {stage: round(run.duration_s.get(stage, 0.0), 3) for stage in STAGES},
        **counts_of(standings, _count_words(_exempt(verdicts)), unknowns),
        "findings": findings_by_kind(told),
        **circumstances.circumstances_json(bookies, costs.bookies_named, run.terms, verdicts, told),
        **run.absences,
        **run.topics,
        "requests": _requests(costs, verdicts),
        "totals": previous.totals_after(told),
        "request_totals": previous.request_totals_after(costs),
        **_of_verdicts(run, verdicts),
        "nobody_answered": run.nobody_answered,
        "replication_disabled": run.facts.replication_disabled,
        "partial": run.partial,
        **_withheld(run),
        "complete": complete,
        "outcome": outcome_of(told, complete=all_judged, fault=fault),
        "exit_code": exit_code(told, run.fail_on, incomplete=not all_judged, fault=fault),
    }


def _withheld(run: RunFacts) -> Json:
    """Return the findings on which the checkers differ, and sentences on all that is withheld."""
    differ = [one._asdict() for one in run.differ]
    return {"findings_differ": differ, "withheld": [*(one.sentence for one in run.differ), *run.withheld]}


def _of_verdicts(run: RunFacts, verdicts: pa.Table) -> Json:
    """Return what is counted from the verdicts beside standings, reasons and findings."""
    return {
        "coverage": _coverage(verdicts),
        **copies_of_verdicts(verdicts),
        "oldest_underreplicated_s": oldest_mark_s(verdicts),
        **marks_of(verdicts, run.unlisted_marks, run.terms.underreplication_grace_ms),
        "population": None if run.partial else _population(run, verdicts.num_rows),
        **poison_json(verdicts),
    }


def _population(run: RunFacts, listed: int) -> Json:
    """Return what the next whole run is compared with.

    That is this run, or an earlier run if this run lists far fewer ledgers.
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
    """Return what identifies the cluster. Without an instance id, root and hosts do."""
    named = {"metadata_service_uri": facts.metadata_service_uri, "instance_id": facts.instance_id}
    return {**named, "root": facts.root, "hosts": list(facts.hosts)}


@dataclass(frozen=True, slots=True)
class Previous:
    """What the next run needs of the newest finished run.

    `findings` are (id, kind) pairs, so a finding whose kind changes counts as new. `baseline` is
    what the next run's number of ledgers is compared with, or None if unknown.
    """

    totals: Mapping[str, int]
    request_totals: Mapping[str, Mapping[str, int]]
    findings: frozenset[tuple[str, str]]
    baseline: LastPopulation | None = None
    unregistered_since_ms: Mapping[str, int] = field(default_factory=dict)
    """Since when each unregistered bookie was not registered, in ms."""

    def population(self, drop_percent: int) -> LastPopulation | None:
        """Return the baseline, with the share of ledgers in per cent that the next run may lose."""
        return replace(self.baseline, drop_percent=drop_percent) if self.baseline else None

    def totals_after(self, findings: Sequence[Json]) -> dict[str, int]:
        """Return, by kind, the total over all runs of findings that were new in their run.

        The counters of the metrics continue from these totals.
        """
        new = Counter(found["kind"] for found in findings if (found["id"], found["kind"]) not in self.findings)
        return {kind.value: self.totals.get(kind.value, 0) + new[kind.value] for kind in Kind}

    def request_totals_after(self, costs: Costs) -> dict[str, dict[str, int]]:
        """Return the totals over all runs of requests by outcome."""
        failed = {"bookie_requests": costs.unanswered, "zookeeper_reads": costs.zookeeper_reads_failed}
        total = {"bookie_requests": costs.bookie_requests, "zookeeper_reads": costs.zookeeper_reads}
        after = {}
        for name, count in total.items():
            before = self.request_totals.get(name, {})
            after[name] = {
                "answered": before.get("answered", 0) + max(0, count - failed[name]),
                "failed": before.get("failed", 0) + failed[name],
            }
        return after


NO_PREVIOUS = Previous({}, {}, frozenset())
"""Stands for the previous run before the first finished run."""


def _count_words(words: pa.Array | pa.ChunkedArray) -> Counter[str]:
    """Return how often each word occurs in a column."""
    return Counter({row["values"]: row["counts"] for row in pc.value_counts(words).to_pylist() if row["values"] is not None})


def _exempt(verdicts: pa.Table) -> pa.ChunkedArray:
    return verdicts.filter(pc.field("standing") == Standing.EXEMPT.word)["exempt"]


def _requests(costs: Costs, verdicts: pa.Table) -> dict[str, int]:
    return {
        "zookeeper_reads": costs.zookeeper_reads,
        "bookie_requests": costs.bookie_requests,
        "bookie_bytes": costs.bookie_bytes,
        "retries": costs.retries,
        "confirming_reads": costs.confirming_reads,
        "listing_false_negatives": int(pc.sum(verdicts["listing_false_negatives"]).as_py() or 0),
    }


def _coverage(verdicts: pa.Table) -> float:
    """Return the share of ledgers with no reason to be unknown and not exempt for their mark.

    1.0 if there are no ledgers.
    """
    if verdicts.num_rows == 0:
        return 1.0
    unknown = pc.greater(pc.list_value_length(verdicts["unknowns"]), 0)
    standing = pc.equal(verdicts["standing"], Standing.EXEMPT.word)
    marked = pc.and_kleene(standing, pc.equal(verdicts["exempt"], Exempt.MARKED_UNDERREPLICATED.value))
    uncovered = int(pc.sum(pc.or_(unknown, marked)).as_py() or 0)
    return round(1 - uncovered / int(verdicts.num_rows), 6)
