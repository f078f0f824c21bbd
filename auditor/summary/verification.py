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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.gathered import ledger_records
from auditor.evidence.rows import rows_of
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LEDGERS, READS, SCRUBS, SCRUBS_TABLE
from auditor.first_checker.circle import CIRCLE, NO_ARC, WHOLE, Arc, Starts
from auditor.first_checker.probing import SWEPT_ENTRIES_MAX
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
    due_by_bookie,
    shares_of,
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


class _Pairs(NamedTuple):
    """Ledgers of one bookie whose metadata changed between two times.

    `starts` are hashes, and `copies` how many copies the bookie should hold. `unswept` counts the
    copies in shares that are too large to be read by place.
    """

    starts: npt.NDArray[np.uint32]
    copies: npt.NDArray[np.uint32]
    unswept: int

    def in_pieces(self, painted: _Painted, grid: int) -> npt.NDArray[np.int64]:
        """Return the copies in each piece of a grid. Those that were not read are all in one.

        Costs a sort of the ledgers, and a search for each place that was read; if these are many,
        some operations on the whole grid.
        """
        rounds, rest = np.divmod(self.copies.astype(np.int64), grid)
        first = -self.starts.astype(np.int64) % grid
        behind = first + rest
        # Where the residues go on at 0, all have one more, except those between the two ends.
        goes_on = behind > grid
        end = np.where(goes_on, behind - grid, behind)
        of_all = int(rounds.sum()) + int(goes_on.sum())
        lengths = np.diff(painted.starts, append=grid)
        sums = np.zeros(len(lengths), np.int64)
        is_read = painted.read_at > 0
        if not is_read.any():
            sums[0] = int((rounds * grid + rest).sum())
            return sums
        spans = zip(painted.starts[is_read].tolist(), lengths[is_read].tolist(), strict=True)
        places = np.concatenate([np.arange(start, start + length) for start, length in spans])
        residues = _residues(places, grid)
        if len(places) > grid // WHOLE_GRID_SHARE:
            changes = np.bincount(first, minlength=grid + 1) - np.bincount(end, minlength=grid + 1)
            here = np.cumsum(changes[:-1])[residues]
        else:
            here = np.searchsorted(np.sort(first), residues, "right")
            here -= np.searchsorted(np.sort(end), residues, "right")
        offsets = np.concatenate([[0], np.cumsum(lengths[is_read])[:-1]])
        sums[is_read] = np.add.reduceat(here + of_all, offsets)
        unread = np.flatnonzero(~is_read)
        if len(unread):
            sums[unread[0]] = int((rounds * grid + rest).sum()) - int(sums.sum())
        return sums


WHOLE_GRID_SHARE = 16
"""Above one of so many places, counting at all of them costs less than a search for each."""


def _residues(places: npt.NDArray[np.int64], grid: int) -> npt.NDArray[np.int64]:
    """Return the residue of each place: its bits in reverse order."""
    found = np.zeros(len(places), np.int64)
    left = places.copy()
    for _ in range(grid.bit_length() - 1):
        found = found << 1 | left & 1
        left >>= 1
    return found


class _Painted(NamedTuple):
    """Pieces of a grid, by the place where each starts. The first one starts at 0.

    `read_at`: when the newest read of a piece began; 0 without a read.
    """

    starts: npt.NDArray[np.int64]
    read_at: npt.NDArray[np.int64]


@dataclass(slots=True)
class AgeCount:
    """Counts the copies of one bookie by the age of their newest read.

    `before` are the reads of earlier runs, and `planned` is the arc of this run.
    """

    bookie: BookieId
    plan: ReadingPlan
    before: BookieReads
    planned: Arc = NO_ARC
    after: BookieReads = field(init=False)
    """The reads with those of this run, if all that it drew were answered."""
    capacity: int = 1_024
    """How many ledgers there is room for from the beginning, at ten bytes each."""
    _pairs: int = 0
    _starts: npt.NDArray[np.uint32] = field(init=False)
    _copies: npt.NDArray[np.uint32] = field(init=False)
    _group_of: npt.NDArray[np.uint16] = field(init=False)
    """By ledger, how many of `_times` are before its metadata changed."""
    _unswept: Counter[int] = field(default_factory=Counter)
    """By group, the copies in shares that are too large to be read by place."""
    _unit: int = field(init=False)
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
        bounds = CIRCLE | self.planned.first | self.planned.length
        for one in arcs:
            bounds |= one.arc.first | one.arc.length
        self._unit = bounds & -bounds
        self._late_ms = now - period - 1 if period else -1
        earlier = (one.read_at_ms for one in self.before.unanswered if one.read_at_ms)
        self._times = sorted({self._late_ms, *(one.at_ms for one in arcs), *earlier})
        self._starts, self._copies = (np.empty(self.capacity, np.uint32) for _ in range(2))
        self._group_of = np.empty(self.capacity, np.uint16)

    @property
    def _grid(self) -> int:
        return CIRCLE // self._unit

    def add(
        self,
        ledgers: npt.NDArray[np.int64],
        copies: npt.NDArray[np.int64],
        changed: npt.NDArray[np.int64],
    ) -> None:
        """Add ledgers: the copies that the bookie should hold, and when the metadata changed."""
        starts = self.plan.starts.of_ledgers(ledgers, self.bookie) % np.uint64(CIRCLE)
        group_of, is_swept = np.searchsorted(self._times, changed), copies <= SWEPT_ENTRIES_MAX
        for group, unswept in zip(group_of[~is_swept], copies[~is_swept].tolist(), strict=True):
            self._unswept[int(group)] += unswept
        end = self._pairs + int(is_swept.sum())
        if end > len(self._starts):
            for name in ("_starts", "_copies", "_group_of"):
                setattr(self, name, np.resize(getattr(self, name), 2 * end))
        self._starts[self._pairs : end] = starts[is_swept]
        self._copies[self._pairs : end] = copies[is_swept]
        self._group_of[self._pairs : end] = group_of[is_swept]
        self._pairs = end

    def _groups(self) -> Iterator[tuple[int, _Pairs]]:
        """Yield the ledgers by the number of those times of `_times` that are before the metadata
        changed.
        """
        of, starts, copies = (
            cells[: self._pairs] for cells in (self._group_of, self._starts, self._copies)
        )
        for group in sorted({*np.unique(of).tolist(), *self._unswept}):
            mine = of == group
            yield group, _Pairs(starts[mine], copies[mine], self._unswept[group])

    def planned_copies(self) -> int:
        """Return how many copies this run drew."""
        if not self.planned.length:
            return 0
        painted = self._paint([ReadArc(self.planned, 1)])
        sums = (pairs.in_pieces(painted, self._grid) for _, pairs in self._groups())
        return sum(int(placed[painted.read_at > 0].sum()) for placed in sums)

    def counts(self, reads: BookieReads) -> CopiesByAge:
        """Return the copies by age. `reads` are those before this run, or after it."""
        now = self.plan.began_at_ms
        found: Counter[str] = Counter()
        oldest: list[int] = []
        for group, pairs in self._groups():
            after = self._times[group] if group < len(self._times) else now + 1
            painted = self._paint([one for one in reads.arcs if one.at_ms >= after])
            placed, read_at = pairs.in_pieces(painted, self._grid), painted.read_at
            if reads.unanswered:
                copies, in_arcs, earlier = self._set_apart(pairs, painted, reads, after)
                placed = np.concatenate([placed, -copies, copies])
                read_at = np.concatenate([read_at, in_arcs, earlier])
            age = now - read_at
            is_read = read_at > 0
            is_late = self._is_old(group) and reads.since_ms <= self._late_ms
            unread = int(placed[~is_read].sum()) + pairs.unswept
            found["copies"] += int(placed.sum()) + pairs.unswept
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
        self, pairs: _Pairs, painted: _Painted, reads: BookieReads, after: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return for each place that was not answered how many copies have it, the time of the
        arcs that have it, and when it was read.
        """
        places = np.array([one.place for one in reads.unanswered], np.int64)
        cut = np.unique(np.concatenate([[0], places, places + 1]))
        cut = cut[cut < CIRCLE]
        is_apart = np.isin(cut, places)
        copies = pairs.in_pieces(_Painted(cut, is_apart.astype(np.int64)), CIRCLE)[is_apart]
        piece = np.searchsorted(painted.starts, places // self._unit, "right") - 1
        earlier = [one.read_at_ms if one.read_at_ms >= after else 0 for one in reads.unanswered]
        return copies, painted.read_at[piece], np.array(earlier, np.int64)

    def _limits(self) -> Iterator[tuple[str, int]]:
        yield "within_day", DAY_MS
        yield "within_week", WEEK_MS
        if self.plan.period_ms:
            yield "within_period", self.plan.period_ms

    def _is_old(self, group: int) -> bool:
        """Return whether the metadata of a group's ledgers changed before the period."""
        return group <= self._times.index(self._late_ms)

    def _paint(self, arcs: Iterable[ReadArc]) -> _Painted:
        """Cut the grid into pieces of one colour: when their newest read began."""
        pieces = [
            (first // self._unit, end // self._unit, at_ms)
            for arc, at_ms in arcs
            for first, end in arc.pieces()
        ]
        ends = {0, *(end for first, after, _ in pieces for end in (first, after))}
        starts = np.array(sorted(ends - {self._grid}), np.int64)
        read_at = np.zeros(len(starts), np.int64)
        for first, end, at_ms in pieces:
            read_at[(first <= starts) & (starts < end)] = at_ms
        return _Painted(starts, read_at)


AGE_COLUMNS = [*SHARE_COLUMNS, "znode_mtime_ms"]
"""The columns of LEDGERS from which copies are counted by age."""


def count_ages(ledgers: Iterable[pa.RecordBatch], counts: Mapping[BookieId, AgeCount]) -> None:
    """Add the closed ledgers of the first look to the counts of their bookies.

    `ledgers` have the AGE_COLUMNS.
    """
    for batch in ledgers:
        shares = shares_of(pa.Table.from_batches([batch]).select(SHARE_COLUMNS), counts.keys())
        ids, changed = batch["ledger_id"].to_numpy(), batch["znode_mtime_ms"]
        in_order = np.argsort(ids)
        times = changed.fill_null(2**62).to_numpy(zero_copy_only=False)
        row_of = in_order[np.searchsorted(ids, shares["ledger_id"].to_numpy(), sorter=in_order)]
        names = shares["bookie_id"].combine_chunks().dictionary_encode()
        copies, owners = shares["copies"].to_numpy(), shares["ledger_id"].to_numpy()
        codes = np.where(copies > 0, names.indices.to_numpy(), -1)
        by_bookie = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes, np.arange(len(names.dictionary) + 1), sorter=by_bookie)
        for code, bookie in enumerate(names.dictionary.to_pylist()):
            mine = by_bookie[bounds[code] : bounds[code + 1]]
            counts[bookie].add(owners[mine], copies[mine], times[row_of[mine]])


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
    named = rows["segments"].combine_chunks().flatten().field("ensemble").flatten()
    shares = shares_of(rows.select(SHARE_COLUMNS), set(named.to_pylist())).to_pylist()
    held = {row["bookie_id"]: row["copies"] for row in shares if row["copies"]}
    if not held:
        return None
    by = {one.bookie_id: one.verified_by for one in stored.bookies}
    plan = ReadingPlan(stored.seed, began_at_ms, stored.period_ms, way=stored.way)
    counts = {
        bookie: AgeCount(bookie, plan, reads)
        for bookie, reads in reads_before(stored).items()
        if bookie in held and by[bookie] is VerifiedBy.READS
    }
    count_ages(rows.to_batches(), counts)
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
    run: Place, about: About, bookies: Sequence[BookieRecord], away: Collection[BookieId]
) -> Verification:
    """Return how old the newest reads of all copies are, after this run.

    Bookies in `away` do not count in the sum: they are in maintenance or not registered. A run of
    named ledgers, and one that tests no list, hands on what earlier runs read. So does a run that
    asks only about what is due, with the ages of all copies. Costs a
    scan of the ledgers, with a hash for each ledger and bookie, and a scan of the spot reads.
    """
    plan = about.reading
    if about.within_ms:  # it tested lists of due ledgers, and read no copy of the others
        plan = replace(plan, arcs={})
    result = Verification(plan.seed, plan.period_ms, plan.bytes_per_second, way=plan.way)
    if about.partial or about.terms.spot_reads < 1:
        handed_on = tuple(
            _row(name, reads, _known_by(reads), None) for name, reads in sorted(plan.before.items())
        )
        return replace(result, bookies=handed_on)
    due = due_by_bookie(run.stream("evidence/ledgers", LEDGERS, DUE_COLUMNS))
    found = list(_count_bookies(run, replace(about, reading=plan), bookies, due))
    counted = [one.counts for one in found if one.bookie_id not in away and one.counts is not None]
    return replace(result, counts=add_counts(counted), bookies=tuple(found))


def _count_bookies(
    run: Place, about: About, bookies: Sequence[BookieRecord], due: Mapping[BookieId, Due]
) -> Iterator[VerifiedBookie]:
    """Yield the bookies that should hold something, sorted."""
    plan, scrubs = about.reading, read_scrubs(run)
    by_bookie = _read_by(about, bookies, scrubs)
    counts = {
        bookie: AgeCount(
            bookie,
            plan,
            _reads_before(bookie, plan, scrubs)
            if by_bookie.get(bookie) is VerifiedBy.SCRUB
            else plan.before.get(bookie, BookieReads(plan.began_at_ms)),
            plan.arcs.get(bookie, NO_ARC),
            capacity=ceil(share.segments),
        )
        for bookie, share in due.items()
    }
    columns = ["look", *AGE_COLUMNS]
    ledgers = run.stream("evidence/ledgers", LEDGERS, columns)
    count_ages((rows_of(batch, pc.equal(batch["look"], 1)) for batch in ledgers), counts)
    answered, silent = _count_drawn(run)
    unanswered = _unanswered_places(run, plan.starts, silent)
    for bookie in sorted(counts):
        count = counts.pop(bookie)
        by = by_bookie.get(bookie, VerifiedBy.UNANSWERED)
        reads = count.before
        if by is VerifiedBy.READS and count.planned.length:
            after = _reads_after(count, answered[bookie], unanswered.get(bookie, ()))
            by = VerifiedBy.UNANSWERED if after is None else by
            reads = after or reads
        ages = None if by is VerifiedBy.SAMPLE else count.counts(reads)
        row = _row(bookie, reads, by, ages)
        if by is VerifiedBy.READS and count.counts(replace(reads, unanswered=())).overdue:
            row = _with_rate(row, plan, due[bookie])
        yield row


def _reads_after(count: AgeCount, answered: int, unanswered: Collection[int]) -> BookieReads | None:
    """Return the reads with those of this run; None if its arc does not count.

    `answered`: how many of its reads were. `unanswered`: the places of the others, if they are few.
    """
    planned = count.planned_copies()
    if answered >= planned:
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
    return replace(before, arcs=(whole,), unanswered=())


def _row(
    bookie: BookieId, reads: BookieReads, by: VerifiedBy, ages: CopiesByAge | None
) -> VerifiedBookie:
    arcs = tuple((*one.arc, one.at_ms) for one in reads.arcs)
    unanswered = tuple((*one,) for one in reads.unanswered)
    return VerifiedBookie(bookie, by, moment(reads.since_ms), arcs, ages, None, unanswered)


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
