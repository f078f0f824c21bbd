"""`auditor run --resume RUN_ID`: check whether an interrupted run can be resumed."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import datetime

from auditor import __version__
from auditor.after.stored_runs import StoredRuns, name_of
from auditor.clock import rfc3339
from auditor.config.units import show_duration
from auditor.context import Context, terms_of
from auditor.errors import ConfigError, OutputError
from auditor.evidence.journal import JOURNAL, LISTED, REFERENCES, entries
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import Place
from auditor.model.cluster import ClusterFacts
from auditor.summary.about import About


def resume_about(context: Context, output: Output, run_id: str, now: datetime) -> About:
    """Return the `About` of the run to resume, with `now` added to its times of resumption.

    `now` may be in the future: when the window of the run opens. Only reads OUTPUT: no cluster is
    contacted and nothing is written. Raises ConfigError if the run cannot be resumed: it does not
    exist, wrote nothing, is damaged, finished or too old; a newer run is finished; or it was
    started by another version or under other settings.
    """
    settings = context.settings
    if settings.ledgers_from or settings.dry_run:
        raise ConfigError(
            "--resume continues with the ledgers of its run: neither --ledgers-from nor --dry-run"
            " goes with it"
        )
    run, latest = _run_of(output, run_id), output.latest()
    run_id = name_of(run).removeprefix("run-")
    about = _read(run, run_id)
    if run.read_text("summary.json") is not None and not _is_unpublished(run, latest):
        raise ConfigError(
            f"--resume: run {run_id} is finished: auditor report {run.address} shows it"
        )
    if latest is not None and latest.path > run.path:
        raise ConfigError(
            f"--resume: a run begun later is finished ({latest.address}): the evidence of run"
            f" {run_id} is out of date"
        )
    _check_journal(run, run_id, is_partial=about.partial)
    _check_terms(context, about, run_id, now)
    return replace(about, resumed_at=(*about.resumed_at, rfc3339(now)))


def _run_of(output: Output, text: str) -> Place:
    """Return the directory of the run that a person names. Raises ConfigError if it is not in
    OUTPUT.
    """
    try:
        return StoredRuns(output).find_unfinished(text)
    except ConfigError as error:
        raise ConfigError(f"--resume: {error}") from None


def _check_terms(context: Context, about: About, run_id: str, now: datetime) -> None:
    """Raise ConfigError if the run is too old, or has another version or other settings."""
    settings = context.settings
    age_ms = (now - datetime.fromisoformat(about.started_at)).total_seconds() * 1000
    if age_ms > settings.resume_age_max_ms:
        raise ConfigError(
            f"--resume: run {run_id} began at {about.started_at} and would go on at {rfc3339(now)},"
            " its evidence older than --resume-age-max allows"
            f" ({show_duration(settings.resume_age_max_ms)}): raise it if ledgers may be reported"
            " sound by what was seen that long ago, or start a new run"
        )
    if about.within_ms:
        raise ConfigError(
            f"--resume: run {run_id} asks only about what was due when it began (--within): start a"
            " new run"
        )
    if about.auditor_version != __version__:
        raise ConfigError(
            f"--resume: run {run_id} was begun by version {about.auditor_version}: start a new run"
        )
    if other := _changed_settings(context, about):
        raise ConfigError(
            f"--resume: run {run_id} was begun under other settings ({', '.join(other)}): give it"
            " the same"
        )
    if settings.accept_population and about.previous_population is not None:
        raise ConfigError(
            f"--resume: run {run_id} was begun without --accept-population: start a new run"
        )


def _read(run: Place, run_id: str) -> About:
    text = run.read_text("run.json")
    if text is None:
        raise ConfigError(
            f"--resume: {run.address} holds no run that can be resumed; start a new run"
        )
    try:
        about = About.from_json(json.loads(text))
        if datetime.fromisoformat(about.started_at).tzinfo is None:
            raise ValueError("started_at has no time zone")
    except (ValueError, TypeError, RecursionError, OutputError) as error:
        raise ConfigError(
            f"--resume: {run.address}/run.json is damaged ({error}): start a new run"
        ) from None
    return about


def _check_journal(run: Place, run_id: str, *, is_partial: bool) -> None:
    """Raise ConfigError if the journal does not begin with the first stages of a run.

    Without the listing, nobody knows which ledgers a run of named ledgers was for.
    """
    try:
        written = entries(run)
    except OutputError as error:
        raise ConfigError(f"--resume: {error}") from None
    stages = [entry["stage"] for entry in written]
    if not stages or stages[0] not in (REFERENCES, LISTED) or (is_partial and LISTED not in stages):
        raise ConfigError(
            f"--resume: run {run_id} was interrupted before the ledgers were listed: start a new"
            " run"
        )


def _is_unpublished(run: Place, latest: Place | None) -> bool:
    """Return whether the run was interrupted after summary.json and before latest.json named it.

    Such a run still has its journal, which is removed only after publishing.
    """
    return (latest is None or latest.path != run.path) and bool(run.files_in(JOURNAL))


def _changed_settings(context: Context, about: About) -> list[str]:
    """Return the names of changed settings that verdicts or the exit code depend on.

    Locations of bookies and maintenance are not compared: a resumed run keeps its first ones.
    """
    settings, before = context.settings, about.terms
    begun = replace(
        terms_of(context, about.run_id, before.around),
        judged_at_ms=before.judged_at_ms,
        clock_lag_ms=before.clock_lag_ms,
        sweep=before.sweep,
    )
    now = asdict(begun)
    changed = [
        name.removesuffix("_ms") for name, value in asdict(before).items() if now[name] != value
    ]
    if settings.within_ms:
        changed.append("within")
    if before.sweep.budget != settings.probe_budget:
        changed.append("probe_budget")
    if about.reading.period_ms != settings.verify_within_ms:
        changed.append("verify_within")
    if about.waits_ms != (settings.second_look_delay_ms, settings.lost_bookie_wait_max_ms):
        changed.append("second_look_delay or lost_bookie_wait_max")
    return changed + [
        name
        for name in ("fail_on", "allow_empty")
        if getattr(settings, name) != getattr(about, name)
    ]


def same_cluster(about: About, facts: ClusterFacts) -> None:
    """Raise ConfigError if `facts` describe another cluster than the run's."""
    if not facts.is_of(about.facts.instance_id, about.facts.root, about.facts.hosts):
        raise ConfigError(
            f"--resume: {facts.metadata_service_uri} is another cluster than that of run"
            f" {about.run_id} ({about.facts.metadata_service_uri}): it cannot be resumed there"
        )
