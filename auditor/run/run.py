"""One execution of `auditor run`: open -> look -> conclude -> publish.

`auditor.commands.run` holds the lock of OUTPUT, calls these steps and turns errors into exit codes.
Before: `auditor.run.resumption`, if a run is resumed. What looks at the ledgers comes next:
`auditor.run.pipeline`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache

import pyarrow as pa

from auditor.after.history import EarlierRun, UnreadableRun, read_earlier_run
from auditor.bookie.listers import read_listers
from auditor.clock import now_ms, rfc3339, utc_now
from auditor.context import Context, Watch, new_run_id
from auditor.errors import OutputError
from auditor.evidence.ids import EVERYTHING
from auditor.evidence.journal import LISTED, Journal
from auditor.evidence.output_directory import Output
from auditor.evidence.output_lock import HeldLock
from auditor.evidence.run_directory import Place, write_json
from auditor.evidence.run_tables import newest_time_ms
from auditor.evidence.schemas import VERDICTS
from auditor.findings.disks import keep_earlier_bookies
from auditor.first_checker.circle import Starts
from auditor.judging.judge import few_collections
from auditor.model.cluster import BookieRecord
from auditor.run.ahead import Ahead
from auditor.run.bookie_register import BookieRegister
from auditor.run.carrying import Carrying
from auditor.run.clock_check import require_clock
from auditor.run.closing_looks import MarkLooks, Relisting, RenameSearch
from auditor.run.conclusion import Conclusion, add_history, conclude
from auditor.run.judging_rounds import Judgings, SweepPlanner
from auditor.run.metadata_comparison import EarlierEvidence, MetadataLook
from auditor.run.mutes_file import read_mutes
from auditor.run.open_hours import OpenHours
from auditor.run.pipeline import Audit
from auditor.run.publishing import (
    Results,
    clear_up,
    keep_outcome,
    publish,
    send_metrics,
    write_results,
)
from auditor.run.reference_looks import ReferenceLooks, pulsar_of_run
from auditor.run.request_counts import add_kept_counts, kept_reads, write_read_counts
from auditor.run.resumption import resume_about, same_cluster
from auditor.run.scrub_reports import ScrubReports
from auditor.run.surroundings import check_admission, cluster_and_terms
from auditor.stages.local import LocalExecutor
from auditor.stages.selection import Suspects
from auditor.stages.stages import Executor, ExecutorOnDemand, Stages
from auditor.summary.about import NO_BASE, About, RunBase
from auditor.summary.costs import BookieCost
from auditor.summary.due_ledgers import why_not_comparable
from auditor.summary.previous_run import NO_PREVIOUS, Previous, read_previous
from auditor.summary.reading_plan import (
    ReadingPlan,
    copies_before,
    milliseconds,
    reads_before,
    starts_before,
)
from auditor.summary.sweeps import continue_series
from auditor.telemetry.log import keep_run_log
from auditor.topology.sources import Source
from auditor.zookeeper.metadata_store import MetadataStore

NO_EARLIER_RUN = "no run of this cluster has finished yet"
OTHER_CLUSTER = "the newest run in the output directory is of another cluster"
"""Why no metadata is compared."""


@dataclass(slots=True)
class Run:
    """One run. It knows what its end needs, whether it succeeds or fails.

    `sources` say where bookies are. `begun` is the `About` of the run that is resumed, None for a
    new run. Processes that write for this run inherit the descriptor of `lock`, if it has one.
    """

    context: Context
    output: Output
    run_id: str
    started_at: str
    sources: Sequence[Source] = ()
    begun: About | None = None
    lock: HeldLock | None = None
    lasting: bool = True
    """Whether the cluster outlives the run; the demo's does not."""
    directory: Place | None = None
    journal: Journal | None = None
    cluster: str = ""
    spark_version: str = ""
    is_over: bool = False
    """Whether everything is published."""
    has_lost_evidence: bool = False
    """Whether a part of what the run stored is gone: it cannot be resumed."""
    previous: Previous = NO_PREVIOUS
    """Totals and findings of the newest finished run."""
    earlier: EarlierRun | UnreadableRun | None = None
    """The history of its findings."""
    watch: Watch = field(init=False)

    def __post_init__(self) -> None:
        self.watch = Watch(self.context.progress, self.context.logger)

    @classmethod
    def begin(
        cls,
        context: Context,
        output: Output,
        lock: HeldLock,
        sources: Sequence[Source],
        *,
        lasting: bool,
    ) -> Run:
        """Return a run that starts now: a new one, or that of --resume. Nothing is contacted.

        Raises ConfigError if the run cannot be resumed.
        """
        now, resumed = utc_now(), context.settings.resume
        begun = resume_about(context, output, resumed, now) if resumed else None
        run_id = begun.run_id if begun else new_run_id(now)
        started_at = begun.started_at if begun else rfc3339(now)
        return cls(context, output, run_id, started_at, sources, begun, lock, lasting)

    def open(self, store: MetadataStore, spark: ExecutorOnDemand, stack: ExitStack) -> Audit:
        """Return the audit of the cluster that `store` describes, ready to start.

        Writes run.json, and opens the run's directory and its journal. What is opened in addition
        is closed with `stack`. Raises StoreUnavailable, BookieRefused, KdcUnreachable, and
        ConfigError if the run that is resumed audited another cluster.
        """
        context, settings = self.context, self.context.settings
        bookies_at_first = store.bookies(0, now_ms)
        if not settings.dry_run:
            check_admission(settings, bookies_at_first)
        about = self._prepare(store, bookies_at_first)
        for problem in store.problems:
            context.logger.warning("metadata service", problem=problem)
        pulsar = pulsar_of_run(context, store)
        if pulsar is not None and pulsar.store is not None:
            stack.enter_context(pulsar.store)
        spark.bookies = sum(b.is_registered for b in bookies_at_first)
        earlier = self._earlier_evidence(about)
        if self.begun is None:
            about = replace(about, base=self._base(about, earlier))
        directory, journal = self._open_directory(about, store)
        ahead = Ahead(context.stop, journal, self.watch.done)
        stages = self._stages(about, store, spark, directory, ahead)
        bookies = self._bookie_register(about, store, directory, journal)
        baseline = about.previous_population
        last_run = self.output.run(baseline.run_id) if baseline else None
        return Audit(
            bookies,
            Judgings(stages, directory, journal),
            OpenHours.of(context, self.watch),
            about.waits_ms,
            ahead,
            relisting=Relisting(stages, store, directory, baseline, last_run),
            mark_looks=MarkLooks(store, directory, about.terms, is_partial=about.partial),
            reference_looks=ReferenceLooks(
                pulsar, store, directory, about.terms, stages, context.stop, earlier
            ),
            metadata_look=MetadataLook(store, directory, earlier),
            rename_search=RenameSearch(
                store,
                directory,
                settings.bookie_limits(),
                bookies.directory_behind,
                can_read=about.terms.probe_entries > 0,
            ),
            sweep_planner=SweepPlanner(directory, about),
            scrub_reports=ScrubReports(store, directory, settings.bookie_limits(), bookies.listers),
            carrying=self._carrying(about, store, directory, earlier, stages, bookies),
            shard_ledgers=settings.shard_ledgers,
        )

    def plan(self, opened: Audit, ids: Sequence[int] | None) -> list[BookieCost]:
        """Return what the first look would ask each bookie, and remove the run's directory. Reads
        the metadata, and asks no bookie.
        """
        opened.list_ledgers(ids)
        opened.read_metadata(EVERYTHING)
        costs = opened.stages.plan()
        self.watch.progress.close()
        self.output.root.remove(opened.directory.path.rsplit("/", 1)[1])
        return costs

    def look(self, opened: Audit, ids: Sequence[int] | None) -> list[BookieRecord]:
        """Look at the ledgers until each has a verdict, and return every bookie at every look.

        Logs what went wrong with the metadata service, and writes how much was read. Raises what
        `Audit.run` raises, and LocalFault if this host's clock was wrong.
        """
        with few_collections():
            bookies = opened.run(ids)
        for problem in opened.journal.problems:
            self.context.logger.warning("metadata service", problem=problem)
        self.watch.stage("report")
        write_read_counts(opened.directory, opened.store.counts)
        newest = newest_time_ms(opened.directory)
        require_clock(newest, now_ms(), opened.sweep_planner.about.terms.clock_lag_ms)
        return bookies

    def conclude(self, opened: Audit, bookies: Sequence[BookieRecord]) -> Conclusion:
        """Account for every ledger, and add the history of the findings and the mutes.

        Raises OutputError if a part of the evidence is lost.
        """
        self.watch.close()
        self.require_whole()
        about, directory = opened.sweep_planner.about, opened.directory
        verdicts = directory.scan("verdicts", VERDICTS)
        conclusion = conclude(
            directory,
            about,
            bookies,
            self.previous,
            verdicts=verdicts,
            finished_at=rfc3339(utc_now()),
            duration_s=self.watch.durations(),
        )
        mutes = read_mutes(self.context, self.output)
        return add_history(conclusion, directory, about, verdicts, bookies, self.earlier, mutes)

    def publish(self, directory: Place, conclusion: Conclusion) -> Results:
        """Write the results, make latest.json name the run, and send its metrics.

        Once it is published nothing changes the run's outcome. Old runs are removed by `clear_up`.
        """
        context = self.context
        context.stop.check()
        self.require_whole()
        results = write_results(
            context, self.output, directory, conclusion, self.cluster, self.spark_version
        )
        publish(context, self.output, results, self.lock)
        self.is_over = True
        with keep_outcome(context, "send the metrics"):
            send_metrics(context, results, self.cluster)
        return results

    def clear_up(self, directory: Place) -> None:
        """Remove what only an unfinished run needs, and old runs."""
        with keep_outcome(self.context, "remove old files"):
            clear_up(self.context, self.output, directory)

    def require_whole(self) -> None:
        """Raise OutputError if a part of what the stages of this run stored is gone or changed."""
        if self.journal is None or self.is_over:
            return
        if lost := self.journal.lost():
            self.has_lost_evidence = True
            raise OutputError(lost)

    def resume_advice(self) -> str:
        """Return advice on how to resume the run, as the end of a sentence.

        Returns "" if nothing is written that could be resumed, or if the cluster will be gone. If
        the run is older than --resume-age-max, as one of several nights may be, it says so.
        """
        written = self.begun is not None or (self.journal is not None and self.journal.has(LISTED))
        if not written or self.is_over or self.has_lost_evidence:
            return ""
        if not self.lasting or self.context.settings.dry_run or self.context.settings.within_ms:
            return ""
        age = utc_now() - datetime.fromisoformat(self.started_at)
        advice = f"; auditor run --resume {self.run_id} continues where it stopped"
        if age <= timedelta(milliseconds=self.context.settings.resume_age_max_ms):
            return advice
        return f"{advice}, if --resume-age-max is raised: the run began at {self.started_at}"

    def _prepare(self, store: MetadataStore, bookies: Sequence[BookieRecord]) -> About:
        """Return what the run audits, name the cluster, and read what the run is compared with."""
        about = self._about(store, bookies)
        previous = read_previous(self.output, about.facts)
        if previous.problem:
            self.context.logger.warning("newest_run_not_read", problem=previous.problem)
        self.earlier = read_earlier_run(self.output, about.facts)
        if isinstance(self.earlier, EarlierRun):
            previous = replace(previous, findings=previous.findings | self.earlier.known())
        self.previous = previous
        if self.begun is None:
            about = self._continue_previous(about)
        facts = about.facts
        self.cluster = (
            self.context.settings.cluster or facts.instance_id or facts.metadata_service_uri
        )
        return about

    def _earlier_evidence(self, about: About) -> EarlierEvidence | None:
        """Return what the newest earlier run stored; None if only named ledgers are audited.

        A run that began after this one, which was resumed, is not an earlier one.
        """
        if about.partial:
            return None
        if isinstance(self.earlier, UnreadableRun):
            return EarlierEvidence(problem=self.earlier.problem)
        if self.earlier is None:
            other = self.output.latest()
            return EarlierEvidence(problem="" if other is None else OTHER_CLUSTER)
        if self.earlier.started_at > about.started_at:
            return EarlierEvidence(
                problem=f"run {self.earlier.run_id} began after this run, which was resumed"
            )
        return EarlierEvidence.of(self.output.run(self.earlier.run_id), self.earlier.run_id)

    def _base(self, about: About, earlier: EarlierEvidence | None) -> RunBase:
        """Return the run whose verdicts this run may carry over."""
        if not about.within_ms or earlier is None:
            return NO_BASE
        if earlier.run is None:
            return RunBase(problem=earlier.problem or NO_EARLIER_RUN)
        try:
            stored = earlier.run.read_text("run.json")
            why = why_not_comparable(About.from_json(json.loads(stored or "null")), about)
        except (OutputError, ValueError) as error:
            why = f"it cannot be read: {error}"
        if why:
            return RunBase(problem=f"run {earlier.run_id} cannot be the base: {why}")
        return RunBase(earlier.run_id, earlier.began_ms)

    def _carrying(
        self,
        about: About,
        store: MetadataStore,
        directory: Place,
        earlier: EarlierEvidence | None,
        stages: Stages,
        bookies: BookieRegister,
    ) -> Carrying | None:
        """Return what the run carries over; None if it asks about every listed ledger."""
        if not about.within_ms:
            return None
        base = None if about.base.run_id is None or earlier is None else earlier.run

        def read(wanted: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return stages.read_here(bookies.directory(1), iter(wanted))

        return Carrying(directory, base, about, store, self.context.stop.check, read)

    def _about(self, store: MetadataStore, bookies: Sequence[BookieRecord]) -> About:
        if self.begun is not None:
            same_cluster(self.begun, store.cluster_facts())
            return self.begun
        settings = self.context.settings
        facts, terms = cluster_and_terms(self.context, store, bookies, self.sources, self.run_id)
        waits = (settings.second_look_delay_ms, settings.lost_bookie_wait_max_ms)
        return About(
            self.run_id,
            self.started_at,
            facts,
            terms,
            settings.fail_on,
            settings.allow_empty,
            partial=settings.ledgers_from is not None,
            waits_ms=waits,
            within_ms=settings.within_ms,
            cookie_czxids={
                one.bookie_id: one.cookie_czxid for one in bookies if one.cookie_czxid is not None
            },
            cookie_directories={
                one.bookie_id: one.cookie_directories
                for one in bookies
                if one.cookie_czxid is not None
            },
        )

    def _continue_previous(self, about: About) -> About:
        """Return the `About` of a new run with what it inherits from the previous run."""
        before, settings = self.previous, self.context.settings
        about = replace(
            about,
            unregistered_since_ms=before.unregistered_since_ms,
            reading=self._reading_plan(about),
        )
        about = continue_series(about, before.series)
        if about.partial or settings.accept_population:
            return about
        return replace(about, previous_population=before.population(settings.population_drop))

    def _reading_plan(self, about: About) -> ReadingPlan:
        """Return how copies are read, as a continuation of what earlier runs read.

        Runs that continue one another share the seed and the way to draw starts, with a period or
        without one: otherwise the arcs of earlier runs would mean other copies.
        """
        settings, before = self.context.settings, self.previous.verification
        starts = starts_before(before) or Starts(about.terms.probe_seed)
        return ReadingPlan(
            starts.seed,
            milliseconds(about.started_at),
            settings.verify_within_ms,
            settings.verify_bytes_per_second,
            settings.bookie_requests_per_second,
            reads_before(before),
            {} if about.partial else copies_before(before),
            way=starts.way,
        )

    def _open_directory(self, about: About, store: MetadataStore) -> tuple[Place, Journal]:
        """Create or reopen the run's directory and journal, and write run.json."""
        self.directory = directory = self.output.start(self.run_id)
        if not self.context.settings.dry_run:  # which removes the directory again
            keep_run_log(directory)
        self.journal = journal = Journal.reopen(directory)
        self.watch.add_prior_durations(journal.began_with)
        journal.seconds = self.watch.seconds_by_stage
        add_kept_counts(store.counts, journal.began_with_reads)
        journal.reads = lambda: kept_reads(store.counts)
        write_json(directory, "run.json", about.as_json())
        if self.begun is None:
            self._keep_earlier_bookies(directory)
        return directory, journal

    def _keep_earlier_bookies(self, directory: Place) -> None:
        """Keep what the newest earlier run knew of the bookies, with which this run compares."""
        earlier = self.output.latest()
        if earlier is None or not isinstance(self.earlier, EarlierRun):
            return
        try:
            keep_earlier_bookies(directory, earlier, now_ms())
        except OutputError as error:
            self.context.logger.warning("earlier_bookies_not_read", problem=str(error))

    def _stages(
        self,
        about: About,
        store: MetadataStore,
        spark: ExecutorOnDemand,
        directory: Place,
        ahead: Ahead,
    ) -> Stages:
        """Return the stages. Spark's executor is made when it is first needed. Its tasks share the
        rate at which ZooKeeper may be read.
        """
        settings, suspects = self.context.settings, Suspects(directory)

        @cache
        def on_spark() -> Executor:
            return spark.executor(
                directory,
                lambda readers: replace(store.address, limits=settings.zookeeper_limits(readers)),
                settings.tasks,
                ahead.count,
                settings.spark_stall_max_ms / 1000,
            )

        address = replace(store.address, limits=settings.zookeeper_limits(1))
        return Stages(
            on_spark=on_spark,
            local=LocalExecutor(self.context.stop, directory, suspects, address, store.counts),
            suspects=suspects,
            facts=about.facts,
            terms=about.terms,
            limits=settings.bookie_limits(),
            suspects_max=settings.suspects_in_process_max,
            ledgers_max=settings.ledgers_in_process_max,
            judging=settings.judging_limits(),
        )

    def _bookie_register(
        self, about: About, store: MetadataStore, directory: Place, journal: Journal
    ) -> BookieRegister:
        settings = self.context.settings
        away, resumptions = about.terms.around.maintenance, len(about.resumed_at)
        bookies = BookieRegister(
            store, directory, journal, about.facts, away, settings.search_reads_max, resumptions
        )
        bookies.listers = read_listers(
            settings.lister_port, settings.lister_map, about.facts.instance_id
        )
        return bookies
