"""The list of entries on the wire and in canonical form (BP-34; the encoder and the decoder's rules
are BookKeeper's).
"""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.errors import MalformedAvailability
from auditor.model.availability import SequenceGroup
from auditor.wire.entry_availability import (
    SIZE_MAX,
    canonical,
    decode,
    encode_groups,
    encode_periodic,
    encode_runs,
    groups_of,
)

GROUPS_MAX = 10_000_000
LAST_ID = 2**63 - 1


def payload(
    *groups: tuple[int, int, int, int],
    version: int = 0,
    count: int | None = None,
    reserved: bytes = bytes(56),
) -> bytes:
    """A payload with exactly these groups, whatever they say."""
    head = struct.pack(">ii", version, len(groups) if count is None else count) + reserved
    return head + b"".join(struct.pack(">qqii", *group) for group in groups)


def decoded(data: bytes) -> list[tuple[int, int, int, int]]:
    return [tuple(group) for group in groups_of(decode(data, GROUPS_MAX).groups)]


def entries(groups: bytes) -> list[int]:
    """Every entry, one by one, by what BP-34 says a group means."""
    found = []
    for first, last, size, period in groups_of(groups):
        for start in range(first, last + 1, period or 1):
            found.extend(range(start, start + size))
    return found


# What real bookies send

ENCODED = {
    "V0 nothing": ([], "", []),
    "V1 one entry": ([0], "0000000000000000 0000000000000000 00000001 00000000", [(0, 0, 1, 0)]),
    "V2 one run": (
        range(10),
        "0000000000000000 0000000000000000 0000000a 00000000",
        [(0, 0, 10, 0)],
    ),
    "V3 BP-34's first example": (
        [1, 2, 4, 5, 7, 8, 10, 11],
        (
            "0000000000000001 0000000000000001 00000002 00000000 0000000000000004 0000000000000004"
            " 00000002 000000000000000000000007 0000000000000007 00000002 00000000 000000000000000a"
            " 000000000000000a 00000002 00000000"
        ),
        [(1, 10, 2, 3)],
    ),
    "V4 BP-34's second example": (
        [1, 2, 3, 6, 7, 8, 11, 13, 16, 17, 18, 21, 22],
        (
            "0000000000000001 0000000000000001 00000003 00000000 0000000000000006 0000000000000006"
            " 00000003 00000000000000000000000b 000000000000000b 00000001 00000000 000000000000000d"
            " 000000000000000d 00000001 000000000000000000000010 0000000000000010 00000003 00000000"
            " 0000000000000015 0000000000000015 00000002 00000000"
        ),
        [(1, 6, 3, 5), (11, 13, 1, 2), (16, 16, 3, 0), (21, 21, 2, 0)],
    ),
    "V5 a stripe": (
        [0, 3, 6, 9, 12],
        (
            "0000000000000000 0000000000000000 00000001 00000000 0000000000000003 0000000000000003"
            " 00000001 000000000000000000000006 0000000000000006 00000001 00000000 0000000000000009"
            " 0000000000000009 00000001 00000000000000000000000c 000000000000000c 00000001 00000000"
        ),
        [(0, 12, 1, 3)],
    ),
    "V6 repeated entries": (
        [1, 1, 2, 2, 3, 5, 5],
        (
            "0000000000000001 0000000000000001 00000003 00000000 0000000000000005 0000000000000005"
            " 00000001 00000000"
        ),
        [(1, 1, 3, 0), (5, 5, 1, 0)],
    ),
}


@pytest.mark.parametrize("name", ENCODED)
def test_the_bytes_are_those_of_real_bookies_and_decode_to_bp34_groups(name: str) -> None:
    """encode_runs makes, byte for byte, what the Java encoder makes; decoding that gives BP-34's
    groups, nothing put right.
    """
    ids, after_header, groups = ENCODED[name]
    body = bytes.fromhex(after_header.replace(" ", ""))
    expected = struct.pack(">ii", 0, len(body) // 24) + bytes(56) + body
    assert expected == encode_runs(ids)
    assert groups == decoded(expected)
    assert not decode(expected, GROUPS_MAX).non_canonical


def test_the_complete_payload_of_bp34s_first_example() -> None:
    """All 160 bytes as a real bookie sent them."""
    expected = (
        "0000000000000004000000000000000000000000000000000000000000000000"
        "0000000000000000000000000000000000000000000000000000000000000000"
        "0000000000000001000000000000000100000002000000000000000000000004"
        "0000000000000004000000020000000000000000000000070000000000000007"
        "0000000200000000000000000000000a000000000000000a0000000200000000"
    )
    assert expected == encode_runs([1, 2, 4, 5, 7, 8, 10, 11]).hex()


@pytest.mark.parametrize(
    ("unsorted", "runs"),
    [
        ([2, 3, 0, 1], [(0, 0, 2, 0), (2, 2, 2, 0)]),
        ([3, 2, 1, 0], [(0, 0, 1, 0), (1, 1, 1, 0), (2, 2, 1, 0), (3, 3, 1, 0)]),
        ([0, 1, 2, 3, 4, 5, 9, 2], [(0, 0, 6, 0), (2, 2, 1, 0), (9, 9, 1, 0)]),
        ([1, 2, 3, 1], [(1, 1, 3, 0)]),
        ([0, 1, 2, 9, 0], [(0, 0, 1, 0), (9, 9, 1, 0)]),
    ],
)
def test_unsorted_input_is_encoded_as_the_java_class_does(
    unsorted: list[int], runs: list[tuple[int, int, int, int]]
) -> None:
    """The encoder keeps its order, keys groups by their first entry and lets the later one win (B5,
    B6, B7 come from this).
    """
    assert runs == [tuple(g) for g in groups_of(encode_runs(unsorted)[64:])]


def test_a_run_can_be_given_whole() -> None:
    """A run (first, size) is the same as its entries one by one."""
    assert encode_runs([0, 1, 2, 5, 6]) == encode_runs([(0, 3), (5, 2)])


# What BP-34 means


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([(1, 10, 2, 3)], [1, 2, 4, 5, 7, 8, 10, 11]),
        (
            [(1, 6, 3, 5), (11, 13, 1, 2), (16, 16, 3, 0), (21, 21, 2, 0)],
            [1, 2, 3, 6, 7, 8, 11, 13, 16, 17, 18, 21, 22],
        ),
    ],
)
def test_bp34s_periodic_groups_are_already_canonical(
    groups: list[tuple[int, int, int, int]], expected: list[int]
) -> None:
    """P1 and P2 decode to themselves, and mean BP-34's entries."""
    data = payload(*groups)
    assert data[64:] == decode(data, GROUPS_MAX).groups
    assert expected == entries(data[64:])
    assert data == encode_periodic(expected)


def test_the_real_cluster_where_a_bookie_was_replaced() -> None:
    """E=3 W=2, a bookie replaced at entry 10: each of the four lists of a real cluster becomes at
    most three groups.
    """
    lists = {
        "A": ([(0, 1), *((s, 2) for s in range(2, 18, 3))], [(0, 0, 1, 0), (2, 17, 2, 3)]),
        "C": ([*((s, 2) for s in range(1, 17, 3)), (19, 1)], [(1, 16, 2, 3), (19, 19, 1, 0)]),
        "B": ([(0, 2), (3, 2), (6, 2), (9, 1)], [(0, 6, 2, 3), (9, 9, 1, 0)]),
        "D": ([(10, 1), *((s, 2) for s in range(12, 20, 3))], [(10, 10, 1, 0), (12, 18, 2, 3)]),
    }
    for bookie, (runs, groups) in lists.items():
        assert groups == decoded(encode_runs(runs)), bookie


def test_runs_are_encoded_periodically_like_their_entries() -> None:
    """Given whole or entry by entry, in any order."""
    assert encode_periodic([0, 1, 2, 7, 8, 9, 14, 15, 16, 30]) == encode_periodic(
        [30, (7, 3), (0, 3), (14, 2), 16]
    )


def test_groups_are_listed_without_counting_their_entries() -> None:
    """A stripe of two billion entries is 24 bytes behind the header."""
    payload = encode_groups([SequenceGroup(0, 3 * 10**9, 2, 3)])
    assert struct.pack(">ii56x", 0, 1) + struct.pack(">qqii", 0, 3 * 10**9, 2, 3) == payload


def test_runs_that_touch_are_one_run() -> None:
    """Groups that touch are merged before anything is called a progression, and that is no
    disorder.
    """
    data = payload((0, 0, 2, 0), (2, 2, 3, 0), (5, 8, 1, 3))
    assert [(0, 0, 6, 0), (8, 8, 1, 0)] == decoded(data)
    assert not decode(data, GROUPS_MAX).non_canonical


@pytest.mark.parametrize("count", [1, 2, 62, 63, 64, 65, 200])
def test_lists_of_any_length_are_read_alike(count: int) -> None:
    """Short lists are read by a shorter path with the same result. Runs of growing size stay
    separate groups.
    """
    runs = [(1000 * number, number + 1) for number in range(count)]
    said = decode(encode_runs(runs), count)
    assert ([(first, first, size, 0) for first, size in runs], False) == (
        list(groups_of(said.groups)),
        said.non_canonical,
    )
    with pytest.raises(MalformedAvailability):
        decode(encode_runs(runs), count - 1)


def test_size_equal_to_period_is_one_run() -> None:
    """A progression without gaps is the run it covers."""
    assert [(0, 0, 12, 0)] == decoded(payload((0, 9, 3, 3)))
    assert not decode(payload((0, 9, 3, 3)), GROUPS_MAX).non_canonical


def test_a_progression_may_begin_before_a_group_and_go_on_behind_it() -> None:
    """Left to right, the longest progression: it does not matter how the bookie grouped the same
    runs.
    """
    assert [(0, 21, 1, 3)] == decoded(payload((0, 0, 1, 0), (3, 12, 1, 3), (15, 21, 1, 3)))
    assert [(0, 2, 1, 2), (7, 16, 1, 3)] == decoded(
        payload((0, 0, 1, 0), (2, 2, 1, 0), (7, 16, 1, 3))
    )
    assert [(0, 4, 1, 4), (7, 16, 1, 3)] == decoded(payload((0, 0, 1, 0), (4, 16, 1, 3)))


@pytest.mark.parametrize("count", range(2, 9))
def test_a_progression_that_touches_at_both_ends_keeps_its_inner_runs(count: int) -> None:
    """The first run grows what came before, the last is grown by what follows: what is between is
    the progression.
    """
    last = 4 + 4 * count
    whole = payload((0, 0, 4, 0), (4, last, 1, 4), (last + 1, last + 1, 1, 0))
    assert plainly({0, 1, 2, 3, *range(4, last + 1, 4), last + 1}) == decoded(whole)


def test_a_billion_entries_in_one_group_cost_no_more_than_a_small_one() -> None:
    """Periodic groups in order are never expanded: one of 2**61 runs decodes like any other."""
    long = (3, 3 + 4 * 2**60, 3, 4)
    assert [(0, 0, 2, 0), long] == decoded(payload((0, 0, 2, 0), long))
    assert [(0, 0, 5, 0), (8, 4 * 2**60, 1, 4)] == decoded(
        payload((0, 0, 4, 0), (4, 4 * 2**60, 1, 4))
    )


def test_a_run_longer_than_an_int_is_cut_the_same_way_each_time() -> None:
    """What a size cannot say is cut at 2**31 - 1; decoding the pieces gives the pieces, and not one
    entry is lost or added.
    """
    whole, rest = divmod(10**12 + 1, SIZE_MAX)
    expected = [
        (7, 7 + (whole - 1) * SIZE_MAX, SIZE_MAX, SIZE_MAX),
        (7 + whole * SIZE_MAX, 7 + whole * SIZE_MAX, rest, 0),
    ]
    assert expected == decoded(payload((7, 7 + 10**12, 1, 1)))
    assert expected == decoded(payload(*expected))
    assert [(0, 0, SIZE_MAX, 0), (SIZE_MAX, SIZE_MAX, 1, 0)] == decoded(
        payload((0, 0, SIZE_MAX, 0), (SIZE_MAX, SIZE_MAX, 1, 0))
    )


def test_a_run_longer_than_an_int_takes_nothing_from_what_stands_beside_it() -> None:
    """Groups before it are written before it, and later ones begin anew."""
    behind = 10 + 2 * SIZE_MAX + 5
    groups = [(0, 0, 1, 0), (10, 10 + SIZE_MAX, SIZE_MAX, SIZE_MAX), (behind, behind + 6, 1, 3)]
    assert groups == decoded(payload(*groups))
    alone = [(10, 10 + SIZE_MAX, SIZE_MAX, SIZE_MAX), (behind, behind, 1, 0)]
    assert alone == decoded(payload(*alone))


def test_runs_farther_apart_than_an_int_do_not_make_a_progression() -> None:
    """A period is an int32: runs farther apart stay alone."""
    far = 2**31
    assert [(0, 0, 1, 0), (far, far, 1, 0)] == decoded(payload((0, 0, 1, 0), (far, far, 1, 0)))
    assert [(0, far - 1, 1, far - 1)] == decoded(payload((0, 0, 1, 0), (far - 1, far - 1, 1, 0)))
    three = [(start, start, 1, 0) for start in (0, far, 2 * far)]
    assert three == decoded(payload(*three))
    near = [(start, start, 1, 0) for start in (0, SIZE_MAX, 2 * SIZE_MAX)]
    assert [(0, 2 * SIZE_MAX, 1, SIZE_MAX)] == decoded(payload(*near))


# What a bookie should not send


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "the list has 0 bytes"),
        (bytes(63), "the list has 63 bytes"),
        (payload(version=1), "version is 1"),
        (payload(version=-1), "version is -1"),
        (payload(count=-1), "announces -1 sequence groups"),
        (payload((0, 0, 1, 0), count=2), "which is 112 bytes, and has 88"),
        (payload((0, 0, 1, 0)) + b"\0", "which is 88 bytes, and has 89"),
        (payload((0, 0, 1, 0), count=0), "which is 64 bytes, and has 88"),
        (payload((-4, -4, 2, 0)), "begins before entry 0"),
        (payload((-1, -1, 1, 0)), "begins before entry 0"),
        (payload((5, 0, 1, 1)), "ends before it begins"),
        (payload((5, 0, 1, 0)), "ends before it begins"),
        (payload((0, 0, -3, 0)), "has runs of no entry"),
        (payload((0, 0, 0, 0)), "has runs of no entry"),
        (payload((0, 6, 1, -3)), "has a negative period"),
        (payload((0, 6, 1, 0)), "has several runs and no period"),
        (payload((0, 5, 1, 3)), "does not end on one of its own runs"),
        (payload((0, 4, 3, 2)), "has runs that overlap each other"),
        (payload((0, 4, 2, 1)), "has runs that overlap each other"),
        (payload((LAST_ID, LAST_ID, 2, 0)), "goes beyond the largest entry id"),
        (payload((1, LAST_ID - 1, 3, 6)), "does not end on one of its own runs"),
        (payload((1, LAST_ID, 2, 3)), "goes beyond the largest entry id"),
        (
            payload((0, 0, 1, 0), (LAST_ID, LAST_ID, 2, 0)),
            "group 1 .* goes beyond the largest entry id",
        ),
        (payload((9, 9, 1, 0), (0, 0, 0, 0)), "group 1 .* has runs of no entry"),
    ],
)
def test_a_list_that_breaks_a_rule_is_rejected_with_a_sentence(data: bytes, says: str) -> None:
    """Each rule of the encoding is checked, alone or behind good groups, and the message names the
    one broken.
    """
    with pytest.raises(MalformedAvailability, match=says):
        decode(data, GROUPS_MAX)


def test_the_last_entry_id_there_is_can_be_held() -> None:
    """2**63 - 1 is an entry id like any other; one more is an overflow."""
    assert [(LAST_ID, LAST_ID, 1, 0)] == decoded(payload((LAST_ID, LAST_ID, 1, 0)))
    assert [(1, 1, 1, 0), (LAST_ID - 1, LAST_ID - 1, 2, 0)] == decoded(
        payload((1, 1, 1, 0), (LAST_ID - 1, LAST_ID - 1, 2, 0))
    )


def test_more_groups_than_accepted_are_refused_unread() -> None:
    """groups_max bounds the work before any group is looked at."""
    assert decode(payload((0, 0, 1, 0), (2, 2, 1, 0)), 2).groups
    with pytest.raises(MalformedAvailability, match="at most 1 are accepted"):
        decode(payload((0, 0, 1, 0), (2, 2, 1, 0)), 1)


@pytest.mark.parametrize("groups", [(), ((3, 3, 2, 0),), ((0, 0, 1, 0), (5, 5, 2, 0))])
def test_reserved_bytes_are_accepted_and_reported(
    groups: tuple[tuple[int, int, int, int], ...],
) -> None:
    """Reserved bytes are for extension: used ones change nothing but the flag."""
    plain, odd = (
        decode(payload(*groups), GROUPS_MAX),
        decode(payload(*groups, reserved=bytes(55) + b"\1"), GROUPS_MAX),
    )
    assert (plain.groups, False, True) == (odd.groups, plain.non_canonical, odd.non_canonical)


def test_a_period_with_nothing_to_repeat_is_put_right() -> None:
    """One run with a period is one run, and is reported."""
    assert (payload((4, 4, 2, 0))[64:], True) == decode(payload((4, 4, 2, 5)), GROUPS_MAX)
    assert (payload((4, 4, 1, 0))[64:], True) == decode(payload((4, 4, 1, 1)), GROUPS_MAX)
    assert (payload((4, 4, 2, 0), (9, 15, 1, 3))[64:], True) == decode(
        payload((4, 4, 2, 5), (9, 15, 1, 3)), GROUPS_MAX
    )
    assert (payload((4, 4, 2, 0), (9, 9, 1, 0))[64:], True) == decode(
        payload((4, 4, 2, 5), (9, 9, 1, 0)), GROUPS_MAX
    )


# The canonical form as a law

stripes = st.builds(
    lambda e, w, k, a, n: {x for x in range(a, a + n) if (k - x) % e < min(w, e)},
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(0, 5),
    st.integers(0, 40),
    st.integers(0, 120),
)
stories = st.builds(
    lambda whole, neighbour, holes, tail: (
        {x for x in whole | neighbour if x not in holes and (not tail or x < max(whole) - tail)}
        if whole
        else neighbour
    ),
    stripes,
    st.one_of(st.just(set()), stripes),
    st.sets(st.integers(0, 160), max_size=4),
    st.integers(0, 7),
)
raw_groups = st.lists(
    st.builds(
        lambda first, count, size, gap: (
            first,
            first + (count - 1) * (size + gap) * (count > 1),
            size,
            (size + gap) * (count > 1),
        ),
        st.integers(0, 150),
        st.integers(1, 12),
        st.integers(1, 5),
        st.integers(0, 4),
    ),
    max_size=12,
)


def plainly(ids: set[int]) -> list[tuple[int, int, int, int]]:
    """The canonical groups by their definition, word for word and slowly."""
    runs: list[list[int]] = []
    for entry in sorted(ids):
        if runs and entry == runs[-1][0] + runs[-1][1]:
            runs[-1][1] += 1
        else:
            runs.append([entry, 1])
    groups = []
    while runs:
        count = 1
        while (
            count < len(runs)
            and runs[count][1] == runs[0][1]
            and runs[count][0] - runs[count - 1][0] == runs[1][0] - runs[0][0]
        ):
            count += 1
        groups.append(
            (
                runs[0][0],
                runs[count - 1][0],
                runs[0][1],
                runs[1][0] - runs[0][0] if count > 1 else 0,
            )
        )
        runs = runs[count:]
    return groups


@settings(max_examples=300, deadline=None)
@given(stories)
def test_what_a_bookie_holds_decides_the_canonical_bytes(ids: set[int]) -> None:
    """Sent as runs or as periodic groups: the canonical groups of the definition, and the same
    entries.
    """
    expected = plainly(ids)
    assert expected == decoded(encode_runs(sorted(ids)))
    assert expected == decoded(encode_periodic(ids))
    assert sorted(ids) == entries(decode(encode_runs(sorted(ids)), GROUPS_MAX).groups)


@settings(max_examples=300, deadline=None)
@given(raw_groups)
def test_any_valid_groups_in_any_order_mean_their_union(
    groups: list[tuple[int, int, int, int]],
) -> None:
    """However groups come, the canonical bytes are those of the entries they name, and canonical
    again is the same. A list with them is believed only if they ascend and do not overlap.
    """
    ids = set(entries(payload(*groups)[64:]))
    got = canonical(map(SequenceGroup._make, groups))
    assert plainly(ids) == [tuple(group) for group in groups_of(got)]
    assert got == canonical(groups_of(got))
    assert (got, False) == decode(payload(*groups_of(got)), GROUPS_MAX)
    if all(one[1] + one[2] - 1 < other[0] for one, other in pairwise(groups)):
        assert got == decode(payload(*groups), GROUPS_MAX).groups
    else:
        with pytest.raises(MalformedAvailability, match="out of order"):
            decode(payload(*groups), GROUPS_MAX)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_at_all_do_harm(noise: bytes) -> None:
    """Any bytes decode or are rejected by name; nothing else is raised."""
    for data in (
        noise,
        bytes(7) + bytes([len(noise) // 24]) + bytes(56) + noise[: len(noise) // 24 * 24],
    ):
        try:
            decode(data, GROUPS_MAX)
        except MalformedAvailability as error:
            assert str(error)
