"""Reads earlier runs in OUTPUT: the summary and findings of a run, and what the next run needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from auditor.errors import OutputError
from auditor.evidence import findings_file as jsonl
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import Place
from auditor.evidence.stored_json import parse_json
from auditor.first_checker.population import LastPopulation
from auditor.model.cluster import ClusterFacts
from auditor.summary.absences import UNREGISTERED, since_from
from auditor.summary.run_summary import NO_PREVIOUS, Previous
from auditor.summary.sweeps import SAMPLING, series_from

Json = dict[str, Any]


def read_previous(output: Output, facts: ClusterFacts) -> Previous:
    """Return the totals and findings of the newest finished run of the cluster `facts` describes.

    Returns NO_PREVIOUS if there is no such run, if it audited another cluster, or if its files are
    damaged. Counters then start at 0, and damaged files do not stop this run.
    """
    run = output.latest()
    if run is None:
        return NO_PREVIOUS
    try:
        summary = read_summary(run) or {}
        cluster = summary["cluster"]
        if not facts.is_of(cluster["instance_id"], cluster.get("root"), cluster.get("hosts") or ()):
            return NO_PREVIOUS
        ids = frozenset((str(found["id"]), str(found["kind"])) for found in read_findings(run))
        known = Previous(summary.get("totals", {}), summary.get("request_totals", {}), ids)
        known = replace(known, unregistered_since_ms=since_from(summary.get(UNREGISTERED)))
        return replace(_with_population(known, summary), series=series_from(summary.get(SAMPLING)))
    except (OutputError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return NO_PREVIOUS


def read_summary(run: Place) -> Json | None:
    """Return summary.json of a run, or None if the run did not finish.

    Raises OutputError if the file is damaged.
    """
    text = run.read_text("summary.json")
    if text is None:
        return None
    summary = parse_json(text, f"{run.uri}/summary.json")
    if not isinstance(summary, dict):
        raise OutputError(
            f"{run.uri}/summary.json is no JSON object: the run's directory is damaged"
        )
    return summary


def read_findings(run: Place) -> list[Json]:
    """Return the findings in findings.jsonl of a run. Raises OutputError if it is damaged."""
    return list(jsonl.parse((run.read_text("findings.jsonl") or "").splitlines()))


def _with_population(previous: Previous, summary: Mapping[str, Any]) -> Previous:
    """Return `previous` with the baseline that the summary names, by default its own run."""
    population = summary.get("population") or {}
    run_id = population.get("baseline_run", summary.get("run_id"))
    finished_at = population.get("baseline_finished_at", summary.get("finished_at"))
    listed = population.get("baseline_listed", summary.get("ledgers", {}).get("listed"))
    if summary.get("partial") or not (
        isinstance(run_id, str) and isinstance(finished_at, str) and isinstance(listed, int)
    ):
        return previous
    low = tuple(int(count) for count in population.get("low_listed", ()))
    baseline = LastPopulation(
        run_id, finished_at, listed, 0, low, int(population.get("low_runs", 0))
    )
    return replace(previous, baseline=baseline)
