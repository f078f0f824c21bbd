"""Witnesses of the metadata family."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.confirm.telling import TellLedger, TellOther
from auditor.confirm.words import clock, named, runs, span
from auditor.model.evidence import Look
from auditor.model.facts import BeyondEndFacts, ContradictionFacts, Contradicts, PopulationFacts, StuckFacts, UndecodableFacts
from auditor.model.finding import Finding, Kind
from auditor.model.ledger import LedgerState

CONTRADICTIONS_TOLD = 5
"""Contradictions in a sentence; the facts have more."""

_CLAUSES = {
    Contradicts.QUORUM_BELOW_ONE: "a quorum is below one (ensemble size {0}, write quorum {1}, ack quorum {2})",
    Contradicts.WRITE_QUORUM_ABOVE_ENSEMBLE: "the write quorum {0} is larger than the ensemble size {1}",
    Contradicts.ACK_QUORUM_ABOVE_WRITE: "the ack quorum {0} is larger than the write quorum {1}",
    Contradicts.NO_SEGMENT: "there is no segment",
    Contradicts.FIRST_SEGMENT_NOT_AT_ZERO: "the first segment starts at entry {0}, not at 0",
    Contradicts.SEGMENTS_OUT_OF_ORDER: "the segment at entry {0} comes after the one at entry {1}",
    Contradicts.WRONG_ENSEMBLE_SIZE: "the ensemble of the segment at entry {0} has {1} bookies, and the ensemble size is {2}",
    Contradicts.NO_LAST_ENTRY: "the ledger is CLOSED and has no lastEntryId",
    Contradicts.LAST_ENTRY_BELOW_MINUS_ONE: "the ledger is CLOSED with lastEntryId {0}",
    Contradicts.SEGMENT_BEYOND_LAST_ENTRY: "the last segment starts at entry {0}, beyond lastEntryId {1}",
}
assert _CLAUSES.keys() == set(Contradicts), "each contradiction has its clause"


def _malformed(finding: Finding, facts: UndecodableFacts | ContradictionFacts, looks: Sequence[Look]) -> str:
    if isinstance(facts, UndecodableFacts):
        return (
            f"The metadata of ledger {finding.ledger_id} cannot be decoded: at byte {facts.offset_bytes} of "
            f"{facts.length_bytes}, {facts.reason} (SHA-256 of the bytes: {facts.sha256})."
        )
    version = looks[-1].record.stamp.version if looks[-1].record.stamp else "?"
    against = "; ".join(_CLAUSES[one.what].format(*one.numbers) for one in facts.contradictions[:CONTRADICTIONS_TOLD])
    more = facts.total - min(len(facts.contradictions), CONTRADICTIONS_TOLD)
    against += f"; and {more} more" if more > 0 else ""
    return f"The metadata of ledger {finding.ledger_id} (version {version}) contradicts itself: {against}."


def _stuck(finding: Finding, facts: StuckFacts, _looks: Sequence[Look]) -> str:
    if facts.state is not LedgerState.OPEN:
        since = "the last write of its znode"
    else:
        since = "its creation, by its own metadata" if facts.by_metadata else "the creation of its znode"
    return (
        f"Ledger {finding.ledger_id} has been {facts.state.value} for {span(facts.age_ms)}, since {clock(facts.since_ms)} UTC "
        f"({since}). --stuck-after is {span(facts.stuck_after_ms)}."
    )


def _beyond_end(finding: Finding, facts: BeyondEndFacts, _looks: Sequence[Look]) -> str:
    count, verb = finding.entries_total, "lists" if len(facts.listed_by) == 1 else "list"
    entries = f"entry {runs(finding.entries, 1)}" if count == 1 else f"entries {runs(finding.entries, count)}"
    return (
        f"The metadata of ledger {finding.ledger_id} ends at entry {facts.last_entry_id}. {named(facts.listed_by)} of the last "
        f"ensemble {verb} {entries} above it, on at least as many bookies as the ack quorum ({facts.ack_quorum}). The metadata "
        "may have been truncated; the lists do not say whether these entries were acknowledged."
    )


def _population(_finding: Finding, facts: PopulationFacts) -> str:
    gone = f" Among those that are gone: {named(facts.some_gone)}." if facts.some_gone else ""
    instance = f" (instance {facts.instance_id})" if facts.instance_id else ""
    left = facts.ledgers_again * 100 // facts.previous_ledgers
    return (
        f"Run {facts.previous_run}, finished at {facts.previous_finished_at}, listed {facts.previous_ledgers} ledgers of this "
        f"cluster{instance}. This run listed {facts.ledgers}, and {facts.ledgers_again} when it listed them again "
        f"{span(facts.apart_ms)} later: {left} % are left, and fewer than {100 - facts.drop_percent} % is reported. "
        f"Bookies delete the data of ledgers without metadata.{gone}"
    )


TELL: dict[Kind, TellLedger] = {
    Kind.METADATA_MALFORMED: _malformed,
    Kind.LEDGER_STUCK: _stuck,
    Kind.ENTRIES_BEYOND_END: _beyond_end,
}
TELL_CLUSTER: dict[Kind, TellOther] = {Kind.LEDGER_POPULATION_DROPPED: _population}
