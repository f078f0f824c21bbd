"""Judge whether the recovery of a ledger can succeed with the bookies that answer.

Recovery asks the bookies of the last ensemble for the last entry. It continues only if in every
write set fewer bookies than the ack quorum are unknown: otherwise an acknowledged entry may be on
the unknown ones alone (RoundRobinDistributionSchedule.RRQuorumCoverageSet). A bookie is known if it
serves the ledger, or says that it has no such entry or ledger.

Verified: at each look at the newest state of the metadata, at least two, these bookies were not
registered, answered with an error of their own, or were silent while another bookie of the ensemble
answered.

For an open ledger, the registrations and greetings of its bookies alone decide: would its recovery
succeed if its writer died now?

Not verified: that a client tried. A refusal, a time-out or a bookie in maintenance does not count
as unknown: other clients may be served.
"""

from __future__ import annotations

from collections.abc import Sequence

from auditor.first_checker.reachability import BookieLook
from auditor.first_checker.schedule import Question
from auditor.model.availability import NOT_DIALLED, VALID_ANSWERS, Answer, AnswerStatus, Greeting
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.evidence import Look
from auditor.model.facts import RecoveryFacts
from auditor.model.finding import Finding, Kind
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import LedgerMetadata, LedgerState

EXPECTED_BYTES = 1_024
"""Estimated size of the list of a ledger in recovery: a few dozen runs."""

_ANSWERED = VALID_ANSWERS | {AnswerStatus.UNSUPPORTED, AnswerStatus.FAILED}


def recovery_bookies(metadata: LedgerMetadata) -> tuple[BookieId, ...]:
    """Return the distinct bookies that the recovery of the ledger asks, in their order.

    Empty if the ledger is not in recovery, or if quorums or the last ensemble make no sense.
    """
    return last_bookies(metadata) if metadata.state is LedgerState.IN_RECOVERY else ()


def last_bookies(metadata: LedgerMetadata) -> tuple[BookieId, ...]:
    """Return the distinct bookies of the last ensemble, in their order.

    Empty if quorums or the last ensemble make no sense.
    """
    if not metadata.segments:
        return ()
    ensemble = metadata.segments[-1].ensemble
    size, write, ack = metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum
    if not 1 <= ack <= write <= size or len(ensemble) != size:
        return ()
    return tuple(dict.fromkeys(ensemble))


def recovery_questions(metadata: LedgerMetadata) -> tuple[Question, ...]:
    """Return questions that ask these bookies whether they answer for the ledger."""
    return tuple(Question(bookie, EXPECTED_BYTES) for bookie in recovery_bookies(metadata))


def unknown_bookies(looks: Sequence[Look], maintenance: frozenset[BookieId]) -> frozenset[BookieId]:
    """Return the bookies that are unknown at every look that asked, except those in maintenance."""
    asked = [look for look in looks if look.answers]
    if not asked:
        return frozenset()
    return frozenset(
        bookie
        for bookie in asked[0].answers.keys() - maintenance
        if all(bookie in look.answers and _is_unknown(look, bookie) for look in asked)
    )


def _is_unknown(look: Look, bookie: BookieId) -> bool:
    answer = look.answers[bookie]
    if answer.status is AnswerStatus.SILENT:
        others = (one for other, one in look.answers.items() if other != bookie)
        return not answer.detail.startswith(NOT_DIALLED) and any(map(_is_answered, others))
    return answer.status in (AnswerStatus.UNREGISTERED, AnswerStatus.FAILED)


def _is_answered(answer: Answer) -> bool:
    return answer.status in _ANSWERED


def blocked_recovery(
    ledger_id: LedgerId, metadata: LedgerMetadata, unknown: frozenset[BookieId]
) -> list[Finding]:
    """Return RECOVERY_BLOCKED if too many bookies of a write set are `unknown`."""
    if not unknown.intersection(recovery_bookies(metadata)):
        return []
    facts = blocked_write_sets(metadata, unknown)
    return [] if facts is None else [Finding(Kind.RECOVERY_BLOCKED, facts, ledger_id=ledger_id)]


def blocked_write_sets(
    metadata: LedgerMetadata, unknown: frozenset[BookieId]
) -> RecoveryFacts | None:
    """Return the write sets of the last ensemble in which too many bookies are `unknown`.

    None if there are none. The last ensemble must make sense (`last_bookies`).
    """
    segment, ack = metadata.segments[-1], metadata.ack_quorum
    size = metadata.ensemble_size
    write_sets = [
        [segment.ensemble[(at + copy) % size] for copy in range(metadata.write_quorum)]
        for at in range(size)
    ]
    blocked = [one for one in write_sets if sum(bookie in unknown for bookie in one) >= ack]
    if not blocked:
        return None
    return RecoveryFacts(
        first_entry_id=segment.first_entry_id,
        ensemble=segment.ensemble,
        ack_quorum=ack,
        write_sets=size,
        blocked_write_sets=len(blocked),
        write_set=tuple(dict.fromkeys(blocked[0])),
        unknown=tuple(sorted(unknown.intersection(b for one in blocked for b in one))),
    )


def greets_no_more(record: BookieRecord | None) -> bool:
    """Return whether a bookie is not registered, or was silent when it was dialled.

    `record` is None for a bookie with neither a registration nor a cookie.
    """
    if record is None or record.registration is Registration.NONE:
        return True
    return record.greeting is Greeting.SILENT and not record.greeting_detail.startswith(NOT_DIALLED)


def unknown_by_greetings(
    ensemble: Sequence[BookieId], looks: Sequence[BookieLook], maintenance: frozenset[BookieId]
) -> frozenset[BookieId]:
    """Return the bookies of an ensemble that registrations and greetings show unknown at every
    look.

    Bookies in maintenance are left out. Silence counts only while another bookie of the ensemble
    answers.
    """
    if not looks:
        return frozenset()
    return frozenset(
        bookie
        for bookie in set(ensemble) - maintenance
        if all(_is_unknown_by_greeting(bookie, ensemble, look) for look in looks)
    )


def _is_unknown_by_greeting(
    bookie: BookieId, ensemble: Sequence[BookieId], look: BookieLook
) -> bool:
    record = look.get(bookie)
    if record is None or record.registration is Registration.NONE:
        return True
    others = (look.get(other) for other in ensemble if other != bookie)
    return greets_no_more(record) and any(
        other is not None and other.greeting in (Greeting.ANSWERED, Greeting.UNSUPPORTED)
        for other in others
    )
