"""`auditor ledger ID…`: audit single ledgers without Spark. Verdicts are the same as a run's."""

from __future__ import annotations

import json
from collections.abc import Sequence

from auditor.bookie.listers import read_listers
from auditor.clock import now_ms, utc_now
from auditor.commands.endings import UNREACHABLE, end_without_verdict
from auditor.commands.judged_ledgers import LedgersReport, report_on
from auditor.context import Context, new_run_id
from auditor.evidence.newest_run import NewestRun, newest_run
from auditor.host_limits import require_host_limits
from auditor.judging.judge import TooManyPoisoned
from auditor.model.cluster import ClusterFacts
from auditor.report.ledgers_text import render_ledgers
from auditor.run.clock_check import require_clock_of_records
from auditor.run.single_ledgers import Asker, audit_ledgers
from auditor.run.surroundings import check_admission, cluster_and_terms
from auditor.telemetry import log
from auditor.topology.sources import sources_of
from auditor.wire.service_uri import parse as parse_uri
from auditor.zookeeper.metadata_store import MetadataStore, open_store


def ledger(context: Context, ids: Sequence[int]) -> int:
    """Audit these ledgers, print a full report, and return the exit code.

    Findings on bookies are withheld.
    """
    run_id = new_run_id(utc_now())
    log.bind_run(run_id)
    try:
        report = judge_ledgers(context, ids, run_id)
    except UNREACHABLE as error:
        return end_without_verdict(context, run_id, "UNREACHABLE", str(error))
    except TooManyPoisoned as error:
        return end_without_verdict(context, run_id, "AUDITOR_FAULT", str(error))
    _say(context, report)
    return report.summary.exit_code


def judge_ledgers(context: Context, ids: Sequence[int], run_id: str) -> LedgersReport:
    """Audit these ledgers and return the report on them.

    Raises ConfigError, StoreUnavailable, BookieRefused, KdcUnreachable or TooManyPoisoned.
    """
    settings = context.settings
    require_host_limits(None)
    uri, sources = parse_uri(settings.metadata_service_uri or ""), sources_of(settings)
    with open_store(uri, settings.zookeeper_limits(1)) as store:
        bookies = store.bookies(0, now_ms)
        check_admission(settings, bookies)
        facts, terms = cluster_and_terms(context, store, bookies, sources, run_id)
        newest = newest_run(settings.output, facts)
        asker = asker_for(context, store, newest, facts)
        judged = audit_ledgers(asker, ids, terms)
        reads = store.counts.reads
    require_clock_of_records(
        (look.record for evidence, _ in judged for look in evidence.looks),
        now_ms(),
        terms.clock_lag_ms,
    )
    return report_on(context, run_id, facts, terms, judged, asker, newest, reads)


def _say(context: Context, report: LedgersReport) -> None:
    summary, ledgers, found = report
    if context.settings.format == "json":
        findings = [one.as_json() for one in found]
        said = {
            "summary": summary.as_json(),
            "ledgers": [one.as_json() for one in ledgers],
            "findings": findings,
        }
        context.say(json.dumps(said) + "\n")
        return
    delay_s = context.settings.second_look_delay_ms / 1000
    context.say(
        render_ledgers(
            summary,
            ledgers,
            found,
            second_look_delay_s=delay_s,
            screen=context.screen,
        )
    )


def asker_for(
    context: Context, store: MetadataStore, newest: NewestRun | None, facts: ClusterFacts
) -> Asker:
    """Return how a command without Spark reaches the cluster."""
    settings = context.settings
    known_unable = newest.bookies_unable() if newest and settings.probe_entries else frozenset()
    listers = read_listers(settings.lister_port, settings.lister_map, facts.instance_id)
    return Asker(context, store, facts, known_unable, listers)
