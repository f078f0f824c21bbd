"""`auditor run`: audits every ledger of a cluster once, with Spark."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from auditor import __version__
from auditor.clock import now_ms, rfc3339, utc_now
from auditor.commands.admission import check_admission
from auditor.commands.assembly import Written, assemble
from auditor.commands.context import EXIT_SOUND, Context, Watch, new_run_id
from auditor.commands.endings import end_without_verdict
from auditor.commands.file_modes import restrict_new_files
from auditor.commands.ledger_ids import read_ledger_ids
from auditor.commands.mutes_file import read_mutes
from auditor.commands.page import publish_page
from auditor.commands.publishing import clear_up, publish, publish_failure, write_results
from auditor.commands.pulsar import pulsar_of_run
from auditor.commands.resumption import resume_about as begun_run
from auditor.commands.resumption import same_cluster
from auditor.commands.shown_report import show_report
from auditor.commands.surroundings import cluster_and_terms
from auditor.errors import (
    AccountingError,
    AuditorError,
    BookieRefused,
    ConfigError,
    OutputError,
    SparkJobFailed,
    SparkUnavailable,
    StoreUnavailable,
)
from auditor.evidence.journal import LISTED, Journal
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import Place, place, write_json
from auditor.evidence.schemas import VERDICTS
from auditor.evidence.shards import EVERYTHING
from auditor.model.cluster import BookieRecord, Registration
from auditor.report.first_screen import SCREEN_LINES_MAX
from auditor.report.plan import plan_text
from auditor.run.conclusion import Conclusion, conclude
from auditor.run.finding_history import add_history
from auditor.run.pipeline import AuditRun, audit, list_ledgers, read_metadata
from auditor.run.read_counts import add_kept_counts, kept_reads, write_read_counts
from auditor.spark.on_demand import spark_on_demand
from auditor.stop import Interrupted
from auditor.summary.about import About
from auditor.summary.earlier_run import EarlierRun, read_earlier_run
from auditor.summary.previous_run import read_previous
from auditor.summary.sweeps import continue_series
from auditor.telemetry import log
from auditor.topology.sources import Source, sources_of
from auditor.wire.service_uri import ServiceUri
from auditor.wire.service_uri import parse as parse_uri
from auditor.zookeeper.metadata_store import MetadataStore, open_store


@dataclass(slots=True)
class Run:
    """The state of one run that is needed to end it, whether it succeeds or fails."""

    context: Context
    output: Output
    run_id: str
    started_at: str
    sources: Sequence[Source] = ()
    """Where the locations of bookies come from."""
    begun: About | None = None
    """The `About` of the run that is resumed; None for a new run."""
    directory: Place | None = None
    journal: Journal | None = None
    lock: int | None = None
    """The file descriptor of OUTPUT's lock. Processes that write for this run inherit it."""
    cluster: str = ""
    spark_version: str = ""
    lasting: bool = True
    """Whether the cluster outlives the run; the demo's does not."""
    lines_max: int = SCREEN_LINES_MAX
    """Lines that the first screen may take."""
    is_over: bool = False
    """Whether everything is published."""


def run(context: Context, *, lasting: bool = True, lines_max: int = SCREEN_LINES_MAX) -> int:
    """Audit the cluster, publish, print the report, and return the exit code (contract section 2).

    `lasting` says that the cluster outlives the run; if not, no message advises to resume.
    `lines_max` bounds the first screen. Raises
    Interrupted, and ConfigError for unusable settings: before anything is contacted, except when
    --resume finds another cluster.
    """
    settings = context.settings
    uri = parse_uri(settings.metadata_service_uri or "")
    ids = read_ledger_ids(Path(settings.ledgers_from)) if settings.ledgers_from else None
    sources = sources_of(settings)
    try:
        output = Output(place(settings.output))
        with restrict_new_files(settings.output_umask), output.hold_lock() as lock:
            now = utc_now()
            begun = begun_run(context, output, settings.resume, now) if settings.resume else None
            run_id, started_at = (
                (begun.run_id, begun.started_at) if begun else (new_run_id(now), rfc3339(now))
            )
            this = Run(
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
            log.bind_run(this.run_id)
            return _run_and_map_errors(this, uri, ids)
    except OutputError as error:
        raise ConfigError(str(error)) from error


def _run_and_map_errors(this: Run, uri: ServiceUri, ids: Sequence[int] | None) -> int:
    """Run the audit, and turn each error into an outcome. This is the one place that does so."""
    try:
        return _audit_unless_stopped(this, uri, ids)
    except Interrupted as interrupted:
        interrupted.advice = _may_go_on(this)
        raise
    except ConfigError:
        raise
    except (StoreUnavailable, BookieRefused, SparkUnavailable, OutputError) as error:
        return _end_without_verdict(this, "UNREACHABLE", f"{error}{_may_go_on(this)}")
    except AccountingError as error:
        return _end_without_verdict(this, "AUDITOR_FAULT", str(error))
    except SparkJobFailed as error:
        this.context.logger.error("a Spark job failed", detail=error.detail)
        return _end_without_verdict(
            this, "AUDITOR_FAULT", f"a Spark job failed: {error}{_may_go_on(this)}"
        )
    except AuditorError as error:
        return _end_without_verdict(
            this, "AUDITOR_FAULT", f"unforeseen {type(error).__name__}: {error}"
        )
    except Exception as error:  # any other error is our own fault
        this.context.logger.exception("unforeseen error", error=type(error).__name__)
        sentence = f"unforeseen {_first_line(error)}{_may_go_on(this)}"
        return _end_without_verdict(this, "AUDITOR_FAULT", sentence)


def _may_go_on(this: Run) -> str:
    """Return advice on how to resume the run, as the end of a sentence.

    Returns "" if nothing is written that could be resumed, or if the cluster will be gone.
    """
    written = this.begun is not None or (this.journal is not None and this.journal.has(LISTED))
    if not written or this.is_over or not this.lasting or this.context.settings.dry_run:
        return ""
    return f"; auditor run --resume {this.run_id} goes on where it stopped"


def _audit_unless_stopped(this: Run, uri: ServiceUri, ids: Sequence[int] | None) -> int:
    """Run the audit. Raises Interrupted for any exception that follows a signal.

    A signal to the process group also ends the JVM: what fails then is only a consequence.
    """
    try:
        return _audit(this, uri, ids)
    except Exception:
        this.context.stop.check()
        raise


def _audit(this: Run, uri: ServiceUri, ids: Sequence[int] | None) -> int:
    context, settings = this.context, this.context.settings
    watch = Watch(context.progress)
    watch.stage("load")
    with ExitStack() as stack:
        store = stack.enter_context(open_store(uri, settings.zookeeper_limits(1)))
        bookies_at_first = store.bookies(0, now_ms)
        if not settings.dry_run:
            check_admission(settings, bookies_at_first)
        about = _about(this, store, bookies_at_first)
        previous, earlier = (
            read_previous(this.output, about.facts),
            read_earlier_run(this.output, about.facts),
        )
        if isinstance(earlier, EarlierRun):
            previous = replace(previous, findings=previous.findings | earlier.known())
        if this.begun is None:
            about = continue_series(
                replace(about, unregistered_since_ms=previous.unregistered_since_ms),
                previous.series,
            )
        if not about.partial and this.begun is None:
            population = (
                None
                if settings.accept_population
                else previous.population(settings.population_drop)
            )
            about = replace(about, previous_population=population)
        this.cluster = (
            settings.cluster or about.facts.instance_id or about.facts.metadata_service_uri
        )
        for problem in store.problems:
            context.logger.warning("metadata service", problem=problem)
        pulsar = pulsar_of_run(context, store)
        if pulsar is not None and pulsar.store is not None:
            stack.enter_context(pulsar.store)
        registered = [b for b in bookies_at_first if b.registration is not Registration.NONE]
        # The JVM's own output is not JSON, so keep it out of a JSON log.
        heard = settings.verbose and settings.log_format == "console"
        with spark_on_demand(
            len(registered), settings.spark_master, context.stop, verbose=heard, lock=this.lock
        ) as spark:
            at = _open_run(this, about, watch, store)
            run = assemble(context, about, store, spark, at, watch, pulsar)
            if settings.dry_run:
                return _print_plan(this, run, ids)
            bookies = audit(run, ids)
            this.spark_version = spark.version
            about = run.sweep_planner.about
            for problem in run.journal.problems:
                context.logger.warning("metadata service", problem=problem)
            watch.stage("report")
            verdicts = at.run.scan("verdicts", VERDICTS)
            write_read_counts(at.run, store.counts)
    watch.close()
    conclusion = conclude(
        at.run,
        about,
        bookies,
        previous,
        verdicts=verdicts,
        finished_at=rfc3339(utc_now()),
        duration_s=watch.durations(),
    )
    conclusion = add_history(
        conclusion, about, verdicts, bookies, earlier, read_mutes(context, this.output)
    )
    context.stop.check()
    return _publish(this, at.run, conclusion)


def _about(this: Run, store: MetadataStore, bookies: Sequence[BookieRecord]) -> About:
    if this.begun is not None:
        same_cluster(this.begun, store.cluster_facts())
        return this.begun
    settings = this.context.settings
    facts, terms = cluster_and_terms(this.context, store, bookies, this.sources, this.run_id)
    partial = settings.ledgers_from is not None
    waits = (settings.second_look_delay_ms, settings.lost_bookie_wait_max_ms)
    return About(
        this.run_id,
        this.started_at,
        facts,
        terms,
        settings.fail_on,
        settings.allow_empty,
        partial,
        waits_ms=waits,
    )


def _open_run(this: Run, about: About, watch: Watch, store: MetadataStore) -> Written:
    """Create or reopen the run's directory and journal, and write run.json."""
    directory = this.directory = this.output.start(this.run_id)
    journal = Journal.reopen(directory)
    watch.add_prior_durations(journal.began_with)
    journal.seconds = watch.seconds_by_stage
    add_kept_counts(store.counts, journal.began_with_reads)
    journal.reads = lambda: kept_reads(store.counts)
    this.journal = journal
    write_json(directory, "run.json", about.as_json())
    baseline = about.previous_population
    return Written(directory, journal, this.output.run(baseline.run_id) if baseline else None)


def _print_plan(this: Run, run: AuditRun, ids: Sequence[int] | None) -> int:
    """Do --dry-run: read the metadata, ask no bookie, print the plan, and remove the directory."""
    assert this.directory is not None
    list_ledgers(run, ids)
    read_metadata(run, EVERYTHING)
    costs = run.stages.plan()
    run.progress.close()
    this.output.root.remove(this.directory.path.rsplit("/", 1)[1])
    settings = this.context.settings
    this.context.say(
        plan_text(costs, settings.bookie_requests_per_second, settings.bookie_inflight)
    )
    return EXIT_SOUND


def _publish(this: Run, directory: Place, conclusion: Conclusion) -> int:
    """Write the results, publish them, print the report, and return the exit code."""
    context = this.context
    results = write_results(
        context, this.output, directory, conclusion, this.cluster, this.spark_version
    )
    publish(context, this.output, results, this.cluster)
    this.is_over = True
    publish_page(context, directory, results.summary, results.findings, results.report)
    clear_up(context, this.output, directory)
    show_report(context, results.summary, results.findings, directory, lines_max=this.lines_max)
    return int(results.summary["exit_code"])


def _first_line(error: Exception) -> str:
    """Return the type of an error, and the first line of what it says if it says anything."""
    return ": ".join([type(error).__name__, *str(error).splitlines()[:1]])


def _end_without_verdict(this: Run, outcome: str, sentence: str) -> int:
    """Print why the run gives no verdict, and return the exit code.

    Earlier results stay as they are. In the metrics only outcome and timestamp change.
    """
    context = this.context
    context.progress.close()
    publish_failure(context, this.output, outcome, this.cluster, utc_now().timestamp(), __version__)
    return end_without_verdict(
        context, this.run_id, outcome, sentence, this.directory.path if this.directory else ""
    )
