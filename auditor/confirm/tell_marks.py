"""Witnesses of the mark family: when the mark was made, how old it is, and why it stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from auditor.confirm.tell_entries import tell_entries
from auditor.confirm.telling import TellLedger
from auditor.confirm.words import clock, named, span
from auditor.model.evidence import Look
from auditor.model.facts import MarkFacts, UnrecoverableFacts, WhyMarked
from auditor.model.finding import Finding, Kind
from auditor.model.ledger import LedgerState

_WHY = {
    WhyMarked.NO_COPY: "no bookie of the write set has a copy to replicate from",
    WhyMarked.NO_COPY_IN_REACH: "an entry has no copy on any bookie that answered",
    WhyMarked.REPLICATION_DISABLED: "auto-recovery is disabled (underreplication/disable exists)",
    WhyMarked.NO_AUDITOR: "no auditor is elected",
    WhyMarked.NO_SPARE_BOOKIE: "there is no writable bookie outside the ensemble that could take a copy",
    WhyMarked.EMPTY_LEDGER: "the ledger is closed without entries, so there is nothing to replicate",
    WhyMarked.STALE: "every copy is where the metadata says: the mark is stale",
}
"""Why a mark stands, in words (but for the lock, whose holder is named)."""
assert _WHY.keys() | {WhyMarked.LOCKED} == set(WhyMarked), "each reason has its words"


def _reasons(facts: MarkFacts) -> Iterator[str]:
    yield from (_WHY[reason] for reason in facts.why if reason in _WHY)
    if facts.lock_since_ms is not None:
        holder = facts.lock_holder or "a worker that does not give its name"
        yield f"{holder} has held its replication lock since {clock(facts.lock_since_ms)} UTC"


def _why(facts: MarkFacts) -> str:
    """Say every reason the evidence gives for the mark to stand, or that it gives none."""
    is_checked = facts.state is LedgerState.CLOSED
    unchecked = "" if is_checked or facts.state is None else f" The ledger is {facts.state.value}: its entries are not checked."
    reasons = "; ".join(_reasons(facts))
    told = f" Why it stands: {reasons}." if reasons else " Nothing that was read says why it still stands."
    return told + unchecked


def _unrecoverable(finding: Finding, facts: UnrecoverableFacts, looks: Sequence[Look]) -> str:
    """Tell the lost entry as any other, then the mark and what keeps it."""
    mark = facts.mark
    age = f"The ledger has been marked under-replicated for {span(mark.age_ms)}; up to {span(mark.grace_ms)} is acceptable."
    return f"{tell_entries(finding, facts.entries, looks)} {age}{_why(mark)}"


def _marked(finding: Finding, facts: MarkFacts, _looks: Sequence[Look]) -> str:
    missing = f"missing {named(facts.missing_replicas)}" if facts.missing_replicas else "naming no bookie"
    changed = "it has no ctime field" if facts.changed_ms is None else f"its ctime field says {clock(facts.changed_ms)} UTC"
    problem = f" The mark cannot be read ({facts.problem}), so its znode's time counts." if facts.problem else ""
    return (
        f"Ledger {finding.ledger_id} is marked under-replicated ({missing}). The mark's znode was created at "
        f"{clock(facts.created_ms)} UTC; {changed}. By the older of the two the mark is {span(facts.age_ms)} old; up to "
        f"{span(facts.grace_ms)} is acceptable.{problem}{_why(facts)}"
    )


TELL: dict[Kind, TellLedger] = {
    Kind.UNDERREPLICATED_UNRECOVERABLE: _unrecoverable,
    Kind.UNDERREPLICATED_BEYOND_GRACE: _marked,
}
