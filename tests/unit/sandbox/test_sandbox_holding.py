"""The entries that a sandbox bookie holds: runs, groups and stored entries are one set."""

from __future__ import annotations

import random
import struct

import pytest

from auditor.model.availability import SequenceGroup
from auditor.model.ledger import DigestType
from auditor.sandbox.bookie import Holding, entry_body, merge_runs
from auditor.wire import entry_availability
from auditor.wire.digest import BodyCheck, check_body
from auditor.wire.entry_availability import groups_of

STRIPE = SequenceGroup(1, 10, 2, 3)


def listed(payload: bytes) -> set[int]:
    """Return the entries that a payload lists."""
    return {
        start + k
        for group in groups_of(payload[64:])
        for start in range(group.first, group.last + 1, group.period or 1)
        for k in range(group.size)
    }


def test_all_three_ways_of_holding_are_one() -> None:
    """Membership, the highest entry and both lists agree with the plain set of entries, however it
    was given.
    """
    for seed in range(200):
        source = random.Random(seed)
        pieces: list[tuple[int, int] | SequenceGroup] = []
        expected: set[int] = set()
        for _ in range(source.randrange(5)):
            first, size = source.randrange(60), source.randrange(1, 5)
            if source.random() < 0.5:
                pieces.append((first, first + size - 1))
                expected |= set(range(first, first + size))
            else:
                period, count = source.randrange(1, 8), source.randrange(1, 6)
                pieces.append(SequenceGroup(first, first + period * (count - 1), size, period))
                expected |= {first + period * k + j for k in range(count) for j in range(size)}
        holding = Holding(pieces)
        for entry_id in source.sample(range(100), source.randrange(4)):
            holding.store(entry_id, b"%d" % entry_id)
            expected.add(entry_id)
        assert expected == {e for e in range(-1, 120) if e in holding}, f"seed {seed}"
        assert (max(expected) if expected else None) == holding.highest(), f"seed {seed}"
        assert expected == listed(holding.listed_as_runs()), f"seed {seed}"
        assert expected == listed(holding.listed_as_groups()), f"seed {seed}"
        assert expected - {holding.highest()} == listed(
            holding.listed_as_runs(without_highest=True)
        ), f"seed {seed}"


def test_runs_are_listed_as_real_bookies_do() -> None:
    """A stripe is listed as one group for each run, with period 0, never as a periodic group."""
    expected = entry_availability.encode_runs([1, 2, 4, 5, 7, 8, 10, 11])
    assert expected == Holding([STRIPE]).listed_as_runs()
    assert len(expected) == 64 + 24 * 4


def test_stripe_of_a_billion_entries_is_listed_and_read_at_once() -> None:
    """A stripe stays one group, and any of its entries is made when read."""
    holding = Holding([SequenceGroup(0, 3 * 10**9, 2, 3)])
    assert groups_of(holding.listed_as_groups()[64:]) == (SequenceGroup(0, 3 * 10**9, 2, 3),)
    assert 3 * 10**9 + 1 in holding
    assert 3 * 10**9 - 1 not in holding
    assert holding.body(7, 3 * 10**9)[:16] == struct.pack(">qq", 7, 3 * 10**9)
    with pytest.raises(ValueError, match="PERIODIC"):
        holding.listed_as_runs()


def test_run_that_is_too_long_for_a_group_is_refused_as_a_run() -> None:
    """A group's size is an int32. A run of 2**31 - 1 entries is listed. A run with one entry more
    is listed only as periodic groups.
    """
    assert groups_of(Holding([(0, 2**31 - 2)]).listed_as_runs()[64:]) == (
        SequenceGroup(0, 0, 2**31 - 1, 0),
    )
    with pytest.raises(ValueError, match="more than a group can say"):
        Holding([(0, 2**31 - 1)]).listed_as_runs()
    assert len(groups_of(Holding([(0, 2**31 - 1)]).listed_as_groups()[64:])) == 2


def test_what_was_stored_is_what_is_read() -> None:
    """Stored bytes are read, not bytes made on demand."""
    holding = Holding([(0, 9)])
    holding.store(4, b"as sent")
    assert holding.body(7, 4) == b"as sent"
    assert holding.body(7, 5) == entry_body(7, 5)


@pytest.mark.parametrize("digest", list(DigestType))
def test_made_entry_says_who_it_is(digest: DigestType) -> None:
    """32 bytes of ids, LAC and length, the digest of the type asked for, then the payload."""
    body = entry_body(7, 41, digest, b"pw")
    assert struct.unpack_from(">qqqq", body) == (7, 41, 40, 42 * 8)
    assert body[-8:] == struct.pack(">q", 41)
    assert check_body(body, 7, 41, digest, b"pw") is BodyCheck.OK


@pytest.mark.parametrize(
    "piece",
    [
        (5, 4),
        (-1, 3),
        SequenceGroup(0, 10, 1, 3),
        SequenceGroup(0, 10, 0, 5),
        SequenceGroup(0, 10, 1, 0),
    ],
)
def test_impossible_pieces_are_refused(piece: tuple[int, int] | SequenceGroup) -> None:
    """Runs that end before they start, ids below 0 and groups that do not come out even are errors
    of the test's author.
    """
    with pytest.raises(ValueError, match="no entries can be held"):
        Holding([piece])


def test_merged_runs_do_not_touch() -> None:
    """Runs that overlap or touch become one."""
    assert merge_runs([(5, 6), (0, 2), (3, 3), (6, 9), (11, 11)]) == [(0, 3), (5, 9), (11, 11)]
