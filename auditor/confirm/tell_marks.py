"""Witnesses of the mark family: when it was made, how old it is, and why it stands."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.confirm.telling import Facts, TellLedger
from auditor.confirm.words import moment, span
from auditor.model.evidence import Look
from auditor.model.finding import Finding, Kind


def _marked(finding: Finding, facts: Facts, _looks: Sequence[Look]) -> str:
    replicas = facts["missing_replicas"]
    missing = f", naming {', '.join(replicas.split())}" if replicas else ", naming no bookie"
    field, age = facts["mark_changed_at_ms"], span(facts["age_s"])
    changed = f" and its own ctime field says {moment(int(field))}" if field else " and it carries no ctime field"
    problem = (
        f" The mark cannot be read ({facts['mark_problem']}), so its znode's time counts." if facts["mark_problem"] else ""
    )
    return (
        f"Let ledger {finding.ledger_id} be marked under-replicated{missing}: the mark's znode was made at "
        f"{moment(int(facts['marked_at_ms']))}{changed}; then the mark is, by the older of the two, {age} old, "
        f"and up to {span(facts['grace_s'])} is acceptable.{problem}"
    )


TELL: dict[Kind, TellLedger] = {
    Kind.UNDERREPLICATED_UNRECOVERABLE: _marked,
    Kind.UNDERREPLICATED_BEYOND_GRACE: _marked,
}
