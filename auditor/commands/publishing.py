"""The end of a run: its results are written, it is published, and its metrics are sent out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auditor.commands.context import Context
from auditor.errors import OutputError
from auditor.evidence.journal import forget
from auditor.evidence.run_directory import Output, Place, write_json, write_ledger_files
from auditor.report import text
from auditor.run.conclusion import Conclusion
from auditor.telemetry import log, metrics

METRICS_FILE_BYTES_MAX = 16 * 2**20
"""Largest metrics file read back: ours has a few hundred lines."""


@dataclass(frozen=True, slots=True)
class Results:
    """The results of a run as its directory has them. `metrics` is the text of metrics.prom."""

    directory: Place
    summary: Mapping[str, Any]
    findings: Sequence[Mapping[str, Any]]
    report: str
    metrics: str


def write_results(
    context: Context, output: Output, directory: Place, conclusion: Conclusion, cluster: str, spark_version: str
) -> Results:
    """Write what people and programs read into the run's directory, summary.json last. Nothing is published yet."""
    summary = conclusion.summary
    findings = [json.loads(line) for line in conclusion.findings]
    log.violations(context.logger, findings, log_format=context.settings.log_format)
    directory.write_text("findings.jsonl", "".join(f"{line}\n" for line in conclusion.findings))
    write_ledger_files(directory, conclusion.ledger_files)
    report = text.render(summary, findings, run_dir=directory.path, width=context.width)
    directory.write_text("report.txt", report)
    exposition = metrics.exposition(
        summary, cluster=cluster, spark_version=spark_version, previous_text=_last_values(context, output)
    )
    directory.write_text("metrics.prom", exposition)
    write_json(directory, "summary.json", summary)
    return Results(directory, summary, findings, report, exposition)


def publish(context: Context, output: Output, results: Results, cluster: str) -> None:
    """Name the run the newest finished one, then send its metrics out. Metrics that cannot be sent are logged.

    In this order: counters that left for a run which latest.json never names would go back with the next run's. A partial
    run is not published: its numbers would resolve alerts on ledgers it did not look at.
    """
    if not results.summary["partial"]:
        output.publish(results.directory)
        _send(context, results.metrics, cluster)


def clear_up(context: Context, output: Output, directory: Place) -> None:
    """Remove what only a run that is not over needs, and old runs. What cannot be removed is logged: the run is published."""
    try:
        forget(directory)  # nothing resumes this run, and never without what the journal names
        directory.remove("steps")
        for name in output.prune(context.settings.keep_runs):
            context.logger.info("old run removed", run=name)
    except OutputError as error:
        context.logger.warning("old files not removed", problem=str(error))


def publish_failure(context: Context, output: Output, outcome: str, cluster: str, now_s: float, version: str) -> None:
    """After a run that failed: the last run's values, only outcome and timestamp replaced.

    They come from the newest finished run, also where its own metrics were never sent out.
    """
    if context.settings.metrics_textfile or context.settings.pushgateway:
        previous = _last_values(context, output)
        label = cluster or context.settings.cluster or context.settings.metadata_service_uri or ""
        _send(context, metrics.failed_run(previous, outcome=outcome, now_s=now_s, cluster=label, version=version), label)


def _send(context: Context, exposition: str, cluster: str) -> None:
    settings = context.settings
    problems = []
    if settings.metrics_textfile:
        problems.append(metrics.write_textfile(Path(settings.metrics_textfile), exposition))
    if settings.pushgateway:
        problems.append(metrics.push(settings.pushgateway, exposition, cluster))
    for problem in problems:
        if problem:
            context.logger.error("metrics not published", problem=problem)


def _last_values(context: Context, output: Output) -> str:
    """The metrics of the newest finished run; where OUTPUT has none, those in the text file."""
    return _of_latest(output) or _previous(context.settings.metrics_textfile)


def _of_latest(output: Output) -> str:
    """The metrics of the newest finished run; nothing where there is none, or where they cannot be read."""
    try:
        latest = output.latest()
        return (latest.read_text("metrics.prom") if latest else None) or ""
    except OutputError:
        return ""


def _previous(path: str | None) -> str:
    """The metrics before this run; nothing where they cannot be read."""
    if not path:
        return ""
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            return file.read(METRICS_FILE_BYTES_MAX)
    except OSError:
        return ""
