"""From evidence to a verdict, or to what must still be asked: the one function that run, ledger and replay all call.

Pure: the first checker judges, the rules of commitment say whether that may stand. Nothing here looks at the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from auditor.confirm.recheck import Next, Suspicion, next_step, settled_from
from auditor.model.availability import ABSENT_READS, VALID_ANSWERS, Answer, EntryRead, ReadStatus
from auditor.model.evidence import LedgerEvidence, Look, Terms
from auditor.model.finding import Family
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerRecord
from auditor.model.verdict import Exempt, Standing, Unknown, Verdict
from auditor.verify.confirmation import Wanted, wanted_reads
from auditor.verify.coverage import Answers, Reads, coverage
from auditor.verify.ledger import judge
from auditor.verify.schedule import Question, questions


class Todo(StrEnum):
    """What a ledger still needs."""

    NOTHING = "nothing"
    LISTS = "lists"
    READS = "reads"
    LOOK = "look"


@dataclass(frozen=True, slots=True)
class Step:
    """Where a ledger stands. The verdict is final when nothing is left to do, speculative until then.

    `questions` go with LISTS, `reads` with READS; `wait` with LOOK: the next look is a second opinion, after the delay.
    """

    verdict: Verdict
    todo: Todo
    questions: tuple[Question, ...] = ()
    reads: Wanted = ()
    wait: bool = False


def settle(evidence: LedgerEvidence, terms: Terms) -> Step:
    """Judge what was seen of one ledger, and say what must be seen before that verdict may stand."""
    looks = evidence.looks
    newest = looks[-1]
    verdict = _judge_state(looks, terms)
    if len(looks) == 1 and newest.answers and verdict.standing is Standing.SOUND:
        return Step(verdict, Todo.NOTHING)
    ask = _questions(newest.record)
    if ask and newest.answers:
        wanted = _wanted(looks, terms)
        if wanted:
            return Step(verdict, Todo.READS, reads=wanted)
    step = next_step(looks, must_ask=bool(ask), suspicion=_suspicion(verdict), looks_max=terms.looks_max)
    if step.next is Next.COMMIT:
        return Step(verdict, Todo.NOTHING)
    if step.next is Next.UNSETTLED:
        return Step(Verdict(evidence.ledger_id, Standing.INDETERMINATE, unknowns=(Unknown.UNSETTLED,)), Todo.NOTHING)
    if step.next is Next.ASK:
        return Step(verdict, Todo.LISTS, questions=ask)
    return Step(verdict, Todo.LOOK, wait=step.wait)


def lists_demanded(evidence: LedgerEvidence, terms: Terms) -> tuple[Question, ...]:
    """The questions of `settle`, without judging: before a ledger's bookies have answered, their lists are asked for whatever
    the verdict is. A fifth of `settle`'s cost there. A ledger on which this raises is not asked for; judging sets it aside.
    """
    looks = evidence.looks
    if looks[-1].answers:
        return ()
    try:
        ask = _questions(looks[-1].record)
    except AssertionError:
        raise
    except Exception:  # whatever a ledger nobody foresaw may cause
        return ()
    if not ask:
        return ()
    step = next_step(looks, must_ask=True, suspicion=Suspicion.CURABLE, looks_max=terms.looks_max)
    return ask if step.next is Next.ASK else ()


def settle_or_set_aside(evidence: LedgerEvidence, terms: Terms) -> tuple[Step, str]:
    """`settle`, but a ledger on which judging raises is set aside as unknown (poison), with why; all others go on.

    A failed assertion is no property of the ledger but our own fault, and is raised.
    """
    try:
        return settle(evidence, terms), ""
    except AssertionError:
        raise
    except Exception as error:  # whatever a ledger nobody foresaw may cause
        poisoned = Verdict(evidence.ledger_id, Standing.INDETERMINATE, unknowns=(Unknown.POISON,))
        return Step(poisoned, Todo.NOTHING), f"{type(error).__name__}: {error}"


def _questions(record: LedgerRecord) -> tuple[Question, ...]:
    """Whom to ask about the ledger as it was read; nobody while it is marked (BP-34: it would teach nothing)."""
    return questions(record.metadata) if record.metadata is not None and record.mark is None else ()


def _wanted(looks: Sequence[Look], terms: Terms) -> Wanted:
    """The confirming reads the newest look still needs; none for a ledger that is sound by its lists.

    Chosen for the verdict that will be given, so from all that was heard; sent to bookies that answered at this look.
    """
    newest = looks[-1]
    metadata = newest.record.metadata
    assert metadata is not None, "only decoded ledgers are asked for"
    if judge(newest.record, newest.answers, newest.reads, terms).standing is Standing.SOUND:
        return ()
    seen = coverage(metadata, *_heard(looks))
    wanted = wanted_reads(seen, metadata.write_quorum, newest.reads, terms.confirming_reads_max)
    return tuple((b, e) for b, e in wanted if b in newest.answers and newest.answers[b].status in VALID_ANSWERS)


def _judge_state(looks: Sequence[Look], terms: Terms) -> Verdict:
    """Judge the newest state of the metadata by all looks that saw it."""
    return judge(looks[-1].record, *_heard(looks), terms)


def _heard(looks: Sequence[Look]) -> tuple[Answers, Reads]:
    """What all looks that saw the newest state of the metadata heard: the newest conclusive word of each bookie counts."""
    chain = looks[settled_from(looks) :]
    if len(chain) == 1:
        return chain[0].answers, chain[0].reads
    answers: dict[BookieId, Answer] = {}
    reads: dict[tuple[BookieId, EntryId], EntryRead] = {}
    for look in chain:
        for bookie, answer in look.answers.items():
            if answer.status in VALID_ANSWERS or answers.get(bookie) is None or answers[bookie].status not in VALID_ANSWERS:
                answers[bookie] = answer
        for key, read in look.reads.items():
            if _conclusive(read) or key not in reads or not _conclusive(reads[key]):
                reads[key] = read
    return answers, reads


def _conclusive(read: EntryRead) -> bool:
    return read.status is ReadStatus.PRESENT or read.status in ABSENT_READS


def _suspicion(verdict: Verdict) -> Suspicion:
    if verdict.standing is Standing.VIOLATED or verdict.exempt is Exempt.DELETED:
        marked = verdict.findings and all(finding.family is Family.MARK for finding in verdict.findings)
        return Suspicion.MARKED if marked else Suspicion.CURABLE
    if verdict.standing is Standing.INDETERMINATE:
        hopeless = verdict.unknowns == (Unknown.BOOKIE_UNSUPPORTED,)
        return Suspicion.INCURABLE if hopeless else Suspicion.CURABLE
    return Suspicion.NONE
