"""A bookie that answers and lacks most of what it should hold."""

from __future__ import annotations

import pytest

from auditor.findings.lost_content import (
    LOST_CONTENT_LEDGERS_MIN,
    Content,
    judge_content,
    withheld_content,
)
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.facts import LostContentFacts
from auditor.model.finding import Finding, Kind, Severity

LOOKS = [
    {b: BookieRecord(b, look, 0, Registration.READONLY, "h", 1) for b in ("b1", "b2")}
    for look in (1, 2)
]


def content(asked: int, lacking_most: int) -> Content:
    return Content(
        asked, lacking_most, 10 * lacking_most, 9 * lacking_most, tuple(range(lacking_most))
    )


@pytest.mark.parametrize(
    ("found", "asked", "lacking_most"),
    [
        (True, LOST_CONTENT_LEDGERS_MIN, LOST_CONTENT_LEDGERS_MIN),
        (False, LOST_CONTENT_LEDGERS_MIN - 1, LOST_CONTENT_LEDGERS_MIN - 1),
        (True, 2 * LOST_CONTENT_LEDGERS_MIN - 1, LOST_CONTENT_LEDGERS_MIN),
        (False, 2 * LOST_CONTENT_LEDGERS_MIN, LOST_CONTENT_LEDGERS_MIN),
        (True, 80_000, 40_001),
        (False, 80_000, 40_000),
    ],
)
def test_a_bookie_lost_its_content_where_it_lacks_most_of_most(
    found: bool, asked: int, lacking_most: int
):
    """A bookie lost its content if it lacks more than half of at least three ledgers it answered
    for. Below that, ledgers are lost, not a bookie.
    """
    assert found == bool(judge_content(LOOKS, {"b1": content(asked, lacking_most)}))
    assert found == bool(withheld_content({"b1": content(asked, lacking_most)}))


def test_the_twin_that_lost_one_ledger_is_not_accused():
    """One bookie is reported and its twin is not, in the same run."""
    (found,) = judge_content(LOOKS, {"b2": content(5, 5), "b1": content(5, 1)})
    assert (Kind.BOOKIE_LOST_CONTENT, "b2", Severity.CRITICAL) == (
        found.kind,
        found.bookie_id,
        found.severity,
    )
    assert LostContentFacts("readonly", "h:1", 5, False, 5, 45, 50, (0, 1, 2, 3, 4)) == found.facts


def test_a_bookie_that_nobody_has_on_record_is_not_accused():
    """A bookie without a registration at any look is not accused."""
    assert [] == judge_content(LOOKS, {"b9": content(5, 5)})


def test_ledgers_named_in_a_finding_are_few():
    """A few ledgers are named, the rest is counted."""
    (found,) = judge_content(LOOKS, {"b1": content(100, 100)})
    assert isinstance(found.facts, LostContentFacts)
    assert tuple(range(10)) == found.facts.some_ledgers


def test_the_finding_says_what_was_counted_each_under_its_name():
    """Registration and address are those of the last look."""
    moved = BookieRecord("b1", 3, 0, Registration.WRITABLE, "g", 2)
    facts = LostContentFacts(
        registration="writable",
        address="g:2",
        asked=7,
        was_probed=True,
        lacking_most=5,
        absent=80,
        expected=90,
        some_ledgers=(3, 4),
    )
    counts = Content(7, 5, 90, 80, (3, 4), was_probed=True)
    expected = [Finding(Kind.BOOKIE_LOST_CONTENT, facts, bookie_id="b1")]
    assert expected == judge_content([*LOOKS, {"b1": moved}], {"b1": counts})


@pytest.mark.parametrize(
    ("found", "looks"), [(False, "readonly readonly none"), (True, "none none readonly")]
)
def test_whether_a_bookie_is_registered_is_said_by_the_last_look(found: bool, looks: str):
    """The last look decides whether a bookie counts as registered: one that left meanwhile is not
    reported, one that came is.
    """
    records = [
        {"b1": BookieRecord("b1", n, 0, Registration(word), "h", 1)}
        for n, word in enumerate(looks.split())
    ]
    assert found == bool(judge_content(records, {"b1": content(5, 5)}))
