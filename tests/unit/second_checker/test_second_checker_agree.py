"""The comparison of the verdict with the second checker's opinion, respect by respect: each changed
fact gives one more sentence.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.findings_by_kind import EXAMPLES, finding_of

from auditor.model.facts import EntryFacts, MarkFacts
from auditor.model.finding import RANGES_MAX, Copies, Finding, FindingSegment, Kind
from auditor.model.verdict import Exempt, Probes, Standing, Unknown, Verdict
from auditor.second_checker.agreement import (
    DIFFERENCE_CHARS_MAX,
    DIFFERENCES_TOLD_MAX,
    compare_verdicts,
    describe_differences,
)
from auditor.second_checker.blocks import Block, Stretch
from auditor.second_checker.copies import Entries
from auditor.second_checker.findings import CrossCheckFinding
from auditor.second_checker.opinion import Opinion

ENSEMBLE = ("b1", "b2", "b3")
SEGMENT, LATER = FindingSegment(0, 9, ENSEMBLE), FindingSegment(10, 19, ENSEMBLE)
COPIES = Copies(write_quorum=2, ack_quorum=2, confirmed=1, unknown=0)
KIND = Kind.ENTRY_BELOW_WRITE_QUORUM
FACTS = EntryFacts(worst_entry=3, write_set=("b1", "b2"))
FINDING = Finding(
    KIND,
    FACTS,
    ledger_id=7,
    segment=SEGMENT,
    entries=((3, 5), (8, 8)),
    entries_total=4,
    missing_on=(("b1", ((3, 5),)), ("b2", ((8, 8),))),
    copies=COPIES,
)
FOUND = CrossCheckFinding(
    KIND,
    FACTS,
    SEGMENT,
    Entries(((3, 5), (8, 8)), 4),
    {"b1": Entries(((3, 5),), 3), "b2": Entries(((8, 8),), 1)},
    COPIES,
)
OPINION = Opinion(Standing.VIOLATED, findings=(FOUND,))


def verdict(*findings: Finding) -> Verdict:
    return Verdict(7, Standing.VIOLATED, findings=findings)


def respects(first: Verdict, second: Opinion) -> list[str]:
    """Return what differs, without what either side says."""
    return [
        one.partition(": the first checker says ")[0] for one in compare_verdicts(first, second)
    ]


def test_the_same_finding_is_no_difference() -> None:
    """Findings that are equal in every respect give no difference."""
    assert () == compare_verdicts(verdict(FINDING), OPINION)


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({"segment": LATER}, ["its segment"]),
        ({"copies": replace(COPIES, confirmed=0)}, ["copies of the worst entry"]),
        ({"facts": replace(FACTS, worst_entry=4)}, ["worst entry"]),
        ({"facts": replace(FACTS, write_set=("b2", "b3"))}, ["write set"]),
        ({"facts": replace(FACTS, at_tail=True)}, ["at tail"]),
        ({"facts": EXAMPLES[MarkFacts]}, ["facts"]),
        ({"entries": Entries(((3, 4), (8, 8)), 4)}, ["entries"]),
        ({"entries": Entries(((3, 5), (8, 8)), 5)}, ["entries in all"]),
        ({"missing_on": {"b1": FOUND.missing_on["b1"]}}, ["bookies that lack entries"]),
        ({"missing_on": {**FOUND.missing_on, "b3": Entries()}}, ["bookies that lack entries"] * 2),
        ({"missing_on": {**FOUND.missing_on, "b1": Entries(((3, 4),), 2)}}, ["missing on b1"]),
        (
            {"missing_on": {"b1": Entries(((3, 4),), 2), "b2": Entries(((7, 8),), 2)}},
            ["missing on b1", "missing on b2"],
        ),
    ],
)
def test_each_respect_of_a_finding_is_compared(changed: dict[str, Any], wanted: list[str]) -> None:
    """Each difference names the kind."""
    second = replace(OPINION, findings=(replace(FOUND, **changed),))
    assert [f"{KIND.value}, {one}" for one in wanted] == respects(verdict(FINDING), second)


def test_a_finding_that_one_of_them_does_not_have_is_named_by_its_kind() -> None:
    """Both lists are given, in order; a placement with its segment."""
    late = finding_of(Kind.UNDERREPLICATED_BEYOND_GRACE)
    (sentence,) = compare_verdicts(verdict(FINDING, late), OPINION)
    assert (
        "findings: the first checker says ENTRY_BELOW_WRITE_QUORUM, UNDERREPLICATED_BEYOND_GRACE, "
        in sentence
    )
    assert sentence.endswith("the second ENTRY_BELOW_WRITE_QUORUM")
    for segment in (SEGMENT, LATER):
        (sentence,) = compare_verdicts(
            verdict(finding_of(Kind.PLACEMENT_FAILED, segment=segment)), Opinion(Standing.VIOLATED)
        )
        placed_badly = f"PLACEMENT_FAILED of the segment at {segment.first_entry_id}"
        assert f"findings: the first checker says {placed_badly}, the second none" == sentence


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({"exempt": Exempt.OPEN}, "exempt: the first checker says None, the second open"),
        (
            {"only_maintenance": True},
            "waits for maintenance only: the first checker says False, the second True",
        ),
        (
            {"probes": (5, 2)},
            "entries read on bookies that cannot list: the first checker says None, the second 5",
        ),
        (
            {"listing_false_negatives": 1},
            "entries left out of lists: the first checker says 0, the second 1",
        ),
        (
            {"unknowns": frozenset({Unknown.BOOKIE_REFUSED, Unknown.BOOKIE_SILENT})},
            (
                "unknown because of: the first checker says nothing, the second bookie_silent"
                " bookie_refused"
            ),
        ),
    ],
)
def test_each_respect_of_a_ledger_is_compared(changed: dict[str, Any], wanted: str) -> None:
    """Both sides are given, with reasons in the order of the catalogue."""
    assert (wanted,) == compare_verdicts(verdict(FINDING), replace(OPINION, **changed))


def test_probes_are_compared_as_far_as_both_know_them() -> None:
    """All probes are compared, and those of the random sample if the second checker knows which
    were drawn.
    """
    first = Verdict(7, Standing.SOUND, probes=Probes(read=5, random=2))
    assert () == compare_verdicts(first, Opinion(Standing.SOUND, probes=(5, 2)))
    assert () == compare_verdicts(first, Opinion(Standing.SOUND, probes=(5, None)))
    assert ["of these drawn at random"] == respects(first, Opinion(Standing.SOUND, probes=(5, 3)))
    assert ["entries read on bookies that cannot list"] == respects(
        first, Opinion(Standing.SOUND, probes=(4, 2))
    )
    assert ["entries read on bookies that cannot list"] == respects(first, Opinion(Standing.SOUND))


# Not every entry was looked at


def part(low: int, high: int, *ranges: tuple[int, int]) -> Opinion:
    """Return an opinion that looked only at the entries from `low` to `high`, and found these
    ranges.
    """
    total = sum(last - first + 1 for first, last in ranges)
    entries = Entries(ranges, total)
    stretch = Stretch(0, 10_000, ENSEMBLE, 2)
    finding = replace(FOUND, entries=entries, missing_on={})
    return replace(
        OPINION, findings=(finding,), is_whole=False, blocks=(Block(stretch, low, high),)
    )


def claims(*ranges: tuple[int, int]) -> Verdict:
    total = sum(last - first + 1 for first, last in ranges)
    return verdict(replace(FINDING, entries=ranges, entries_total=total, missing_on=()))


@pytest.mark.parametrize(
    ("said", "seen", "wanted"),
    [
        (((3, 25),), ((10, 20),), []),
        (((3, 5), (12, 14), (30, 31)), ((12, 14),), []),
        (((3, 10),), ((10, 10),), []),
        (((20, 25),), ((20, 20),), []),
        (((3, 9), (21, 25)), (), []),
        (((3, 9),), ((10, 10),), ["entries"]),
        (((21, 25),), ((20, 20),), ["entries"]),
        (((3, 25),), ((11, 20),), ["entries"]),
    ],
)
def test_what_was_not_looked_at_is_not_compared(
    said: tuple[tuple[int, int], ...], seen: tuple[tuple[int, int], ...], wanted: list[str]
) -> None:
    """Entries 10 to 20 were looked at: ranges count with their part of them."""
    assert [f"{KIND.value}, {one}" for one in wanted] == respects(
        claims(*said), part(10, 20, *seen)
    )


def test_nothing_is_compared_in_places_behind_the_last_range_that_is_reported() -> None:
    """Whatever the second checker finds in the last place lies behind the ranges that go into a
    finding.
    """
    every = tuple((10 * number, 10 * number + 1) for number in range(RANGES_MAX))
    end = every[-1][1]
    first = verdict(replace(FINDING, entries=every, entries_total=999, missing_on=()))
    second = part(0, end, *every, (end + 2, end + 30))
    stretch = second.blocks[0].stretch
    for low in (end, end + 2, end + 10):
        blocks = (Block(stretch, 0, end - 1), Block(stretch, low, end + 20))
        assert () == compare_verdicts(first, replace(second, blocks=blocks))
    shorter = part(0, end, *every[:-1], (end - 1, end - 1))
    blocks = (Block(stretch, 0, end - 1), Block(stretch, end, end + 20))
    assert [f"{KIND.value}, entries"] == respects(first, replace(shorter, blocks=blocks))


# Placement that the second checker left open

OPEN = Opinion(Standing.SOUND, unjudged=frozenset({10}))


def placed(kind: Kind, segment: FindingSegment = LATER) -> Verdict:
    standing = Standing.VIOLATED if kind is Kind.PLACEMENT_FAILED else Standing.SOUND
    return Verdict(7, standing, findings=(finding_of(kind, segment=segment),))


def test_its_word_on_another_segment_or_of_another_kind_is_not_taken() -> None:
    """The second checker has judged the other segments and kinds itself."""
    assert ["standing", "findings"] == respects(placed(Kind.PLACEMENT_FAILED, SEGMENT), OPEN)
    assert ["standing", "findings"] == respects(verdict(replace(FINDING, segment=LATER)), OPEN)
    assert ["standing", "findings"] == respects(
        placed(Kind.PLACEMENT_FAILED), replace(OPEN, unjudged=frozenset())
    )


def test_that_the_topology_is_unknown_is_taken_and_makes_a_ledger_indeterminate() -> None:
    """Other unknown reasons are not accepted. A violation stays a violation."""
    unknown = Verdict(7, Standing.INDETERMINATE, unknowns=(Unknown.TOPOLOGY_UNKNOWN,))
    assert () == compare_verdicts(unknown, OPEN)
    silent = replace(unknown, unknowns=(Unknown.BOOKIE_SILENT,))
    assert ["standing", "unknown because of"] == respects(silent, OPEN)
    lost = replace(verdict(FINDING), unknowns=(Unknown.TOPOLOGY_UNKNOWN,))
    assert () == compare_verdicts(lost, replace(OPINION, unjudged=frozenset({10})))
    assert ["standing", "unknown because of"] == respects(
        unknown, replace(OPEN, unjudged=frozenset())
    )


def test_a_violation_waits_for_no_maintenance() -> None:
    """A violation is final, whatever else is in maintenance; an indeterminate ledger waits."""
    waits = replace(
        OPEN,
        standing=Standing.INDETERMINATE,
        unknowns=frozenset({Unknown.BOOKIE_SILENT}),
        only_maintenance=True,
    )
    first = Verdict(
        7, Standing.INDETERMINATE, unknowns=(Unknown.BOOKIE_SILENT,), only_maintenance=True
    )
    assert () == compare_verdicts(first, waits)
    failed = replace(placed(Kind.PLACEMENT_FAILED), unknowns=(Unknown.BOOKIE_SILENT,))
    assert () == compare_verdicts(failed, waits)


# Texts, and which verdicts are checked


def test_a_text_of_differences_says_how_many_more_there_are_only_where_there_are_more() -> None:
    """Each difference is given in order, and whole if it just fits."""
    five = tuple("abcde")
    assert "a; b; c; d; e" == describe_differences(five)
    assert "a; b; c; d; e; and 1 more differences" == describe_differences((*five, "f"))
    assert 5 == DIFFERENCES_TOLD_MAX
    assert "x" * DIFFERENCE_CHARS_MAX == describe_differences(("x" * DIFFERENCE_CHARS_MAX,))
    assert "x" * DIFFERENCE_CHARS_MAX + "..." == describe_differences(
        ("x" * (DIFFERENCE_CHARS_MAX + 1),)
    )
