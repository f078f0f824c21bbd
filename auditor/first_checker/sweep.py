"""Sweep a bookie that cannot list: read every `step`-th entry, and other ones in the next run.

The entries of one ledger that a bookie should hold are ranked from 0, in ascending order. A run
reads the ranks x with (x - start) mod step = place. `start` is drawn for each ledger and bookie by
a hash of the series' seed. `place` depends on the turn of the run alone: the turn with its bits in
reverse order (van der Corput). The runs of a series therefore halve the gaps that earlier ones
left, and after `step` turns every rank was read.

Verified: a range of L consecutive ranks that the bookie lost is hit with the probability that
`hit_probability` returns, whatever the ledger. The probability is over `start`, not over the loss.
docs/soundness.md derives it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from math import sqrt
from typing import NamedTuple

import numpy as np

from auditor.first_checker.entry_set import EntrySet
from auditor.model.evidence import Sweep
from auditor.model.identity import BookieId, EntryId, LedgerId

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
    digest = blake2b(f"{sweep.seed}/{ledger_id}/{bookie}/sweep".encode(), digest_size=8).digest()
    return (int.from_bytes(digest) + place(Draw(sweep.step, sweep.turn))) % sweep.step


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
