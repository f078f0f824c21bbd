"""The comparison of facts: each fact of a finding is held against the second checker's, under the
name that a difference has for people.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from support.findings_by_kind import EXAMPLES

from auditor.model.facts import (
    CONTRADICTIONS_MAX,
    Contradiction,
    ContradictionFacts,
    Contradicts,
    EntryFacts,
    Facts,
    MarkFacts,
    PlacementFacts,
    Search,
    UnrecoverableFacts,
    WhyMarked,
    WriteSetFacts,
)
from auditor.second_checker.agreement import compare_facts
from auditor.second_checker.placement import WRITE_SETS_SHOWN_MAX

SPECIAL = {EntryFacts, MarkFacts, UnrecoverableFacts, ContradictionFacts, PlacementFacts}
"""Facts of which some are compared in another way than by being equal."""
PLAIN = sorted(EXAMPLES.keys() - SPECIAL, key=lambda of: of.__name__)


def differ(one: Facts, other: Facts, **how: Any) -> list[tuple[str, object, object]]:
    """Return the facts that differ, with what the first and the second checker say."""
    return [pair for pair in compare_facts(one, other, **how) if pair[1] != pair[2]]


def other_than(value: object) -> Any:
    """Return a value that a fact does not have."""
    return ("other than", value)


@pytest.mark.parametrize("of", PLAIN, ids=lambda of: of.__name__)
@pytest.mark.parametrize("is_whole", [True, False])
def test_every_fact_is_compared_under_its_name_in_words(of: type, is_whole: bool) -> None:
    """In the order of the dataclass, also where the second checker did not examine all entries."""
    facts = EXAMPLES[of]
    names = [field.name.replace("_", " ") for field in fields(of)]
    assert names == [name for name, *_ in compare_facts(facts, facts, is_whole=is_whole)]
    assert [] == differ(facts, facts, is_whole=is_whole)
    for field in fields(of):
        said = getattr(facts, field.name)
        changed: Any = replace(facts, **{field.name: other_than(said)})
        expected = (field.name.replace("_", " "), other_than(said), said)
        assert [expected] == differ(changed, facts, is_whole=is_whole)


def test_facts_of_different_kinds_differ_by_their_kinds() -> None:
    """A plain kind beside a special one, and two special ones."""
    entry, mark, stuck = (EXAMPLES[of] for of in (EntryFacts, MarkFacts, PLAIN[0]))
    assert [("facts", "EntryFacts", "MarkFacts")] == differ(entry, mark)
    assert [("facts", PLAIN[0].__name__, "EntryFacts")] == differ(stuck, entry)


FOUND = Search(3, 1, 0, 0, ("b4", "b5"), ("b4",), (), ("b5",))
ENTRY = EntryFacts(42, ("b1", "b2", "b3"), at_tail=False, search=FOUND)


@pytest.mark.parametrize("name", ["worst_entry", "write_set", "listed_outside", "gone", "at_tail"])
def test_each_fact_on_entries_is_compared(name: str) -> None:
    """All of them where every entry was examined. Whether only the end is missing depends on
    entries that were not.
    """
    changed: Any = replace(ENTRY, **{name: other_than(getattr(ENTRY, name))})
    said = (name.replace("_", " "), getattr(changed, name), getattr(ENTRY, name))
    assert [said] == differ(changed, ENTRY)
    assert ([] if name == "at_tail" else [said]) == differ(changed, ENTRY, is_whole=False)


@pytest.mark.parametrize("name", [field.name for field in fields(Search)])
def test_each_fact_of_a_whole_search_is_compared(name: str) -> None:
    """Beside those of the entries, which are named once."""
    changed: Any = replace(FOUND, **{name: other_than(getattr(FOUND, name))})
    first = replace(ENTRY, search=changed)
    assert [(name.replace("_", " "), getattr(changed, name), getattr(FOUND, name))] == differ(
        first, ENTRY
    )
    names = [pair[0] for pair in compare_facts(ENTRY, ENTRY)]
    assert len(set(names)) == len(names) and "search" not in names


def test_a_search_that_one_checker_does_not_have_is_a_difference() -> None:
    """Both without one agree."""
    none = replace(ENTRY, search=None)
    assert [("search", None, FOUND)] == differ(none, ENTRY)
    assert [("search", FOUND, None)] == differ(ENTRY, none)
    assert [] == differ(none, none)


def test_of_a_search_among_some_entries_only_more_bookies_count() -> None:
    """The second checker examined fewer entries: it may find fewer bookies, and no other ones."""
    fewer = replace(ENTRY, search=Search(1, 0, 0, 0))
    none = replace(ENTRY, search=None)
    assert [] == differ(ENTRY, fewer, is_whole=False) == differ(ENTRY, none, is_whole=False)
    more = replace(ENTRY, search=replace(FOUND, found_on=("b4", "b6"), corrupt_on=("b5", "b7")))
    assert [("found on", {"b6"}, set()), ("corrupt on", {"b7"}, set())] == differ(
        ENTRY, more, is_whole=False
    )
    assert [("found on", {"b4"}, set()), ("corrupt on", {"b5"}, set())] == differ(
        none, ENTRY, is_whole=False
    )


MARK = EXAMPLES[MarkFacts]
assert isinstance(MARK, MarkFacts)
NEEDS_EVERY_ENTRY = (WhyMarked.NO_COPY_IN_REACH, WhyMarked.NO_SPARE_BOOKIE, WhyMarked.STALE)


@pytest.mark.parametrize("why", WhyMarked)
def test_a_reason_that_needs_every_entry_is_compared_where_all_were_examined(
    why: WhyMarked,
) -> None:
    """Every other reason is always compared."""
    one, other = replace(MARK, why=(why,)), replace(MARK, why=())
    assert [("why", (why,), ())] == differ(one, other)
    left = [] if why in NEEDS_EVERY_ENTRY else [("why", (why,), ())]
    assert left == differ(one, other, is_whole=False)


@pytest.mark.parametrize("name", [field.name for field in fields(MarkFacts) if field.name != "why"])
@pytest.mark.parametrize("is_whole", [True, False])
def test_each_fact_of_a_mark_is_compared(name: str, is_whole: bool) -> None:
    """Also where the second checker did not examine all entries."""
    changed: Any = replace(MARK, **{name: other_than(getattr(MARK, name))})
    said = (name.replace("_", " "), getattr(changed, name), getattr(MARK, name))
    assert [said] == differ(changed, MARK, is_whole=is_whole)


@pytest.mark.parametrize("is_whole", [True, False])
def test_of_an_unrecoverable_ledger_both_halves_are_compared(is_whole: bool) -> None:
    """The entries and the mark, each as far as the second checker examined entries."""
    both = UnrecoverableFacts(ENTRY, MARK)
    tail = replace(ENTRY, at_tail=True)
    stale = replace(MARK, why=(*MARK.why, WhyMarked.STALE))
    named = differ(UnrecoverableFacts(tail, stale), both, is_whole=is_whole)
    assert (["at tail", "why"] if is_whole else []) == [name for name, *_ in named]
    older = replace(MARK, age_ms=MARK.age_ms + 1)
    other = UnrecoverableFacts(replace(ENTRY, worst_entry=43), older)
    named = differ(other, both, is_whole=is_whole)
    assert ["worst entry", "age ms"] == [name for name, *_ in named]


def contradictions(*numbers: int, total: int | None = None) -> ContradictionFacts:
    """Return a contradiction for each number, of as many as that unless a total is given."""
    each = tuple(Contradiction(Contradicts.LAST_ENTRY_BELOW_MINUS_ONE, (n,)) for n in numbers)
    return ContradictionFacts(each, len(each) if total is None else total)


def test_contradictions_are_compared_by_their_number_and_as_a_set() -> None:
    """In any order. One that is none is named, and so is one too few."""
    assert [] == differ(contradictions(1, 2), contradictions(2, 1))
    false = contradictions(3).contradictions[0]
    assert [("contradictions that are none", {false: 1}, {})] == differ(
        contradictions(1, 3), contradictions(1, 2)
    )
    assert [("contradictions that are none", {false: 1}, {})] == differ(
        contradictions(3, 3), contradictions(3, 2)
    )
    assert [("contradictions in all", 3, 2)] == differ(
        contradictions(1, 2, total=3), contradictions(1, 2)
    )
    assert [("contradictions named", 1, 2)] == differ(
        contradictions(1, total=2), contradictions(1, 2)
    )


def test_of_many_contradictions_only_so_many_are_named() -> None:
    """The first checker names CONTRADICTIONS_MAX of those that the second one finds."""
    every = contradictions(*range(CONTRADICTIONS_MAX + 1))
    named = replace(every, contradictions=every.contradictions[:CONTRADICTIONS_MAX])
    assert [] == differ(named, every)
    assert ["contradictions named"] == [name for name, *_ in differ(every, every)]


def placed(*positions: int | None, deciding: int | None = None, why: str = "1 rack") -> Any:
    """Return placement facts with write sets at these positions at fault."""
    shown = tuple(WriteSetFacts(at, ("b1",), ("/r1",), why) for at in positions)
    return PlacementFacts(
        "rack", False, (), 9, len(shown) if deciding is None else deciding, shown, (), ""
    )


PLACED_PLAIN = [
    field.name for field in fields(PlacementFacts) if field.name not in ("shown", "deciding")
]


@pytest.mark.parametrize("name", PLACED_PLAIN)
def test_each_fact_of_placement_is_compared(name: str) -> None:
    """Also where the second checker left write sets open."""
    facts = placed(0, 1)
    changed: Any = replace(facts, **{name: other_than(getattr(facts, name))})
    said = (name.replace("_", " "), getattr(changed, name), getattr(facts, name))
    assert [said] == differ(changed, facts) == differ(changed, facts, left_open={5})


def test_write_sets_at_fault_are_compared_where_each_was_tried() -> None:
    """How many, which, and why."""
    assert [] == differ(placed(0, 1), placed(0, 1))
    assert ["write sets that decide", "write sets at fault"] == [
        name for name, *_ in differ(placed(0), placed(0, 1))
    ]
    assert ["write sets at fault"] == [name for name, *_ in differ(placed(0, 2), placed(0, 1))]
    assert ["write sets at fault"] == [
        name for name, *_ in differ(placed(0, why="2 racks"), placed(0))
    ]
    assert [("write sets shown", 1, 2)] == differ(placed(0, deciding=2), placed(0, deciding=2))


def test_only_so_many_write_sets_are_shown() -> None:
    """However many decide."""
    many = placed(*range(WRITE_SETS_SHOWN_MAX), deciding=WRITE_SETS_SHOWN_MAX + 1)
    assert [] == differ(many, many)
    more = placed(*range(WRITE_SETS_SHOWN_MAX + 1))
    assert [("write sets shown", WRITE_SETS_SHOWN_MAX + 1, WRITE_SETS_SHOWN_MAX)] == differ(
        more, more
    )


def test_what_the_second_checker_left_open_the_first_one_decides() -> None:
    """Between no and all of those write sets may be at fault beside those that it tried."""
    tried = placed(0)
    for first in (placed(0), placed(0, 4), placed(0, 4, 5), placed(4, 0)):
        assert [] == differ(first, tried, left_open={4, 5}), first
    assert [("write sets that decide", 4, 3)] == differ(
        placed(0, 4, 5, deciding=4), tried, left_open={4, 5}
    )[:1]
    assert ("write sets that decide", 0, 1) in differ(placed(), tried, left_open={4, 5})
    assert ["write sets at fault"] == [
        name for name, *_ in differ(placed(1, 4), tried, left_open={4, 5})
    ]
    assert [] == differ(placed(0), placed(0, 1, deciding=1), left_open={4})
