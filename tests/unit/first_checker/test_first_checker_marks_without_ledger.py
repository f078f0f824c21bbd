"""Marks whose ledger has no metadata: reported only if two looks agree and the grace is over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from auditor.first_checker.underreplication import (
    LEDGERS_NAMED_MAX,
    MarkLook,
    SeenMark,
    judge_marks,
    newest_marks,
    withheld_marks,
)
from auditor.model.facts import MarkWithoutLedgerFacts
from auditor.model.finding import Kind

NOW_MS, GRACE_MS = 10_000_000, 1_000_000
OLD_MS = NOW_MS - GRACE_MS - 1
FIRST_AT_MS, AGAIN_AT_MS = NOW_MS + 1_000, NOW_MS + 301_000


def mark(
    ledger_id: int, created_ms: int = OLD_MS, *, has_metadata: bool | None = False
) -> SeenMark:
    """Return a mark that is the same at both looks."""
    first = MarkLook(FIRST_AT_MS, created_ms, None, has_metadata)
    return SeenMark(ledger_id, first, replace(first, read_at_ms=AGAIN_AT_MS))


def judged(*marks: SeenMark, unchecked: int = 0) -> MarkWithoutLedgerFacts | None:
    more: dict[str, Any] = {"path_of": lambda i: f"/path/{i}", "replication_disabled": False}
    found = judge_marks(marks, NOW_MS, GRACE_MS, unchecked=unchecked, **more)
    if found is None:
        return None
    assert (Kind.MARK_WITHOUT_LEDGER, None, None) == (found.kind, found.ledger_id, found.bookie_id)
    assert isinstance(found.facts, MarkWithoutLedgerFacts)
    return found.facts


def test_marks_without_metadata_at_both_looks_are_one_finding() -> None:
    """All marks share one finding, with the total, the oldest first, each with its path and its
    age.
    """
    facts = judged(mark(9), mark(7, OLD_MS - 5_000), mark(8, has_metadata=True))
    assert facts == MarkWithoutLedgerFacts(
        marks=2, some_ledgers=(7, 9), oldest_age_ms=GRACE_MS + 5_001, oldest_path="/path/7",
        grace_ms=GRACE_MS,
        unchecked=0, apart_ms=300_000, replication_disabled=False,
    )  # fmt: skip


def test_exactly_at_the_grace_a_mark_is_acceptable() -> None:
    """The same holds for a mark whose ledger exists."""
    assert judged(mark(7, NOW_MS - GRACE_MS)) is None
    assert judged(mark(7, NOW_MS - GRACE_MS - 1)) is not None


def test_the_older_of_the_two_times_counts() -> None:
    """The mark's own field restarts when a replica is added, and the znode may have been
    recreated.
    """
    one = mark(7, NOW_MS)
    first, again = (replace(look, changed_ms=OLD_MS) for look in (one.first, one.again) if look)
    assert judged(SeenMark(7, first, again)) is not None


@pytest.mark.parametrize("look", ["first", "again"])
@pytest.mark.parametrize(
    "change",
    [{"has_metadata": True}, {"has_metadata": None}, {"created_ms": None}, {"created_ms": NOW_MS}],
)
def test_a_look_that_saw_something_else_accuses_nobody(
    look: str, change: dict[str, int | bool | None]
) -> None:
    """At either look: created after the listing, deleted meanwhile, unmarked, unreadable or marked
    anew.
    """
    one = mark(7)
    assert judged(replace(one, **{look: replace(getattr(one, look), **change)})) is None


def test_one_look_is_no_evidence() -> None:
    """Of a mark that was not looked at again only that is said. The others are judged."""
    alone = replace(mark(7), again=None)
    assert judged(alone) is None
    facts = judged(alone, mark(8))
    assert facts is not None and (8,) == facts.some_ledgers
    (sentence,) = withheld_marks([alone, mark(8)], NOW_MS, GRACE_MS, unchecked=0, problem="")
    assert "1 mark of a ledger that was not listed could not be read twice" in sentence
    (sentence,) = withheld_marks([alone, alone], NOW_MS, GRACE_MS, unchecked=0, problem="")
    assert "2 marks of ledgers that were not listed could not be read twice" in sentence


def test_a_young_mark_is_only_counted() -> None:
    """Within grace a mark is counted; there is no finding, and no sentence."""
    young = replace(mark(7, NOW_MS), again=None)
    assert (None, []) == (
        judged(young),
        withheld_marks([young], NOW_MS, GRACE_MS, unchecked=0, problem=""),
    )


def test_many_marks_are_counted_and_a_few_are_named() -> None:
    """Twenty ids are named, and the number of marks that were not looked at is given."""
    facts = judged(*(mark(n) for n in range(100)), unchecked=5)
    assert facts is not None
    assert (100, LEDGERS_NAMED_MAX, 5) == (facts.marks, len(facts.some_ledgers), facts.unchecked)
    assert 20 == LEDGERS_NAMED_MAX


def test_what_was_not_listed_or_not_looked_at_is_said() -> None:
    """A part of the tree that may not be read, and marks beyond the limit, are unknown: a sentence
    for each.
    """
    refused, many = withheld_marks(
        [], NOW_MS, GRACE_MS, unchecked=7, problem="znode /x may not be read"
    )
    assert "znode /x may not be read" in refused and "MARK_WITHOUT_LEDGER" in refused
    assert "7 more marks" in many


def test_the_newest_look_says_what_a_mark_is_now() -> None:
    """A mark that is gone at the second look does not count; of one that was only listed nothing
    else is known.
    """
    gone = replace(mark(7), again=MarkLook(AGAIN_AT_MS, None, None, False))
    listed = SeenMark(9, MarkLook(FIRST_AT_MS, OLD_MS, None, None), None)
    assert [(8, False), (9, None)] == [
        (i, look.has_metadata) for i, look in newest_marks([gone, mark(8), listed])
    ]
