"""The opening of a run: its `About`, the earlier runs it is compared with, and its directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from auditor.commands.assembly import Written
from auditor.commands.context import Watch
from auditor.commands.resumption import same_cluster
from auditor.commands.run_state import Run
from auditor.commands.surroundings import cluster_and_terms
from auditor.evidence.journal import Journal
from auditor.evidence.run_directory import write_json
from auditor.model.cluster import BookieRecord
from auditor.run.read_counts import add_kept_counts, kept_reads
from auditor.summary.about import About
from auditor.summary.changes.earlier_run import EarlierRun, Unreadable, read_earlier_run
from auditor.summary.previous_run import Previous, read_previous
from auditor.summary.sweeps import continue_series
from auditor.zookeeper.metadata_store import MetadataStore


@dataclass(frozen=True, slots=True)
class Opening:
    """What is known of a run before it reads the first ledger."""

    about: About
    previous: Previous
    """Totals and findings of the newest finished run."""
    earlier: EarlierRun | Unreadable | None
    """The history of its findings."""


def prepare_run(state: Run, store: MetadataStore, bookies: Sequence[BookieRecord]) -> Opening:
    """Return what the run audits and what it is compared with, and name the cluster in `state`.

    Raises ConfigError if the run that is resumed audited another cluster.
    """
    about = _about(state, store, bookies)
    previous = read_previous(state.output, about.facts)
    earlier = read_earlier_run(state.output, about.facts)
    if isinstance(earlier, EarlierRun):
        previous = replace(previous, findings=previous.findings | earlier.known())
    if state.begun is None:
        about = _continue_previous(state, about, previous)
    facts = about.facts
    state.cluster = (
        state.context.settings.cluster or facts.instance_id or facts.metadata_service_uri
    )
    return Opening(about, previous, earlier)


def _about(state: Run, store: MetadataStore, bookies: Sequence[BookieRecord]) -> About:
    if state.begun is not None:
        same_cluster(state.begun, store.cluster_facts())
        return state.begun
    settings = state.context.settings
    facts, terms = cluster_and_terms(state.context, store, bookies, state.sources, state.run_id)
    partial = settings.ledgers_from is not None
    waits = (settings.second_look_delay_ms, settings.lost_bookie_wait_max_ms)
    return About(
        state.run_id,
        state.started_at,
        facts,
        terms,
        settings.fail_on,
        settings.allow_empty,
        partial,
        waits_ms=waits,
    )


def _continue_previous(state: Run, about: About, previous: Previous) -> About:
    """Return the `About` of a new run with what it inherits from the previous run."""
    about = continue_series(
        replace(about, unregistered_since_ms=previous.unregistered_since_ms), previous.series
    )
    if about.partial:
        return about
    settings = state.context.settings
    population = (
        None if settings.accept_population else previous.population(settings.population_drop)
    )
    return replace(about, previous_population=population)


def open_directory(state: Run, about: About, watch: Watch, store: MetadataStore) -> Written:
    """Create or reopen the run's directory and journal, and write run.json."""
    directory = state.directory = state.output.start(state.run_id)
    journal = Journal.reopen(directory)
    watch.add_prior_durations(journal.began_with)
    journal.seconds = watch.seconds_by_stage
    add_kept_counts(store.counts, journal.began_with_reads)
    journal.reads = lambda: kept_reads(store.counts)
    state.journal = journal
    write_json(directory, "run.json", about.as_json())
    baseline = about.previous_population
    return Written(directory, journal, state.output.run(baseline.run_id) if baseline else None)
