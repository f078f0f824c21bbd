"""Witnesses of the mark family: when it was made, how old it is, and why it stands."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.confirm.tell_entries import tell_entries
from auditor.confirm.telling import Facts, TellLedger
from auditor.confirm.words import moment, span
from auditor.model.evidence import Look
from auditor.model.finding import Finding, Kind

_STUCK = {
    "no_copy": "no bookie has a copy to replicate from",
    "replication_disabled": "auto-recovery is disabled (underreplication/disable exists)",
    "no_auditor": "no auditor is elected",
    "no_spare_bookie": "there is no writable bookie outside the ensemble that could take a copy",
    "empty_ledger": "the ledger is empty, so there is nothing to replicate",
    "stale": "every copy is back where the metadata says: the mark is stale",
}
"""Why a mark stands, in words (verify.underreplication.Stuck, but for the lock, which names its holder)."""


def _why(finding: Finding, facts: Facts) -> str:
    """Every reason the evidence gives for the mark to stand, or that it gives none."""
    reasons = [_STUCK[text] for name, text in finding.facts if name == "stuck" and text in _STUCK]
    if "lock_since_ms" in facts:
        holder = facts["lock_holder"] or "a worker that does not say its name"
        reasons.append(f"{holder} has held its replication lock since {moment(int(facts['lock_since_ms']))}")
    if not reasons:
        return " Nothing that was seen says why it still stands."
    return f" Why it stands, as far as was seen: {'; '.join(reasons)}."


def _unrecoverable(finding: Finding, facts: Facts, looks: Sequence[Look]) -> str:
    """The lost entry as any other, then the mark and what keeps it."""
    gone = sorted({b for look in looks for b, answer in look.answers.items() if answer.is_gone})
    forgotten = [b for b in facts["write_set"].split() if b in gone]
    will_not_return = "is neither registered nor known by a cookie: it will not be back."
    lost = "".join(f" Bookie {bookie} {will_not_return}" for bookie in forgotten)
    age = (
        f"The ledger has been marked under-replicated for {span(facts['age_s'])} (up to {span(facts['grace_s'])} is acceptable)"
    )
    return f"{tell_entries(finding, facts, looks)}{lost} {age}.{_why(finding, facts)}"


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
        f"and up to {span(facts['grace_s'])} is acceptable.{problem}{_why(finding, facts)}"
    )


TELL: dict[Kind, TellLedger] = {
    Kind.UNDERREPLICATED_UNRECOVERABLE: _unrecoverable,
    Kind.UNDERREPLICATED_BEYOND_GRACE: _marked,
}
