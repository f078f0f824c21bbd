"""The comparison of facts: each fact of a finding is held against the second checker's, under the
name that a difference has for people.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from support.findings_by_kind import EXAMPLES

from auditor.model.facts import (
    ContradictionFacts,
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
