"""`auditor topic TOPIC…`: check whether topics are readable from end to end, without Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack

from auditor.clock import now_ms, utc_now
from auditor.commands.endings import UNREACHABLE, end_without_verdict
from auditor.commands.ledger import LedgersReport, OfTopics, asker_for, report_on
from auditor.context import Context, new_run_id
from auditor.evidence.newest_run import newest_run
from auditor.findings.topics import is_complete, reference_counts, report_topic, worst_of_topics
from auditor.host_limits import require_host_limits
from auditor.judging.judge import TooManyPoisoned
from auditor.model.codec import encode
from auditor.model.topic import TopicName
from auditor.pulsar.readability import TopicReadability
from auditor.report.topics_text import render_topics
from auditor.run.clock_check import require_clock_of_records
from auditor.run.reference_looks import open_pulsar
from auditor.run.surroundings import check_admission, cluster_and_terms
from auditor.run.topics import AuditedTopics, audit_topics
from auditor.telemetry import log
from auditor.topology.sources import sources_of
from auditor.wire.service_uri import parse as parse_uri
from auditor.wire.service_uri import parse_pulsar
from auditor.zookeeper.metadata_store import open_store


def topic(context: Context, names: Sequence[TopicName]) -> int:
    """Audit all ledgers of these topics, print who can read them, and return the exit code.

    Findings on bookies are withheld. Raises ConfigError and Interrupted.
    """
    settings = context.settings
    uri = parse_uri(settings.metadata_service_uri or "")
    if settings.pulsar_metadata_uri is not None:
        parse_pulsar(settings.pulsar_metadata_uri)
    sources = sources_of(settings)
    run_id = new_run_id(utc_now())
    log.bind_run(run_id)
    try:
        require_host_limits(None)
        with ExitStack() as stack:
            store = stack.enter_context(open_store(uri, settings.zookeeper_limits(2)))
            topics = stack.enter_context(open_pulsar(context, store))
            bookies = store.bookies(0, now_ms)
            check_admission(settings, bookies)
            facts, terms = cluster_and_terms(context, store, bookies, sources, run_id)
            newest = newest_run(settings.output, facts)
            asker = asker_for(context, store, newest, facts)
            audited = audit_topics(asker, topics, names, terms)
            reads = store.counts.reads + topics.counts.reads
        require_clock_of_records(
            (look.record for evidence, _ in audited.judged for look in evidence.looks),
            now_ms(),
            terms.clock_lag_ms,
        )
    except UNREACHABLE as error:
        return end_without_verdict(context, run_id, "UNREACHABLE", str(error))
    except TooManyPoisoned as error:
        return end_without_verdict(context, run_id, "AUDITOR_FAULT", str(error))
    topics_add = of_topics(audited.topics)
    report = report_on(
        context, run_id, facts, terms, audited.judged, asker, newest, reads, topics_add
    )
    _say(context, report, audited)
    return report.summary.exit_code


def of_topics(topics: Sequence[TopicReadability]) -> OfTopics:
    """Return what the topics add to the report on their ledgers."""
    worst, is_whole = worst_of_topics(topics), all(map(is_complete, topics))
    return OfTopics(reference_counts(topics), worst, is_whole)


def _say(context: Context, report: LedgersReport, audited: AuditedTopics) -> None:
    standings = {ledger.ledger_id: ledger.standing for ledger in report.ledgers}
    topics = [report_topic(topic, standings) for topic in audited.topics]
    if context.settings.format == "json":
        summary, ledgers = report.summary.as_json(), report.ledgers
        findings = [finding.as_json() for finding in report.findings]
        context.say(
            json.dumps(
                {
                    "summary": summary,
                    "topics": encode(topics),
                    "ledgers": [ledger.as_json() for ledger in ledgers],
                    "findings": findings,
                }
            )
            + "\n"
        )
        return
    delay_s = context.settings.second_look_delay_ms / 1000
    context.say(
        render_topics(
            report.summary,
            topics,
            report.findings,
            second_look_delay_s=delay_s,
            screen=context.screen,
        )
    )
