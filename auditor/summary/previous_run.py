"""Read earlier runs in OUTPUT: the summary and findings of a run, and what the next run needs.

The next run needs, among other things, since when bookies are not registered: summary.json passes
it from one run to the next (contract 8.2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from auditor.errors import OutputError
from auditor.evidence import findings_file as jsonl
from auditor.evidence.findings_file import parse_json
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import Place
from auditor.model.cluster import BookieLook, ClusterFacts, Registration
from auditor.model.evidence import LastPopulation
from auditor.model.finding import Kind
from auditor.model.finding_record import FindingRecord
from auditor.model.identity import BookieId
from auditor.model.summary import Summary
from auditor.summary.costs import Costs
from auditor.summary.sweeps import SAMPLING, Series, series_from
from auditor.witness.phrases import moment

UNREGISTERED = "bookies_unregistered"
"""The field of summary.json."""
UNREGISTERED_MAX = 10_000
"""At most this many bookies are in the field, those unregistered longest. No cluster has so many,
but ledgers may name any number."""


def unregistered_since(
    looks: Sequence[BookieLook], before: Mapping[BookieId, int]
) -> dict[BookieId, int]:
    """Return since when each unregistered bookie is not registered, in ms, as far as runs saw.

    `before` is what the last whole run recorded. For a bookie that was registered at some look of
    this run, it is the first look after that. A bookie without a record at the last look keeps the
    state of its newest record.
    """
    since: dict[BookieId, int] = {}
    registered: set[BookieId] = set()
    for look in looks:
        for bookie, record in look.items():
            if record.registration is not Registration.NONE:
                registered.add(bookie)
                since.pop(bookie, None)
            elif bookie not in since:
                known = (
                    record.read_at_ms
                    if bookie in registered
                    else before.get(bookie, record.read_at_ms)
                )
                since[bookie] = min(known, record.read_at_ms)
    return dict(sorted(since.items()))


def unregistered_json(since: Mapping[BookieId, int]) -> list[dict[str, str]]:
    """Return the value of the field UNREGISTERED, sorted by bookie id. `since` is in ms."""
    longest = sorted(since, key=lambda bookie: (since[bookie], bookie))[:UNREGISTERED_MAX]
    return [{"bookie_id": bookie, "since": moment(since[bookie])} for bookie in sorted(longest)]


def absences_json(
    since: Mapping[BookieId, int], renamed: list[dict[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    """Return the fields of summary.json on bookies that are not registered.

    `since` is in ms. `renamed` is the value of `bookies_renamed`.
    """
    return {UNREGISTERED: [*unregistered_json(since)], "bookies_renamed": renamed}


def since_from(rows: Any) -> dict[BookieId, int]:
    """Return the times in the rows of `unregistered_json`, in ms. Other rows are skipped."""
    found = {}
    for row in rows if isinstance(rows, list) else ():
        try:
            found[str(row["bookie_id"])] = round(
                datetime.fromisoformat(row["since"]).timestamp() * 1000
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            continue
    return found


Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Previous:
    """What the next run needs of the newest finished run.

    `findings` are (id, kind) pairs: a finding whose kind changes counts as new. `baseline` is the
    number of ledgers with which the next run's is compared, or None if unknown.
    """

    totals: Mapping[str, int]
    request_totals: Mapping[str, Mapping[str, int]]
    findings: frozenset[tuple[str, Kind]]
    baseline: LastPopulation | None = None
    unregistered_since_ms: Mapping[str, int] = field(default_factory=dict)
    """Since when each unregistered bookie was not registered, in ms."""
    series: Series | None = None
    """The sweeps of earlier runs that this run continues; None if there were none."""

    def population(self, drop_percent: int) -> LastPopulation | None:
        """Return the baseline, with the percentage of ledgers that the next run may lose."""
        return replace(self.baseline, drop_percent=drop_percent) if self.baseline else None

    def totals_after(self, findings: Sequence[FindingRecord]) -> dict[str, int]:
        """Return, by kind, the total over all runs of findings that were new in their run.

        The counters of the metrics continue from these totals.
        """
        new = Counter(
            found.kind.value for found in findings if (found.id, found.kind) not in self.findings
        )
        return {kind.value: self.totals.get(kind.value, 0) + new[kind.value] for kind in Kind}

    def request_totals_after(self, costs: Costs) -> dict[str, dict[str, int]]:
        """Return the totals over all runs of requests by outcome."""
        failed = {
            "bookie_requests": costs.unanswered,
            "zookeeper_reads": costs.zookeeper_reads_failed,
        }
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
"""Stands for the previous run if no run has finished before."""


def read_previous(output: Output, facts: ClusterFacts) -> Previous:
    """Return the totals and findings of the newest finished run of the cluster `facts` describes.

    Returns NO_PREVIOUS if there is no such run, if it audited another cluster, or if its files are
    damaged. Counters then start at 0, and damaged files do not stop this run.
    """
    run = output.latest()
    if run is None:
        return NO_PREVIOUS
    try:
        summary = read_summary(run)
        if summary is None or not is_of_cluster(summary, facts):
            return NO_PREVIOUS
        ids = frozenset((found.id, found.kind) for found in read_findings(run))
        known = Previous(summary.totals, summary.request_totals or {}, ids)
        known = replace(known, unregistered_since_ms=since_from(summary.get(UNREGISTERED)))
        return replace(_with_population(known, summary), series=series_from(summary.get(SAMPLING)))
    except (OutputError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return NO_PREVIOUS


def is_of_cluster(summary: Summary, facts: ClusterFacts) -> bool:
    """Return whether a summary is that of a run of the cluster that `facts` describes."""
    cluster = summary.cluster
    return facts.is_of(cluster.instance_id, cluster.root, cluster.hosts)


def read_summary(run: Place) -> Summary | None:
    """Return summary.json of a run, or None if the run did not finish.

    Raises OutputError if the file is damaged.
    """
    text = run.read_text("summary.json")
    if text is None:
        return None
    summary = parse_json(text, f"{run.uri}/summary.json")
    if not isinstance(summary, dict):
        raise OutputError(
            f"{run.uri}/summary.json is not a JSON object: the run's directory is damaged"
        )
    return Summary(summary)


def read_findings(run: Place) -> list[FindingRecord]:
    """Return the findings in findings.jsonl of a run. Raises OutputError if it is damaged."""
    return list(jsonl.parse((run.read_text("findings.jsonl") or "").splitlines()))


def are_as_counted(findings: Iterable[FindingRecord], summary: Summary) -> bool:
    """Return whether there are as many findings of each kind as the summary counts."""
    stored = Counter(found.kind.value for found in findings)
    return dict(stored) == summary.findings_by_kind


def _with_population(previous: Previous, summary: Summary) -> Previous:
    """Return `previous` with the baseline that the summary names, by default its own run."""
    population = summary.get("population") or {}
    run_id = population.get("baseline_run", summary.get("run_id"))
    finished_at = population.get("baseline_finished_at", summary.finished_at)
    listed = population.get("baseline_listed", (summary.get("ledgers") or {}).get("listed"))
    if summary.is_partial or not (
        isinstance(run_id, str) and isinstance(finished_at, str) and isinstance(listed, int)
    ):
        return previous
    low = tuple(int(count) for count in population.get("low_listed", ()))
    baseline = LastPopulation(
        run_id, finished_at, listed, 0, low, int(population.get("low_runs", 0))
    )
    return replace(previous, baseline=baseline)
