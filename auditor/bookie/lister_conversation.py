"""Hold a conversation with a lister: each connection must name the bookie that it lists for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from auditor.bookie.answers import Evidence
from auditor.bookie.client import AsyncLane
from auditor.bookie.conversation_end import End
from auditor.bookie.late_lists import LateLists
from auditor.bookie.link import Link
from auditor.bookie.listing import ListingProof
from auditor.bookie.patient_conversation import PatientConversation
from auditor.bookie.questions import Ask
from auditor.config import BookieLimits
from auditor.errors import MalformedAvailability
from auditor.model.availability import Answer, AnswerStatus, EntryRead
from auditor.model.identity import BookieId
from auditor.wire.bookie_connection import Answered, AnswerTooLarge
from auditor.wire.frames import Operation, Status, status_name
from auditor.wire.lister_identity import ListerIdentity, decode_identity
from auditor.wire.missing_logs import decode_missing_logs

CONNECT_TIMEOUT_MS = 2_000
"""How long a lister may take to accept a connection. Its host was reached already: a firewall that
drops packets to its port must not cost more.
"""

LIST_TIMEOUT_MS = 65_000
"""How long a lister may be silent while it makes a list. It is longer than the lister's own limit
on reading the index, and enough for 30 million keys at its default rate.
"""
NAME_MAX = 200
"""Characters kept of the names that a foreign lister gives."""


def of_lister(limits: BookieLimits) -> BookieLimits:
    """Return the limits for a conversation with a lister: one short attempt to connect."""
    connect_timeout_ms = min(limits.connect_timeout_ms, CONNECT_TIMEOUT_MS)
    access = limits.access.of_listers()
    return replace(
        limits, connect_attempts_max=1, connect_timeout_ms=connect_timeout_ms, access=access
    )


class ListerConversation(PatientConversation):
    """A conversation that ends as refused if GET_BOOKIE_INFO is not answered by the expected
    lister.
    """

    def expect(self, identity: ListerIdentity, list_timeout_ms: int) -> None:
        """Set who must answer, and how long a list may take. Call before anything is asked."""
        self._expected = identity
        self._answer_timeout_ms = list_timeout_ms

    def on_answers(self, link: Link, events: Sequence[Answered | AnswerTooLarge]) -> None:
        """Take responses. A lister makes lists one after another: each response restarts the
        time.
        """
        for event in events:
            if event.operation == Operation.GET_LIST_OF_ENTRIES_OF_LEDGER:
                link.busy_at = link.heard_at
            if isinstance(event, Answered) and event.operation == Operation.GET_BOOKIE_INFO:
                problem = self._problem(event)
                if problem:
                    self._finish(End.refusal(problem))
                    return
        super().on_answers(link, events)

    def _problem(self, event: Answered) -> str:
        """Return why this is not the expected lister at work, or ""."""
        if event.status == Status.EUA:
            return "EUA: its lister answers inside TLS alone: set --lister-tls on"
        if event.status != Status.EOK:
            return f"{status_name(event.status)}: its lister says that the bookie does not serve"
        found, expected = decode_identity(event.extra), self._expected
        if found is None:
            return "what answers there is not a lister"
        if (found.bookie_id, found.instance_id) != (expected.bookie_id, expected.instance_id):
            owner = (
                f"bookie {found.bookie_id[:NAME_MAX]} in cluster"
                f" {(found.instance_id or 'without an id')[:NAME_MAX]}"
            )
            return f"it is the lister of {owner}"
        return ""


class ListerEvidence(Evidence):
    """Makes the evidence of a lister's answers, including which entry logs it reports as
    missing.
    """

    def from_event(self, ask: Ask, event: Answered | AnswerTooLarge) -> Answer | EntryRead:
        outcome = super().from_event(ask, event)
        if not isinstance(event, Answered) or not event.extra or not isinstance(outcome, Answer):
            return outcome
        if outcome.status is not AnswerStatus.HELD:
            return outcome
        try:
            return replace(outcome, missing_logs=decode_missing_logs(event.extra))
        except MalformedAvailability as error:
            return replace(outcome, status=AnswerStatus.INVALID, groups=b"", detail=str(error))


class ListerLane(AsyncLane):
    """The lane of a bookie's lister. Its answers count as the bookie's. It can only list."""

    def __init__(
        self,
        identity: ListerIdentity,
        address: tuple[str, int],
        limits: BookieLimits,
        look: int,
        now_ms: Callable[[], int],
    ) -> None:
        bookie_id: BookieId = identity.bookie_id
        bounds = of_lister(limits)
        evidence = ListerEvidence(
            bookie_id, look, bounds.groups_max, bounds.frame_bytes_max, now_ms
        )
        proof = ListingProof(has_listed=True)
        list_timeout_ms = max(bounds.rpc_timeout_ms, LIST_TIMEOUT_MS)
        late = LateLists(None, evidence, proof, list_timeout_ms / 1000)
        conversation = ListerConversation(address, bounds, evidence, proof, late)
        conversation.expect(identity, list_timeout_ms)
        self._conversation = conversation
