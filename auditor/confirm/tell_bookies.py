"""Witnesses of the bookie family."""

from __future__ import annotations

from auditor.confirm.telling import TellOther
from auditor.confirm.words import named, span
from auditor.model.facts import LostContentFacts, LostFacts, SilentFacts
from auditor.model.finding import Finding, Kind


def _silent_bookie(finding: Finding, facts: SilentFacts) -> str:
    why = f" ({facts.detail})" if facts.detail else ""
    return (
        f"Bookie {finding.bookie_id} is registered as {facts.registration} at {facts.address} and did not answer at any of "
        f"{facts.looks} looks{why}.{_recovery(facts)}"
    )


def _lost_bookie(finding: Finding, facts: LostFacts) -> str:
    cookie = "still has a cookie" if facts.has_cookie else "has no cookie"
    number = facts.unmarked_ledgers
    ledgers = "1 closed ledger names it and is" if number == 1 else f"{number} closed ledgers name it and are"
    return (
        f"Bookie {finding.bookie_id} is not registered and {cookie}. {ledgers} not marked under-replicated "
        f"({named(facts.some_ledgers, number)}). This was seen at each look; the first and the last were "
        f"{span(facts.apart_ms)} apart.{_recovery(facts)}"
    )


def _recovery(facts: SilentFacts | LostFacts) -> str:
    """Say how long the cluster's own auditor waits for a bookie that is gone, and whether anything is repaired."""
    delay = facts.lost_bookie_recovery_delay_s
    waits = f" lostBookieRecoveryDelay is {span(delay * 1000)}." if delay else ""
    disabled = " Auto-recovery is disabled (underreplication/disable exists): nothing is repaired until it is enabled."
    return waits + (disabled if facts.replication_disabled else "")


def _lost_content(finding: Finding, facts: LostContentFacts) -> str:
    how = " (by reading entries, because it cannot list them)" if facts.was_probed else ""
    return (
        f"Bookie {finding.bookie_id} is registered as {facts.registration} at {facts.address} and answered for {facts.asked} "
        f"ledgers{how}. Of {facts.lacking_most} of them ({named(facts.some_ledgers, facts.lacking_most)}) it lacked, at two "
        f"looks, more than half of the entries it should hold: together {facts.absent} of {facts.expected}."
    )


TELL: dict[Kind, TellOther] = {
    Kind.BOOKIE_SILENT_YET_REGISTERED: _silent_bookie,
    Kind.BOOKIE_LOST_UNNOTICED: _lost_bookie,
    Kind.BOOKIE_LOST_CONTENT: _lost_content,
}
