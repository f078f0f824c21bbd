"""`auditor ledger ID…`: audits single ledgers without Spark. Verdicts are those of a run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from auditor import __version__
from auditor.bookie.listers import read_listers
from auditor.clock import now_ms, utc_now
from auditor.commands.context import Context, new_run_id
from auditor.commands.endings import end_without_verdict
from auditor.commands.surroundings import cluster_and_terms
from auditor.errors import StoreUnavailable
from auditor.evidence.newest_run import NewestRun, newest_run
from auditor.judging.copies import copies_of_ledgers, counts_json
from auditor.judging.judge import TooManyPoisoned
from auditor.judging.settle import Step
from auditor.model.availability import LISTED_BY_LISTER, AnswerStatus
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import LedgerEvidence
from auditor.model.identity import BookieId
from auditor.model.ledger import LedgerMetadata, RecordStatus
from auditor.model.verdict import Standing, Verdict
from auditor.report.ledgers_text import render_ledgers
from auditor.run.single_ledgers import Asker, audit_ledgers
from auditor.summary.assurance import assurance_of_ledgers, maintenance_of_ledgers
from auditor.summary.outcome import counts_of, exit_code, findings_by_kind, is_fault, outcome_of
from auditor.telemetry import log
from auditor.topology.sources import sources_of
from auditor.wire.service_uri import parse as parse_uri
from auditor.witness.finding_lines import assurance, finding_line, ledger_look, ledger_testimony
from auditor.witness.owner import owner_of
from auditor.zookeeper.metadata_store import MetadataStore, open_store

Json = dict[str, Any]


def ledger(context: Context, ids: Sequence[int]) -> int:
    """Audit these ledgers, print a full report, and return the exit code.

    Findings on bookies are withheld.
    """
    settings = context.settings
    uri = parse_uri(settings.metadata_service_uri or "")
    sources = sources_of(settings)
    run_id = new_run_id(utc_now())
    log.bind_run(run_id)
    try:
        with open_store(uri, settings.zookeeper_limits(1)) as store:
            facts, terms = cluster_and_terms(context, store, store.bookies(0, now_ms), sources, run_id)
            newest = newest_run(settings.output, facts)
            asker = _asker(context, store, newest, facts)
            judged = audit_ledgers(asker, ids, terms)
            reads = store.counts.reads
    except StoreUnavailable as error:
        return end_without_verdict(context, run_id, "UNREACHABLE", str(error))
    except TooManyPoisoned as error:
        return end_without_verdict(context, run_id, "AUDITOR_FAULT", str(error))
    findings = [
        json.loads(finding_line(ledger_testimony(finding, evidence.looks, facts, step.verdict.probes)))
        for evidence, step in judged
        for finding in step.verdict.findings
    ]
    log.violations(context.logger, findings, log_format=settings.log_format)
    summary = _summary(run_id, facts, judged, settings.fail_on, findings)
    told = [(evidence, step.verdict) for evidence, step in judged]
    summary["assurance"] = assurance_of_ledgers(told, terms, findings)
    summary |= copies_of_ledgers([step.verdict for _, step in judged])
    summary["requests"] = {"zookeeper_reads": reads}
    summary["maintenance"] = maintenance_of_ledgers(told, terms)
    summary["newest_run"] = _use_of_newest_run(newest, asker.known_unable, [evidence for evidence, _ in judged])
    _say(context, summary, [_ledger(evidence, step, asker.set_aside) for evidence, step in judged], findings)
    return int(summary["exit_code"])


def _say(context: Context, summary: Json, ledgers: Sequence[Json], findings: Sequence[Json]) -> None:
    if context.settings.format == "json":
        context.say(json.dumps({"summary": summary, "ledgers": ledgers, "findings": findings}) + "\n")
        return
    delay_s = context.settings.second_look_delay_ms / 1000
    context.say(
        render_ledgers(summary, ledgers, findings, second_look_delay_s=delay_s, width=context.width, color=context.color)
    )


def _asker(context: Context, store: MetadataStore, newest: NewestRun | None, facts: ClusterFacts) -> Asker:
    settings = context.settings
    bookies, judging = settings.bookie_limits(), settings.judging_limits()
    known_unable = newest.bookies_unable() if newest and settings.probe_entries else frozenset()
    return Asker(
        store,
        bookies,
        now_ms,
        context.stop.wait,
        settings.second_look_delay_ms,
        judging,
        known_unable,
        settings.search_reads_max,
        listers=read_listers(settings.lister_port, settings.lister_map, facts.instance_id),
    )


def _use_of_newest_run(
    newest: NewestRun | None, known_unable: frozenset[BookieId], evidence: Sequence[LedgerEvidence]
) -> Json | None:
    """Return the newest run, with the asked bookies that it recorded as unable to list.

    Those that list now are named separately. None if no such bookie was asked.
    """
    answers = [a for one in evidence for look in one.looks for a in look.answers.values() if a.bookie_id in known_unable]
    if newest is None or not answers:
        return None
    asked = {answer.bookie_id for answer in answers}
    listing = {answer.bookie_id for answer in answers if answer.status is AnswerStatus.HELD}
    return {**newest.as_json(), "bookies_unable": sorted(asked - listing), "bookies_listing_now": sorted(listing)}


def _is_missing(evidence: LedgerEvidence) -> bool:
    """Return whether no look found the ledger: its id is wrong, or it was deleted long ago."""
    return all(look.record.status is RecordStatus.GONE for look in evidence.looks)


def _summary(
    run_id: str, facts: ClusterFacts, judged: Sequence[tuple[LedgerEvidence, Step]], fail_on: str, findings: Sequence[Json]
) -> Json:
    """Return the summary of these ledgers, with the same counts as the summary of a run."""
    there = [step.verdict for evidence, step in judged if not _is_missing(evidence)]
    unknowns = Counter(unknown.value for verdict in there for unknown in verdict.unknowns)
    complete = not unknowns and len(there) == len(judged)
    return {
        "run_id": run_id,
        "auditor_version": __version__,
        "cluster": {"metadata_service_uri": facts.metadata_service_uri, "instance_id": facts.instance_id},
        **counts_of(Counter(v.standing.word for v in there), Counter(_exempt(v) for v in there), unknowns),
        "findings": findings_by_kind(findings),
        "replication_disabled": facts.replication_disabled,
        "complete": complete,
        "outcome": outcome_of(findings, complete=complete, fault=is_fault(unknowns)),
        "exit_code": exit_code(findings, fail_on, incomplete=not complete, fault=is_fault(unknowns)),
    }


def _exempt(verdict: Verdict) -> str:
    exempt = verdict.standing is Standing.EXEMPT and verdict.exempt is not None
    return verdict.exempt.value if exempt and verdict.exempt else ""


def _ledger(evidence: LedgerEvidence, step: Step, set_aside: Mapping[int, str]) -> Json:
    """Return one ledger for the report: standing, reasons, metadata, and the answers at each look.

    `set_aside` has, by ledger id, why judging failed.
    """
    if _is_missing(evidence):
        return {"ledger_id": evidence.ledger_id, "standing": "no_such_ledger"}
    verdict, record = step.verdict, evidence.looks[-1].record
    return {
        "ledger_id": evidence.ledger_id,
        "standing": verdict.standing.word,
        "exempt": verdict.exempt.value if verdict.exempt else None,
        "unknowns": [unknown.value for unknown in verdict.unknowns],
        "metadata": None if record.metadata is None else _metadata(record.metadata),
        "owner": owner_of(record.metadata),
        "looks": [ledger_look(look) for look in evidence.looks],
        "listing_false_negatives": verdict.listing_false_negatives,
        "listed_by": _listed_by(evidence),
        "assurance": assurance(verdict.probes),
        "probes": verdict.probes.read if verdict.probes else 0,
        "random_probes": verdict.probes.random if verdict.probes else 0,
        "copies": None if verdict.copies is None else counts_json(verdict.copies),
        "only_maintenance": verdict.only_maintenance,
        "detail": set_aside.get(evidence.ledger_id, record.detail),
    }


def _listed_by(evidence: LedgerEvidence) -> dict[BookieId, str]:
    """Return the bookies whose last list came from a lister, with its address."""
    last = {b: a for look in evidence.looks for b, a in look.answers.items()}
    return {b: last[b].detail.removeprefix(LISTED_BY_LISTER) for b in sorted(last) if last[b].is_from_lister}


def _metadata(metadata: LedgerMetadata) -> Json:
    return {
        "state": metadata.state.value,
        "format_version": metadata.format_version,
        "ensemble_size": metadata.ensemble_size,
        "write_quorum": metadata.write_quorum,
        "ack_quorum": metadata.ack_quorum,
        "last_entry_id": metadata.last_entry_id,
        "segments": [{"first_entry_id": s.first_entry_id, "ensemble": list(s.ensemble)} for s in metadata.segments],
    }
