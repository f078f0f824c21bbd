"""Witnesses of the bookie family."""

from __future__ import annotations

from auditor.confirm.telling import Facts, TellOther
from auditor.confirm.words import span
from auditor.model.finding import Finding, Kind


def _silent_bookie(finding: Finding, facts: Facts) -> str:
    why = f" ({facts['detail']})" if facts["detail"] else ""
    return (
        f"Let bookie {finding.bookie_id} be registered as {facts['registration']} at {facts['address']}; then it should "
        f"answer, and it was silent at each of {facts['looks']} looks{why}, still registered at the last of them."
        f"{_patience(facts)}{_disabled(facts)}"
    )


def _lost_bookie(finding: Finding, facts: Facts) -> str:
    cookie = "the bookie still has a cookie" if facts["has_cookie"] == "true" else "the bookie has no cookie"
    number, some = int(facts["unmarked_ledgers"]), facts["some_ledgers"].split()
    names, is_not = ("closed ledger names", "is not") if number == 1 else ("closed ledgers name", "none of them is")
    more = f" and {number - len(some)} more" if number > len(some) else ""
    return (
        f"Let bookie {finding.bookie_id} not be registered; then {number} {names} it ({', '.join(some)}{more}) and {is_not} "
        f"marked under-replicated; {cookie}; all this again {span(facts['apart_s'])} later.{_patience(facts)}{_disabled(facts)}"
    )


def _patience(facts: Facts) -> str:
    """How long the cluster's own auditor waits for a bookie that is gone, where the cluster says so."""
    delay = facts.get("lost_bookie_recovery_delay_s")
    return f" lostBookieRecoveryDelay is {span(delay)}." if delay else ""


def _disabled(facts: Facts) -> str:
    if facts.get("replication_disabled") != "true":
        return ""
    return " Auto-recovery is disabled (underreplication/disable exists), so nothing will be repaired until it is enabled."


def _lost_content(finding: Finding, facts: Facts) -> str:
    lacking, some = int(facts["lacking_most"]), facts["some_ledgers"].split()
    how = ", by reading entries, for it cannot list them" if facts["was_probed"] == "true" else ""
    more = f" and {lacking - len(some)} more" if lacking > len(some) else ""
    return (
        f"Let bookie {finding.bookie_id} be registered as {facts['registration']} at {facts['address']}, and asked about "
        f"ledgers that the metadata puts on it{how}; then it answered for {facts['asked']} of them, and of {lacking} "
        f"({', '.join(some)}{more}) it lacks more than half of what it should hold, {facts['absent']} of {facts['expected']} "
        "entries; so it said at two looks. It is up, and what it should hold is not there."
    )


TELL: dict[Kind, TellOther] = {
    Kind.BOOKIE_SILENT_YET_REGISTERED: _silent_bookie,
    Kind.BOOKIE_LOST_UNNOTICED: _lost_bookie,
    Kind.BOOKIE_LOST_CONTENT: _lost_content,
}
