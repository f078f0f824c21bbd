"""End a run: write its results, publish it, and send its metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from auditor.after.history import UNCHECKED
from auditor.context import Context
from auditor.errors import OutputError
from auditor.evidence import findings_file
from auditor.evidence.journal import JOURNAL, forget
from auditor.evidence.output_directory import Output
from auditor.evidence.output_lock import HeldLock
from auditor.evidence.run_directory import Place, write_json, write_ledger_files
from auditor.evidence.run_tables import KEPT, count_stored
from auditor.model.finding_record import FindingRecord
from auditor.model.summary import Summary
from auditor.report import text
from auditor.run.conclusion import Conclusion
from auditor.telemetry import log, metrics

METRICS_FILE_BYTES_MAX = 16 * 2**20
"""At most this many bytes of a metrics file are read. Ours has a few hundred lines."""


@dataclass(frozen=True, slots=True)
class Results:
    """The results of a run, as stored in its directory.

    `report` and `metrics` are the texts of report.txt and metrics.prom.
    """

    directory: Place
    summary: Summary
    findings: Sequence[FindingRecord]
    report: str
    metrics: str


def write_results(
    context: Context,
    output: Output,
    directory: Place,
    conclusion: Conclusion,
    cluster: str,
    spark_version: str,
) -> Results:
    """Write the results into the run's directory, summary.json last. Nothing is published yet.

    The summary says how much is stored of each table (`evidence.stored_tables`).
    """
    stored = count_stored(directory.file_sizes(*KEPT))
    summary = replace(conclusion.summary, stored=stored).with_also("stored")
    findings = conclusion.findings
    log.violations(context.logger, findings, log_format=context.settings.log_format)
    directory.write_text("findings.jsonl", findings_file.text(findings))
    write_ledger_files(directory, conclusion.ledger_files)
    if conclusion.topics is not None:
        directory.write_text("topics.jsonl", "".join(f"{line}\n" for line in conclusion.topics))
    if conclusion.unchecked:
        directory.write_text(UNCHECKED, "".join(f"{line}\n" for line in conclusion.unchecked))
    report = text.render(summary, findings, run_dir=directory.address, screen=context.screen.plain)
    directory.write_text("report.txt", report)
    exposition = metrics.exposition(
        summary,
        cluster=cluster,
        spark_version=spark_version,
        previous_text=_last_values(context, output),
    )
    directory.write_text("metrics.prom", exposition)
    write_json(directory, "summary.json", summary.as_json())
    return Results(directory, summary, findings, report, exposition)


def publish(
    context: Context,
    output: Output,
    results: Results,
    lock: HeldLock | None = None,
) -> None:
    """Make latest.json name the run.

    Before, the journal of the run that it names is removed, if that run was killed before it could
    do so: an older run that still has a journal was thereby never published. A partial run is not
    published: its numbers would resolve alerts on ledgers that it did not look at. Raises
    OutputError, unless latest.json names the run anyway.
    """
    if results.summary.is_partial:
        return
    _forget_latest(context, output)
    try:
        output.publish(results.directory, lock)
    except OutputError as error:
        if not _is_latest(output, results.directory):
            raise
        context.logger.warning("published_in_doubt", problem=str(error))


def _forget_latest(context: Context, output: Output) -> None:
    """Remove what is left of the journal of the run that latest.json names."""
    try:
        latest = output.latest()
        if latest is not None and latest.files_in(JOURNAL):
            forget(latest)
    except OutputError as error:
        context.logger.warning("journal_not_removed", problem=str(error))


def _is_latest(output: Output, directory: Place) -> bool:
    try:
        latest = output.latest()
    except OutputError:
        return False
    return latest is not None and latest.path == directory.path


@contextmanager
def keep_outcome(context: Context, step: str) -> Iterator[None]:
    """Log what `step` raises, and continue.

    It is for the steps after a run is published: none of them changes its outcome.
    """
    try:
        yield
    except Exception as error:  # whatever it is, the run is published
        context.logger.exception(
            "step_failed_after_publishing",
            step=step,
            error=type(error).__name__,
            effect="the results and the exit code of the run are unchanged",
        )


def send_metrics(context: Context, results: Results, cluster: str) -> None:
    """Send the metrics of a published run. Metrics that cannot be sent are logged.

    If metrics were sent of a run that latest.json never names, the counters would decrease with the
    next run. Those of a partial run are not sent.
    """
    if not results.summary.is_partial:
        _send(context, results.metrics, cluster)


def clear_up(context: Context, output: Output, directory: Place) -> None:
    """Remove what only an unfinished run needs, and old runs.

    A failure is logged and not raised, because the run is already published.
    """
    try:
        # The journal goes first: it must never name files that are already removed.
        forget(directory)
        directory.remove("steps")
        for name in output.prune(context.settings.keep_runs):
            context.logger.info("old run removed", run=name)
    except OutputError as error:
        context.logger.warning("old files not removed", problem=str(error))


def publish_failure(
    context: Context, output: Output, outcome: str, cluster: str, now_s: float, version: str
) -> None:
    """Send the last run's metrics again after a failed run, with a new outcome and timestamp.

    The values come from the newest finished run, even if its own metrics were never sent; without
    such a run, from the text file. Does nothing without --metrics-textfile and --pushgateway, and
    for a run that would send none if it did not fail: --dry-run, or one of named ledgers.
    """
    settings = context.settings
    if settings.dry_run or settings.ledgers_from:
        return
    if settings.metrics_textfile or settings.pushgateway:
        previous = _last_values(context, output)
        label = cluster or context.settings.cluster or context.settings.metadata_service_uri or ""
        _send(
            context,
            metrics.failed_run(
                previous, outcome=outcome, now_s=now_s, cluster=label, version=version
            ),
            label,
        )


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
    """Return the metrics of the newest finished run; if there are none, those in the text file."""
    return _latest_metrics(output) or _textfile_metrics(context.settings.metrics_textfile)


def _latest_metrics(output: Output) -> str:
    """Return the metrics of the newest finished run; "" if there is none or it cannot be read."""
    try:
        latest = output.latest()
        return (latest.read_text("metrics.prom") if latest else None) or ""
    except OutputError:
        return ""


def _textfile_metrics(path: str | None) -> str:
    """Return the metrics in the text file at `path`; "" without a path or if it cannot be read."""
    if not path:
        return ""
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            return file.read(METRICS_FILE_BYTES_MAX)
    except OSError:
        return ""
