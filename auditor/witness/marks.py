"""Witnesses of the mark family: when the mark was made, how old it is, and why it remains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from auditor.model.evidence import Look
from auditor.model.facts import MarkFacts, MarkWithoutLedgerFacts, UnrecoverableFacts, WhyMarked
from auditor.model.finding import Finding, Kind
from auditor.model.ledger import LedgerState
from auditor.witness.entries import entry_sentences
from auditor.witness.phrases import TellLedger, TellOther, clock, join_names, name_some, span

_WHY = {
    WhyMarked.NO_COPY: (
        "an entry has no copy on any bookie of its write set, which is where replication reads"
    ),
    WhyMarked.NO_COPY_IN_REACH: "no bookie of an entry's write set that answered has a copy of it",
    WhyMarked.REPLICATION_DISABLED: "auto-recovery is disabled (underreplication/disable exists)",
    WhyMarked.NO_AUDITOR: (
        "no auto-recovery auditor is elected, perhaps because no auto-recovery daemon runs"
    ),
    WhyMarked.NO_SPARE_BOOKIE: "there is no writable bookie outside the ensemble to take a copy",
    WhyMarked.EMPTY_LEDGER: (
        "the ledger is CLOSED without entries, and no bookie that answered holds one: there is"
        " nothing to replicate"
    ),
    WhyMarked.STALE: "every copy was listed or read where the metadata says",
}
"""Why a mark remains, in words. The lock has its own sentence, which names its holder."""
assert _WHY.keys() | {WhyMarked.LOCKED} == set(WhyMarked), "each reason has its words"


def _reason_words(facts: MarkFacts) -> Iterator[str]:
    yield from (_WHY[reason] for reason in facts.why if reason in _WHY)
    if WhyMarked.STALE in facts.why and not facts.missing_replicas and not facts.problem:
        yield (
            "placement repair makes marks that name no bookie"
            " (repairedPlacementPolicyNotAdheringBookieEnabled)"
        )
    if facts.lock_since_ms is not None:
        holder = facts.lock_holder or "a worker that does not give its name"
        yield f"{holder} has held the replication lock since {clock(facts.lock_since_ms)} UTC"


def _why_sentences(facts: MarkFacts) -> str:
    """Say every reason for which the mark remains, or that the evidence gives none."""
    if facts.state is None:
        unchecked = " The ledger's metadata could not be read: its entries are not checked."
    else:
        is_checked = facts.state is LedgerState.CLOSED
        unchecked = (
            ""
            if is_checked
            else f" The ledger is {facts.state.value}: its entries are not checked."
        )
    reasons = "; ".join(_reason_words(facts))
    why = (
        f" Why it may still stand: {reasons}."
        if reasons
        else " Nothing that was read says why it still stands."
    )
    return why + unchecked


def _unrecoverable_sentences(
    finding: Finding, facts: UnrecoverableFacts, looks: Sequence[Look]
) -> str:
    """Return the witness of the lost entry, followed by the mark and why it remains."""
    mark = facts.mark
    age = (
        f"The ledger has been marked under-replicated for {span(mark.age_ms)}; up to"
        f" {span(mark.grace_ms)} is acceptable."
    )
    return f"{entry_sentences(finding, facts.entries, looks)} {age}{_why_sentences(mark)}"


def _mark_sentences(finding: Finding, facts: MarkFacts, _looks: Sequence[Look]) -> str:
    missing = "The mark names no missing bookie."
    if facts.problem:
        missing = f"What the mark holds cannot be read ({facts.problem})."
    elif facts.missing_replicas:
        missing = f"The mark names {join_names(facts.missing_replicas)} as missing."
    created = f"Its znode was created at {clock(facts.created_ms)} UTC"
    if facts.changed_ms is None:
        field = "" if facts.problem else " and it has no ctime field"
        age = f"{created}{field}: the mark is {span(facts.age_ms)} old."
    else:
        changed = f"its ctime field says {clock(facts.changed_ms)} UTC"
        age = (
            f"{created} and {changed}: by the older of the two the mark is {span(facts.age_ms)}"
            " old."
        )
    return (
        f"Ledger {finding.ledger_id} is marked under-replicated. {missing} {age} "
        f"Up to {span(facts.grace_ms)} is acceptable.{_why_sentences(facts)}"
    )


def _without_ledger_sentences(_finding: Finding, facts: MarkWithoutLedgerFacts) -> str:
    ids = name_some(facts.some_ledgers, facts.marks)
    which = f"Ledger {ids} is" if facts.marks == 1 else f"{facts.marks} ledgers ({ids}) are"
    has = "it has" if facts.marks == 1 else "they have"
    rest = (
        f" {facts.unchecked} more marks of ledgers that were not listed were not looked at."
        if facts.unchecked
        else ""
    )
    disabled = (
        " Auto-recovery is disabled (underreplication/disable exists)."
        if facts.replication_disabled
        else ""
    )
    return (
        f"{which} marked under-replicated, and {has} no metadata (NONODE after a sync). Both were"
        f" so at two looks, {span(facts.apart_ms)} apart. The oldest mark is"
        f" {span(facts.oldest_age_ms)} old ({facts.oldest_path}); up to {span(facts.grace_ms)} is"
        f" acceptable.{rest}{disabled}"
    )


TELL: dict[Kind, TellLedger] = {
    Kind.UNDERREPLICATED_UNRECOVERABLE: _unrecoverable_sentences,
    Kind.UNDERREPLICATED_BEYOND_GRACE: _mark_sentences,
}
TELL_CLUSTER: dict[Kind, TellOther] = {Kind.MARK_WITHOUT_LEDGER: _without_ledger_sentences}
