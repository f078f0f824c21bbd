"""Build the `AuditRun` that `auditor run` passes to the pipeline, from the settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from auditor.bookie.listers import read_listers
from auditor.commands.context import Context, Watch
from auditor.evidence.journal import Journal
from auditor.evidence.run_directory import Place
from auditor.run.bookie_register import BookieRegister
from auditor.run.judging_rounds import Judgings
from auditor.run.mark_looks import MarkLooks
from auditor.run.open_hours import OpenHours
from auditor.run.pipeline import AuditRun
from auditor.run.reference_looks import PulsarTopics, ReferenceLooks
from auditor.run.relisting import Relisting
from auditor.run.rename_search import RenameSearch
from auditor.run.sweep_planner import SweepPlanner
from auditor.spark.on_demand import SparkOnDemand
from auditor.stages.executor import Executor
from auditor.stages.local import LocalExecutor
from auditor.stages.selection import Suspects
from auditor.stages.stages import Stages
from auditor.summary.about import About
from auditor.telemetry.progress import Progress
from auditor.zookeeper.metadata_store import MetadataStore


@dataclass(frozen=True, slots=True)
class Written:
    """Where a run is written: its directory and its journal.

    `baseline` is the earlier run whose number of ledgers is compared with this run's, if any.
    """

    run: Place
    journal: Journal
    baseline: Place | None


def assemble(
    context: Context,
    about: About,
    store: MetadataStore,
    spark: SparkOnDemand,
    at: Written,
    watch: Watch,
    pulsar: PulsarTopics | None = None,
) -> AuditRun:
    """Return the audit that these settings describe, ready to start.

    `pulsar` is where topics are read; None: what topics reference is not read.
    """
    stages = _stages(context, about, store, spark, at, watch)
    bookies = _bookie_register(context, about, store, at)
    return AuditRun(
        stages=stages,
        store=store,
        directory=at.run,
        journal=at.journal,
        stop=context.stop,
        progress=watch,
        bookies=bookies,
        judgings=Judgings(stages, at.run, at.journal),
        relisting=Relisting(stages, store, at.run, about.previous_population, at.baseline),
        mark_looks=MarkLooks(store, at.run, about.terms, is_partial=about.partial),
        reference_looks=ReferenceLooks(pulsar, store, at.run, about.terms, stages, context.stop),
        rename_search=_rename_search(context, about, store, at, bookies),
        sweep_planner=SweepPlanner(at.run, about),
        hours=hours_of(context, watch),
        waits_ms=about.waits_ms,
        shard_ledgers=context.settings.shard_ledgers,
    )


def hours_of(context: Context, progress: Progress) -> OpenHours:
    """Return the `OpenHours` that let a run wait for its window."""
    return OpenHours(context.settings.daily_window(), context.stop, progress, context.logger)


def _stages(
    context: Context,
    about: About,
    store: MetadataStore,
    spark: SparkOnDemand,
    at: Written,
    watch: Watch,
) -> Stages:
    """Return the stages. Spark's executor is made when it is first needed."""
    settings = context.settings
    suspects = Suspects(at.run)
    address = replace(store.address, limits=settings.zookeeper_limits(1))
    return Stages(
        on_spark=cache(lambda: _on_spark(context, store, spark, at, watch)),
        local=LocalExecutor(context.stop, at.run, suspects, address, store.counts),
        suspects=suspects,
        facts=about.facts,
        terms=about.terms,
        limits=settings.bookie_limits(),
        suspects_max=settings.suspects_in_process_max,
        ledgers_max=settings.ledgers_in_process_max,
        judging=settings.judging_limits(),
    )


def _bookie_register(
    context: Context, about: About, store: MetadataStore, at: Written
) -> BookieRegister:
    settings = context.settings
    away, resumptions = about.terms.around.maintenance, len(about.resumed_at)
    bookies = BookieRegister(
        store, at.run, at.journal, about.facts, away, settings.search_reads_max, resumptions
    )
    bookies.listers = read_listers(
        settings.lister_port, settings.lister_map, about.facts.instance_id
    )
    return bookies


def _rename_search(
    context: Context, about: About, store: MetadataStore, at: Written, bookies: BookieRegister
) -> RenameSearch:
    can_read = about.terms.probe_entries > 0
    return RenameSearch(
        store, at.run, context.settings.bookie_limits(), bookies.directory_behind, can_read=can_read
    )


def _on_spark(
    context: Context, store: MetadataStore, spark: SparkOnDemand, at: Written, watch: Watch
) -> Executor:
    """Return Spark's executor. Its tasks share the rate at which ZooKeeper may be read."""
    from auditor.spark.executor import SparkExecutor

    settings, session = context.settings, spark.session()
    readers = settings.tasks or max(2, session.sparkContext.defaultParallelism // 2)
    return SparkExecutor(
        spark=session,
        stop=context.stop,
        uri=at.run.uri,
        address=replace(store.address, limits=settings.zookeeper_limits(readers)),
        readers=readers,
        tick=watch.done,
        stall_max_s=settings.spark_stall_max_ms / 1000,
    )
