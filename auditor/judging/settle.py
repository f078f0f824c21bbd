"""From evidence to a verdict, or to what must still be asked: the one function that run, ledger and
replay all call.

Pure: the first checker judges, the rules of commitment say when that is final, and the second
checker whether it may stand. Nothing here looks at the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from auditor.first_checker.confirmation import Wanted, wanted_reads
from auditor.first_checker.coverage import Answers, Copy, Reads, coverage
from auditor.first_checker.entries import Losses
from auditor.first_checker.ledger import gone_bookies, judge
from auditor.first_checker.probing import ANSWERED_READS, SEGMENT_ENDS_MAX, ProbePlan
from auditor.first_checker.reasons import REASON_OF_READ
from auditor.first_checker.recheck import Next, Suspicion, newest_state_start, next_step, same_state
from auditor.first_checker.schedule import Question, questions
from auditor.first_checker.stranded import Outside
from auditor.model.availability import VALID_ANSWERS, Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.evidence import LedgerEvidence, Look, Terms
from auditor.model.finding import Family, Kind
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import LedgerRecord
from auditor.model.verdict import AWAY, Exempt, Standing, Unknown, Verdict
from auditor.second_checker.agreement import differ_text, differences, is_due

READABLE_ANSWERS = VALID_ANSWERS | {AnswerStatus.UNSUPPORTED}
"""Answers after which reading entries of that bookie may teach something."""

CORRUPT_READS_MIN = 2
"""Looks at which a wrong digest must have been read before it accuses; before that its copy is
unknown.
"""


class Todo(StrEnum):
    """What a ledger still needs."""

    NOTHING = "nothing"
    LISTS = "lists"
    READS = "reads"
    LOOK = "look"


@dataclass(frozen=True, slots=True)
class Step:
    """Where a ledger stands. The verdict is final when nothing is left to do, speculative until
    then.

    `questions` go with LISTS, `reads` with READS (`are_searches`: they look for entries outside
    their write sets); `wait` with LOOK: the next look is a second opinion, after the delay.
    """

    verdict: Verdict
    todo: Todo
    questions: tuple[Question, ...] = ()
    reads: Wanted = ()
    wait: bool = False
    are_searches: bool = False


@dataclass(frozen=True, slots=True)
class _State:
    """All that was seen of one ledger, read from its looks once.

    `looks` are oldest first. `answers` and `reads` have the newest conclusive word of each bookie
    among the looks that saw the newest metadata (`_merge_looks`). `doubted` are the copies read
    with a wrong digest at too few of them to accuse.
    """

    looks: Sequence[Look]
    terms: Terms
    answers: Answers
    reads: Reads
    doubted: frozenset[Copy]

    @classmethod
    def of(cls, looks: Sequence[Look], terms: Terms) -> _State:
        chain = looks[newest_state_start(looks) :]
        answers, reads = _merge_looks(chain, terms)
        return cls(looks, terms, answers, reads, _doubted_copies(chain, reads))

    @property
    def newest(self) -> Look:
        return self.looks[-1]

    @property
    def is_stable(self) -> bool:
        """Whether the two newest looks saw the same metadata."""
        return len(self.looks) > 1 and same_state(self.looks[-2].record, self.newest.record)


def settle(evidence: LedgerEvidence, terms: Terms) -> Step:
    """Judge what was seen of one ledger, and say what must be seen before that verdict may
    stand.
    """
    state = _State.of(evidence.looks, terms)
    verdict = _judge_state(state)
    is_first = len(state.looks) == 1
    has_answers = bool(state.newest.answers)
    if is_first and has_answers and verdict.standing is Standing.SOUND and not verdict.findings:
        return Step(verdict, Todo.NOTHING)
    ask = questions_of(state.newest.record)
    if ask and has_answers:
        wanted, are_searches = _wanted_reads(state)
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
    return Step(verdict, Todo.LOOK, wait=step.wait)


def lists_demanded(evidence: LedgerEvidence) -> tuple[Question, ...]:
    """Return whom to ask about a ledger that wants lists: at the first look each one does, whatever
    the verdict will be; later those do of which `settle` said so.

    Nothing is judged: that costs a fifth of `settle`. Raises whatever a ledger may cause.
    """
    newest = evidence.looks[-1]
    return () if newest.answers else questions_of(newest.record)


def settle_and_check(evidence: LedgerEvidence, terms: Terms) -> tuple[Step, str]:
    """Settle a ledger, and have the second checker agree to a final verdict where `is_due`.

    What the two differ on is withheld (checkers_disagree); the text has what each of them says,
    else it is empty. Raises whatever a ledger may cause: `auditor.judging.judge` sets it aside.
    """
    step = settle(evidence, terms)
    if step.todo is not Todo.NOTHING or not is_due(step.verdict, terms):
        return step, ""
    differ = differences(step.verdict, evidence, terms)
    if not differ:
        return step, ""
    return end_unjudged(evidence.ledger_id, Unknown.CHECKERS_DISAGREE), differ_text(differ)


def end_unjudged(ledger_id: LedgerId, why: Unknown) -> Step:
    """The end of a ledger of which nothing is said but why."""
    return Step(Verdict(ledger_id, Standing.INDETERMINATE, unknowns=(why,)), Todo.NOTHING)


def reading_rounds_max(terms: Terms, bookies: int) -> int:
    """Rounds of reading at one look after which every ledger has what it wants: each makes one more
    read of it at least, and each of so many bookies is good for a bounded number. What a sweep
    reads, it reads in the first of them.
    """
    of_a_bookie = (
        terms.confirming_reads_max
        + SEGMENT_ENDS_MAX
        + terms.probe_entries
        + terms.stranded_entries_max
    )
    return of_a_bookie * bookies + 1


def questions_of(record: LedgerRecord) -> tuple[Question, ...]:
    """Whom to ask about the ledger as it was read; also while it is marked, for a mark may hide a
    loss.
    """
    return questions(record.metadata) if record.metadata is not None else ()


def _wanted_reads(state: _State) -> tuple[Wanted, bool]:
    """Return the reads that the newest look still needs, and whether they are searches.

    First of what lists lack, and of each copy that was read with a wrong digest: that it is listed
    by now does not make it a good one. Then searches, for entries without a copy, on other bookies.
    They are chosen for the verdict that will be given, so from all that was heard, and sent to
    bookies that answered at this look.
    """
    newest, terms = state.newest, state.terms
    metadata = newest.record.metadata
    assert metadata is not None, "only decoded ledgers are asked for"
    plan = ProbePlan.of(terms, newest.record.ledger_id)
    gone = gone_bookies(state.answers)
    seen = coverage(metadata, state.answers, state.reads, gone=gone, probing=plan)
    wanted = wanted_reads(seen, metadata.write_quorum, newest.reads, terms.confirming_reads_max)
    mine = tuple((bookie, entry) for bookie, entry in wanted if _is_readable(newest, bookie))
    if mine:
        return mine, False
    lost = Losses.of(metadata, seen).without_replica()
    outside = Outside.of(lost, seen, terms.around)
    return outside.wanted_reads(newest.reads, terms.stranded_entries_max), True


def _is_readable(look: Look, bookie: BookieId) -> bool:
    """Return whether the bookie answered at this look, so that a read may teach something."""
    return bookie in look.answers and look.answers[bookie].status in READABLE_ANSWERS


def _commit(state: _State, verdict: Verdict) -> Verdict:
    """Return the verdict as it stands. A remark is only made of what was read twice alike."""
    if verdict.standing is Standing.VIOLATED or state.is_stable:
        return verdict
    return replace(verdict, findings=())


def _end_unsettled(state: _State, verdict: Verdict) -> Verdict:
    """Return what is known of a ledger that kept changing: a mark beyond grace, if it stood through
    it all, else nothing."""
    if verdict.standing < Standing.INDETERMINATE:
        return replace(verdict, findings=())
    ledger_id, looks, newest = verdict.ledger_id, state.looks, state.newest.record
    if len(looks) > 1 and looks[-2].record.mark is not None and newest.mark is not None:
        found = judge(newest, {}, {}, state.terms).findings
        marked = tuple(one for one in found if one.family is Family.MARK)
        if marked:
            unknowns = (Unknown.UNSETTLED,)
            return Verdict(ledger_id, Standing.VIOLATED, verdict.exempt, unknowns, marked)
    return Verdict(ledger_id, Standing.INDETERMINATE, unknowns=(Unknown.UNSETTLED,))


def _judge_state(state: _State) -> Verdict:
    """Judge the newest state of the metadata by all looks that saw it."""
    record = state.newest.record
    return judge(record, state.answers, state.reads, state.terms, doubted=state.doubted)


def _merge_looks(chain: Sequence[Look], terms: Terms) -> tuple[Answers, Reads]:
    """Return the newest conclusive word of each bookie in looks that saw one state of the metadata.

    That a bookie cannot list is conclusive where it is probed instead. That it is gone takes back
    what it listed before, and holds until it is back, whatever it says then. A wrong digest is
    conclusive too: no failure to read the copy again, and no list, makes it a good one.
    """
    if len(chain) == 1:
        return chain[0].answers, chain[0].reads
    conclusive = READABLE_ANSWERS if terms.probe_entries else VALID_ANSWERS
    answers: dict[BookieId, Answer] = {}
    reads: dict[Copy, EntryRead] = {}
    for look in chain:
        for bookie, answer in look.answers.items():
            says_something = answer.status in conclusive or answer.is_gone
            if (
                says_something
                or answers.get(bookie) is None
                or answers[bookie].status not in conclusive
            ):
                answers[bookie] = answer
        for key, read in look.reads.items():
            if _conclusive(read) or key not in reads or not _conclusive(reads[key]):
                reads[key] = read
    return answers, reads


def _doubted_copies(chain: Sequence[Look], reads: Reads) -> frozenset[Copy]:
    """The copies read with a wrong digest at too few looks to accuse: of them nothing is known."""
    wrong = (key for key, read in reads.items() if read.status is ReadStatus.CORRUPT)
    return frozenset(key for key in wrong if _times_wrong(chain, key) < CORRUPT_READS_MIN)


def _times_wrong(chain: Sequence[Look], key: Copy) -> int:
    """The looks that read a wrong digest since the last one that read the copy rightly, or found
    none.
    """
    times = 0
    for look in chain:
        if _is_corrupt(look, key):
            times += 1
        elif key in look.reads and _conclusive(look.reads[key]):
            times = 0
    return times


def _is_corrupt(look: Look, key: Copy) -> bool:
    return key in look.reads and look.reads[key].status is ReadStatus.CORRUPT


def _conclusive(read: EntryRead) -> bool:
    return read.status in ANSWERED_READS


def _suspicion(verdict: Verdict) -> Suspicion:
    unknowns = set(verdict.unknowns)
    if verdict.standing is Standing.VIOLATED or verdict.exempt is Exempt.DELETED:
        if verdict.findings and all(
            one.kind is Kind.UNDERREPLICATED_BEYOND_GRACE for one in verdict.findings
        ):
            return Suspicion.MARKED
        static = all(one.family in (Family.PLACEMENT, Family.METADATA) for one in verdict.findings)
        return (
            Suspicion.STATIC
            if verdict.findings and static and unknowns <= _FIXED_UNKNOWNS
            else Suspicion.CURABLE
        )
    if verdict.standing is Standing.INDETERMINATE:
        # What is down for maintenance is down at the next look too: waiting for it would double a
        # run for nothing.
        if unknowns <= _FIXED_UNKNOWNS or verdict.only_maintenance:
            return Suspicion.REMARK if verdict.findings else Suspicion.INCURABLE
        return Suspicion.CURABLE
    return Suspicion.REMARK if verdict.findings else Suspicion.NONE


def _may_hide_a_loss(state: _State, verdict: Verdict) -> bool:
    """Return whether a registered bookie of a marked ledger gave no valid word yet: at another look
    it may lack what others lack.

    One that is not registered is what the mark is for (and no reason), and one in maintenance will
    not be back for it.
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
"""Answers that may be another at the next look."""

_FIXED_UNKNOWNS = frozenset({Unknown.BOOKIE_UNSUPPORTED, Unknown.TOPOLOGY_UNKNOWN})
"""Reasons that stay what they are for the whole run."""
