"""Judge a bookie that cannot list (one with DbLedgerStorage) by reads.

Such a bookie is asked for the first and the last entry that it should hold of each segment. These
are both sides of each ensemble change. A run with a budget for it also asks for every n-th entry
(`auditor.first_checker.sweep`). A sample drawn at random from the other entries comes last.

Verified: the entries read, and that the bookie knows the ledger at all. Not verified: every other
entry. `missing_bound` says how many of them may be missing.

The sample is a hash of the run's seed, the ledger and the bookie: judging the same evidence again
draws the same sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from auditor.first_checker.entry_set import EMPTY, EntrySet
from auditor.first_checker.reasons import REASON_OF_READ
from auditor.first_checker.sweep import swept_entries
from auditor.model.availability import ABSENT_READS, EntryRead, ReadStatus
from auditor.model.evidence import Sweep, Terms
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.verdict import Unknown

SEGMENT_ENDS_MAX = 128
"""At most this many ends of segments are probed on one bookie for one ledger at one look. The
sample is added to them; the terms limit it. A ledger of thousands of segments must not cost its
bookies thousands of reads. The first and the last entry that the bookie should hold are always
probed."""

RULE_OF_THREE = 3
"""If none of n samples is missing, at most 3/n of the entries are missing, at 95 % confidence
(Hanley and Lippman-Hand, 1983)."""

ANSWERED_READS = frozenset({ReadStatus.PRESENT, ReadStatus.CORRUPT, *ABSENT_READS})
"""Reads in which the bookie said something about the requested entry."""


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
