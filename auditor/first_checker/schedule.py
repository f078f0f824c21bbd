"""The round-robin distribution schedule in closed form: which entries a bookie should hold.

Entry e of a segment is on ensemble positions (e + w) mod E for w = 0 .. W-1, with the absolute
entry id (BookKeeper's RoundRobinDistributionSchedule). Seen from position k: e belongs to it if (k
- e) mod E < W, which is one window of W entries in every E.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from auditor.first_checker.entry_set import EntrySet, Run
from auditor.model.availability import SequenceGroup
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerMetadata, LedgerState, Segment

_GROUP = Struct(">qqii")
_SIZE_MAX = 2**31 - 1
GROUP_BYTES = _GROUP.size
_HEADER_BYTES = 64
EXPECTED_BYTES_MAX = 2**31
"""Size of the largest expected answer, whatever a ledger claims to hold: no larger answer is
accepted."""
_SHORT_PROGRESSION_RUNS = 16
_KIN_TIMES_MAX = 16


class Extent(NamedTuple):
    """A segment with entries in it, and the last of them (inclusive)."""

    segment: Segment
    last_entry_id: EntryId

    @property
    def first_entry_id(self) -> EntryId:
        return self.segment.first_entry_id


def extents(metadata: LedgerMetadata) -> tuple[Extent, ...]:
    """Return the segments of a closed ledger that are clear and hold at least one entry, in order.

    A segment is clear if it begins at 0 or above, its end is known, each segment before it begins
    lower and each one behind it higher, and its ensemble has the ensemble size. If two segments
    have the same firstEntryId, or are in the wrong order, only these two are left out. Empty for a
    ledger that is not closed, or whose quorums make no sense (`auditor.first_checker.metadata`
    reports contradictions). Costs the segments.
    """
    if (
        metadata.state is not LedgerState.CLOSED
        or not 1 <= metadata.write_quorum <= metadata.ensemble_size
    ):
        return ()
    ends = _clear_ends(
        [segment.first_entry_id for segment in metadata.segments], metadata.last_entry_id
    )
    return tuple(
        Extent(segment, end)
        for segment, end in zip(metadata.segments, ends, strict=True)
        if end is not None
        and segment.first_entry_id <= end
        and len(segment.ensemble) == metadata.ensemble_size
    )


def promised_copies(metadata: LedgerMetadata) -> int:
    """Return how many copies a closed ledger promises: entries times write quorum.

    Without lastEntryId, count the clear extents only. 0 if the ledger is not closed or the quorums
    make no sense.
    """
    if (
        metadata.state is not LedgerState.CLOSED
        or not 1 <= metadata.write_quorum <= metadata.ensemble_size
    ):
        return 0
    last = metadata.last_entry_id
    clear = sum(extent.last_entry_id - extent.first_entry_id + 1 for extent in extents(metadata))
    return (clear if last is None else max(0, last + 1)) * metadata.write_quorum


def is_promised(metadata: LedgerMetadata, bookie: BookieId, entry: EntryId) -> bool:
    """Return whether the bookie should hold the entry. Costs the segments."""
    size = metadata.ensemble_size
    return any(
        (position - entry) % size < metadata.write_quorum
        for extent in extents(metadata)
        if extent.first_entry_id <= entry <= extent.last_entry_id
        for position in positions(extent.segment.ensemble).get(bookie, ())
    )


def _clear_ends(firsts: list[EntryId], last: EntryId | None) -> list[EntryId | None]:
    """Return where each segment ends (inclusive).

    If that is not clear: None, or an end below the segment's first entry. `last` is the ledger's
    lastEntryId.
    """
    if len(firsts) == 1:
        return [last if firsts[0] >= 0 else None]
    ends: list[EntryId | None] = []
    least_behind: EntryId | None = None
    for first in reversed(firsts):
        if least_behind is None:
            ends.append(last)
        else:
            ends.append(min(least_behind - 1, least_behind if last is None else last))
        least_behind = first if least_behind is None else min(first, least_behind)
    ends.reverse()
    greatest_before = -1
    for at, first in enumerate(firsts):
        if first <= greatest_before:
            ends[at] = None
        greatest_before = max(greatest_before, first)
    return ends


def positions(ensemble: tuple[BookieId, ...]) -> dict[BookieId, tuple[int, ...]]:
    """Return the positions of each distinct bookie, in the order of their first appearance."""
    found: dict[BookieId, list[int]] = {}
    for position, bookie in enumerate(ensemble):
        found.setdefault(bookie, []).append(position)
    return {bookie: tuple(at) for bookie, at in found.items()}


def window(first: EntryId, position: int, ensemble_size: int, write_quorum: int) -> tuple[Run, ...]:
    """Return the entries whose write set contains `position`, as runs in one period.

    The period is as long as the ensemble and begins with `first`.
    """
    start = (position - write_quorum + 1 - first) % ensemble_size
    overhang = start + write_quorum - ensemble_size
    return (
        ((start, write_quorum),)
        if overhang <= 0
        else ((0, overhang), (start, write_quorum - overhang))
    )


def expected_entries(
    extent: Extent, at: tuple[int, ...], ensemble_size: int, write_quorum: int
) -> EntrySet:
    """Return the entries of the extent that a bookie at the positions `at` should hold.

    At most one piece. Costs positions.
    """
    first, last = extent.first_entry_id, extent.last_entry_id
    runs = sorted(
        run for position in at for run in window(first, position, ensemble_size, write_quorum)
    )
    return EntrySet.stripe(first, last, ensemble_size, _overlaid(runs))


def _overlaid(runs: list[Run]) -> tuple[Run, ...]:
    """Merge runs that overlap or touch. `runs` must be in the order of their beginnings."""
    found: list[Run] = []
    for offset, size in runs:
        if found and offset <= sum(found[-1]):
            begin = found[-1][0]
            found[-1] = (begin, max(sum(found[-1]), offset + size) - begin)
        else:
            found.append((offset, size))
    return tuple(found)


def expected_groups(
    first: EntryId, last: EntryId, position: int, ensemble_size: int, write_quorum: int
) -> bytes | None:
    """Return the canonical form of what one position of one segment should hold.

    The answer of a healthy bookie equals it. None if there is no such form (a run of 2^31 entries
    or more). Costs a few additions, whatever the extent.
    """
    if write_quorum >= ensemble_size:
        size = last - first + 1
        return _GROUP.pack(first, first, size, 0) if size <= _SIZE_MAX else None
    offset = (position - write_quorum + 1 - first) % ensemble_size
    head = offset + write_quorum - ensemble_size
    start = first + offset
    groups = []
    if head > 0:
        groups.append((first, min(head, last - first + 1)))
    full = max(0, (last - start + 1 - write_quorum) // ensemble_size + 1)
    tail_start = start + full * ensemble_size
    tail = min(last - tail_start + 1, write_quorum)
    if full == 0:
        if tail > 0:
            groups.append((tail_start, tail))
        return _few_runs(groups)
    packed = _few_runs(groups)
    period = ensemble_size if full > 1 else 0
    packed += _GROUP.pack(start, start + (full - 1) * ensemble_size, write_quorum, period)
    return packed + (_GROUP.pack(tail_start, tail_start, tail, 0) if tail > 0 else b"")


def expected_list(metadata: LedgerMetadata, bookie: BookieId) -> bytes:
    """Return what a bookie should hold of a ledger, as groups of 24 bytes, segment by segment.

    If only one segment names it, a healthy bookie's answer equals the result. Costs segments, and
    the runs of segments that name the bookie twice.
    """
    plain = _plain_list(metadata, bookie)
    return list_by_extents(metadata, bookie) if plain is None else plain


def _plain_list(metadata: LedgerMetadata, bookie: BookieId) -> bytes | None:
    """Return `list_by_extents` of almost every ledger, in a fifth of its time.

    None if the ledger is not closed with one clear segment that names the bookie once.
    """
    size, quorum, last = metadata.ensemble_size, metadata.write_quorum, metadata.last_entry_id
    if len(metadata.segments) != 1 or metadata.state is not LedgerState.CLOSED or last is None:
        return None
    (segment,) = metadata.segments
    first, ensemble = segment.first_entry_id, segment.ensemble
    if not (1 <= quorum <= size == len(ensemble) and 0 <= first <= last):
        return None
    if ensemble.count(bookie) != 1:
        return None
    return expected_groups(first, last, ensemble.index(bookie), size, quorum)


def list_by_extents(metadata: LedgerMetadata, bookie: BookieId) -> bytes:
    """Return what `expected_list` returns, for ledgers of any form."""
    size, quorum = metadata.ensemble_size, metadata.write_quorum
    groups = b""
    for extent in extents(metadata):
        at = positions(extent.segment.ensemble).get(bookie, ())
        packed = (
            expected_groups(extent.first_entry_id, extent.last_entry_id, at[0], size, quorum)
            if len(at) == 1
            else None
        )
        if at and packed is None:
            runs = expected_entries(extent, at, size, quorum).runs()
            packed = b"".join(
                _GROUP.pack(first, first, last - first + 1, 0) for first, last in runs
            )
        groups += packed or b""
    return groups


def _few_runs(runs: list[tuple[EntryId, int]]) -> bytes:
    """Pack at most two runs, each smaller than a window: equal ones are a progression of two."""
    if len(runs) == 2 and runs[0][1] == runs[1][1]:
        (first, size), (last, _) = runs
        return _GROUP.pack(first, last, size, last - first)
    return b"".join(_GROUP.pack(at, at, size, 0) for at, size in runs)


def held_entries(groups: bytes) -> EntrySet:
    """Return a stored answer (canonical groups, 24 bytes each) as a set."""
    return EntrySet.of_groups(SequenceGroup(*group) for group in _GROUP.iter_unpack(groups))


def foreign_runs(groups: bytes, ensemble_size: int) -> int:
    """Return how many runs of a stored answer are in long progressions that striping does not make.

    Striping makes periods that are a small multiple of the ensemble size, for example if every
    other stripe is lost. Short progressions do not count: they occur wherever entries are lost.
    Costs groups.
    """
    kin = {ensemble_size * times for times in range(_KIN_TIMES_MAX + 1)}  # 0: a single run
    run_counts = (
        (last - first) // period + 1
        for first, last, size, period in _GROUP.iter_unpack(groups)
        if period != size and period not in kin
    )
    return sum(count for count in run_counts if count > _SHORT_PROGRESSION_RUNS)


class Question(NamedTuple):
    """A bookie to ask for its list, and the size of its answer if it holds what it should."""

    bookie_id: BookieId
    expected_bytes: int


def questions(metadata: LedgerMetadata) -> tuple[Question, ...]:
    """Return each bookie to ask about a closed ledger, once, however many segments name it.

    These are the bookies that should hold some entry, and those of the last ensemble, which have
    the entries that the end cut off.
    """
    runs: dict[BookieId, int] = {}
    size, quorum = metadata.ensemble_size, metadata.write_quorum
    for extent in extents(metadata):
        length = extent.last_entry_id - extent.first_entry_id + 1
        for bookie, at in positions(extent.segment.ensemble).items():
            if length >= size or expected_entries(extent, at, size, quorum):
                runs[bookie] = runs.get(bookie, 0) + _runs_at_most(length, size, quorum)
    if (
        metadata.state is LedgerState.CLOSED
        and metadata.last_entry_id is not None
        and 1 <= quorum <= size
    ):
        for segment in metadata.segments[-1:]:
            for bookie in segment.ensemble:
                runs.setdefault(bookie, 0)
    return tuple(Question(bookie, _bytes_of(count)) for bookie, count in runs.items())


class PositionAsked(NamedTuple):
    """A position of an ensemble to ask for its list, the size of its answer, and the answer that it
    should give.

    `groups` is None if the answer has no canonical form.
    """

    position: int
    expected_bytes: int
    groups: bytes | None


def positions_asked(
    last: EntryId, ensemble_size: int, write_quorum: int
) -> tuple[PositionAsked, ...]:
    """Return what `questions` and `expected_list` say of a closed ledger with entries 0 to `last`
    and one segment, which names no bookie twice.

    Costs a microsecond for each position: no value is made of the ledger.
    """
    asked = [
        position_asked(last, ensemble_size, write_quorum, position)
        for position in range(ensemble_size)
    ]
    # Those that should hold an entry are asked first.
    return tuple(
        one for is_empty in (False, True) for one in asked if (one.groups == b"") is is_empty
    )


def position_asked(
    last: EntryId, ensemble_size: int, write_quorum: int, position: int
) -> PositionAsked:
    """Return one of `positions_asked`."""
    groups = expected_groups(0, last, position, ensemble_size, write_quorum)
    runs = 0 if groups == b"" else _runs_at_most(last + 1, ensemble_size, write_quorum)
    return PositionAsked(position, _bytes_of(runs), groups)


def _runs_at_most(length: int, ensemble_size: int, write_quorum: int) -> int:
    """Return how many runs a position holds at most of so many entries."""
    return 1 if write_quorum >= ensemble_size else length // ensemble_size + 1


def _bytes_of(runs: int) -> int:
    """Return the size of an answer with a group for each run."""
    return min(EXPECTED_BYTES_MAX, _HEADER_BYTES + _GROUP.size * runs)
