"""The facts of each kind: docs/names.md lists their fields as findings.jsonl has them."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

import pytest
from support.findings_by_kind import FACTS_TYPES, facts_types, finding_of, kinds_of
from test_house_docs import NAMES, table

from auditor.model.facts import facts_json
from auditor.model.finding import Kind

HEADING = "Facts of a finding"


def field_names(facts: type) -> str:
    """Return the fields of a dataclass in order, those of a nested dataclass in braces: "a, b {c,
    d}, e [{f}]".
    """
    hints = get_type_hints(facts)
    return ", ".join(field.name + _within(hints[field.name]) for field in fields(facts))


def _within(hint: Any) -> str:
    """Return what follows the name of a field: nothing, unless its type is a dataclass or a list of
    one.
    """
    if is_dataclass(hint):
        return f" {{{field_names(hint)}}}" if isinstance(hint, type) else ""
    inner = [_within(one) for one in get_args(hint) if one is not Ellipsis]
    found = next((one for one in inner if one), "")
    return f" [{found.strip()}]" if found and getattr(hint, "__origin__", None) is tuple else found


def row(kind: Kind) -> dict[str, str]:
    """Return the row of a kind that names.md should have. A kind with two sorts of facts has
    both.
    """
    return {
        "kind": f"`{kind.value}`",
        "fields": " or ".join(f"`{field_names(facts)}`" for facts in facts_types(kind)),
    }


def test_names_lists_the_facts_of_each_kind() -> None:
    """As the dataclasses of auditor.model.facts have them, in the catalogue's order."""
    should = [row(kind) for kind in Kind]
    text = "\n".join(f"| {one['kind']} | {one['fields']} |" for one in should)
    assert should == table(NAMES, HEADING), (
        f"the table below {HEADING!r} of docs/names.md should be:\n{text}"
    )


@pytest.mark.parametrize("kind", Kind)
def test_a_kind_has_facts_that_name_it_and_are_written_by_their_names(kind: Kind) -> None:
    """The dataclass names the kind in its docstring; findings.jsonl has an object with its
    fields.
    """
    assert facts_types(kind), (
        f"no dataclass of auditor.model.facts names {kind.value} in its docstring"
    )
    facts = finding_of(kind).facts
    assert list(facts_json(facts)) == [field.name for field in fields(facts)]


def test_no_dataclass_of_facts_is_left_over() -> None:
    """Each is for some kind."""
    assert [] == [facts.__name__ for facts in FACTS_TYPES if not kinds_of(facts)]
