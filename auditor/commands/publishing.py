"""Metrics out of the run: the text file and the Pushgateway. Neither can change what the run found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from auditor.commands.context import Context
from auditor.errors import OutputError
from auditor.report import metrics
from auditor.report.run_directory import Output, Place

METRICS_FILE_BYTES_MAX = 16 * 2**20
"""Largest metrics file read back: ours has a few hundred lines."""


def publish_metrics(context: Context, directory: Place, summary: Mapping[str, Any], cluster: str, spark_version: str) -> None:
    """metrics.prom into the run's directory, then wherever the settings say. Failures are logged, never raised.

    A partial run's numbers stay in its directory: elsewhere they would resolve alerts on ledgers it did not look at.
    """
    exposition = metrics.exposition(
        summary, cluster=cluster, spark_version=spark_version, previous_text=_previous(context.settings.metrics_textfile)
    )
    directory.write_text("metrics.prom", exposition)
    if not summary["partial"]:
        _send(context, exposition, cluster)


def publish_failure(context: Context, output: Output, outcome: str, cluster: str, now_s: float, version: str) -> None:
    """After a run that failed: the last run's values, only outcome and timestamp replaced.

    They come from the text file, or where only a Pushgateway is used from the newest finished run's own metrics.
    """
    if context.settings.metrics_textfile or context.settings.pushgateway:
        previous = _previous(context.settings.metrics_textfile) or _of_latest(output)
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
