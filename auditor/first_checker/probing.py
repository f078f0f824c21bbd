"""Judge a bookie that cannot list (one with DbLedgerStorage) by reads.

Such a bookie is asked for the first and the last entry that it should hold of each segment. These
are both sides of each ensemble change. A run with a budget for it also sweeps: it asks for every
n-th entry. A sample drawn at random from the other entries comes last. The sample is a hash of the
run's seed, the ledger and the bookie: judging the same evidence again draws the same sample.

Verified: the entries read, and that the bookie knows the ledger at all. Not verified: every other
entry. `missing_bound` says how many of them may be missing.

A sweep reads every `step`-th entry, and other ones in the next run. The entries of one ledger that
a bookie should hold are ranked from 0, in ascending order. A run reads the ranks x with (x - start)
mod step = place. `start` is drawn for each ledger and bookie by a hash of the series' seed. `place`
depends on the turn of the run alone: the turn with its bits in reverse order (van der Corput). The
runs of a series therefore halve the gaps that earlier ones left, and after `step` turns every rank
was read. A range of L consecutive ranks that the bookie lost is hit with the probability that
`hit_probability` returns, whatever the ledger. The probability is over `start`, not over the loss.
docs/soundness.md derives it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import sqrt
from typing import NamedTuple

import numpy as np

from auditor.first_checker.entry_set import EMPTY, EntrySet
from auditor.model.availability import (
    ABSENT_READS,
    ANSWERED_READS,
    AnswerStatus,
    EntryRead,
    ReadStatus,
)
from auditor.model.evidence import Sweep, Terms
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.verdict import Unknown

REASON_OF_ANSWER: dict[AnswerStatus, Unknown] = {
    AnswerStatus.SILENT: Unknown.BOOKIE_SILENT,
    AnswerStatus.UNREGISTERED: Unknown.BOOKIE_SILENT,
    AnswerStatus.TIMED_OUT: Unknown.ANSWER_TIMEOUT,
    AnswerStatus.REFUSED: Unknown.BOOKIE_REFUSED,
    AnswerStatus.FAILED: Unknown.BOOKIE_REFUSED,
    AnswerStatus.INVALID: Unknown.ANSWER_INVALID,
    AnswerStatus.TOO_LARGE: Unknown.ANSWER_TOO_LARGE,
    AnswerStatus.UNSUPPORTED: Unknown.BOOKIE_UNSUPPORTED,
    AnswerStatus.ADDRESS_UNKNOWN: Unknown.ADDRESS_UNKNOWN,
    AnswerStatus.AUDITOR_LIMITED: Unknown.AUDITOR_LIMITED,
}
"""Every answer except the two valid ones."""

REASON_OF_READ: dict[ReadStatus, Unknown] = {
    ReadStatus.SILENT: Unknown.BOOKIE_SILENT,
    ReadStatus.UNREGISTERED: Unknown.BOOKIE_SILENT,
    ReadStatus.TIMED_OUT: Unknown.ANSWER_TIMEOUT,
    ReadStatus.REFUSED: Unknown.BOOKIE_REFUSED,
    ReadStatus.FAILED: Unknown.BOOKIE_REFUSED,
    ReadStatus.INVALID: Unknown.ANSWER_INVALID,
    ReadStatus.CORRUPT: Unknown.ANSWER_INVALID,
    ReadStatus.TOO_LARGE: Unknown.ANSWER_TOO_LARGE,
    ReadStatus.ADDRESS_UNKNOWN: Unknown.ADDRESS_UNKNOWN,
    ReadStatus.AUDITOR_LIMITED: Unknown.AUDITOR_LIMITED,
    ReadStatus.NOT_ASKED: Unknown.BOOKIE_SILENT,
}
"""Every read except the one that brings an entry and the two that prove its absence. A corrupt copy
is not a good copy, but it is not absent either."""


def in_order(reasons: Iterable[Unknown]) -> tuple[Unknown, ...]:
    """Return each of the reasons once, in the catalogue's order."""
    given = set(reasons)
    return tuple(reason for reason in Unknown if reason in given)


STEP_MAX = 2**22
"""Largest step. A sparser sweep would hit a range of 1,000 lost entries with less than 0.03 %: then
nothing is read by rank and no bound is stated. It also limits the memory of `hit_probability` to 4
MB."""

SWEPT_ENTRIES_MAX = 2**31
"""A bookie is not swept for a ledger of which it should hold more entries. Real ledgers have less
by three orders of magnitude; metadata that claims more must not use up the budget of all others."""

EXCESS_NATS = 21.0
"""The reads of one bookie exceed the budget with a probability of at most exp(-21), 1e-9."""


class Draw(NamedTuple):
    """What decides which ranks a run of a series reads."""

    step: int
    turn: int


def swept_entries(
    sweep: Sweep, ledger_id: LedgerId, bookie: BookieId, share: EntrySet
) -> Iterator[EntryId]:
    """Yield the entries to read by rank on a bookie that should hold `share`, ascending.

    Costs pieces and the entries yielded.
    """
    if sweep.step and share.count() <= SWEPT_ENTRIES_MAX:
        yield from share.every(sweep.step, first_rank(sweep, ledger_id, bookie))


def first_rank(sweep: Sweep, ledger_id: LedgerId, bookie: BookieId) -> int:
    """Return the lowest rank that is read: a number below the step, all equally likely."""
    start = start_of(sweep.seed, ledger_id, bookie)
    return (start + place(Draw(sweep.step, sweep.turn))) % sweep.step


def start_of(seed: int, ledger_id: LedgerId, bookie: BookieId) -> int:
    """Return the hash that decides at which rank of a ledger sweeps start on a bookie."""
    digest = blake2b(f"{seed}/{ledger_id}/{bookie}/sweep".encode(), digest_size=8).digest()
    return int.from_bytes(digest)


def place(draw: Draw) -> int:
    """Return the bits of the turn, as many as the step has, in reverse order."""
    found, turn = 0, draw.turn
    for _ in range(draw.step.bit_length() - 1):
        found = found << 1 | turn & 1
        turn >>= 1
    return found


def step_within(budget: int, copies: float) -> int:
    """Return the smallest step that reads at most `budget` of `copies` entries on one bookie.

    A ledger's number of reads differs from its mean by less than one, independently of other
    ledgers. Bernstein's inequality then keeps their sum within the budget, except with a
    probability of exp(-EXCESS_NATS). Step 1 reads each entry once. Returns 0 without a budget,
    without entries, or if the step would exceed STEP_MAX.
    """
    if copies <= 0:
        return 0
    step = 1
    while step <= STEP_MAX and _at_most(copies / step, is_certain=step == 1) > budget:
        step *= 2
    return step if step <= STEP_MAX else 0


def _at_most(mean: float, *, is_certain: bool) -> float:
    """Return how many entries are read at most if `mean` are read on average."""
    third = EXCESS_NATS / 3
    return mean if is_certain else mean + third + sqrt(third * third + 2 * EXCESS_NATS * mean)


def hit_probability(draws: Iterable[Draw], length: int) -> float:
    """Return the probability that at least one run hits `length` consecutive ranks of one share.

    The draws are those of runs of one series, in any order. Exact: it is the share of the
    positions, relative to `start`, at which the ranks may begin and have a read rank less than
    `length` away. 0.0 without draws. Costs the largest step and the draws.
    """
    different = set(draws)
    if not different:
        return 0.0
    circle = max(draw.step for draw in different)
    is_read = np.zeros(circle, np.bool_)
    for draw in different:
        is_read[place(draw) :: draw.step] = True
    read = np.flatnonzero(is_read)
    gaps = np.diff(read, append=read[0] + circle)
    return 1.0 - float(np.maximum(gaps - length, 0).sum()) / circle


SEGMENT_ENDS_MAX = 128
"""At most this many ends of segments are probed on one bookie for one ledger at one look. The
sample is added to them; the terms limit it. A ledger of thousands of segments must not cost its
bookies thousands of reads. The first and the last entry that the bookie should hold are always
probed."""

RULE_OF_THREE = 3
"""If none of n samples is missing, at most 3/n of the entries are missing, at 95 % confidence
(Hanley and Lippman-Hand, 1983)."""


def missing_bound(random_probes: int) -> float:
    """Return the share of entries that may be missing if no random probe was.

    It is an upper bound at 95 % confidence. Without a probe it is 1.0: then nothing is known.
    """
    return min(1.0, RULE_OF_THREE / random_probes) if random_probes > 0 else 1.0


@dataclass(frozen=True, slots=True)
class ProbePlan:
    """How one ledger is probed.

    `entries` are sampled per bookie, beside the ends of segments and the entries that `sweep` reads
    by rank.
    """

    ledger_id: LedgerId
    entries: int
    seed: int
    sweep: Sweep = field(default_factory=Sweep)

    @classmethod
    def of(cls, terms: Terms, ledger_id: LedgerId) -> ProbePlan | None:
        """Return the plan, or None if nothing may be probed.

        Without a plan, a bookie that cannot list stays unknown.
        """
        if terms.probe_entries <= 0:
            return None
        return cls(ledger_id, terms.probe_entries, terms.probe_seed, terms.sweep)


class Planned(NamedTuple):
    """The entries to probe on one bookie: ends of segments, the random sample, and those by rank.

    Each set is ascending, and they share no entry.
    """

    ends: tuple[EntryId, ...]
    random: tuple[EntryId, ...]
    swept: tuple[EntryId, ...] = ()

    @property
    def all(self) -> tuple[EntryId, ...]:
        return (*self.ends, *self.random, *self.swept)


def plan_probes(plan: ProbePlan, bookie: BookieId, wants: Sequence[EntrySet]) -> Planned:
    """Return the entries to probe on a bookie that should hold `wants`.

    `wants` has one set per extent, ascending. The result has at most SEGMENT_ENDS_MAX ends, and
    beside these `plan.entries` random ones and those that the sweep reads. It is the same for the
    same plan, bookie and wants. Costs pieces and probes, never entries.
    """
    ends, share = _some_ends(plan, bookie, [want for want in wants if want]), EntrySet.join(wants)
    known = set(ends)
    swept = tuple(
        e for e in swept_entries(plan.sweep, plan.ledger_id, bookie, share) if e not in known
    )
    rest = share - EntrySet.of_entries((*ends, *swept))
    chosen = _draw(f"{plan.seed}/{plan.ledger_id}/{bookie}/entries", rest.count(), plan.entries)
    return Planned(ends, tuple(rest.nth(index) for index in chosen), swept)


def _some_ends(plan: ProbePlan, bookie: BookieId, wants: Sequence[EntrySet]) -> tuple[EntryId, ...]:
    """Return the ends of all segments, or SEGMENT_ENDS_MAX of them if there are more.

    In that case they are the lowest, the highest, and a seeded choice of the others.
    """
    ends = list(dict.fromkeys(end for want in wants for end in (want.first(), want.last())))
    if len(ends) <= SEGMENT_ENDS_MAX:
        return tuple(ends)
    inner = ends[1:-1]
    chosen = _draw(f"{plan.seed}/{plan.ledger_id}/{bookie}/ends", len(inner), SEGMENT_ENDS_MAX - 2)
    return (ends[0], *(inner[index] for index in chosen), ends[-1])


def _draw(key: str, population: int, count: int) -> list[int]:
    """Return `count` distinct numbers below `population`, ascending; all if there are fewer.

    Each choice is equally likely (Floyd). The bias of the remainder of 128 random bits is below
    2**-64.
    """
    if count >= population:
        return list(range(population))
    drawn: set[int] = set()
    for top in range(population - count, population):
        digest = blake2b(f"{key}/{top}".encode(), digest_size=16).digest()
        number = int.from_bytes(digest, "big") % (top + 1)
        drawn.add(top if number in drawn else number)
    return sorted(drawn)


@dataclass(frozen=True, slots=True)
class ProbedBookie:
    """What the reads made on one bookie say about its whole share.

    `lacks_ledger`: all of the share is absent. `all_unknown`: nothing is known of the entries that
    were not read. Otherwise these are assumed to be held.
    """

    planned: Planned
    present: EntrySet
    absent: EntrySet
    failed: EntrySet
    lacks_ledger: bool
    all_unknown: bool
    reasons: tuple[Unknown, ...]
    answered: int
    random_answered: int

    @classmethod
    def of(
        cls, planned: Planned, wants: Sequence[EntrySet], reads: Mapping[EntryId, EntryRead]
    ) -> ProbedBookie:
        """Judge a bookie by `reads`, the newest conclusive read of each entry there."""
        whole = EntrySet.join(wants)
        mine = {e: read for e, read in reads.items() if e in whole}
        present = [e for e, read in mine.items() if read.status is ReadStatus.PRESENT]
        absent = [e for e, read in mine.items() if read.status in ABSENT_READS]
        failed = {
            e: REASON_OF_READ[read.status]
            for e, read in mine.items()
            if read.status in REASON_OF_READ
        }
        answered = {e for e, read in mine.items() if read.status in ANSWERED_READS}
        reasons = set(failed.values())
        if not mine.keys() >= set(planned.all):
            reasons.add(Unknown.BOOKIE_UNSUPPORTED)
        return cls(
            planned=planned,
            present=EntrySet.of_entries(present),
            absent=EntrySet.of_entries(absent),
            failed=EntrySet.of_entries(failed),
            lacks_ledger=lacks_ledger(mine.values()),
            all_unknown=Unknown.BOOKIE_UNSUPPORTED in reasons or not (present or absent),
            reasons=tuple(reasons),
            answered=len(answered),
            random_answered=len(answered.intersection(planned.random)),
        )

    def split_share(self, wants: EntrySet) -> tuple[EntrySet, EntrySet]:
        """Return (absent, unknown) of one extent's share."""
        if self.lacks_ledger or not wants:
            return wants, EMPTY
        return (
            wants & self.absent,
            wants - self.present - self.absent if self.all_unknown else wants & self.failed,
        )


def lacks_ledger(reads: Iterable[EntryRead]) -> bool:
    """Return whether the bookie lacks the whole ledger.

    True if it said ENOLEDGER at the newest look with a conclusive read, and sent no entry there.
    """
    answered = [read for read in reads if read.status in ANSWERED_READS]
    newest = max((read.look for read in answered), default=0)
    said = {read.status for read in answered if read.look == newest}
    return ReadStatus.NO_LEDGER in said and not said & {ReadStatus.PRESENT, ReadStatus.CORRUPT}
