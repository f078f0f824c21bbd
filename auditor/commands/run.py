"""`auditor run`: audits every ledger of a cluster once, with Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

from pyarrow.fs import LocalFileSystem

from auditor import __version__
from auditor.clock import now_ms, rfc3339, utc_now
from auditor.commands.admission import check_admission
from auditor.commands.assembly import assemble, hours_of
from auditor.commands.context import EXIT_SOUND, Context, Watch, new_run_id
from auditor.commands.endings import UNREACHABLE, end_without_verdict
from auditor.commands.file_modes import restrict_new_files
from auditor.commands.ledger_ids import read_ledger_ids
from auditor.commands.mutes_file import read_mutes
from auditor.commands.page import publish_page
from auditor.commands.publishing import (
    clear_up,
    keep_outcome,
    publish,
    publish_failure,
    send_metrics,
    write_results,
)
from auditor.commands.pulsar import pulsar_of_run
from auditor.commands.resumption import resume_about as begun_run
from auditor.commands.run_opening import Opening, open_directory, prepare_run
from auditor.commands.run_state import Run
from auditor.commands.shown_report import show_report
from auditor.errors import (
    AccountingError,
    AuditorError,
    ConfigError,
    OutputError,
    SparkJobFailed,
    SparkUnavailable,
    WorkerDied,
    text_of,
)
from auditor.evidence.ids import EVERYTHING
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import Place, place
from auditor.evidence.run_tables import newest_time_ms
from auditor.evidence.schemas import VERDICTS
from auditor.evidence.table_scan import TableScan
from auditor.host_limits import require_host_limits
from auditor.local_faults import local_fault
from auditor.model.cluster import BookieRecord, Registration
from auditor.report.first_screen import SCREEN_LINES_MAX
from auditor.report.plan import plan_json, plan_text
from auditor.run.clock_check import require_clock
from auditor.run.conclusion import Conclusion, conclude
from auditor.run.finding_history import add_history
from auditor.run.pipeline import AuditRun, audit, list_ledgers, read_metadata
from auditor.run.read_counts import write_read_counts
from auditor.spark.on_demand import SparkOnDemand, jvm_problem, spark_on_demand
from auditor.stop import Interrupted
from auditor.summary.about import About
from auditor.telemetry import log
from auditor.topology.sources import sources_of
from auditor.wire.service_uri import ServiceUri
from auditor.wire.service_uri import parse as parse_uri
from auditor.zookeeper.metadata_store import open_store


@dataclass(frozen=True, slots=True)
class Audited:
    """What an audit passes to the conclusion."""

    about: About
    """The run's `About`, with what the audit decided about the next sweep."""
    bookies: Sequence[BookieRecord]
    """Every bookie at every look."""
    verdicts: TableScan


def run(context: Context, *, lasting: bool = True, lines_max: int = SCREEN_LINES_MAX) -> int:
    """Audit the cluster, publish, print the report, and return the exit code (contract section 2).

    After the run is published nothing changes its outcome, its exit code or its metrics.

    `lasting`: the cluster outlives the run; otherwise no message advises to resume. `lines_max`
    limits the first screen. Raises Interrupted, and ConfigError for unusable settings. This happens
    before anything is contacted, except when --resume finds another cluster.
    """
    settings, stop = context.settings, context.stop
    uri = parse_uri(settings.metadata_service_uri or "")
    ids = read_ledger_ids(Path(settings.ledgers_from)) if settings.ledgers_from else None
    sources = sources_of(settings)
    published: int | None = None
    try:
        output = Output(place(settings.output))
        with restrict_new_files(settings.output_umask), output.hold_lock(stop.check) as lock:
            if lock.problem:
                context.logger.warning("output_not_locked", problem=lock.problem)
            if not settings.dry_run:  # what a run starts from must not be as old as the pause
                _await_window(context, output)
            now = utc_now()
            begun = begun_run(context, output, settings.resume, now) if settings.resume else None
            run_id, started_at = (
                (begun.run_id, begun.started_at) if begun else (new_run_id(now), rfc3339(now))
            )
            state = Run(
                context,
                output,
                run_id,
                started_at,
                sources,
                begun,
                lock=lock,
                lasting=lasting,
                lines_max=lines_max,
            )
            log.bind_run(state.run_id)
            code = _run_and_map_errors(state, uri, ids)
            published = code if state.is_over else None
    except OutputError as error:
        if published is None:
            raise ConfigError(str(error)) from error
        context.logger.warning("lock_not_released", problem=str(error))
    return code


def _await_window(context: Context, output: Output) -> None:
    """Return when the window is open. Raises Interrupted, and ConfigError at once if the run to
    resume could not be resumed then.
    """
    hours = hours_of(context, context.progress)
    if context.settings.resume:
        begun_run(context, output, context.settings.resume, hours.next_open())
    hours.await_open("load")


def _run_and_map_errors(state: Run, uri: ServiceUri, ids: Sequence[int] | None) -> int:
    """Run the audit, and turn each error into an outcome. This is the only place that does so."""
    try:
        return _audit_unless_stopped(state, uri, ids)
    except Interrupted as interrupted:
        interrupted.advice = state.resume_advice()
        raise
    except ConfigError:
        raise
    except (*UNREACHABLE, SparkUnavailable, OutputError) as error:
        if isinstance(error, WorkerDied):
            state.context.logger.error("spark_workers_died", detail=error.detail)
        return _end_without_verdict(state, "UNREACHABLE", f"{error}{state.resume_advice()}")
    except AccountingError as error:
        return _end_without_verdict(state, "AUDITOR_FAULT", str(error))
    except SparkJobFailed as error:
        state.context.logger.error("a Spark job failed", detail=error.detail)
        return _end_without_verdict(
            state, "AUDITOR_FAULT", f"a Spark job failed: {error}{state.resume_advice()}"
        )
    except AuditorError as error:
        if (fault := local_fault(error)) is not None:
            return _end_without_verdict(state, "UNREACHABLE", f"{fault}{state.resume_advice()}")
        return _end_without_verdict(
            state, "AUDITOR_FAULT", f"unforeseen {type(error).__name__}: {error}"
        )
    except Exception as error:  # any other error is our own fault, or that of this host
        why = jvm_problem(error) or local_fault(error)
        if why is not None:
            return _end_without_verdict(state, "UNREACHABLE", f"{why}{state.resume_advice()}")
        state.context.logger.exception("unforeseen error", error=type(error).__name__)
        sentence = f"unforeseen {_first_line(error)}{state.resume_advice()}"
        return _end_without_verdict(state, "AUDITOR_FAULT", sentence)


def _audit_unless_stopped(state: Run, uri: ServiceUri, ids: Sequence[int] | None) -> int:
    """Run the audit. Raises Interrupted for any exception that follows a signal.

    A signal to the process group also ends the JVM: what fails then is only a consequence. So is
    what fails behind evidence that somebody removed: that raises OutputError.
    """
    try:
        return _audit(state, uri, ids)
    except ConfigError:
        state.context.stop.check()
        raise
    except Exception as error:
        state.context.stop.check()
        if (lost := _lost_evidence(state)) is not None:
            raise lost from error
        raise


def _lost_evidence(state: Run) -> OutputError | None:
    """Return the error if evidence of the run is lost; None if it is not, or cannot be looked
    for.
    """
    try:
        state.require_whole()
    except OutputError as error:
        return error if state.has_lost_evidence else None
    return None


def _audit(state: Run, uri: ServiceUri, ids: Sequence[int] | None) -> int:
    context, settings = state.context, state.context.settings
    watch = Watch(context.progress)
    watch.stage("load")
    root = state.output.root
    is_local = isinstance(root.files, LocalFileSystem)
    require_host_limits(Path(root.path) if is_local else None)
    with ExitStack() as stack:
        spark = stack.enter_context(_spark_on_demand(state))
        store = stack.enter_context(open_store(uri, settings.zookeeper_limits(1)))
        bookies_at_first = store.bookies(0, now_ms)
        if not settings.dry_run:
            check_admission(settings, bookies_at_first)
        opening = prepare_run(state, store, bookies_at_first)
        for problem in store.problems:
            context.logger.warning("metadata service", problem=problem)
        pulsar = pulsar_of_run(context, store)
        if pulsar is not None and pulsar.store is not None:
            stack.enter_context(pulsar.store)
        spark.bookies = sum(b.registration is not Registration.NONE for b in bookies_at_first)
        written = open_directory(state, opening.about, watch, store)
        run = assemble(context, opening.about, store, spark, written, watch, pulsar)
        if settings.dry_run:
            return _print_plan(state, run, ids)
        audited = _collect_verdicts(context, run, ids)
        lag_ms = opening.about.terms.clock_lag_ms
        require_clock(newest_time_ms(written.run), now_ms(), lag_ms)
        state.spark_version = spark.version
    watch.close()
    conclusion = _conclude(state, opening, audited, written.run, watch)
    context.stop.check()
    return _publish(state, written.run, conclusion)


def _spark_on_demand(state: Run) -> AbstractContextManager[SparkOnDemand]:
    """Return the Spark of a run, which tries OUTPUT on its executors when it starts."""
    context, settings = state.context, state.context.settings
    return spark_on_demand(
        settings.spark_master,
        context.stop,
        state.output.root,
        # The JVM's own output is not JSON, so keep it out of a JSON log.
        verbose=settings.verbose and settings.log_format == "console",
        lock=state.lock.descriptor if state.lock else None,
    )


def _collect_verdicts(context: Context, run: AuditRun, ids: Sequence[int] | None) -> Audited:
    """Audit, log what went wrong with the metadata service, and write how much was read."""
    bookies = audit(run, ids)
    for problem in run.journal.problems:
        context.logger.warning("metadata service", problem=problem)
    run.progress.stage("report")
    verdicts = run.directory.scan("verdicts", VERDICTS)
    write_read_counts(run.directory, run.store.counts)
    return Audited(run.sweep_planner.about, bookies, verdicts)


def _conclude(
    state: Run, opening: Opening, audited: Audited, directory: Place, watch: Watch
) -> Conclusion:
    """Account for every ledger, and add the history of the findings and the mutes.

    Raises OutputError if a part of the evidence is lost.
    """
    state.require_whole()
    conclusion = conclude(
        directory,
        audited.about,
        audited.bookies,
        opening.previous,
        verdicts=audited.verdicts,
        finished_at=rfc3339(utc_now()),
        duration_s=watch.durations(),
    )
    mutes = read_mutes(state.context, state.output)
    return add_history(
        conclusion,
        directory,
        audited.about,
        audited.verdicts,
        audited.bookies,
        opening.earlier,
        mutes,
    )


def _print_plan(state: Run, run: AuditRun, ids: Sequence[int] | None) -> int:
    """Do --dry-run: read the metadata, ask no bookie, print the plan, and remove the directory."""
    assert state.directory is not None
    list_ledgers(run, ids)
    read_metadata(run, EVERYTHING)
    costs = run.stages.plan()
    run.progress.close()
    state.output.root.remove(state.directory.path.rsplit("/", 1)[1])
    settings = state.context.settings
    limits = settings.bookie_requests_per_second, settings.bookie_inflight
    is_json = settings.format == "json"
    state.context.say(
        json.dumps({"plan": plan_json(costs, *limits)}) + "\n"
        if is_json
        else plan_text(costs, *limits)
    )
    return EXIT_SOUND


def _publish(state: Run, directory: Place, conclusion: Conclusion) -> int:
    """Write the results, publish them, print the report, and return the exit code."""
    context = state.context
    state.require_whole()
    results = write_results(
        context, state.output, directory, conclusion, state.cluster, state.spark_version
    )
    publish(context, state.output, results, state.lock)
    state.is_over = True
    with keep_outcome(context, "send the metrics"):
        send_metrics(context, results, state.cluster)
    publish_page(context, directory, results.summary, results.findings, results.report)
    with keep_outcome(context, "remove old files"):
        clear_up(context, state.output, directory)
    with keep_outcome(context, "print the report"):
        show_report(
            context, results.summary, results.findings, directory, lines_max=state.lines_max
        )
    return results.summary.exit_code


def _first_line(error: Exception) -> str:
    """Return the type of an error, and the first line of what it says if it says anything."""
    return ": ".join([type(error).__name__, *text_of(error).splitlines()[:1]])


def _end_without_verdict(state: Run, outcome: str, sentence: str) -> int:
    """Print why the run gives no verdict, and return the exit code.

    Earlier results stay as they are. In the metrics only outcome and timestamp change.
    """
    context = state.context
    context.progress.close()
    publish_failure(
        context, state.output, outcome, state.cluster, utc_now().timestamp(), __version__
    )
    return end_without_verdict(
        context, state.run_id, outcome, sentence, state.directory.address if state.directory else ""
    )
