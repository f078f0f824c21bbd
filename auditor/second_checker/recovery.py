"""Whether the recovery of a ledger can succeed, as the second checker derives it: position by
position.
"""

from __future__ import annotations

from auditor.model.availability import NOT_DIALLED
from auditor.model.evidence import Look, Terms
from auditor.model.facts import RecoveryFacts
from auditor.model.identity import BookieId
from auditor.model.ledger import LedgerMetadata, LedgerState
from auditor.second_checker.newest_words import Words

_SERVES = ("held", "no_such_ledger", "unsupported", "failed")
"""Answers that show that a bookie can be reached from here."""


def recovery_facts(heard: Words, metadata: LedgerMetadata, terms: Terms) -> RecoveryFacts | None:
    """Return the facts of a recovery that cannot succeed; None if it can, or if there is none."""
    asked = [look for look in heard.looks if look.answers]
    if metadata.state is not LedgerState.IN_RECOVERY or not asked or not metadata.segments:
        return None
    last, write, ack = metadata.segments[-1], metadata.write_quorum, metadata.ack_quorum
    size = len(last.ensemble)
    if size != metadata.ensemble_size or not 0 < ack <= write <= size:
        return None
    away = terms.around.maintenance
    is_unknown = [
        bookie not in away and all(_gives_nothing(look, bookie) for look in asked)
        for bookie in last.ensemble
    ]
    blocked = []
    for start in range(size):
        places = [(start + step) % size for step in range(write)]
        if len([place for place in places if is_unknown[place]]) >= ack:
            blocked.append(places)
    if not blocked:
        return None
    missing = {last.ensemble[at] for places in blocked for at in places if is_unknown[at]}
    return RecoveryFacts(
        last.first_entry_id,
        last.ensemble,
        ack,
        size,
        len(blocked),
        tuple(dict.fromkeys(last.ensemble[at] for at in blocked[0])),
        tuple(sorted(missing)),
    )


def _gives_nothing(look: Look, bookie: BookieId) -> bool:
    """Return whether the look got nothing from the bookie that recovery could use."""
    answer = look.answers.get(bookie)
    if answer is None:
        return False
    if answer.status != "silent":
        return answer.status in ("unregistered", "failed")
    if answer.detail.startswith(NOT_DIALLED):
        return False
    return any(one.status in _SERVES for who, one in look.answers.items() if who != bookie)
