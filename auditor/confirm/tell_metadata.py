"""Witnesses of the metadata family."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.confirm.telling import Facts, TellLedger, TellOther
from auditor.confirm.words import moment, span
from auditor.model.evidence import Look
from auditor.model.finding import Finding, Kind


def _malformed(finding: Finding, facts: Facts, looks: Sequence[Look]) -> str:
    if "undecodable" in facts:
        return (
            f"Let the metadata of ledger {finding.ledger_id} be the {facts['length_bytes']} bytes with SHA-256 "
            f"{facts['sha256']}; then decoding fails at byte {facts['offset_bytes']}: {facts['undecodable']}."
        )
    against = "; ".join(text for name, text in finding.facts if name == "contradiction")
    version = looks[-1].record.stamp.version if looks[-1].record.stamp else "?"
    return f"Let ledger {finding.ledger_id} be as in version {version} of its znode; then it contradicts itself: {against}."


def _stuck(finding: Finding, facts: Facts, _looks: Sequence[Look]) -> str:
    return (
        f"Let ledger {finding.ledger_id} be {facts['state']} since {moment(int(facts['since_ms']))}, {facts['since_what']}; "
        f"then that is {span(facts['age_s'])}, and {span(facts['stuck_after_s'])} is usual at most."
    )


def _population(_finding: Finding, facts: Facts) -> str:
    then, now, again = (int(facts[name]) for name in ("previous_ledgers", "ledgers", "ledgers_again"))
    some = facts["some_gone"].split()
    named = f" Among those that are gone: {', '.join(some)}." if some else ""
    instance = f" (instance {facts['instance_id']})" if facts["instance_id"] else ""
    return (
        f"Let run {facts['previous_run']}, finished at {facts['previous_finished_at']}, have listed {then} ledgers of this "
        f"cluster{instance}; then {100 - int(facts['drop_percent'])} % of them at least should be there, and {now} were "
        f"listed, and {again} when they were listed again {span(facts['apart_s'])} later: {facts['left_percent']} % are left. "
        f"Bookies collect the data of ledgers without metadata.{named}"
    )


TELL: dict[Kind, TellLedger] = {
    Kind.METADATA_MALFORMED: _malformed,
    Kind.LEDGER_STUCK: _stuck,
}
TELL_CLUSTER: dict[Kind, TellOther] = {Kind.LEDGER_POPULATION_DROPPED: _population}
