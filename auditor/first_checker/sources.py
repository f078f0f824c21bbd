"""Choose the source of what is known of a bookie's entries: its list, its probes, or nothing.

Verified of a list: it is a valid answer, and its runs are not too many to judge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from auditor.first_checker.entry_set import EntrySet
from auditor.first_checker.probing import ProbedBookie, ProbePlan, plan_probes
from auditor.first_checker.reasons import REASON_OF_ANSWER
from auditor.first_checker.schedule import GROUP_BYTES, foreign_runs
from auditor.first_checker.shares import Denied, Probed, ReadOnly, Sifter, Source, Unanswered
from auditor.model.availability import VALID_ANSWERS, Answer, AnswerStatus, EntryRead
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerMetadata
from auditor.model.verdict import Unknown

FOREIGN_RUNS_MAX = 10_000
"""A list may hold at most this many runs in long progressions that striping does not make
(`schedule.foreign_runs`). A few bytes can describe more runs than could ever be judged. Above this
limit an answer is invalid, unless its bytes could have carried its runs one by one."""


@dataclass(frozen=True, slots=True)
class BookieEvidence:
    """What one bookie should hold, extent by extent, and what it said about that.

    `held` is what its answer lists, None if the answer is not usable. `reads` are those of entries
    that it should hold, `denied` those of them that it lists and denied.
    """

    bookie_id: BookieId
    wants: list[EntrySet]
    answer: Answer | None
    held: EntrySet | None
    reads: Mapping[EntryId, EntryRead]
    denied: Denied


def choose_source(seen: BookieEvidence, is_gone: bool, probing: ProbePlan | None) -> Source:
    """Return the source of what is known about this bookie's entries."""
    bookie, answer, wants = seen.bookie_id, seen.answer, seen.wants
    if is_gone:
        return Unanswered(bookie, is_gone=True)
    if answer is not None and seen.held is not None:
        return Sifter.of(bookie, answer, seen.held, seen.reads, wants, seen.denied)
    cannot_list = answer is not None and answer.status is AnswerStatus.UNSUPPORTED
    if probing is not None and cannot_list and any(wants):
        plan = plan_probes(probing, bookie, wants)
        return Probed(bookie, ProbedBookie.of(plan, wants, seen.reads))
    if answer is not None and answer.status is AnswerStatus.FAILED and seen.reads:
        return ReadOnly.of(bookie, seen.reads, _reason(answer))
    return Unanswered(bookie, reasons=(_reason(answer),))


def is_usable(answer: Answer, metadata: LedgerMetadata) -> bool:
    """Return whether the answer is valid and its runs are not too many to judge.

    Runs that were really sent one by one are believed, however many: the received bytes limit the
    cost.
    """
    runs_max = max(FOREIGN_RUNS_MAX, answer.received_bytes // GROUP_BYTES)
    return (
        answer.status in VALID_ANSWERS
        and foreign_runs(answer.groups, metadata.ensemble_size) <= runs_max
    )


def _reason(answer: Answer | None) -> Unknown:
    """Return why nothing is known of what a bookie holds.

    A valid answer that is not usable counts as ANSWER_INVALID, no answer as BOOKIE_SILENT.
    """
    if answer is None:
        return Unknown.BOOKIE_SILENT
    return REASON_OF_ANSWER.get(answer.status, Unknown.ANSWER_INVALID)
