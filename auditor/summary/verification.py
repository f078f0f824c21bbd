"""Say how long ago the copies of each bookie were last read.

The age of a copy follows from its place on the circle (`auditor.first_checker.circle`) and from the
arcs that runs read (`auditor.summary.reading_plan`). No age is stored for a copy.

Verified: each copy that counts as read was asked for by a run that began after the ledger's
metadata had last changed, and the bookie said something about it. A wrong or a missing entry is a
finding of that run. On a bookie for which a lister lists, each copy counts that was there when the
lister's scrub began a pass in which it read every log and could check every entry. Not verified:
copies of other bookies that do not list; that the index leads to the record that a scrub read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from math import ceil
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.gathered import ledger_records
from auditor.evidence.ids import places_by_code
from auditor.evidence.rows import one_batch, rows_of
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import (
    CARRIED,
    CARRIED_TABLE,
    LEDGERS,
    LISTING,
    READS,
    SCRUBS,
    SCRUBS_TABLE,
)
from auditor.first_checker.circle import CIRCLE, NO_ARC, WHOLE, Arc, Starts
from auditor.first_checker.probing import SWEPT_ENTRIES_MAX, Draw, place
from auditor.first_checker.spot_reads import place_of
from auditor.model.availability import ABSENT_READS, Greeting, ReadStatus
from auditor.model.cluster import BookieRecord, newest_records
from auditor.model.identity import BookieId, LedgerId
from auditor.model.summary import CopiesByAge, Verification, VerifiedBookie, VerifiedBy
from auditor.summary.about import About
from auditor.summary.assurance import listed_by_lister
from auditor.summary.due_copies import (
    DUE_COLUMNS,
    SHARE_COLUMNS,
    Due,
    add_due,
    shares_in,
)
from auditor.summary.reading_plan import (
    UNANSWERED_MAX,
    BookieReads,
    ReadArc,
    ReadingPlan,
    reads_before,
)
from auditor.witness.phrases import moment

DAY_MS = 24 * 60 * 60 * 1000
WEEK_MS = 7 * DAY_MS
SCRUB_FLUSH_MS = 10 * 60 * 1000
"""What a bookie stored so long before a pass over its entry logs began was in them. Bookies with
DbLedgerStorage flush once a minute or more often."""


PAIRS_AT_ONCE = 4_000_000
"""Ledgers of bookies that are held before their copies are counted, ten bytes each: 40 MB, however
many ledgers there are. Each bookie has an equal part of it."""
PAIRS_OF_BOOKIE_MAX = 100_000
"""No bookie needs a larger part: counting so many costs far more than beginning to count."""
PAIRS_OF_BOOKIE_MIN = 1_000
"""No bookie has a smaller part."""
HISTOGRAM_BLOCKS_MIN = 8
"""Below so many blocks counting in each of them costs less than a histogram of all places."""
HISTOGRAM_PLACES_MAX = 1
"""A histogram has at most so many places for each ledger that is counted with it."""


class _Block(NamedTuple):
    """Places whose copies have every `step`-th rank. They are a part of a piece of the circle."""

    piece: int
    step: int
    residue: int
    """The rank of the first of them, counted from the ledger's start."""


@lru_cache(maxsize=4)
def _residues(grid: int) -> npt.NDArray[np.int64]:
    """Return the residue of each place of a grid: its bits in reverse order."""
    left = np.arange(grid)
    found = np.zeros(grid, np.int64)
    for _ in range(grid.bit_length() - 1):
        found = found << 1 | left & 1
        left >>= 1
    return found


@dataclass(slots=True)
class AgeCount:
    """Counts the copies of one bookie by the age of their newest read.

    `before` are the reads of earlier runs, and `planned` is the arc of this run. `unanswered`:
    places of it that may have to be set apart. Arcs cut the circle into pieces. For each piece, and
    each time between reads at which the metadata of ledgers changed last, there is one sum:
    memory does not grow with the ledgers.
    """

    bookie: BookieId
    plan: ReadingPlan
    before: BookieReads
    planned: Arc = NO_ARC
    unanswered: Collection[int] = ()
    after: BookieReads = field(init=False)
    """The reads with those of this run, if all that it drew were answered."""
    capacity: int = PAIRS_OF_BOOKIE_MAX
    """How many ledgers are held before their copies are counted."""
    _held: int = 0
    _starts: npt.NDArray[np.uint32] = field(init=False)
    _copies: npt.NDArray[np.uint32] = field(init=False)
    _group_of: npt.NDArray[np.uint16] = field(init=False)
    """By ledger that is held, how many of `_times` are before its metadata changed: its group."""
    _unswept: Counter[int] = field(default_factory=Counter)
    """By group, the copies in shares that are too large to be read by place."""
    _totals: npt.NDArray[np.int64] = field(init=False)
    """By group, all other copies."""
    _sums: npt.NDArray[np.int64] = field(init=False)
    """By group and piece, the copies in the pieces that some arc has; 0 for the others."""
    _of_places: npt.NDArray[np.int64] = field(init=False)
    """By group and place of `_places`, the copies at that place."""
    _edges: npt.NDArray[np.int64] = field(init=False)
    """The place at which each piece begins, ascending. The first one is 0."""
    _blocks: list[_Block] = field(init=False)
    """The pieces that some arc has, in parts."""
    _places: list[int] = field(init=False)
    """The places that may be set apart, ascending."""
    _late_ms: int = field(init=False)
    """A copy that was not read since is overdue."""
    _times: list[int] = field(init=False)
    """When runs read something, and `_late_ms`, in order."""

    def __post_init__(self) -> None:
        now, period = self.plan.began_at_ms, self.plan.period_ms
        self.after = self.before
        if self.planned.length:
            self.after = self.before.with_arc(self.planned, now, period)
        arcs = (*self.before.arcs, *self.after.arcs)
        self._late_ms = now - period - 1 if period else -1
        earlier = (one.read_at_ms for one in self.before.unanswered if one.read_at_ms)
        self._times = sorted({self._late_ms, *(one.at_ms for one in arcs), *earlier})
        self._cut([self.planned, *(one.arc for one in arcs)])
        self._places = sorted({*self.unanswered, *(one.place for one in self.before.unanswered)})
        groups = len(self._times) + 1
        self._totals = np.zeros(groups, np.int64)
        self._sums = np.zeros((groups, len(self._edges)), np.int64)
        self._of_places = np.zeros((groups, len(self._places)), np.int64)
        self._starts, self._copies = (np.empty(self.capacity, np.uint32) for _ in range(2))
        self._group_of = np.empty(self.capacity, np.uint16)

    def _cut(self, arcs: Sequence[Arc]) -> None:
        """Cut the circle where an arc begins or ends."""
        pieces = [piece for arc in arcs for piece in arc.pieces()]
        self._edges = np.array(sorted({0, *(at for one in pieces for at in one)} - {CIRCLE}))
        is_read = self._mask(pieces)
        ends = [*self._edges[1:].tolist(), CIRCLE]
        self._blocks = [
            _Block(number, draw.step, place(draw))
            for number, (first, end) in enumerate(zip(self._edges.tolist(), ends, strict=True))
            if is_read[number]
            for draw in Arc(first, end - first).draws()
        ]

    def _mask(self, ranges: Iterable[tuple[int, int]]) -> npt.NDArray[np.bool_]:
        """Return which pieces are within some of these ranges of places."""
        found = np.zeros(len(self._edges), np.bool_)
        for first, end in ranges:
            found |= (first <= self._edges) & (self._edges < end)
        return found

    def add(
        self,
        ledgers: npt.NDArray[np.int64],
        copies: npt.NDArray[np.int64],
        changed: npt.NDArray[np.int64],
    ) -> None:
        """Add ledgers: the copies that the bookie should hold, and when the metadata changed."""
        starts = self.plan.starts.of_ledgers(ledgers, self.bookie) % np.uint64(CIRCLE)
        group_of, is_swept = np.searchsorted(self._times, changed), copies <= SWEPT_ENTRIES_MAX
        if not is_swept.all():
            for group, unswept in zip(group_of[~is_swept], copies[~is_swept].tolist(), strict=True):
                self._unswept[int(group)] += unswept
            starts, copies, group_of = starts[is_swept], copies[is_swept], group_of[is_swept]
        at = 0
        while at < len(starts):
            begin, size = self._held, min(len(starts) - at, self.capacity - self._held)
            for held, cells in (
                (self._starts, starts),
                (self._copies, copies),
                (self._group_of, group_of),
            ):
                held[begin : begin + size] = cells[at : at + size]
            at, self._held = at + size, begin + size
            if self._held == self.capacity:
                self._count_held()

    def _count_held(self) -> None:
        """Add the copies of the ledgers that are held to the sums, and hold none."""
        count, self._held = self._held, 0
        if not count:
            return
        of, starts, copies = self._group_of[:count], self._starts[:count], self._copies[:count]
        if (of != of[0]).any():
            in_order = np.argsort(of, kind="stable")
            of, starts, copies = of[in_order], starts[in_order], copies[in_order]
        firsts = np.flatnonzero(np.append(True, of[1:] != of[:-1])).astype(np.int64)
        groups = of[firsts]
        self._totals[groups] += np.add.reduceat(copies, firsts, dtype=np.int64)
        pairs = starts, copies, firsts
        if (
            len(self._blocks) >= HISTOGRAM_BLOCKS_MIN
            and len(firsts) * self._grid <= count * HISTOGRAM_PLACES_MAX
        ):
            self._sums[groups] += self._by_histogram(*pairs)
        else:
            for block in self._blocks:
                self._sums[groups, block.piece] += _copies_in(block.step, block.residue, *pairs)
        for number, at in enumerate(self._places):
            self._of_places[groups, number] += _copies_in(CIRCLE, place(Draw(CIRCLE, at)), *pairs)

    @property
    def _grid(self) -> int:
        """How many places there are, if as many as possible count as one."""
        bounds = CIRCLE | int(np.bitwise_or.reduce(self._edges))
        return CIRCLE // (bounds & -bounds)

    def _by_histogram(
        self,
        starts: npt.NDArray[np.uint32],
        copies: npt.NDArray[np.uint32],
        firsts: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.int64]:
        """Return the copies by group and piece, as `_copies_in` counts them in each block.

        Costs two histograms of the ledgers, and some operations on the grid for each group.
        """
        grid, groups = self._grid, len(firsts)
        rounds, rest = np.divmod(copies.astype(np.int64), grid)
        first = -starts.astype(np.int64) % grid
        behind = first + rest
        # Where the residues go on at 0, all have one more, except those between the two ends.
        goes_on = behind > grid
        end = np.where(goes_on, behind - grid, behind)
        of_all = np.add.reduceat(rounds + goes_on, firsts)
        row = np.repeat(np.arange(groups), np.diff(firsts, append=len(starts))) * (grid + 1)
        size = groups * (grid + 1)
        changes = np.bincount(row + first, minlength=size) - np.bincount(row + end, minlength=size)
        here = np.cumsum(changes.reshape(groups, grid + 1)[:, :-1], axis=1) + of_all[:, None]
        edges = self._edges // (CIRCLE // grid)
        sums: npt.NDArray[np.int64] = np.add.reduceat(here[:, _residues(grid)], edges, axis=1)
        is_read = np.zeros(len(edges), np.bool_)
        is_read[[block.piece for block in self._blocks]] = True
        return sums * is_read

    def planned_copies(self) -> int:
        """Return how many copies this run drew."""
        self._count_held()
        return int(self._sums[:, self._mask(self.planned.pieces())].sum())

    def counts(self, reads: BookieReads) -> CopiesByAge:
        """Return the copies by age. `reads` are those before this run, or after it."""
        self._count_held()
        now = self.plan.began_at_ms
        found: Counter[str] = Counter()
        oldest: list[int] = []
        for group, total in enumerate(self._totals.tolist()):
            unswept = self._unswept[group]
            if not total and not unswept:
                continue
            after = self._times[group] if group < len(self._times) else now + 1
            read_at = self._read_at(one for one in reads.arcs if one.at_ms >= after)
            placed = self._sums[group]
            placed, read_at = np.append(placed, total - placed.sum()), np.append(read_at, 0)
            if reads.unanswered:
                copies, in_arcs, earlier = self._set_apart(group, read_at, reads, after)
                placed = np.concatenate([placed, -copies, copies])
                read_at = np.concatenate([read_at, in_arcs, earlier])
            age = now - read_at
            is_read = read_at > 0
            is_late = self._is_old(group) and reads.since_ms <= self._late_ms
            unread = int(placed[~is_read].sum()) + unswept
            found["copies"] += total + unswept
            found["never"] += unread
            found["overdue"] += unread if is_late else 0
            found["overdue"] += int(placed[is_read & (read_at <= self._late_ms)].sum())
            for name, limit in self._limits():
                found[name] += int(placed[is_read & (age <= limit)].sum())
            times, at = np.unique(read_at, return_inverse=True)
            sums = np.zeros(len(times), np.int64)
            np.add.at(sums, at, placed)
            held = times[(times > 0) & (sums > 0)]
            oldest += [int(held.min())] if len(held) else []
        return _ages(found, moment(min(oldest)) if oldest else None)

    def _set_apart(
        self, group: int, read_at: npt.NDArray[np.int64], reads: BookieReads, after: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return for each place that was not answered how many copies have it, the time of the
        arcs that have it, and when it was read.
        """
        places = [one.place for one in reads.unanswered]
        copies = self._of_places[group, np.searchsorted(self._places, places)]
        piece = np.searchsorted(self._edges, places, "right") - 1
        earlier = [one.read_at_ms if one.read_at_ms >= after else 0 for one in reads.unanswered]
        return copies, read_at[piece], np.array(earlier, np.int64)

    def _limits(self) -> Iterator[tuple[str, int]]:
        yield "within_day", DAY_MS
        yield "within_week", WEEK_MS
        if self.plan.period_ms:
            yield "within_period", self.plan.period_ms

    def _is_old(self, group: int) -> bool:
        """Return whether the metadata of a group's ledgers changed before the period."""
        return group <= self._times.index(self._late_ms)

    def _read_at(self, arcs: Iterable[ReadArc]) -> npt.NDArray[np.int64]:
        """Return when the newest read of each piece began; 0 without a read."""
        read_at = np.zeros(len(self._edges), np.int64)
        for arc, at_ms in arcs:
            read_at[self._mask(arc.pieces())] = at_ms
        return read_at


def _copies_in(
    step: int,
    residue: int,
    starts: npt.NDArray[np.uint32],
    copies: npt.NDArray[np.uint32],
    firsts: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """Return how many copies are in a block, for each group of ledgers. `firsts`: where it begins.

    `step` is a power of two. A ledger has the ranks below its number of copies.
    """
    last = np.uint32(step - 1)
    first = (starts + np.uint32(residue)) & last
    held = (copies + last - first) >> np.uint32(step.bit_length() - 1)
    sums: npt.NDArray[np.int64] = np.add.reduceat(held, firsts, dtype=np.int64)
    return sums


AGE_COLUMNS = [*SHARE_COLUMNS, "znode_mtime_ms"]
"""The columns of LEDGERS from which copies are counted by age."""


def count_ages(
    ledgers: Iterable[pa.RecordBatch], count_of: Callable[[BookieId], AgeCount | None]
) -> None:
    """Add the closed ledgers of the first look to the counts of their bookies.

    `ledgers` have the AGE_COLUMNS. A bookie without a count is left out.
    """
    for batch in ledgers:
        shares = shares_in(batch.select(SHARE_COLUMNS))
        times = batch["znode_mtime_ms"].fill_null(2**62).to_numpy()
        owners = batch["ledger_id"].to_numpy()
        codes = np.where(shares.copies > 0, shares.bookies, -1)
        by_bookie = places_by_code(codes, len(shares.names))
        for bookie, mine in zip(shares.names, by_bookie, strict=True):
            if len(mine) and (count := count_of(bookie)) is not None:
                rows = shares.rows[mine]
                count.add(owners[rows], shares.copies[mine], times[rows])


_SUMMED = ("copies", "within_day", "within_week", "within_period", "never", "overdue")


def _ages(found: Mapping[str, int], oldest: str | None) -> CopiesByAge:
    copies, day, week, period, never, overdue = (found.get(name, 0) for name in _SUMMED)
    return CopiesByAge(copies, day, week, period, never, overdue, oldest)


def add_counts(counts: Collection[CopiesByAge]) -> CopiesByAge:
    """Return the copies of several bookies by age."""
    sums = {name: sum(getattr(one, name) for one in counts) for name in _SUMMED}
    oldest = [one.oldest for one in counts if one.oldest is not None]
    return _ages(sums, min(oldest, default=None))


@dataclass(frozen=True, slots=True)
class OtherCopies:
    """Copies of a ledger on a bookie that runs do not read, and what reads them."""

    bookie_id: BookieId
    verified_by: VerifiedBy
    copies: int


@dataclass(frozen=True, slots=True)
class LedgerAges:
    """How old the newest reads of one ledger's copies were when a run ended.

    `counts` has the copies on bookies that runs read, `others` those on the other bookies.
    """

    period_ms: int
    counts: CopiesByAge
    others: tuple[OtherCopies, ...] = ()


def ages_of_ledger(
    run: Place, stored: Verification | None, began_at_ms: int, ledger_id: LedgerId
) -> LedgerAges | None:
    """Return the ages of one ledger's copies by the summary of a run that began at `began_at_ms`.

    None if the run counted no ages, or if the ledger was not closed at its first look. A bookie
    that the summary does not name counts as one that nothing reads. Costs a scan of the ledgers.
    """
    if stored is None or stored.counts is None:
        return None
    keep = (pc.field("ledger_id") == ledger_id) & (pc.field("look") == 1)
    rows = run.read_table("evidence/ledgers", LEDGERS, keep, AGE_COLUMNS)
    shares = shares_in(one_batch(rows.select(SHARE_COLUMNS)))
    pairs = zip(shares.bookies.tolist(), shares.copies.tolist(), strict=True)
    held = {shares.names[number]: copies for number, copies in pairs if copies}
    if not held:
        return None
    by = {one.bookie_id: one.verified_by for one in stored.bookies}
    plan = ReadingPlan(stored.seed, began_at_ms, stored.period_ms, way=stored.way)
    counts = {
        bookie: AgeCount(bookie, plan, reads)
        for bookie, reads in reads_before(stored).items()
        if bookie in held and by[bookie] is VerifiedBy.READS
    }
    count_ages(rows.to_batches(), counts.get)
    others = (
        OtherCopies(bookie, by.get(bookie, VerifiedBy.NOTHING), copies)
        for bookie, copies in sorted(held.items())
        if bookie not in counts
    )
    ages = add_counts([one.counts(one.before) for one in counts.values()])
    return LedgerAges(stored.period_ms, ages, tuple(others))


SAYS_OF_ENTRY = frozenset(
    {
        *ABSENT_READS,
        ReadStatus.PRESENT,
        ReadStatus.CORRUPT,
        ReadStatus.FAILED,
        ReadStatus.INVALID,
        ReadStatus.TOO_LARGE,
    }
)
"""Results of a read in which the bookie said something about the entry, or tried to send it. After
any other the entry is not read: its place is kept apart from the arc, or the arc does not count."""
ANSWERED_SHARE_MIN = 1 / 2
"""An arc counts if at least this share of its reads was answered."""


def verification_of(
    run: Place,
    about: About,
    bookies: Sequence[BookieRecord],
    away: Collection[BookieId],
    due: dict[BookieId, Due],
) -> Verification:
    """Return how old the newest reads of all copies are, after this run.

    Adds to `due` what each bookie should hold, if it counts the copies.

    Bookies in `away` do not count in the sum: they are in maintenance or not registered. A run of
    named ledgers, and one that tests no list, hands on what earlier runs read. Costs a scan of the
    ledgers, with a hash for each ledger and bookie, and a scan of the spot reads.
    """
    plan = about.reading
    result = Verification(plan.seed, plan.period_ms, plan.bytes_per_second, way=plan.way)
    if about.partial or about.terms.spot_reads < 1:
        handed_on = tuple(
            _row(name, reads, _known_by(reads), None) for name, reads in sorted(plan.before.items())
        )
        return replace(result, bookies=handed_on)
    found = list(_count_bookies(run, about, bookies, due))
    counted = [one.counts for one in found if one.bookie_id not in away and one.counts is not None]
    return replace(result, counts=add_counts(counted), bookies=tuple(found))


def _count_bookies(
    run: Place, about: About, bookies: Sequence[BookieRecord], due: dict[BookieId, Due]
) -> Iterator[VerifiedBookie]:
    """Yield the bookies that should hold something, sorted, and add to `due` what that is."""
    plan, scrubs = about.reading, read_scrubs(run)
    by_bookie = _read_by(about, bookies, scrubs)
    answered, silent = _count_drawn(run)
    unanswered = _unanswered_places(run, plan.starts, silent)
    capacity = PAIRS_AT_ONCE // max(1, len({one.bookie_id for one in bookies}))
    capacity = min(PAIRS_OF_BOOKIE_MAX, max(PAIRS_OF_BOOKIE_MIN, capacity))

    @cache
    def count_of(bookie: BookieId) -> AgeCount:
        by_scrub = by_bookie.get(bookie) is VerifiedBy.SCRUB
        return AgeCount(
            bookie,
            plan,
            _reads_before(bookie, plan, scrubs)
            if by_scrub
            else plan.before.get(bookie, BookieReads(plan.began_at_ms)),
            plan.arcs.get(bookie, NO_ARC),
            unanswered.get(bookie, ()),
            capacity,
        )

    asked_share = _asked_share(run)
    count_ages(_first_looks(run, due), count_of)
    for bookie in sorted(due):
        count = count_of(bookie)
        by = by_bookie.get(bookie, VerifiedBy.UNANSWERED)
        reads = count.before
        if by is VerifiedBy.READS and count.planned.length:
            after = _reads_after(count, answered[bookie])
            by = VerifiedBy.UNANSWERED if after is None else by
            reads = after or reads
        ages = None if by is VerifiedBy.SAMPLE else count.counts(reads)
        row = _row(bookie, reads, by, ages)
        if by is VerifiedBy.READS and count.counts(replace(reads, unanswered=())).overdue:
            mine = due[bookie]
            mine = mine._replace(segments=mine.segments * asked_share)
            row = _with_rate(row, plan, mine)
        yield row


_COUNTED = sorted({*AGE_COLUMNS, *DUE_COLUMNS})


def _first_looks(run: Place, due: dict[BookieId, Due]) -> Iterator[pa.RecordBatch]:
    """Yield the ledgers as the first look read them, and add to `due` what bookies should hold."""
    for batch in run.scan("evidence/ledgers", LEDGERS, ["segments"]).batches(_COUNTED):
        add_due(due, batch)
        yield rows_of(batch, pc.equal(batch["look"], 1))


def _asked_share(run: Place) -> float:
    """Return the share of the listed ledgers that the run asked about. Costs footers of files."""
    if not run.has_table(CARRIED_TABLE):
        return 1.0
    listed = run.count("evidence/listing", LISTING)
    return 1.0 - run.count(CARRIED_TABLE, CARRIED) / max(1, listed)


def bookies_read(about: About, bookies: Sequence[BookieRecord]) -> frozenset[BookieId]:
    """Return the bookies whose copies runs read: those that list themselves."""
    by_bookie = _read_by(about, bookies, ())
    return frozenset(bookie for bookie, by in by_bookie.items() if by is VerifiedBy.READS)


def _reads_after(count: AgeCount, answered: int) -> BookieReads | None:
    """Return the reads with those of this run; None if its arc does not count.

    `answered`: how many of its reads were. The count has the places of the others, if they are few.
    More may be answered than planned: copies of carried ledgers are drawn before the first look,
    which may find that they were moved.
    """
    planned, unanswered = count.planned_copies(), count.unanswered
    if answered >= planned and not unanswered:
        return count.after
    is_each_known = answered + len(unanswered) >= planned
    if not is_each_known or answered < planned * ANSWERED_SHARE_MIN:
        return None
    after = count.before.with_arc(
        count.planned, count.plan.began_at_ms, count.plan.period_ms, unanswered
    )
    return after if len(after.unanswered) <= UNANSWERED_MAX else None


def _unanswered_places(
    run: Place, starts: Starts, counted: Mapping[BookieId, int]
) -> dict[BookieId, list[int]]:
    """Return the places of the drawn reads that were not answered, of bookies with few of them.

    `counted`: how many there are of each bookie. Costs a scan of the reads and one of the ledgers,
    if there are any.
    """
    few = sorted(bookie for bookie, count in counted.items() if count <= UNANSWERED_MAX)
    if not few:
        return {}
    theirs = _IS_DRAWN & ~_SAYS & pc.field("bookie_id").isin(few)
    columns = ["bookie_id", "ledger_id", "entry_id"]
    reads = run.read_table("evidence/reads", READS, theirs, columns)
    first = pc.field("look") == 1
    named = pc.field("ledger_id").isin(pc.unique(reads["ledger_id"]))
    rows = run.read_table("evidence/ledgers", LEDGERS, first & named)
    metadata = {one.ledger_id: one.metadata for one in ledger_records(rows)}
    places: dict[BookieId, list[int]] = {}
    for bookie, ledger_id, entry in zip(*reads.to_pydict().values(), strict=True):
        promised = metadata.get(ledger_id)
        if promised is not None:
            at = place_of(promised, ledger_id, starts, (bookie, entry))
            places.setdefault(bookie, []).append(at)
    return places


def read_scrubs(run: Place) -> dict[BookieId, int | None]:
    """Return the bookies whose lister scrubs, and when the newest pass began that read every copy.

    It is None without such a pass: one that read every log to its end, and could check each entry.
    The time is earlier by SCRUB_FLUSH_MS.
    """
    if not run.has_table(SCRUBS_TABLE):
        return {}
    rows = run.read_table(SCRUBS_TABLE, SCRUBS, None, ["bookie_id", "finished"]).to_pylist()
    return {row["bookie_id"]: _whole_pass_ms(row["finished"]) for row in rows}


def _whole_pass_ms(finished: Mapping[str, int] | None) -> int | None:
    if finished is None or any(
        finished[name] for name in ("damaged_logs", "unlisted", "unchecked")
    ):
        return None
    return max(0, finished["began_at_ms"] - SCRUB_FLUSH_MS)


def _reads_before(
    bookie: BookieId, plan: ReadingPlan, scrubs: Mapping[BookieId, int | None]
) -> BookieReads:
    """Return what was read on a bookie before this run: by a scrub, else as earlier runs say."""
    before = plan.before.get(bookie, BookieReads(plan.began_at_ms))
    scrubbed_ms = scrubs[bookie]
    if not scrubbed_ms:
        return before
    whole = ReadArc(WHOLE, min(scrubbed_ms, plan.began_at_ms))
    return replace(before, arcs=(whole,), unanswered=(), last_ms=0)


def _row(
    bookie: BookieId, reads: BookieReads, by: VerifiedBy, ages: CopiesByAge | None
) -> VerifiedBookie:
    arcs = tuple((*one.arc, one.at_ms) for one in reads.arcs)
    unanswered = tuple((*one,) for one in reads.unanswered)
    since = moment(reads.since_ms)
    return VerifiedBookie(bookie, by, since, arcs, ages, None, unanswered, reads.last_ms)


def _known_by(reads: BookieReads) -> VerifiedBy:
    """Return what read a bookie at earlier runs, for a run that does not count."""
    return VerifiedBy.READS if reads.arcs else VerifiedBy.NOTHING


def _read_by(
    about: About, bookies: Sequence[BookieRecord], scrubs: Collection[BookieId]
) -> dict[BookieId, VerifiedBy]:
    """Return what reads each bookie that answered or cannot list. The listers of `scrubs` scrub."""
    listed = listed_by_lister(bookies)
    is_swept = about.terms.sweep.step > 0 and about.terms.probe_entries > 0
    found = {}
    for one in sorted(bookies, key=lambda one: -one.look):
        if one.bookie_id in listed:
            is_scrubbed = one.bookie_id in scrubs
            found[one.bookie_id] = VerifiedBy.SCRUB if is_scrubbed else VerifiedBy.NOTHING
        elif one.greeting is Greeting.ANSWERED:
            found[one.bookie_id] = VerifiedBy.READS
        elif one.greeting is Greeting.UNSUPPORTED:
            found[one.bookie_id] = VerifiedBy.SAMPLE if is_swept else VerifiedBy.NOTHING
    return found


def unregistered(bookies: Iterable[BookieRecord]) -> set[BookieId]:
    """Return the bookies without a registration at the last look that has them."""
    return {name for name, one in newest_records(bookies).items() if not one.is_registered}


_IS_DRAWN = (
    pc.field("is_spot") & ~pc.field("is_denser") & ~pc.field("is_named") & (pc.field("look") == 1)
)
_SAYS = pc.field("status").isin(sorted(status.value for status in SAYS_OF_ENTRY))


def _count_drawn(run: Place) -> tuple[Counter[BookieId], Counter[BookieId]]:
    """Return by bookie how many of the drawn entries it said something of, and of how many others
    it did not. Costs a scan of two columns of the reads.
    """
    reads = run.read_table("evidence/reads", READS, _IS_DRAWN, ["bookie_id", "status"])
    answered, unanswered = Counter[BookieId](), Counter[BookieId]()
    for row in reads.group_by(reads.column_names).aggregate([([], "count_all")]).to_pylist():
        counted = answered if row["status"] in SAYS_OF_ENTRY else unanswered
        counted[row["bookie_id"]] += row["count_all"]
    return answered, unanswered


def _with_rate(one: VerifiedBookie, plan: ReadingPlan, due: Due) -> VerifiedBookie:
    """Return the bookie with the rate that it needs, if runs are as far apart as the last two."""
    elapsed = plan.elapsed_ms
    return (
        one if elapsed is None else replace(one, rate_needed=ceil(plan.rate_needed(due, elapsed)))
    )
