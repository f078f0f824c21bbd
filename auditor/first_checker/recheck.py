"""When a verdict may be committed: BP-34's second look as a small state machine, events in, an instruction out.

Before anything is reported, the mark and the metadata are read again. What was seen counts only while the metadata stays the
same (czxid and version): a change means another look from the start, at most `looks_max` times and
not where that takes a third delay. A suspect is committed after
its bookies were asked at two looks of the same metadata and the metadata was read once more behind them. What only metadata
says is committed when it was read twice alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from auditor.model.evidence import Look
from auditor.model.ledger import LedgerRecord, RecordStatus

ASKED_LOOKS_OF_A_SUSPECT = 2
"""Looks at which the bookies of a suspect are asked while its metadata stays the same, before it is reported."""

WAITED_LOOKS_MAX = 2
"""Looks of one ledger that come after the second-look delay: the second, and for a ledger that had
changed by then the third. So a run waits at most twice, however long a ledger keeps changing."""


class Suspicion(StrEnum):
    """What the verdict on the evidence so far means for looking again."""

    NONE = "none"
    """Sound or exempt: may be committed as it is."""
    MARKED = "marked"
    """A mark beyond grace and nothing else: two marked looks are enough, whatever else changed between them."""
    STATIC = "static"
    """Findings that metadata alone gives, where bookies have nothing to add: the same metadata read twice is enough."""
    REMARK = "remark"
    """Nothing worse than info: read once more, without waiting."""
    CURABLE = "curable"
    """A finding, or an unknown that another look may turn into knowledge."""
    INCURABLE = "incurable"
    """Unknown, and no further look can change that (a bookie that cannot list, or that is in maintenance)."""


class Next(StrEnum):
    """What to do with one ledger."""

    COMMIT = "commit"
    ASK = "ask"
    LOOK_AGAIN = "look_again"
    UNSETTLED = "unsettled"


class Instruction(NamedTuple):
    """`wait`: the next look is a second opinion and comes after the second-look delay; otherwise it only closes this one."""

    next: Next
    wait: bool = False


def same_state(one: LedgerRecord, other: LedgerRecord) -> bool:
    """Whether two readings saw the same metadata: the same write of the same incarnation of the znode."""
    return one.status is other.status and one.stamp == other.stamp


def settled_from(looks: Sequence[Look]) -> int:
    """The index of the first of the looks, up to the newest, that saw the metadata the newest one saw."""
    at = len(looks) - 1
    while at > 0 and same_state(looks[at - 1].record, looks[at].record):
        at -= 1
    return at


def next_step(looks: Sequence[Look], *, must_ask: bool, suspicion: Suspicion, looks_max: int) -> Instruction:
    """What the looks so far demand. `must_ask`: some bookie should hold entries of the ledger as the newest look saw it.

    A ledger is settled after `looks_max` + 2 looks at most, and after `WAITED_LOOKS_MAX` delays.
    """
    wanted = _asking(looks, suspicion, looks_max) if must_ask else _without_asking(looks, suspicion)
    closing = 1 if must_ask else 0  # the look behind the last one at which bookies may be asked
    if wanted.next in (Next.ASK, Next.LOOK_AGAIN) and len(looks) > looks_max + closing:
        return Instruction(Next.UNSETTLED)
    if wanted.wait and len(looks) > WAITED_LOOKS_MAX:
        return Instruction(Next.UNSETTLED)
    return wanted


def _asking(looks: Sequence[Look], suspicion: Suspicion, looks_max: int) -> Instruction:
    """Bookies have to be asked: at two looks where that leaves the ledger suspect, and the metadata read behind them."""
    newest = looks[-1]
    chain = looks[settled_from(looks) :]
    asked = sum(bool(look.answers) for look in chain)
    seen_twice = len(chain) > 1 and suspicion in (Suspicion.STATIC, Suspicion.REMARK)
    marked_twice = suspicion is Suspicion.MARKED and _both_marked(looks)
    if asked and (suspicion in (Suspicion.NONE, Suspicion.INCURABLE) or seen_twice or marked_twice):
        return Instruction(Next.COMMIT)
    if newest.answers:
        second_opinion = asked < ASKED_LOOKS_OF_A_SUSPECT and suspicion is not Suspicion.REMARK
        return Instruction(Next.LOOK_AGAIN, wait=second_opinion)
    if asked >= ASKED_LOOKS_OF_A_SUSPECT:
        return Instruction(Next.COMMIT)
    if sum(bool(look.answers) for look in looks) >= looks_max:
        return Instruction(Next.UNSETTLED)
    return Instruction(Next.ASK)


def _without_asking(looks: Sequence[Look], suspicion: Suspicion) -> Instruction:
    """No bookie has to be asked: the metadata and the mark alone decide, read twice alike where they accuse."""
    newest = looks[-1].record
    if suspicion in (Suspicion.NONE, Suspicion.INCURABLE) or (newest.status is RecordStatus.GONE and len(looks) > 1):
        return Instruction(Next.COMMIT)
    if len(looks) > 1:
        marked_twice = suspicion is Suspicion.MARKED and _both_marked(looks)
        if suspicion is Suspicion.REMARK or marked_twice or same_state(looks[-2].record, newest):
            return Instruction(Next.COMMIT)
    return Instruction(Next.LOOK_AGAIN, wait=suspicion is not Suspicion.REMARK)


def _both_marked(looks: Sequence[Look]) -> bool:
    """Whether the two newest looks saw the ledger marked."""
    return len(looks) > 1 and looks[-2].record.mark is not None and looks[-1].record.mark is not None
