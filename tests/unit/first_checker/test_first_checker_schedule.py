"""The schedule in closed form against its definition, entry by entry."""

import struct

import pytest
from support.entry_by_entry import entries_of, expected_on, in_groups
from support.many_segments import calls

from auditor.first_checker.entry_set import EntrySet
from auditor.first_checker.schedule import (
    EXPECTED_BYTES_MAX,
    Extent,
    expected_entries,
    expected_groups,
    extents,
    foreign_runs,
    held_entries,
    positions,
    questions,
)
from auditor.model.availability import SequenceGroup
from auditor.model.ledger import LedgerMetadata, LedgerState, Segment
from auditor.sandbox.cluster import ledger
from auditor.wire.entry_availability import canonical

SHAPES = [(e, w) for e in range(1, 8) for w in range(1, e + 1)]
FIRSTS = (0, 1, 2, 5, 6, 1200, 2**31 - 3, 2**53 - 4, 2**63 - 40)
LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14, 15, 22, 40)


def belongs(entry: int, position: int, e: int, w: int) -> bool:
    """Return whether BookKeeper writes entry n to the position: it uses positions n, n+1, ...,
    n+W-1, modulo E.
    """
    return position in {(entry + i) % e for i in range(w)}


def window(first: int, last: int, position: int, e: int, w: int) -> EntrySet:
    """Return what a bookie at one position should hold."""
    return expected_entries(Extent(Segment(first, ()), last), (position,), e, w)


@pytest.mark.parametrize(("e", "w"), SHAPES)
def test_a_window_holds_what_the_definition_says(e: int, w: int) -> None:
    """By absolute entry ids, for every position, wherever the segment begins and ends; and it is
    one piece, or all entries.
    """
    for first in FIRSTS:
        for length in LENGTHS:
            last = first + length - 1
            for position in range(e):
                made = window(first, last, position, e, w)
                wanted = [n for n in range(first, last + 1) if belongs(n, position, e, w)]
                assert wanted == [n for run in made.runs() for n in range(run[0], run[1] + 1)], (
                    first,
                    last,
                    position,
                )
                assert len(made.pieces) <= 1
                assert w < e or made == EntrySet.span(first, last)


@pytest.mark.parametrize(("e", "w"), SHAPES)
def test_expected_groups_are_the_canonical_form(e: int, w: int) -> None:
    """Byte for byte what decoding a healthy bookie's list gives, for every position, start and
    length.
    """
    for first in FIRSTS:
        for length in LENGTHS:
            last = first + length - 1
            for position in range(e):
                wanted = canonical(
                    SequenceGroup(n, n, 1, 0)
                    for n in range(first, last + 1)
                    if belongs(n, position, e, w)
                )
                assert wanted == expected_groups(first, last, position, e, w), (
                    first,
                    last,
                    position,
                )


@pytest.mark.parametrize(("e", "w"), SHAPES)
def test_expected_groups_of_any_length_hold_what_the_window_holds(e: int, w: int) -> None:
    """A billion entries need at most three groups, and these are the window."""
    for position in range(e):
        groups = expected_groups(7, 10**9, position, e, w)
        assert groups is not None
        assert len(groups) <= 3 * 24
        assert window(7, 10**9, position, e, w).count() == held_entries(groups).count()
        assert not held_entries(groups) - window(7, 10**9, position, e, w)


def test_a_run_too_long_for_a_group_has_no_expected_form() -> None:
    """2^31 - 1 entries fit into one group; with one more, the closer look decides."""
    assert struct.pack(">qqii", 5, 5, 2**31 - 1, 0) == expected_groups(5, 5 + 2**31 - 2, 0, 3, 3)
    assert expected_groups(5, 5 + 2**31 - 1, 0, 3, 3) is None


@pytest.mark.parametrize("last", [100, 10**9])
def test_a_bookie_at_thousands_of_positions_costs_positions(last: int) -> None:
    """Four times the positions of one bookie cost at most five times the calls, and its share is
    one piece.
    """

    def share(size: int) -> EntrySet:
        return expected_entries(
            Extent(Segment(0, ("b",) * size), last), tuple(range(0, size, 2)), size, 1
        )

    few, many = (calls(lambda size=size: share(size)) for size in (1_000, 4_000))
    assert 0 < many < 5 * few
    assert [range(0, last + 1, 2)[-1] // 2 + 1, 1] == [
        share(4_000).count(),
        len(share(4_000).pieces),
    ]


@pytest.mark.parametrize(("e", "w"), [(1, 1), (3, 2), (4, 2), (5, 1), (5, 3), (6, 6)])
def test_a_bookie_at_two_positions_should_hold_both_windows(e: int, w: int) -> None:
    """The union of its positions' windows, counted once."""
    extent = Extent(Segment(9, ("b",) * e), 60)
    both = {n for n in range(9, 61) if belongs(n, 0, e, w) or belongs(n, e - 1, e, w)}
    made = expected_entries(extent, (0, e - 1), e, w)
    assert both == {n for run in made.runs() for n in range(run[0], run[1] + 1)}


def test_positions_come_in_the_order_of_first_appearance() -> None:
    """Each bookie occurs once, with every position it has."""
    assert {"b2": (0, 2), "b1": (1,), "b3": (3,)} == positions(("b2", "b1", "b2", "b3"))
    assert ["b2", "b1", "b3"] == list(positions(("b2", "b1", "b2", "b3")))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("e3 w2 0:[a b c] closed 9", [(0, 9)]),
        ("e3 w2 0:[a b c] 4:[a b d] closed 9", [(0, 3), (4, 9)]),
        ("e3 w2 0:[a b c] 10:[a b d] closed 9", [(0, 9)]),
        ("e3 w2 0:[a b c] closed 0", [(0, 0)]),
        ("e3 w2 0:[a b c] closed -1", []),
        ("e3 w2 0:[a b c] open", []),
        ("e3 w2 0:[a b c] in_recovery", []),
    ],
)
def test_extents_of_metadata_that_makes_sense(text: str, wanted: list[tuple[int, int]]) -> None:
    """Closed ledgers have theirs, an empty last segment has none, a ledger that is not closed has
    none.
    """
    assert wanted == [(one.first_entry_id, one.last_entry_id) for one in extents(ledger(text))]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "e3 w2 0:[a b c] 4:[a b d] closed",
            [(0, 3)],
        ),  # no lastEntryId: all segments but the last are clear
        ("e3 w2 0:[a b c] closed", []),
        ("e3 w2 5:[a b c] closed 9", [(5, 9)]),  # an uncovered head
        ("e3 w2 0:[a b c] 12:[a b d] closed 9", [(0, 9)]),  # a segment beyond the end
        ("e3 w2 0:[a b c] 4:[a b d] 12:[a b e] closed 2", [(0, 2)]),
        (
            "e3 w2 0:[a b c] 4:[a b] 7:[a b d] closed 9",
            [(0, 3), (7, 9)],
        ),  # one ensemble of another size
        ("e3 w2 0:[a b c] 6:[a b d] 6:[a b e] closed 9", [(0, 5)]),  # one of the two, unknown which
        ("e3 w2 0:[a b c] 6:[a b d] 3:[a b e] closed 9", [(0, 2)]),  # from 3 on, either of them
        ("e3 w2 0:[a b c] 6:[a b d] 3:[a b e] 8:[a b f] closed 9", [(0, 2), (8, 9)]),
        ("e3 w2 0:[a b c] 2:[a b d] 2:[a b e] 8:[a b f] closed", [(0, 1)]),
        ("e3 w2 0:[a b c] -4:[a b d] 5:[a b e] closed 9", [(5, 9)]),
        ("e3 w2 -1:[a b c] closed 9", []),
        ("e3 w4 0:[a b c] closed 9", []),
        ("e3 w0 0:[a b c] closed 9", []),
        ("e0 w0 0:[] closed 9", []),
        ("e3 w2 closed 9", []),
        ("e3 w2 0:[a b c] closed -5", []),
        ("e3 w2 a5 0:[a b c] closed 9", [(0, 9)]),  # the ack quorum places nothing
    ],
)
def test_extents_of_metadata_that_contradicts_itself(
    text: str, wanted: list[tuple[int, int]]
) -> None:
    """Clear segments are kept, unclear ones are left out; nothing is guessed."""
    assert wanted == [(one.first_entry_id, one.last_entry_id) for one in extents(ledger(text))]


@pytest.mark.parametrize(
    "text",
    [
        "e3 w2 0:[a b c] closed 0",
        "e3 w2 0:[a b c] closed 1",
        "e5 w1 0:[a b c d f] closed 2",
        "e3 w2 0:[a b c] closed -1",
        "e3 w2 0:[a b c] 5:[a b d] 10:[e b d] closed 9",
        "e5 w3 0:[a b c d f] 3:[a b g d f] 4:[h b g d f] closed 4",
        "e3 w3 0:[a b c] 7:[a b d] closed 6",
        "e4 w2 0:[a a b b] closed 30",
        "e4 w2 0:[a b c d] 9:[d c b a] 20:[a b c d] closed 21",
    ],
)
def test_each_bookie_with_an_entry_or_at_the_end_is_asked_once(text: str) -> None:
    """Each bookie that should hold an entry, and each of the last ensemble, is asked once, however
    many segments name it; no other bookie is asked.
    """
    wanted = {bookie for bookie, entries in expected_on(ledger(text)).items() if entries}
    wanted |= set(ledger(text).segments[-1].ensemble)
    asked = [question.bookie_id for question in questions(ledger(text))]
    assert sorted(wanted) == sorted(asked)


@pytest.mark.parametrize("size", range(1, 7))
def test_a_ledger_with_an_entry_for_each_bookie_costs_no_further_question(size: int) -> None:
    """Only shorter ledgers, and those whose last segment is empty, are asked about because of what
    may lie above their end.
    """
    names = " ".join("abcdef"[:size])
    for write in range(1, size + 1):
        for last in range(size - 1, 3 * size):
            metadata = ledger(f"e{size} w{write} 0:[{names}] closed {last}")
            holders = {b for b, entries in expected_on(metadata).items() if entries}
            assert holders == {question.bookie_id for question in questions(metadata)}


def test_the_bytes_expected_of_an_answer_bound_what_a_healthy_bookie_sends() -> None:
    """64 bytes, and 24 for each run, as real bookies send them: one run for each group, or one for
    each segment.
    """
    metadata = ledger("e3 w2 0:[a b c] 50:[a b d] closed 99")
    for bookie, wanted in expected_on(metadata).items():
        runs = sum(n - 1 not in wanted for n in wanted)
        guess = {q.bookie_id: q.expected_bytes for q in questions(metadata)}[bookie]
        assert 64 + 24 * (runs - 1) <= guess <= 64 + 24 * (runs + 2)


def test_nobody_is_asked_about_a_ledger_without_an_end() -> None:
    """Open, in recovery, closed without a last entry, or with quorums that make no sense."""
    for text in (
        "e3 w2 0:[a b c] open",
        "e3 w2 0:[a b c] in_recovery",
        "e3 w2 0:[a b c] closed",
        "e3 w4 0:[a b c] closed 9",
    ):
        assert () == questions(ledger(text))


def test_the_number_of_questions_does_not_depend_on_entries() -> None:
    """A segment of 2^62 entries is asked about like any other."""
    metadata = LedgerMetadata(
        3, LedgerState.CLOSED, 3, 2, 2, 2**62, 0, (Segment(0, ("a", "b", "c")),)
    )
    assert ["a", "b", "c"] == [question.bookie_id for question in questions(metadata)]


def test_held_entries_are_those_of_the_groups() -> None:
    """A stored answer is read by the definition of a sequence group."""
    groups = canonical([SequenceGroup(1, 10, 2, 3), SequenceGroup(40, 40, 5, 0)])
    assert [n for n in range(60) if in_groups(groups, n)] == [
        n for n in range(60) if n in held_entries(groups)
    ]
    assert EntrySet() == held_entries(b"")


@pytest.mark.parametrize(
    ("group", "wanted"),
    [
        ((0, 3 * 999, 2, 3), 0),  # the ledger's own striping
        ((0, 6 * 999, 2, 6), 0),  # every other stripe of it
        ((0, 7 * 999, 2, 7), 1000),
        ((0, 7 * 15, 2, 7), 0),  # a short progression happens
        ((0, 7 * 16, 2, 7), 17),
        ((5, 5, 1000, 0), 0),
        ((0, 999 * 7, 7, 7), 0),  # touching runs are one run
        ((0, 999 * 48, 2, 48), 0),  # sixteen times the ensemble still counts as striping
        ((0, 999 * 51, 2, 51), 1000),  # seventeen times is not
        ((0, 4 * 2**60, 1, 4), 2**60 + 1),  # up to the last one, however many
    ],
)
def test_runs_with_a_period_foreign_to_striping_are_counted(
    group: tuple[int, int, int, int], wanted: int
) -> None:
    """For E=3: long progressions with a period that is not a small multiple of 3."""
    assert wanted == foreign_runs(struct.pack(">qqii", *group), 3)


def test_the_reference_above_counts_as_the_definition_does() -> None:
    """The entry-by-entry reference of these tests agrees with the definition."""
    metadata = ledger("e4 w2 0:[a b c d] 5:[a e c d] closed 9")
    for entry, segment in entries_of(metadata):
        for position, bookie in enumerate(segment.ensemble):
            assert belongs(entry, position, 4, 2) == (entry in expected_on(metadata)[bookie])


@pytest.mark.parametrize(("last", "runs"), [(1, 1), (2, 2), (4, 2), (5, 3)])
def test_an_answer_is_expected_to_have_a_run_for_each_round_and_one_more(
    last: int, runs: int
) -> None:
    """A header of 64 bytes, and 24 for each run. An incomplete round of the ensemble may add one
    run.
    """
    asked = questions(ledger(f"e3 w2 0:[b1 b2 b3] closed {last}"))
    assert {64 + 24 * runs} == {question.expected_bytes for question in asked}


@pytest.mark.parametrize(
    ("shape", "runs"), [("0:[b1 b2] closed 999", 1), ("0:[b1 b2] 7:[b2 b1] closed 999", 2)]
)
def test_where_every_bookie_holds_every_entry_a_run_for_each_segment_is_expected(
    shape: str, runs: int
) -> None:
    """This holds for segments of any length."""
    asked = questions(ledger(f"e2 w2 {shape}"))
    assert {64 + 24 * runs} == {question.expected_bytes for question in asked}


def test_whatever_a_ledger_claims_to_hold_what_is_expected_of_an_answer_is_bounded() -> None:
    """2^63 entries striped over three bookies give a number that fits its column."""
    asked = questions(ledger(f"e3 w2 0:[b1 b2 b3] closed {2**63 - 1}"))
    assert [EXPECTED_BYTES_MAX] * 3 == [question.expected_bytes for question in asked]
