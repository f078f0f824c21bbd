"""Plan which copies a run reads on bookies that list, so that each is read within a period.

Each copy has a place on a circle (`auditor.first_checker.circle`). A run reads an arc of each
bookie, and the next run goes on where this one ended. summary.json passes on which arcs were read
when. The plan is a part of run.json.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from auditor.first_checker.circle import (
    BLAKE2B,
    CIRCLE,
    MIXED,
    WHOLE,
    Arc,
    Starts,
    arc_from,
    arc_of,
)
from auditor.first_checker.probing import Draw, step_within
from auditor.model.identity import BookieId
from auditor.model.summary import Verification
from auditor.summary.due_copies import Due

PASS_SHARE = 3 / 4
"""Reads go once round the circle in this share of the period. Runs may then be as far apart as the
rest of it, and each copy is still read within the period."""
READ_COST_BYTES = 4096
"""What a read costs beside the bytes of its entry: a page of the disk, and the request."""
SECONDS_MIN = 10.0
"""A bookie is read as if its lists took so long, if they take less."""
REQUESTS_UNLIMITED = 2000.0
"""Stands for the limit on requests a second where there is none."""
ROUNDING = 1.25
"""An arc in whole units is at most this many times as long as it must be."""
MERGED_SHARE = 1 / 64
"""Runs that began within this share of the period count as one, at the time of the first."""
ARCS_MAX = 256
"""At most this many arcs of a bookie are kept, the newest. What older ones read counts as never
read."""
UNANSWERED_MAX = 256
"""At most this many places of a bookie are kept apart because their reads were not answered. An arc
with which there would be more does not count."""


class ReadArc(NamedTuple):
    """An arc that was read, and when the run began, in ms."""

    arc: Arc
    at_ms: int


class UnansweredPlace(NamedTuple):
    """A place of which no arc counts since `since_ms`: a read of it was not answered then, nor
    later.

    `read_at_ms`: when the run before that began that read it; 0 without one.
    """

    place: int
    since_ms: int
    read_at_ms: int


@dataclass(frozen=True, slots=True)
class BookieReads:
    """The arcs that runs read on one bookie, oldest first. Each begins within or behind the last.

    `since_ms`: when the first run began whose plan had the bookie. `unanswered`: places that were
    not read with the arcs that have them. `last_ms`: when the last run began whose arc was joined
    to the newest of `arcs`; 0 if none was.
    """

    since_ms: int
    arcs: tuple[ReadArc, ...] = ()
    unanswered: tuple[UnansweredPlace, ...] = ()
    last_ms: int = 0

    @property
    def next_place(self) -> int:
        """The place behind the newest arc."""
        return self.arcs[-1].arc.end if self.arcs else 0

    @property
    def newest_ms(self) -> int:
        """When the last run began that read an arc; without one, `since_ms`."""
        return self.last_ms or (self.arcs[-1].at_ms if self.arcs else self.since_ms)

    @property
    def length_unanswered(self) -> int:
        """How many places there are from the first one to ask for again, up to `next_place`.

        A place is asked for again by the next run, if it was not answered for the first time and
        the run before had not read it. It is 0 if there is none.
        """
        before_ms = self.arcs[-2].at_ms if len(self.arcs) > 1 else 1
        lengths = (
            (self.next_place - 1 - one.place) % CIRCLE + 1
            for one in self.unanswered
            if one.since_ms >= self.newest_ms and one.read_at_ms < before_ms
        )
        return max(lengths, default=0)

    def length_since(self, at_ms: int) -> int:
        """Return how many places up to `next_place` were read by runs that began at `at_ms` or
        later.
        """
        length = begins = 0  # measured backwards from next_place
        newer: Arc | None = None
        for arc, read_at_ms in reversed(self.arcs):
            if read_at_ms < at_ms or length >= CIRCLE:
                break
            ends = begins - _overlap(arc, newer) if newer else 0
            begins, newer = ends + arc.length, arc
            length = max(length, begins)
        return min(length, CIRCLE)

    def with_arc(
        self, arc: Arc, at_ms: int, period_ms: int, unanswered: Collection[int] = ()
    ) -> BookieReads:
        """Return the reads with those of one more run, without arcs that were read again.

        `unanswered`: places in the arc with a read that was not answered.
        """
        known = {one.place: one for one in self.unanswered}
        left = {
            *(place for place in known if place not in arc),
            *unanswered,
        }
        apart = tuple(
            known.get(place) or UnansweredPlace(place, at_ms, self._read_at(place))
            for place in sorted(left)
        )
        arcs, last_ms = [*self.arcs, ReadArc(arc, at_ms)], 0
        if len(arcs) > 1 and at_ms - arcs[-2].at_ms <= period_ms * MERGED_SHARE:
            arcs[-2:] = [ReadArc(_joined(arcs[-2].arc, arc), arcs[-2].at_ms)]
            last_ms = at_ms
        kept = tuple(_without_hidden(arcs))[-ARCS_MAX:]
        return replace(self, arcs=kept, unanswered=apart, last_ms=last_ms)

    def _read_at(self, place: int) -> int:
        return max((read.at_ms for read in self.arcs if place in read.arc), default=0)


def _overlap(arc: Arc, newer: Arc) -> int:
    """Return by how many places a newer arc begins before the end of the arc that it continues."""
    return (arc.end - newer.first) % CIRCLE


def _joined(arc: Arc, newer: Arc) -> Arc:
    """Return the places of an arc and of the newer one that continues it."""
    if CIRCLE in (arc.length, newer.length):
        return WHOLE
    overlap = _overlap(arc, newer)
    if overlap >= arc.length:
        return newer
    length = arc.length - overlap + newer.length
    return WHOLE if length >= CIRCLE else Arc(arc.first, length)


def _without_hidden(arcs: Sequence[ReadArc]) -> list[ReadArc]:
    """Return the arcs of which some place was not read again by a newer one."""
    kept: list[ReadArc] = []
    free = [(0, CIRCLE)]
    for one in reversed(arcs):
        left = _without(free, one.arc)
        if left != free:
            kept.append(one)
        free = left
        if not free:
            break
    return kept[::-1]


def _without(free: Sequence[tuple[int, int]], arc: Arc) -> list[tuple[int, int]]:
    left = list(free)
    for first, end in arc.pieces():
        cut = []
        for low, high in left:
            cut += [(low, min(high, first)), (max(low, end), high)]
        left = [(low, high) for low, high in cut if low < high]
    return left


@dataclass(frozen=True, slots=True)
class ReadingPlan:
    """What decides which copies a run reads to test lists and to verify them: a part of run.json.

    `before`: what earlier runs read, by bookie. `copies`: how many each should hold by the count of
    the last run. `arcs`: what this run reads. Without a period (0) only lists are tested. These
    reads go on where the last ones ended, too.
    """

    seed: int = 0
    began_at_ms: int = 0
    period_ms: int = 0
    bytes_per_second: int = 0
    requests_per_second: float = 0.0
    before: Mapping[BookieId, BookieReads] = field(default_factory=dict)
    copies: Mapping[BookieId, int] = field(default_factory=dict)
    arcs: Mapping[BookieId, Arc] = field(default_factory=dict)
    way: int = BLAKE2B
    """How `starts` are drawn. Runs of earlier versions do not say it."""

    @property
    def starts(self) -> Starts:
        """What gives each copy its place on the circle."""
        return Starts(self.seed, self.way)

    def for_bookies(self, due: Mapping[BookieId, Due], shards: int, spot_reads: int) -> ReadingPlan:
        """Return the plan with what to read on each bookie.

        `due`: what each should hold of the first of `shards` shards, which have equal numbers of
        ledgers. A bookie that neither the first shard nor the last run names is not read.
        """
        if spot_reads < 1:
            return self
        arcs = {
            bookie: self.arc(bookie, share, spot_reads)
            for bookie, share in self._estimates(due, shards).items()
        }
        return replace(self, arcs=arcs)

    def _estimates(self, due: Mapping[BookieId, Due], shards: int) -> Mapping[BookieId, Due]:
        """Return what each bookie should hold, of all shards.

        The first shard has the oldest ledgers, of which a newer bookie has few. It should hold no
        less than at the last run, or than the average bookie if it is not known from there.
        """
        if shards == 1 or not due:
            return due
        found = {bookie: share.times(shards) for bookie, share in due.items()}
        average = Due(*map(sum, zip(*found.values(), strict=True))).times(1 / len(found))
        for bookie in {*found, *self.copies}:
            like = found.get(bookie, average)
            copies = self.copies.get(bookie, average.copies)
            if like.copies and (bookie not in found or like.copies < copies):
                found[bookie] = like.times(copies / like.copies)
        return found

    def arc(self, bookie: BookieId, due: Due, spot_reads: int) -> Arc:
        """Return what to read on a bookie: enough to test its lists, and what the period needs.

        The second part is limited by `bytes_per_second`. A bookie that is new is only tested. The
        arc begins earlier if the last run got no answer to some reads, and the limit allows it.
        """
        before = self.before.get(bookie)
        at = before.next_place if before else 0
        step = step_within(spot_reads, due.copies)
        tested = arc_of(Draw(step, at * step // CIRCLE))
        if before is None or not self.period_ms:
            return tested
        allowed = self.length_allowed(due)
        length = min(self.length_needed(before), allowed)
        again = before.length_unanswered
        longer = min(CIRCLE, again + max(length, tested.length))
        if again and longer <= allowed:
            return arc_from((at - again) % CIRCLE, longer)
        return arc_from(at, length) if length > tested.length else tested

    def length_needed(self, before: BookieReads) -> int:
        """Return how many places to read now for the sake of the period.

        It is the share of the circle that corresponds to the time since the last run. It is more if
        places would otherwise be overdue at the next run, which is expected after as long again.
        """
        elapsed = max(0, self.began_at_ms - before.newest_ms)
        steady = CIRCLE * elapsed / (self.period_ms * PASS_SHARE)
        horizon = max(float(elapsed), self.period_ms * (1 - PASS_SHARE))
        fresh_since = self.began_at_ms - int(self.period_ms - horizon)
        is_young = before.since_ms >= fresh_since
        overdue = 0 if is_young else CIRCLE - before.length_since(fresh_since)
        return min(CIRCLE, max(int(steady), overdue))

    def length_allowed(self, due: Due) -> int:
        """Return how many places a run may read of a bookie."""
        allowed = self.bytes_per_second * self._seconds(due) / max(1.0, _cost_bytes(due))
        return CIRCLE if allowed >= ROUNDING else int(CIRCLE * allowed / ROUNDING)

    def rate_needed(self, due: Due, elapsed_ms: int) -> float:
        """Return how many bytes a second suffice if runs are `elapsed_ms` apart."""
        share = min(1.0, elapsed_ms / (self.period_ms * PASS_SHARE))
        return share * ROUNDING * _cost_bytes(due) / self._seconds(due)

    @property
    def elapsed_ms(self) -> int | None:
        """How long ago the last run began of which reads counted on any bookie; None without
        one.
        """
        times = [reads.newest_ms for reads in self.before.values() if reads.arcs]
        return self.began_at_ms - max(times) if times else None

    def _seconds(self, due: Due) -> float:
        """Return how long the lists of a bookie take at the limit on requests, at least
        SECONDS_MIN.
        """
        return max(SECONDS_MIN, due.segments / (self.requests_per_second or REQUESTS_UNLIMITED))


def _cost_bytes(due: Due) -> float:
    return due.size_bytes + due.copies * READ_COST_BYTES


def reads_before(stored: Verification | None) -> dict[BookieId, BookieReads]:
    """Return what earlier runs read by the summary of the last one; nothing if it is impossible, or
    if it is not known which copies the arcs mean.
    """
    if stored is not None and stored.way not in (BLAKE2B, MIXED):
        return {}
    found = {}
    for bookie in stored.bookies if stored else ():
        arcs = tuple(ReadArc(Arc(first, length), at_ms) for first, length, at_ms in bookie.arcs)
        apart = tuple(UnansweredPlace(*one) for one in bookie.unanswered)
        if not all(0 <= arc.first < CIRCLE and 0 < arc.length <= CIRCLE for arc, _ in arcs):
            return {}
        if not all(0 <= one.place < CIRCLE for one in apart):
            return {}
        found[bookie.bookie_id] = BookieReads(
            milliseconds(bookie.since), arcs, apart, bookie.last_read_ms
        )
    return found


def starts_before(stored: Verification | None) -> Starts | None:
    """Return what gave copies their places in earlier runs by the summary of the last one.

    None if no arc is known that depends on it.
    """
    is_known = any(reads.arcs for reads in reads_before(stored).values())
    return Starts(stored.seed, stored.way) if stored is not None and is_known else None


def copies_before(stored: Verification | None) -> dict[BookieId, int]:
    """Return how many copies each bookie should hold by the summary of the last run."""
    bookies = stored.bookies if stored else ()
    return {one.bookie_id: one.counts.copies for one in bookies if one.counts is not None}


def milliseconds(at: str) -> int:
    """Return a time of RFC 3339 in ms since 1970."""
    return round(datetime.fromisoformat(at).timestamp() * 1000)
