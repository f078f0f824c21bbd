"""Decide when a verdict may be committed: BP-34's second look as a small state machine.

Before anything is reported, the mark and the metadata are read again. Evidence counts only while
the metadata stays the same (czxid and version). After a change the looks start again, at most
`looks_max` times, and never if that would take a third delay. A suspect is committed after its
bookies were asked at two looks of the same metadata, and the metadata was read once more after
them. What metadata alone says is committed if two reads of it agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from auditor.model.evidence import Look
from auditor.model.ledger import LedgerRecord, RecordStatus

ASKED_LOOKS_OF_A_SUSPECT = 2
"""A suspect is reported only after this many looks of the same metadata asked its bookies."""

CLOSING_LOOKS = 1
"""Looks after the last one that may ask bookies."""

WAITED_LOOKS_MAX = 2
"""This many looks of one ledger come after the second-look delay: the second, and the third if the
ledger had changed by then. A run therefore waits at most twice, however long a ledger keeps
changing."""


class Suspicion(StrEnum):
    """Whether the verdict on the evidence so far needs another look."""

    NONE = "none"
    """Sound or exempt: may be committed as it is."""
    MARKED = "marked"
    """Only a mark beyond grace. Two looks that saw it are enough, whatever else changed in
    between."""
    STATIC = "static"
    """Findings from metadata alone, to which bookies can add nothing. Two equal reads are
    enough."""
    REMARK = "remark"
    """Nothing worse than info: read the mark and the metadata once more, without waiting."""
    CURABLE = "curable"
    """A finding, or an unknown that another look may resolve."""
    INCURABLE = "incurable"
    """Unknown, and no further look can change that: a bookie cannot list, or is in maintenance."""


class Next(StrEnum):
    """What to do with one ledger."""

    COMMIT = "commit"
    ASK = "ask"
    LOOK_AGAIN = "look_again"
    UNSETTLED = "unsettled"


class Instruction(NamedTuple):
    """What to do next with one ledger.

    `wait`: the next look is a second opinion and comes after the second-look delay. Otherwise the
    next look only closes this one.
    """

    next: Next
    wait: bool = False


def same_state(one: LedgerRecord, other: LedgerRecord) -> bool:
    """Return whether two reads saw the same metadata: the same write of the same incarnation of the
    znode.
    """
    return one.status is other.status and one.stamp == other.stamp


def newest_state_start(looks: Sequence[Look]) -> int:
    """Return the lowest index from which all looks saw the same metadata as the newest look."""
    at = len(looks) - 1
    while at > 0 and same_state(looks[at - 1].record, looks[at].record):
        at -= 1
    return at


def next_step(
    looks: Sequence[Look], *, must_ask: bool, suspicion: Suspicion, looks_max: int
) -> Instruction:
    """Return what the looks so far require.

    `must_ask`: some bookie should hold entries of the ledger in its newest state. A ledger is
    settled after at most `looks_max` + 2 looks. It is given up before a look beyond
    WAITED_LOOKS_MAX + 1 would have to wait, even if an earlier look came without a delay.
    """
    wanted = (
        _ask_or_settle(looks, suspicion, looks_max)
        if must_ask
        else _without_asking(looks, suspicion)
    )
    if wanted.next in (Next.ASK, Next.LOOK_AGAIN) and len(looks) > looks_max + CLOSING_LOOKS:
        return Instruction(Next.UNSETTLED)
    if wanted.wait and len(looks) > WAITED_LOOKS_MAX:
        return Instruction(Next.UNSETTLED)
    return wanted


def _ask_or_settle(looks: Sequence[Look], suspicion: Suspicion, looks_max: int) -> Instruction:
    """Decide for a ledger whose bookies have to be asked.

    A ledger that stays suspect needs two looks that ask, and its metadata read once more after
    them.
    """
    newest = looks[-1]
    chain = looks[newest_state_start(looks) :]
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
    """Decide by the metadata and the mark alone, for a ledger without a bookie to ask.

    If there is a finding, two reads must agree.
    """
    newest = looks[-1].record
    if suspicion in (Suspicion.NONE, Suspicion.INCURABLE) or (
        newest.status is RecordStatus.GONE and len(looks) > 1
    ):
        return Instruction(Next.COMMIT)
    if len(looks) > 1:
        marked_twice = suspicion is Suspicion.MARKED and _both_marked(looks)
        if suspicion is Suspicion.REMARK or marked_twice or same_state(looks[-2].record, newest):
            return Instruction(Next.COMMIT)
    return Instruction(Next.LOOK_AGAIN, wait=suspicion is not Suspicion.REMARK)


def _both_marked(looks: Sequence[Look]) -> bool:
    """Return whether the two newest looks saw the ledger marked."""
    return (
        len(looks) > 1 and looks[-2].record.mark is not None and looks[-1].record.mark is not None
    )
