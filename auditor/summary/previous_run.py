"""Read earlier runs in OUTPUT: the summary and findings of a run, and what the next run needs.

The next run needs, among other things, since when bookies are not registered: summary.json passes
it from one run to the next (contract 8.2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime

from auditor.errors import OutputError
from auditor.evidence import findings_file as jsonl
from auditor.evidence.findings_file import parse_json
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import Place
from auditor.model.cluster import BookieLook, ClusterFacts
from auditor.model.evidence import LastPopulation
from auditor.model.finding import Kind
from auditor.model.finding_record import FindingRecord
from auditor.model.identity import BookieId
from auditor.model.summary import (
    RequestOutcomes,
    RequestTotals,
    Summary,
    UnregisteredBookie,
    Verification,
)
from auditor.summary.costs import Costs
from auditor.summary.space import EarlierBytes, earlier_bytes
from auditor.summary.sweeps import Series, series_from
from auditor.witness.phrases import moment

UNREGISTERED_MAX = 10_000
"""At most this many bookies are in `bookies_unregistered`, those unregistered longest. No cluster
has so many, but ledgers may name any number."""


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
            if record.is_registered:
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


def longest_unregistered(since: Mapping[BookieId, int]) -> tuple[UnregisteredBookie, ...]:
    """Return the bookies that are unregistered longest, sorted by bookie id. `since` is in ms."""
    longest = sorted(since, key=lambda bookie: (since[bookie], bookie))[:UNREGISTERED_MAX]
    return tuple(UnregisteredBookie(bookie, moment(since[bookie])) for bookie in sorted(longest))


def since_from(bookies: Iterable[UnregisteredBookie]) -> dict[BookieId, int]:
    """Return since when bookies are unregistered, in ms. Those without a valid time are skipped."""
    found = {}
    for bookie in bookies:
        with suppress(ValueError, OverflowError):
            since = datetime.fromisoformat(bookie.since)
            found[bookie.bookie_id] = round(since.timestamp() * 1000)
    return found


@dataclass(frozen=True, slots=True)
class Previous:
    """What the next run needs of the newest finished run.

    `findings` are (id, kind) pairs: a finding whose kind changes counts as new. `baseline` is the
    number of ledgers with which the next run's is compared, or None if unknown.
    """

    totals: Mapping[str, int]
    request_totals: RequestTotals
    findings: frozenset[tuple[str, Kind]]
    baseline: LastPopulation | None = None
    unregistered_since_ms: Mapping[str, int] = field(default_factory=dict)
    """Since when each unregistered bookie was not registered, in ms."""
    series: Series | None = None
    """The sweeps of earlier runs that this run continues; None if there were none."""
    verification: Verification | None = None
    """What earlier runs read of each bookie; None if that was not counted."""
    sizes: EarlierBytes | None = None
    """How full the disks were, and how large the orphans; None if the run recorded neither."""
    problem: str = field(default="", compare=False)
    """Why the newest run could not be read, and what begins anew; "" if nothing was lost."""

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

    def request_totals_after(self, costs: Costs) -> RequestTotals:
        """Return the totals over all runs of requests by outcome."""
        before = self.request_totals
        return RequestTotals(
            _added(before.bookie_requests, costs.bookie_requests, costs.unanswered),
            _added(before.zookeeper_reads, costs.zookeeper_reads, costs.zookeeper_reads_failed),
        )


def _added(before: RequestOutcomes, requests: int, failed: int) -> RequestOutcomes:
    return RequestOutcomes(before.answered + max(0, requests - failed), before.failed + failed)


NO_PREVIOUS = Previous({}, RequestTotals(), frozenset())
"""Stands for the previous run if no run has finished before."""
BEGINS_ANEW = (
    "Totals, the number of ledgers to compare with, the times since bookies are gone, the sweep of"
    " entries, and the verification of copies begin anew with this run"
)
"""What a run loses if the newest run cannot be read."""


def read_previous(output: Output, facts: ClusterFacts) -> Previous:
    """Return the totals and findings of the newest finished run of the cluster `facts` describes.

    Returns NO_PREVIOUS if there is no such run, if it audited another cluster, or if its files are
    damaged: `problem` then says so. Damaged files do not stop this run.
    """
    run = output.latest()
    if run is None:
        return NO_PREVIOUS
    try:
        summary = read_summary(run)
        if summary is None or not is_of_cluster(summary, facts):
            return NO_PREVIOUS
        ids = frozenset((found.id, found.kind) for found in read_findings(run))
        return Previous(
            summary.totals,
            summary.request_totals or RequestTotals(),
            ids,
            _baseline(summary),
            since_from(summary.bookies_unregistered),
            series_from(summary.sampling),
            summary.verification,
            earlier_bytes(summary),
        )
    except OutputError as error:
        return replace(NO_PREVIOUS, problem=f"{error}. {BEGINS_ANEW}")
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        return replace(NO_PREVIOUS, problem=f"{run.address} is damaged ({error!r}). {BEGINS_ANEW}")


def is_of_cluster(summary: Summary, facts: ClusterFacts) -> bool:
    """Return whether a summary is that of a run of the cluster that `facts` describes."""
    cluster = summary.cluster
    return facts.is_of(cluster.instance_id, cluster.root, cluster.hosts)


def read_summary(run: Place) -> Summary | None:
    """Return summary.json of a run, or None if the run did not finish.

    Raises OutputError if the file is damaged, or has not what this version reads.
    """
    stored = read_summary_object(run)
    if stored is None:
        return None
    name = f"{run.address}/summary.json"
    try:
        return Summary.from_json(stored)
    except KeyError as error:
        raise OutputError(
            f"{name} lacks {error.args[0]}: it was not written by this version"
        ) from None
    except (TypeError, ValueError) as error:
        raise OutputError(
            f"{name} cannot be read ({error}): the run's directory is damaged, or was written by"
            " another version"
        ) from None


def read_summary_object(run: Place) -> Mapping[str, object] | None:
    """Return the JSON object in summary.json of a run, or None if the run did not finish.

    Raises OutputError if the file is damaged.
    """
    text = run.read_text("summary.json")
    if text is None:
        return None
    stored = parse_json(text, f"{run.uri}/summary.json")
    if not isinstance(stored, dict):
        raise OutputError(
            f"{run.uri}/summary.json is not a JSON object: the run's directory is damaged"
        )
    return stored


def read_findings(run: Place) -> list[FindingRecord]:
    """Return the findings in findings.jsonl of a run. Raises OutputError if it is damaged."""
    return list(jsonl.parse((run.read_text("findings.jsonl") or "").splitlines()))


def are_as_counted(findings: Iterable[FindingRecord], summary: Summary) -> bool:
    """Return whether there are as many findings of each kind as the summary counts."""
    stored = Counter(found.kind.value for found in findings)
    return dict(stored) == summary.findings_by_kind


def _baseline(summary: Summary) -> LastPopulation | None:
    """Return the baseline that the summary names, by default its own run."""
    named = summary.population
    if summary.is_partial or summary.finished_at is None:
        return None
    if named is None:
        return LastPopulation(summary.run_id, summary.finished_at, summary.ledgers.listed, 0)
    return LastPopulation(
        named.baseline_run,
        named.baseline_finished_at,
        named.baseline_listed,
        0,
        named.low_listed,
        named.low_runs,
    )
