"""`auditor run` audits every ledger of a cluster once, by the steps of `auditor.run.run`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from pyarrow.fs import LocalFileSystem

from auditor import __version__
from auditor.clock import utc_now
from auditor.commands.endings import UNREACHABLE, end_without_verdict
from auditor.commands.ledger_ids import read_ledger_ids
from auditor.commands.page import publish_page
from auditor.commands.stored_run import show_report
from auditor.config import Settings
from auditor.context import EXIT_SOUND, Context
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
from auditor.evidence.local_files import restrict_new_files
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import place
from auditor.host_limits import require_host_limits, take_jemalloc
from auditor.local_faults import local_fault
from auditor.report.plan import plan_json, plan_text
from auditor.run.notifying import notify, record_end
from auditor.run.open_hours import OpenHours
from auditor.run.publishing import Results, keep_outcome, publish_failure
from auditor.run.resumption import resume_about
from auditor.run.run import Run
from auditor.spark.on_demand import jvm_problem, spark_on_demand
from auditor.stop import Interrupted
from auditor.summary.costs import BookieCost
from auditor.telemetry import log
from auditor.topology.sources import sources_of
from auditor.wire.service_uri import ServiceUri
from auditor.wire.service_uri import parse as parse_uri
from auditor.zookeeper.metadata_store import open_store


@log.ending_run_log()
def run(context: Context, *, lasting: bool = True, lines_above: int = 0) -> int:
    """Audit the cluster, publish, print the report, and return the exit code.

    The exit codes are those of docs/names.md#exit-codes.
    After the run is published nothing changes its outcome, its exit code or its metrics.

    `lasting`: the cluster outlives the run; otherwise no message advises to resume. `lines_above`:
    lines that the screen has already. Raises Interrupted, and ConfigError for unusable settings.
    This happens before anything is contacted, except when --resume finds another cluster.
    """
    settings, stop = context.settings, context.stop
    take_jemalloc()
    _refuse_with_period(settings)
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
            state = Run.begin(context, output, lock, sources, lasting=lasting)
            log.bind_run(state.run_id)
            code = _run_and_map_errors(state, uri, ids, lines_above)
            published = code if state.is_over else None
    except OutputError as error:
        if published is None:
            raise ConfigError(str(error)) from error
        context.logger.warning("lock_not_released", problem=str(error))
    return code


def _refuse_with_period(settings: Settings) -> None:
    """Raise ConfigError if --within is given with what it does not go with."""
    if not settings.within_ms:
        return
    for flag, is_given, why in (
        ("--ledgers-from", settings.ledgers_from, "a run of named ledgers asks about each of them"),
        ("--resume", settings.resume, "what is due is chosen when a run begins: start a new run"),
        ("--dry-run", settings.dry_run, "a plan is of all ledgers: the most that is due"),
    ):
        if is_given:
            raise ConfigError(f"{flag} does not go with --within: {why}; or give --within 0")


def _await_window(context: Context, output: Output) -> None:
    """Return when the window is open. Raises Interrupted, and ConfigError at once if the run to
    resume could not be resumed then.
    """
    hours = OpenHours.of(context, context.progress)
    if context.settings.resume:
        resume_about(context, output, context.settings.resume, hours.next_open())
    hours.await_open("load")


def _run_and_map_errors(
    state: Run, uri: ServiceUri, ids: Sequence[int] | None, lines_above: int
) -> int:
    """Run the audit, and turn each error into an outcome. This is the only place that does so."""
    try:
        return _audit_unless_stopped(state, uri, ids, lines_above)
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


def _audit_unless_stopped(
    state: Run, uri: ServiceUri, ids: Sequence[int] | None, lines_above: int
) -> int:
    """Run the audit. Raises Interrupted for any exception that follows a signal.

    A signal to the process group also ends the JVM: what fails then is only a consequence. So is
    what fails behind evidence that somebody removed: that raises OutputError.
    """
    try:
        return _audit(state, uri, ids, lines_above)
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


def _audit(state: Run, uri: ServiceUri, ids: Sequence[int] | None, lines_above: int) -> int:
    """Open the run, look at the ledgers, conclude, publish. With --dry-run print the plan."""
    context, settings, root = state.context, state.context.settings, state.output.root
    state.watch.stage("load")
    require_host_limits(Path(root.path) if isinstance(root.files, LocalFileSystem) else None)
    with ExitStack() as stack:
        spark = stack.enter_context(
            spark_on_demand(
                settings.spark_master,
                context.stop,
                root,
                # The JVM's own output is not JSON, so keep it out of a JSON log.
                verbose=settings.verbose and settings.log_format == "console",
                lock=state.lock.descriptor if state.lock else None,
            )
        )
        store = stack.enter_context(open_store(uri, settings.zookeeper_limits(1)))
        opened = state.open(store, spark, stack)
        if settings.dry_run:
            return _print_plan(context, state.plan(opened, ids))
        bookies = state.look(opened, ids)
        state.spark_version = spark.version
    results = state.publish(opened.directory, state.conclude(opened, bookies))
    _show(state, results, lines_above)
    return results.summary.exit_code


def _print_plan(context: Context, costs: Sequence[BookieCost]) -> int:
    """Print what a run would ask."""
    settings = context.settings
    limits = settings.bookie_requests_per_second, settings.bookie_inflight
    is_json = settings.format == "json"
    context.say(
        json.dumps({"plan": plan_json(costs, *limits)}) + "\n"
        if is_json
        else plan_text(costs, *limits)
    )
    return EXIT_SOUND


def _show(state: Run, results: Results, lines_above: int) -> None:
    """Tell the news of a published run, write its page, remove old files, and print the report.

    The news go first: nobody must wait for a page, or miss them because it could not be drawn.
    """
    context, directory = state.context, results.directory
    with keep_outcome(context, "notify"):
        notify(context, results, state.cluster)
    publish_page(context, directory, results.summary, results.findings, results.report)
    state.clear_up(directory)
    with keep_outcome(context, "print the report"):
        show_report(context, results.summary, results.findings, directory, lines_above=lines_above)
    with keep_outcome(context, "record the end"):
        record_end(context, results)


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
