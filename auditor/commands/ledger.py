"""`auditor ledger ID…`: audit single ledgers without Spark. Verdicts are the same as a run's.

A few judged ledgers are reported like those of a run: summary, ledgers and findings.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from auditor import __version__
from auditor.bookie.listers import read_listers
from auditor.clock import now_ms, utc_now
from auditor.commands.endings import UNREACHABLE, end_without_verdict
from auditor.context import Context, new_run_id
from auditor.evidence.newest_run import NewestRun, newest_run
from auditor.host_limits import require_host_limits
from auditor.judging.judge import TooManyPoisoned
from auditor.judging.settle import Step
from auditor.model.availability import LISTED_BY_LISTER, NON_CANONICAL, Answer, AnswerStatus
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import LedgerEvidence, Terms
from auditor.model.finding import Severity
from auditor.model.finding_record import FindingRecord
from auditor.model.identity import BookieId
from auditor.model.judged_ledger import NO_SUCH_LEDGER, JudgedLedger, ShownMetadata, ShownSegment
from auditor.model.ledger import LedgerMetadata, RecordStatus
from auditor.model.summary import ClusterName, NewestRunUsed, References, Requests, Summary
from auditor.model.verdict import (
    Exempt,
    Standing,
    Unknown,
    Verdict,
    copies_of_ledgers,
    verified_ratio,
)
from auditor.report.ledgers_text import render_ledgers
from auditor.run.clock_check import require_clock_of_records
from auditor.run.single_ledgers import Asker, audit_ledgers
from auditor.run.surroundings import check_admission, cluster_and_terms
from auditor.summary.assurance import assurance_of_ledgers, maintenance_of_ledgers
from auditor.summary.doubted_lists import denying_bookies, unindexed_on
from auditor.summary.outcome import (
    count_reasons,
    count_standings,
    exit_code,
    exit_code_if_clean,
    findings_by_kind,
    is_fault,
    outcome_of,
    worst_of,
)
from auditor.telemetry import log
from auditor.topology.sources import sources_of
from auditor.wire.service_uri import parse as parse_uri
from auditor.witness.finding_lines import assurance, ledger_look, ledger_testimony
from auditor.witness.pulsar_commands import owner_of
from auditor.zookeeper.metadata_store import MetadataStore, open_store


class LedgersReport(NamedTuple):
    """What is said of a few ledgers: the summary of all, each ledger, each finding."""

    summary: Summary
    ledgers: list[JudgedLedger]
    findings: list[FindingRecord]


class OfTopics(NamedTuple):
    """What topics add to a report on their ledgers.

    `references` counts what they reference. `worst` is the severity of what is wrong with them;
    `is_complete` is whether everything of them could be read.
    """

    references: References | None = None
    worst: Severity | None = None
    is_complete: bool = True


def report_on(
    context: Context,
    run_id: str,
    facts: ClusterFacts,
    terms: Terms,
    judged: Sequence[tuple[LedgerEvidence, Step]],
    asker: Asker,
    newest: NewestRun | None,
    zookeeper_reads: int,
    topics: OfTopics | None = None,
) -> LedgersReport:
    """Return the report on judged ledgers, and log their findings.

    `topics` are what the topics add whose ledgers these are.
    """
    settings = context.settings
    findings = [
        ledger_testimony(finding, evidence.looks, facts, step.verdict.probes)
        for evidence, step in judged
        for finding in step.verdict.findings
    ]
    log.violations(context.logger, findings, log_format=settings.log_format)
    verdicts = [(evidence, step.verdict) for evidence, step in judged]
    copies = copies_of_ledgers(step.verdict for _, step in judged)
    all_evidence = [evidence for evidence, _ in judged]
    summary = replace(
        _summary(run_id, facts, judged, settings.fail_on, findings, topics or OfTopics()),
        assurance=assurance_of_ledgers(verdicts, terms, findings),
        copies=copies,
        verified_ratio=verified_ratio(copies),
        maintenance=maintenance_of_ledgers(verdicts, terms),
        newest_run=_use_of_newest_run(newest, asker.known_unable, all_evidence),
        requests=Requests(zookeeper_reads).with_only("zookeeper_reads"),
    )
    if topics is not None:
        summary = replace(summary, references=topics.references).with_also("references")
    denying = denying_bookies(evidence for evidence, _ in judged)
    ledgers = [_ledger(evidence, step, asker.set_aside, denying) for evidence, step in judged]
    return LedgersReport(summary, ledgers, findings)


def _use_of_newest_run(
    newest: NewestRun | None, known_unable: frozenset[BookieId], evidence: Sequence[LedgerEvidence]
) -> NewestRunUsed | None:
    """Return the newest run, with the asked bookies that it recorded as unable to list.

    Bookies that list now are named separately. None if no such bookie was asked.
    """
    answers = [
        a
        for ledger in evidence
        for look in ledger.looks
        for a in look.answers.values()
        if a.bookie_id in known_unable
    ]
    if newest is None or not answers:
        return None
    asked = {answer.bookie_id for answer in answers}
    listing = {answer.bookie_id for answer in answers if answer.status is AnswerStatus.HELD}
    return NewestRunUsed(
        newest.run_id,
        newest.finished_at,
        tuple(sorted(asked - listing)),
        tuple(sorted(listing)),
    )


def _is_missing(evidence: LedgerEvidence) -> bool:
    """Return whether no look found the ledger: its id is wrong, or it was deleted long ago."""
    return all(look.record.status is RecordStatus.GONE for look in evidence.looks)


def _summary(
    run_id: str,
    facts: ClusterFacts,
    judged: Sequence[tuple[LedgerEvidence, Step]],
    fail_on: str,
    findings: Sequence[FindingRecord],
    topics: OfTopics,
) -> Summary:
    """Return the summary of these ledgers, with the same counts as the summary of a run.

    It is incomplete if something of a topic could not be read.
    """
    there = [step.verdict for evidence, step in judged if not _is_missing(evidence)]
    unknowns = Counter(unknown.value for verdict in there for unknown in verdict.unknowns)
    complete = not unknowns and len(there) == len(judged) and topics.is_complete
    fault = is_fault(unknowns)
    worst = worst_of(findings, topics.worst)
    if_clean = exit_code_if_clean(is_complete=complete, is_fault=fault)
    standings = Counter(v.standing.word for v in there)
    return Summary(
        run_id=run_id,
        auditor_version=__version__,
        cluster=ClusterName.of(facts).with_only("metadata_service_uri", "instance_id"),
        ledgers=count_standings(standings),
        ledgers_by_exemption=count_reasons(Exempt, Counter(_exempt(v) for v in there)),
        ledgers_by_unknown=count_reasons(Unknown, unknowns),
        findings=findings_by_kind(findings),
        requests=Requests(0),
        is_replication_disabled=facts.replication_disabled,
        is_complete=complete,
        outcome=outcome_of(worst, is_complete=complete, is_fault=fault),
        exit_code=exit_code(worst, fail_on, if_clean),
        exit_code_if_clean=if_clean,
    ).with_only(*OF_LEDGERS)


OF_LEDGERS = (
    "run_id", "auditor_version", "cluster", "ledgers", "exempt", "indeterminate", "findings",
    "replication_disabled", "complete", "outcome", "exit_code", "assurance", "copies",
    "verified_ratio", "maintenance", "newest_run", "requests",
)  # fmt: skip
"""The fields of a summary that apply to single ledgers."""


def _exempt(verdict: Verdict) -> str:
    exempt = verdict.standing is Standing.EXEMPT and verdict.exempt is not None
    return verdict.exempt.value if exempt and verdict.exempt else ""


def _ledger(
    evidence: LedgerEvidence,
    step: Step,
    set_aside: Mapping[int, str],
    denying: frozenset[BookieId],
) -> JudgedLedger:
    """Return one ledger for the report: standing, reasons, metadata, and the answers at each look.

    `set_aside` has, by ledger id, why judging failed. `denying` bookies contradicted their listers.
    """
    if _is_missing(evidence):
        missing = JudgedLedger(evidence.ledger_id, NO_SUCH_LEDGER)
        return missing.with_only("ledger_id", "standing")
    verdict, record = step.verdict, evidence.looks[-1].record
    return JudgedLedger(
        ledger_id=evidence.ledger_id,
        standing=verdict.standing.word,
        exempt=verdict.exempt,
        unknowns=verdict.unknowns,
        metadata=None if record.metadata is None else _metadata(record.metadata),
        owner=owner_of(record.metadata),
        looks=tuple(map(ledger_look, evidence.looks)),
        listing_false_negatives=verdict.listing_false_negatives,
        gone=_gone_bookies(evidence),
        listed_by=_listed_by(evidence),
        odd_lists=_odd_lists(evidence),
        unindexed=unindexed_on(evidence, denying),
        assurance=assurance(verdict.probes),
        probes=verdict.probes.read if verdict.probes else 0,
        random_probes=verdict.probes.random if verdict.probes else 0,
        copies=verdict.copies,
        only_maintenance=verdict.only_maintenance,
        detail=set_aside.get(evidence.ledger_id, record.detail),
    )


def _newest_answers(evidence: LedgerEvidence) -> dict[BookieId, Answer]:
    return {b: a for look in evidence.looks for b, a in look.answers.items()}


def _gone_bookies(evidence: LedgerEvidence) -> tuple[BookieId, ...]:
    """Return the bookies that had neither a registration nor a cookie when last asked about."""
    last = _newest_answers(evidence)
    return tuple(sorted(b for b, answer in last.items() if answer.is_gone))


def _listed_by(evidence: LedgerEvidence) -> dict[BookieId, str]:
    """Return the bookies whose last list came from a lister, with its address."""
    last = _newest_answers(evidence)
    return {
        b: last[b].detail.removeprefix(LISTED_BY_LISTER)
        for b in sorted(last)
        if last[b].is_from_lister
    }


def _odd_lists(evidence: LedgerEvidence) -> dict[BookieId, str]:
    """Return the bookies whose newest list cannot be used or is not canonical, with the reason."""
    said = {
        bookie: f"cannot be used: {answer.detail}"
        if answer.status is AnswerStatus.INVALID
        else f"is believed, but no bookie is known to send it: {NON_CANONICAL}"
        for bookie, answer in _newest_answers(evidence).items()
        if answer.non_canonical or (answer.status is AnswerStatus.INVALID and answer.detail)
    }
    return dict(sorted(said.items()))


def _metadata(metadata: LedgerMetadata) -> ShownMetadata:
    return ShownMetadata(
        metadata.state.value,
        metadata.format_version,
        metadata.ensemble_size,
        metadata.write_quorum,
        metadata.ack_quorum,
        metadata.last_entry_id,
        tuple(
            ShownSegment(segment.first_entry_id, segment.ensemble) for segment in metadata.segments
        ),
    )


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
        findings = [finding.as_json() for finding in found]
        said = {
            "summary": summary.as_json(),
            "ledgers": [ledger.as_json() for ledger in ledgers],
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
