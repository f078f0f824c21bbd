"""Report on a few judged ledgers: summary, ledgers and findings, like those of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from auditor import __version__
from auditor.context import Context
from auditor.evidence.newest_run import NewestRun
from auditor.judging.contradicted_lists import denying_bookies, unindexed_on
from auditor.judging.copies import copies_of_ledgers, counts_json
from auditor.judging.settle import Step
from auditor.model.availability import LISTED_BY_LISTER, NON_CANONICAL, Answer, AnswerStatus
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import LedgerEvidence, Terms
from auditor.model.finding_record import FindingRecord
from auditor.model.identity import BookieId
from auditor.model.ledger import LedgerMetadata, RecordStatus
from auditor.model.summary import Summary
from auditor.model.verdict import Standing, Verdict
from auditor.run.single_ledgers import Asker
from auditor.summary.assurance import assurance_of_ledgers, maintenance_of_ledgers
from auditor.summary.outcome import counts_of, exit_code, findings_by_kind, is_fault, outcome_of
from auditor.telemetry import log
from auditor.witness.finding_lines import assurance, ledger_look, ledger_testimony
from auditor.witness.pulsar_commands import owner_of

Json = dict[str, Any]


class LedgersReport(NamedTuple):
    """What is said of a few ledgers: the summary of all, each ledger as JSON, each finding."""

    summary: Summary
    ledgers: list[Json]
    findings: list[FindingRecord]


def report_on(
    context: Context,
    run_id: str,
    facts: ClusterFacts,
    terms: Terms,
    judged: Sequence[tuple[LedgerEvidence, Step]],
    asker: Asker,
    newest: NewestRun | None,
) -> LedgersReport:
    """Return the report on judged ledgers, and log their findings.

    The summary has no `requests` yet.
    """
    settings = context.settings
    findings = [
        ledger_testimony(finding, evidence.looks, facts, step.verdict.probes)
        for evidence, step in judged
        for finding in step.verdict.findings
    ]
    log.violations(context.logger, findings, log_format=settings.log_format)
    summary = _summary(run_id, facts, judged, settings.fail_on, findings)
    verdicts = [(evidence, step.verdict) for evidence, step in judged]
    summary["assurance"] = assurance_of_ledgers(verdicts, terms, findings)
    summary |= copies_of_ledgers([step.verdict for _, step in judged])
    summary["maintenance"] = maintenance_of_ledgers(verdicts, terms)
    summary["newest_run"] = _use_of_newest_run(
        newest, asker.known_unable, [evidence for evidence, _ in judged]
    )
    denying = denying_bookies(evidence for evidence, _ in judged)
    ledgers = [_ledger(evidence, step, asker.set_aside, denying) for evidence, step in judged]
    return LedgersReport(Summary(summary), ledgers, findings)


def _use_of_newest_run(
    newest: NewestRun | None, known_unable: frozenset[BookieId], evidence: Sequence[LedgerEvidence]
) -> Json | None:
    """Return the newest run, with the asked bookies that it recorded as unable to list.

    Bookies that list now are named separately. None if no such bookie was asked.
    """
    answers = [
        a
        for one in evidence
        for look in one.looks
        for a in look.answers.values()
        if a.bookie_id in known_unable
    ]
    if newest is None or not answers:
        return None
    asked = {answer.bookie_id for answer in answers}
    listing = {answer.bookie_id for answer in answers if answer.status is AnswerStatus.HELD}
    return {
        **newest.as_json(),
        "bookies_unable": sorted(asked - listing),
        "bookies_listing_now": sorted(listing),
    }


def _is_missing(evidence: LedgerEvidence) -> bool:
    """Return whether no look found the ledger: its id is wrong, or it was deleted long ago."""
    return all(look.record.status is RecordStatus.GONE for look in evidence.looks)


def _summary(
    run_id: str,
    facts: ClusterFacts,
    judged: Sequence[tuple[LedgerEvidence, Step]],
    fail_on: str,
    findings: Sequence[FindingRecord],
) -> Json:
    """Return the summary of these ledgers, with the same counts as the summary of a run."""
    there = [step.verdict for evidence, step in judged if not _is_missing(evidence)]
    unknowns = Counter(unknown.value for verdict in there for unknown in verdict.unknowns)
    complete = not unknowns and len(there) == len(judged)
    return {
        "run_id": run_id,
        "auditor_version": __version__,
        "cluster": {
            "metadata_service_uri": facts.metadata_service_uri,
            "instance_id": facts.instance_id,
        },
        **counts_of(
            Counter(v.standing.word for v in there), Counter(_exempt(v) for v in there), unknowns
        ),
        "findings": findings_by_kind(findings),
        "replication_disabled": facts.replication_disabled,
        "complete": complete,
        "outcome": outcome_of(findings, complete=complete, fault=is_fault(unknowns)),
        "exit_code": exit_code(
            findings, fail_on, incomplete=not complete, fault=is_fault(unknowns)
        ),
    }


def _exempt(verdict: Verdict) -> str:
    exempt = verdict.standing is Standing.EXEMPT and verdict.exempt is not None
    return verdict.exempt.value if exempt and verdict.exempt else ""


def _ledger(
    evidence: LedgerEvidence,
    step: Step,
    set_aside: Mapping[int, str],
    denying: frozenset[BookieId],
) -> Json:
    """Return one ledger for the report: standing, reasons, metadata, and the answers at each look.

    `set_aside` has, by ledger id, why judging failed. `denying` bookies contradicted their listers.
    """
    if _is_missing(evidence):
        return {"ledger_id": evidence.ledger_id, "standing": "no_such_ledger"}
    verdict, record = step.verdict, evidence.looks[-1].record
    owner = owner_of(record.metadata)
    return {
        "ledger_id": evidence.ledger_id,
        "standing": verdict.standing.word,
        "exempt": verdict.exempt.value if verdict.exempt else None,
        "unknowns": [unknown.value for unknown in verdict.unknowns],
        "metadata": None if record.metadata is None else _metadata(record.metadata),
        "owner": owner and owner.as_json(),
        "looks": [ledger_look(look).as_json() for look in evidence.looks],
        "listing_false_negatives": verdict.listing_false_negatives,
        "gone": _gone_bookies(evidence),
        "listed_by": _listed_by(evidence),
        "odd_lists": _odd_lists(evidence),
        "unindexed": unindexed_on(evidence, denying),
        "assurance": assurance(verdict.probes),
        "probes": verdict.probes.read if verdict.probes else 0,
        "random_probes": verdict.probes.random if verdict.probes else 0,
        "copies": None if verdict.copies is None else counts_json(verdict.copies),
        "only_maintenance": verdict.only_maintenance,
        "detail": set_aside.get(evidence.ledger_id, record.detail),
    }


def _newest_answers(evidence: LedgerEvidence) -> dict[BookieId, Answer]:
    return {b: a for look in evidence.looks for b, a in look.answers.items()}


def _gone_bookies(evidence: LedgerEvidence) -> list[BookieId]:
    """Return the bookies that had neither a registration nor a cookie when last asked about."""
    last = _newest_answers(evidence)
    return sorted(b for b, answer in last.items() if answer.is_gone)


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


def _metadata(metadata: LedgerMetadata) -> Json:
    return {
        "state": metadata.state.value,
        "format_version": metadata.format_version,
        "ensemble_size": metadata.ensemble_size,
        "write_quorum": metadata.write_quorum,
        "ack_quorum": metadata.ack_quorum,
        "last_entry_id": metadata.last_entry_id,
        "segments": [
            {"first_entry_id": s.first_entry_id, "ensemble": list(s.ensemble)}
            for s in metadata.segments
        ],
    }
