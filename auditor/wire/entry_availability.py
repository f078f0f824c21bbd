"""Decode, check and encode the list of a ledger's entries on one bookie (BP-34).

The list is AvailabilityOfEntriesOfLedger: a header of 64 bytes and sequence groups of 24 bytes
each, all big-endian. Real bookies send a group for each run of consecutive entries; BP-34 describes
periodic groups. Both are accepted. A list whose groups overlap or are out of order is rejected: no
bookie makes such a list, and what is behind it is not known (docs/decisions/0051). `_check_order`
says why. `make_disjoint` puts our own groups in order: those that do not overlap or interleave are
only sorted, the others are expanded into runs, up to a limit.

The canonical form merges runs that touch. Then, left to right, the longest progression of
equal-size runs becomes one group. A single run has period 0. Canonical bytes have no header: two
bookies that hold the same entries have the same canonical bytes. A run above 2**31 - 1 entries
(int32) is cut there: the full pieces are one group whose period is its size, the rest is another
group. No bookie holds so many, but the bytes can say so.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from auditor.errors import MalformedAvailability
from auditor.model.availability import SequenceGroup
from auditor.model.identity import ENTRY_ID_MAX

DISORDER_MAX = 1_000_000
"""A list out of order is rejected if it has more groups, or more runs in groups that overlap."""

Group = tuple[int, int, int, int]
"""First entry of the first run, first entry of the last run, size of each run, and period; 0 for a
single run."""


def _check_order(groups: Iterable[Group]) -> None:
    """Raise MalformedAvailability for the first group that breaks a rule or is out of order.

    A group is in order if it begins behind all groups before it.
    """
    end = -1
    for index, group in enumerate(groups):
        first, last, size, _ = _check_group(index, group)
        if first <= end:
            raise MalformedAvailability(
                f"sequence group {index} begins at entry {first}, and a group before it ends at"
                f" entry {end}: groups overlap or are out of order, which no bookie sends"
            )
        end = last + size - 1


def make_disjoint(groups: Iterable[Group]) -> Iterator[Group]:
    """Yield the same entries in ascending groups that do not overlap; expand those that interleave.

    Raises MalformedAvailability for a group that breaks a rule, or if DISORDER_MAX is exceeded.
    """
    checked: set[Group] = set()
    for index, group in enumerate(groups):
        checked.add(_check_group(index, group))
        if len(checked) > DISORDER_MAX:
            raise MalformedAvailability(
                f"the list is out of order and has more than {DISORDER_MAX} groups: too many to"
                " sort"
            )
    knot: list[Group] = []
    knot_end = -1
    budget = DISORDER_MAX
    for group in sorted(checked):
        if knot and group[0] > knot_end:
            yield from _untangle(knot)
            knot = []
        knot.append(group)
        knot_end = max(knot_end, group[1] + group[2] - 1)
        if len(knot) > 1:
            budget -= _run_count(group) + (_run_count(knot[0]) if len(knot) == 2 else 0)
        if budget < 0:
            raise MalformedAvailability(
                f"groups from entry {knot[0][0]} on interleave: more than {DISORDER_MAX} runs to"
                " sort"
            )
    yield from _untangle(knot)


def _run_count(group: Group) -> int:
    first, last, _, period = group
    return (last - first) // period + 1 if period else 1


def _untangle(knot: list[Group]) -> Iterator[Group]:
    """Yield the union of groups that overlap or interleave, run by run; a lone group unchanged."""
    if len(knot) == 1:
        yield knot[0]
        return
    runs = sorted(
        (start, size)
        for first, last, size, period in knot
        for start in range(first, last + 1, period or 1)
    )
    start, end = -1, -1
    for first, size in runs:
        if first > end:
            if start >= 0:
                yield start, start, end - start, 0
            start, end = first, first + size
        else:
            end = max(end, first + size)
    if start >= 0:
        yield start, start, end - start, 0


def _check_group(index: int, group: Group) -> Group:
    """Return the group, with a period only if it repeats. Raises MalformedAvailability."""
    first, last, size, period = group
    problem = None
    if first < 0:
        problem = "begins before entry 0"
    elif last < first:
        problem = "ends before it begins"
    elif size <= 0:
        problem = "has runs of no entry"
    elif period < 0:
        problem = "has a negative period"
    elif period == 0 and last != first:
        problem = "has several runs and no period"
    elif period and (last - first) % period:
        problem = "does not end on one of its own runs"
    elif 0 < period < size:
        problem = "has runs that overlap each other"
    elif last + size - 1 > ENTRY_ID_MAX:
        problem = "goes beyond the largest entry id"
    if problem:
        raise MalformedAvailability(
            f"sequence group {index} (first {first}, last {last}, size {size}, period {period})"
            f" {problem}"
        )
    if period == size or last == first:
        return first, first, last - first + size, 0
    return group


HEADER_BYTES = 64
GROUP_BYTES = 24
SIZE_MAX = 2**31 - 1
"""Largest size and period of a group (int32)."""

_HEADER = struct.Struct(">ii56s")
_GROUP = struct.Struct(">qqii")
_NO_RESERVED = bytes(56)
_PLAIN_HEADERS = tuple(_HEADER.pack(0, count, _NO_RESERVED) for count in range(64))
"""Headers of small lists as every real bookie sends them. Comparing them saves decoding them."""
_RUNS_FED_SINGLY = 4
"""This many runs of a periodic group are fed one by one. The first may touch or end the run before,
the second may stand alone, the third confirms the progression, and the last one stays open."""

_pack = _GROUP.pack

_Run = tuple[int, int]


class Decoded(NamedTuple):
    """`groups`: canonical bytes.

    `non_canonical`: no real bookie sends such a list, but what it says is well defined. A reserved
    byte is set, or a group of one run has a period.
    """

    groups: bytes
    non_canonical: bool


def decode(payload: bytes, groups_max: int) -> Decoded:
    """Return a list in canonical form, after checking it.

    Raises MalformedAvailability with a sentence. Cost: some 0.2 µs a group; a periodic group of any
    length costs as much as four runs. Entries are never enumerated.
    """
    count = (len(payload) - HEADER_BYTES) // GROUP_BYTES
    reserved_used = False
    if not (
        count < len(_PLAIN_HEADERS)
        and payload.startswith(_PLAIN_HEADERS[count])
        and _is_whole(payload, count, groups_max)
    ):
        count, reserved_used = _group_count(payload, groups_max)
    if count == 0:
        return Decoded(b"", reserved_used)
    body = (
        payload[HEADER_BYTES:]
        if count < len(_PLAIN_HEADERS)
        else memoryview(payload)[HEADER_BYTES:]
    )
    if count == 1:
        first, last, size, period = _GROUP.unpack(body)
        if (
            period == 0
            and first == last
            and first >= 0
            and size > 0
            and first + size - 1 <= ENTRY_ID_MAX
        ):
            return Decoded(bytes(body), reserved_used)
    ordered = _encode_ordered(_GROUP.iter_unpack(body))
    if ordered is not None:
        return Decoded(ordered[0], ordered[1] or reserved_used)
    _check_order(_GROUP.iter_unpack(body))
    raise AssertionError("a list that is not in order breaks a rule")


def canonical(groups: Iterable[SequenceGroup]) -> bytes:
    """Return canonical bytes of the union of groups in any order. Raises MalformedAvailability."""
    kept = tuple(groups)
    ordered = _encode_ordered(kept)
    return ordered[0] if ordered is not None else _encode_disordered(kept)


def groups_of(data: bytes) -> tuple[SequenceGroup, ...]:
    """Return the groups in canonical bytes (24 a group, no header), in order."""
    return tuple(map(SequenceGroup._make, _GROUP.iter_unpack(data)))


def encode_runs(items: Iterable[int | _Run]) -> bytes:
    """Encode a whole list as real bookies do: one group a run, period 0, sorted by first entry.

    `items` are entry ids or runs (first entry, size). As in AvailabilityOfEntriesOfLedger.java, an
    item inside the open run is ignored, one just behind it extends it, any other closes it. A later
    run replaces an earlier one with the same first entry.
    """
    closed: dict[int, int] = {}
    start, size = -1, 0
    for item in items:
        first, length = (item, 1) if isinstance(item, int) else item
        assert first >= 0 and length > 0, (
            f"a run starts at 0 or later and holds an entry: ({first}, {length})"
        )
        if size and start <= first and first + length <= start + size:
            continue
        if size and first == start + size:
            size += length
            continue
        if size:
            closed[start] = size
        start, size = first, length
    if size:
        closed[start] = size
    groups = [_pack(first, first, closed[first], 0) for first in sorted(closed)]
    return _HEADER.pack(0, len(groups), _NO_RESERVED) + b"".join(groups)


def encode_periodic(items: Iterable[int | _Run]) -> bytes:
    """Encode a whole list as BP-34 describes it, in canonical groups. `items`: ids or runs."""
    runs = ((item, 1) if isinstance(item, int) else item for item in items)
    return encode_groups(SequenceGroup(first, first, size, 0) for first, size in runs)


def encode_groups(groups: Iterable[SequenceGroup]) -> bytes:
    """Encode a whole list in canonical groups (BP-34). Cost: per group, not per entry."""
    body = canonical(groups)
    return _HEADER.pack(0, len(body) // GROUP_BYTES, _NO_RESERVED) + body


def _is_whole(payload: bytes, count: int, groups_max: int) -> bool:
    return len(payload) == HEADER_BYTES + GROUP_BYTES * count and count <= groups_max


def _group_count(payload: bytes, groups_max: int) -> tuple[int, bool]:
    """Return the number of groups, and whether a reserved byte is set. Raises
    MalformedAvailability.
    """
    length = len(payload)
    if length < HEADER_BYTES:
        raise MalformedAvailability(
            f"the list has {length} bytes, its header alone has {HEADER_BYTES}"
        )
    version, count, reserved = _HEADER.unpack_from(payload)
    if version != 0:
        raise MalformedAvailability(f"the list's version is {version}, only 0 is known")
    if count < 0:
        raise MalformedAvailability(f"the list announces {count} sequence groups")
    if count > groups_max:
        raise MalformedAvailability(
            f"the list announces {count} sequence groups, at most {groups_max} are accepted"
            " (groups_max)"
        )
    expected = HEADER_BYTES + GROUP_BYTES * count
    if length != expected:
        raise MalformedAvailability(
            f"the list announces {count} sequence groups, which is {expected} bytes, and"
            f" has {length}"
        )
    return count, reserved != _NO_RESERVED


def _encode_disordered(groups: Iterable[Group]) -> bytes:
    """Return canonical bytes of groups in any order. Raises MalformedAvailability."""
    ordered = _encode_ordered(make_disjoint(groups))
    assert ordered is not None, "groups that were checked, sorted and made disjoint are in order"
    return ordered[0]


def _encode_ordered(groups: Iterable[Group]) -> tuple[bytes, bool] | None:
    """Return canonical bytes of ascending, disjoint, valid groups; None if they break a rule.

    The second value is True if a group of one run has a period. The loop holds the groups written
    so far, the progression that may continue, and the run that may grow. It is fast for lists
    without periodic groups, which real bookies send.
    """
    out = bytearray()
    put_right = False
    entry = -1
    going_first = going_last = going_size = going_period = 0
    open_first = open_size = 0
    for first, last, size, period in groups:
        if first <= entry or size <= 0:
            return None
        entry = last + size - 1
        if period:
            if period < size or last < first or (last - first) % period:
                return None
            put_right |= last == first
            if size == period:
                size, last = last - first + size, first
        elif first != last:
            return None
        singly = _RUNS_FED_SINGLY
        while True:
            if first == open_first + open_size:
                open_size += size
            else:
                step = open_first - going_last
                if open_size == going_size and (
                    step == going_period or (going_period == 0 and step <= SIZE_MAX)
                ):
                    going_last = open_first
                    going_period = step
                else:
                    if going_size:
                        out += _pack(going_first, going_last, going_size, going_period)
                    if open_size > SIZE_MAX:
                        out += _pieces(open_first, open_size)
                        going_size = 0
                    else:
                        going_first = going_last = open_first
                        going_size = open_size
                        going_period = 0
                open_first = first
                open_size = size
            if first == last:
                break
            first += period
            singly -= 1
            if not singly:
                going_last, open_first = last - period, last
                break
    if entry > ENTRY_ID_MAX:
        return None
    step = open_first - going_last
    if open_size == going_size and (
        step == going_period or (going_period == 0 and step <= SIZE_MAX)
    ):
        going_last, going_period, open_size = open_first, step, 0
    if going_size:
        out += _pack(going_first, going_last, going_size, going_period)
    if 0 < open_size <= SIZE_MAX:
        return bytes(out + _pack(open_first, open_first, open_size, 0)), put_right
    return bytes(out + _pieces(open_first, open_size)), put_right


def _pieces(first: int, size: int) -> bytes:
    """Encode a run, cut as the module says if an int32 cannot hold its size; b"" for no entries."""
    whole, rest = divmod(size, SIZE_MAX)
    last = first + (whole - 1) * SIZE_MAX
    groups = _pack(first, last, SIZE_MAX, SIZE_MAX if whole > 1 else 0) if whole else b""
    return groups + _pack(last + SIZE_MAX, last + SIZE_MAX, rest, 0) if rest else groups
