"""The notation of ledgers and of runs of entries, in one line."""

from __future__ import annotations

import random

import pytest

from auditor.model.ledger import DigestType, LedgerMetadata, LedgerState, Segment
from auditor.sandbox.cluster import holds, ledger, placement, without


def entries(runs: list[tuple[int, int]]) -> set[int]:
    return {entry_id for first, last in runs for entry_id in range(first, last + 1)}


def test_one_line_describes_a_ledger() -> None:
    """Quorums, segments, state and last entry are read from one line. A name that has an id is
    replaced by it.
    """
    expected = LedgerMetadata(
        format_version=3,
        state=LedgerState.CLOSED,
        ensemble_size=5,
        write_quorum=3,
        ack_quorum=2,
        last_entry_id=1999,
        length=16_000,
        segments=(
            Segment(0, ("h:1", "b2", "b3", "b4", "b5")),
            Segment(1200, ("h:1", "b2", "b3", "b6", "b5")),
        ),
        digest_type=DigestType.CRC32C,
    )
    assert expected == ledger(
        "e5 w3 a2  0:[b1 b2 b3 b4 b5] 1200:[b1 b2 b3 b6 b5]  closed 1999", {"b1": "h:1"}
    )


@pytest.mark.parametrize(
    ("text", "state", "last"),
    [
        ("e2 w2 0:[b1 b2] open", LedgerState.OPEN, -1),
        ("e2 w2 0:[b1 b2]", LedgerState.OPEN, -1),
        ("e2 w2 0:[b1 b2] in_recovery", LedgerState.IN_RECOVERY, -1),
        ("e2 w2 0:[b1 b2] closed -1", LedgerState.CLOSED, -1),
        ("e2 w2 0:[b1 b2] closed", LedgerState.CLOSED, None),
    ],
)
def test_states_are_words(text: str, state: LedgerState, last: int | None) -> None:
    """A ledger that is not closed has -1 as its last entry, as Java writes it. `closed` without a
    number gives no last entry.
    """
    assert (state, last, 2) == (
        ledger(text).state,
        ledger(text).last_entry_id,
        ledger(text).ack_quorum,
    )


def test_format_and_digest_are_words() -> None:
    """`v2` is the format and `hmac` the digest. Version 1 has no digest."""
    metadata = ledger("e1 w1 0:[b1] closed 3 v2 hmac")
    assert (metadata.format_version, metadata.digest_type) == (2, DigestType.HMAC)
    assert ledger("e1 w1 0:[b1] closed 3 v1").digest_type is None


@pytest.mark.parametrize(
    "text",
    ["e2 0:[b1 b2] open", "e2 w2 0:[b1 b2] ajar", "e2 w2 0:[b1 b2", "e2 w2x 0:[b1 b2]", "e2,w2"],
)
def test_what_is_not_notation_is_refused(text: str) -> None:
    """A mistake in writing is an error, never another ledger."""
    with pytest.raises(ValueError, match=r"not a part of a ledger|needs"):
        ledger(text)


def test_runs_are_inclusive() -> None:
    """Single entries and ranges are runs with both ends in."""
    assert holds("1200-1202 1205 7-7") == ((1200, 1202), (1205, 1205), (7, 7))
    assert holds("") == ()
    for text in ("5-4", "a", "-3", "1..2"):
        with pytest.raises(ValueError, match="not a run of entries"):
            holds(text)


def test_placement_is_round_robin_by_absolute_entry_id() -> None:
    """Entry e is on the bookies at positions e to e+W-1, modulo E, of its segment. Random shapes
    are checked entry by entry.
    """
    for seed in range(300):
        source = random.Random(seed)
        e = source.randrange(1, 7)
        w = source.randrange(1, e + 1)
        starts = sorted({0, *(source.randrange(1, 60) for _ in range(source.randrange(3)))})
        names = [f"b{n}" for n in range(9)]
        segments = [(start, source.sample(names, e)) for start in starts]
        last = source.randrange(starts[-1] - 1, 80)
        text = " ".join(f"{start}:[{' '.join(members)}]" for start, members in segments)
        expected: dict[str, set[int]] = {name: set() for _, members in segments for name in members}
        for entry_id in range(last + 1):
            members = [m for start, m in segments if start <= entry_id][-1]
            for k in range(w):
                expected[members[(entry_id + k) % e]].add(entry_id)
        held = placement(ledger(f"e{e} w{w} {text} closed {last}"))
        assert expected == {name: entries(runs) for name, runs in held.items()}, f"seed {seed}"


def test_real_placement_after_a_change_in_place() -> None:
    """These are the entries that a real cluster put on A, B, C and, from entry 10 in B's place, D.
    There are 20 entries, with E=3 and W=2.
    """
    held = placement(ledger("e3 w2 0:[A B C] 10:[A D C] closed 19"))
    assert held["A"] == [(0, 0), *((first, first + 1) for first in range(2, 18, 3))]
    assert held["B"] == [(0, 1), (3, 4), (6, 7), (9, 9)]
    assert held["C"] == [*((first, first + 1) for first in range(1, 17, 3)), (19, 19)]
    assert held["D"] == [(10, 10), (12, 13), (15, 16), (18, 19)]


def test_duplicate_bookie_holds_each_entry_once() -> None:
    """A bookie at two positions holds the union of both."""
    assert placement(ledger("e3 w2 0:[b1 b2 b1] closed 5"))["b1"] == [(0, 5)]


def test_open_ledger_has_what_was_written() -> None:
    """Without an end, only entries before the last segment are placed. `written` is the end of the
    last segment.
    """
    metadata = ledger("e2 w2 0:[b1 b2] 10:[b1 b3] open")
    assert placement(metadata) == {"b1": [(0, 9)], "b2": [(0, 9)], "b3": []}
    assert placement(metadata, written=12)["b3"] == [(10, 12)]


def test_stripe_too_long_for_windows_is_refused() -> None:
    """Billions of runs are refused. Billions of entries in one run are not."""
    with pytest.raises(ValueError, match="sequence groups"):
        placement(ledger("e3 w2 0:[b1 b2 b3] closed 4000000000"))
    assert placement(ledger("e2 w2 0:[b1 b2] closed 4000000000"))["b1"] == [(0, 4_000_000_000)]


def test_without_takes_away_exactly_what_is_lost() -> None:
    """It is the set difference, computed by runs."""
    for seed in range(200):
        source = random.Random(seed)
        some = [
            [(first, first + source.randrange(9)) for first in source.sample(range(50), 4)]
            for _ in range(2)
        ]
        assert entries(some[0]) - entries(some[1]) == entries(without(*some)), f"seed {seed}"
