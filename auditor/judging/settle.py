"""Judge evidence: return a verdict, or what must still be asked, for `run`, `ledger` and `replay`.

Pure: the first checker judges, the rules of `recheck` say when the verdict is final, and the second
checker says whether it may stand. Nothing here contacts the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache

from auditor.first_checker.beyond_end import END_READS_MAX, ORDER_READS_MAX, end_reads, order_reads
from auditor.first_checker.confirmation import Wanted, wanted_reads
from auditor.first_checker.coverage import Coverage
from auditor.first_checker.entries import Losses
from auditor.first_checker.ledger import judge
from auditor.first_checker.metadata import recovery_questions
from auditor.first_checker.probing import REASON_OF_READ, SEGMENT_ENDS_MAX
from auditor.first_checker.recheck import Next, Suspicion, next_step
from auditor.first_checker.schedule import Question, questions
from auditor.first_checker.stranded import Outside
from auditor.judging.newest_state import READABLE_ANSWERS, NewestState
from auditor.model.availability import AnswerStatus
from auditor.model.evidence import LedgerEvidence, Look, Terms
from auditor.model.finding import Family, Kind
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import LedgerRecord, LedgerState
from auditor.model.verdict import AWAY, Exempt, Standing, Unknown, Verdict
from auditor.second_checker.agreement import describe_differences, differences, is_due


class Todo(StrEnum):
    """What a ledger still needs. EVIDENCE: that its evidence is gathered, and that it is judged."""

    NOTHING = "nothing"
    EVIDENCE = "evidence"
    LISTS = "lists"
    READS = "reads"
    LOOK = "look"


@dataclass(frozen=True, slots=True)
class Step:
    """Where a ledger stands. The verdict is final if nothing is left to do, else provisional.

    `questions` belong to LISTS. `reads` belong to READS; `are_searches` means that they look for
    entries outside their write sets. `wait` and `asks_next` belong to LOOK: the next look comes
    after the second-look delay, and demands lists unless the ledger was changed or marked.
    """

    verdict: Verdict
    todo: Todo
    questions: tuple[Question, ...] = ()
    reads: Wanted = ()
    wait: bool = False
    are_searches: bool = False
    asks_next: bool = False


def settle(evidence: LedgerEvidence, terms: Terms) -> Step:
    """Judge what was seen of one ledger, and return what must be seen before the verdict may
    stand.
    """
    state = NewestState.of(evidence.looks, terms)
    cover = cache(state.coverage)
    verdict = judge(
        state.newest.record,
        state.answers,
        state.reads,
        state.terms,
        doubted=state.doubted,
        unserved=state.unserved,
        denials=state.denials,
        unknown=state.unknown,
        cover=cover,
    )
    is_first = len(state.looks) == 1
    has_answers = bool(state.newest.answers)
    is_good = verdict.standing is Standing.SOUND and not verdict.findings
    if is_first and has_answers and is_good and not _has_unlisted_end(state):
        return Step(verdict, Todo.NOTHING)
    ask = questions_of(state.newest.record)
    if ask and has_answers:
        wanted, are_searches = _wanted_reads(state, cover())
        if wanted:
            return Step(verdict, Todo.READS, reads=wanted, are_searches=are_searches)
    suspicion = _suspicion(verdict)
    if suspicion is Suspicion.MARKED and _may_hide_a_loss(state, verdict):
        suspicion = Suspicion.CURABLE
    step = next_step(
        state.looks, must_ask=bool(ask), suspicion=suspicion, looks_max=terms.looks_max
    )
    if step.next is Next.COMMIT:
        return Step(_commit(state, verdict), Todo.NOTHING)
    if step.next is Next.UNSETTLED:
        return Step(_end_unsettled(state, verdict), Todo.NOTHING)
    if step.next is Next.ASK:
        return Step(verdict, Todo.LISTS, questions=ask)
    asks_next = suspicion is Suspicion.CURABLE and _asks_next(state, bool(ask))
    return Step(verdict, Todo.LOOK, wait=step.wait, asks_next=asks_next)


def _asks_next(state: NewestState, must_ask: bool) -> bool:
    """Return whether the next look demands lists of a suspect if it reads the same metadata.

    The verdict is then the same until bookies are asked. Left open for ledgers that are marked or
    not closed: what they may hide depends on more than the metadata.
    """
    record = state.newest.record
    metadata = record.metadata
    is_closed = metadata is not None and metadata.state is LedgerState.CLOSED
    if record.mark is not None or not is_closed:
        return False
    looks = (*state.looks, Look(replace(record, look=record.look + 1)))
    following = next_step(
        looks, must_ask=must_ask, suspicion=Suspicion.CURABLE, looks_max=state.terms.looks_max
    )
    return following.next is Next.ASK


def reads_of_suspect(evidence: LedgerEvidence, terms: Terms) -> Step | None:
    """Return the step of a ledger that was listed at a later look and of which no entry was read
    there yet, if entries must be read.

    The step is that of `settle`, without its provisional verdict, for half of the cost. None for
    all other ledgers.
    """
    newest = evidence.looks[-1]
    is_listed_again = len(evidence.looks) > 1 and bool(newest.answers) and not newest.reads
    if not is_listed_again or not questions_of(newest.record):
        return None
    state = NewestState.of(evidence.looks, terms)
    wanted, are_searches = _wanted_reads(state, state.coverage())
    if not wanted:
        return None
    unjudged = Verdict(evidence.ledger_id, Standing.INDETERMINATE)
    return Step(unjudged, Todo.READS, reads=wanted, are_searches=are_searches)


def lists_demanded(evidence: LedgerEvidence) -> tuple[Question, ...]:
    """Return which bookies to ask for lists.

    At the first look every ledger gets questions, whatever its verdict will be; later only those
    for which `settle` requested lists. Does not judge, which saves four fifths of the cost of
    `settle`. Raises whatever a ledger may cause.
    """
    newest = evidence.looks[-1]
    return () if newest.answers else questions_of(newest.record)


def settle_and_check(evidence: LedgerEvidence, terms: Terms) -> tuple[Step, str]:
    """Settle a ledger, and compare a final verdict with the second checker's if `is_due`.

    A verdict on which the two differ is withheld (checkers_disagree). The text says how they
    differ, "" if they agree. Raises whatever a ledger may cause: `auditor.judging.judge` sets it
    aside.
    """
    step = reads_of_suspect(evidence, terms) or settle(evidence, terms)
    if step.todo is not Todo.NOTHING or not is_due(step.verdict, terms):
        return step, ""
    differ = differences(step.verdict, evidence, terms)
    if not differ:
        return step, ""
    return end_unjudged(evidence.ledger_id, Unknown.CHECKERS_DISAGREE), describe_differences(differ)


def end_unjudged(ledger_id: LedgerId, why: Unknown) -> Step:
    """Return the final step of a ledger that was not judged: indeterminate for the reason `why`."""
    return Step(Verdict(ledger_id, Standing.INDETERMINATE, unknowns=(why,)), Todo.NOTHING)


def reading_rounds_max(terms: Terms, bookies: int) -> int:
    """Return an upper bound on the rounds of reading that one look needs.

    Each round makes at least one more read of a ledger, and the reads of a ledger on one bookie are
    limited. The reads of a sweep are all in the first round.
    """
    of_a_bookie = (
        terms.confirming_reads_max
        + SEGMENT_ENDS_MAX
        + terms.probe_entries
        + END_READS_MAX
        + 1
        + ORDER_READS_MAX
        + terms.stranded_entries_max
    )
    return of_a_bookie * bookies + 1


def questions_of(record: LedgerRecord) -> tuple[Question, ...]:
    """Return the bookies to ask about the ledger in the state that was read.

    A marked ledger is asked about too: its mark may hide a loss. For one in recovery, they are the
    bookies that its recovery asks.
    """
    metadata = record.metadata
    if metadata is None:
        return ()
    return questions(metadata) or recovery_questions(metadata)


def _wanted_reads(state: NewestState, seen: Coverage) -> tuple[Wanted, bool]:
    """Return the reads that the newest look still needs, and whether they are searches.

    First come entries that lists lack, each copy that was read with a wrong digest (listing it now
    does not make it good), and what lies above the end. Then come searches on other bookies, for
    entries without a copy. All evidence decides which reads are chosen. They are sent only to
    bookies that answered at this look.
    """
    newest, terms = state.newest, state.terms
    metadata = newest.record.metadata
    assert metadata is not None, "only decoded ledgers are asked for"
    wanted = wanted_reads(seen, metadata.write_quorum, newest.reads, terms.confirming_reads_max)
    at_end = end_reads(metadata, newest.answers, seen, newest.reads, probes=state.plan is not None)
    in_order = order_reads(metadata, seen, state.reads) if not wanted else ()
    mine = tuple(
        (bookie, entry)
        for bookie, entry in (*wanted, *at_end, *in_order)
        if _is_readable(newest, bookie)
    )
    if mine:
        return mine, False
    lost = Losses.of(metadata, seen).without_replica()
    outside = Outside.of(lost, seen, terms.around)
    return outside.wanted_reads(newest.reads, terms.stranded_entries_max), True


def _has_unlisted_end(state: NewestState) -> bool:
    """Return whether a bookie that cannot list may hold entries above the end."""
    answers = state.newest.answers.values()
    return any(answer.status is AnswerStatus.UNSUPPORTED for answer in answers)


def _is_readable(look: Look, bookie: BookieId) -> bool:
    """Return whether the bookie answered at this look: otherwise a read would show nothing."""
    answer = look.answers.get(bookie)
    return answer is not None and (
        answer.status in READABLE_ANSWERS or answer.status is AnswerStatus.FAILED
    )


def _commit(state: NewestState, verdict: Verdict) -> Verdict:
    """Return the current verdict. A finding of severity info needs two equal reads of the
    metadata.
    """
    if verdict.standing is Standing.VIOLATED or state.is_stable:
        return verdict
    return replace(verdict, findings=())


def _end_unsettled(state: NewestState, verdict: Verdict) -> Verdict:
    """Return the verdict on a ledger that kept changing.

    It reports a mark beyond grace if both of the newest looks saw it, else nothing.
    """
    if verdict.standing < Standing.INDETERMINATE:
        return replace(verdict, findings=())
    ledger_id, looks, newest = verdict.ledger_id, state.looks, state.newest.record
    if len(looks) > 1 and looks[-2].record.mark is not None and newest.mark is not None:
        found = judge(newest, {}, {}, state.terms).findings
        marked = tuple(finding for finding in found if finding.family is Family.MARK)
        if marked:
            unknowns = (Unknown.UNSETTLED,)
            return Verdict(ledger_id, Standing.VIOLATED, verdict.exempt, unknowns, marked)
    return Verdict(ledger_id, Standing.INDETERMINATE, unknowns=(Unknown.UNSETTLED,))


def _suspicion(verdict: Verdict) -> Suspicion:
    unknowns = set(verdict.unknowns)
    if verdict.standing is Standing.VIOLATED or verdict.exempt is Exempt.DELETED:
        if verdict.findings and all(
            finding.kind is Kind.UNDERREPLICATED_BEYOND_GRACE for finding in verdict.findings
        ):
            return Suspicion.MARKED
        static = all(
            finding.family in (Family.PLACEMENT, Family.METADATA)
            and finding.kind is not Kind.RECOVERY_BLOCKED
            for finding in verdict.findings
        )
        return (
            Suspicion.STATIC
            if verdict.findings and static and unknowns <= _FIXED_UNKNOWNS
            else Suspicion.CURABLE
        )
    if verdict.standing is Standing.INDETERMINATE:
        # Bookies down for maintenance will still be down at the next look: waiting for them would
        # double the time of a run for nothing.
        if unknowns <= _FIXED_UNKNOWNS or verdict.only_maintenance:
            return Suspicion.REMARK if verdict.findings else Suspicion.INCURABLE
        return Suspicion.CURABLE
    return Suspicion.REMARK if verdict.findings else Suspicion.NONE


def _may_hide_a_loss(state: NewestState, verdict: Verdict) -> bool:
    """Return whether a registered bookie of a marked ledger has given no valid answer yet.

    At another look it may turn out to lack what others lack. A bookie that is not registered gives
    no reason: the mark is for it. A bookie in maintenance will not be back for the next look.
    """
    passing = set(verdict.unknowns) - _FIXED_UNKNOWNS
    if state.newest.record.mark is None or not passing:
        return False
    unheard = {bookie for bookie, answer in state.answers.items() if answer.status in _PASSING}
    unheard |= {
        bookie for (bookie, _), read in state.reads.items() if read.status in REASON_OF_READ
    }
    return not (passing <= AWAY and unheard and unheard <= state.terms.around.maintenance)


_PASSING = frozenset(AnswerStatus) - READABLE_ANSWERS - {AnswerStatus.UNREGISTERED}
"""Answers that may be different at the next look."""

_FIXED_UNKNOWNS = frozenset({Unknown.BOOKIE_UNSUPPORTED, Unknown.TOPOLOGY_UNKNOWN})
"""Reasons that do not change during a run."""
