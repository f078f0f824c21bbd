"""Whatever a dataclass holds is read back from JSON as it was written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from random import Random
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from auditor.model.codec import Part, decode, encode, field_named
from auditor.model.summary import Summary, TopicLine


class Colour(StrEnum):
    """A word in a file."""

    RED = "red"


@dataclass(frozen=True)
class Thing(Part):
    """One field of each form."""

    number: int
    colour: Colour
    is_new: bool = field_named("new")
    share: float | None = None
    places: tuple[tuple[int, str], ...] = ()
    anything: object = None
    counts: Mapping[str, int] | None = None


def made(draw: Random, kind: Any) -> Any:
    """Return any value of a type."""
    origin, of = get_origin(kind), get_args(kind)
    if origin is UnionType or NoneType in of:
        return made(draw, draw.choice(of))
    if origin is tuple and of[-1] is Ellipsis:
        return tuple(made(draw, of[0]) for _ in range(draw.randrange(3)))
    if origin is tuple:
        return tuple(made(draw, one) for one in of)
    if origin is Mapping:
        return {str(n): made(draw, of[1]) for n in range(draw.randrange(3))}
    if is_dataclass(kind):
        types = get_type_hints(kind)
        names = [one.name for one in fields(kind) if one.name != "absent"]
        return kind(**{name: made(draw, types[name]) for name in names})
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return draw.choice(list(kind))
    plain = {
        int: draw.choice((0, -1, 2**70)), float: draw.choice((0.5, 3.0)),
        str: draw.choice(("", "ä")), bool: draw.choice((True, False)), NoneType: None,
        object: [1, {"a": None}],
    }  # fmt: skip
    return plain[kind]


@pytest.mark.parametrize("kind", [Summary, TopicLine, Thing])
@pytest.mark.parametrize("seed", range(20))
def test_what_is_written_is_read_back(kind: type, seed: int) -> None:
    """Through the text of a file, and it is written again to the byte."""
    value = made(Random(seed), kind)
    text = json.dumps(encode(value))
    again = decode(kind, json.loads(text))
    assert value == again
    assert text == json.dumps(encode(again))


@pytest.mark.parametrize("seed", range(20))
def test_a_field_that_a_file_lacks_is_not_made_up(seed: int) -> None:
    """It has its default, and is not written either. A field without a default must be there."""
    draw = Random(seed)
    stored = encode(made(draw, Summary))
    needed = {"run_id", "auditor_version", "cluster", "ledgers", "exempt", "indeterminate",
              "findings", "requests", "complete", "outcome", "exit_code",
              "exit_code_if_clean"}  # fmt: skip
    lacking = {name for name in stored if name not in needed and draw.random() < 0.5}
    older = {name: one for name, one in stored.items() if name not in lacking}
    summary = Summary.from_json(older)
    assert json.dumps(older) == json.dumps(summary.as_json())
    assert lacking == {name for name in stored if not summary.has(name)}
    for name in needed:
        with pytest.raises(KeyError, match=name):
            Summary.from_json({key: one for key, one in stored.items() if key != name})


GOOD = {"number": 1, "colour": "red", "new": True}


@pytest.mark.parametrize(
    "damage",
    [
        {"number": "1"}, {"number": True}, {"number": 1.5}, {"number": None}, {"colour": "blue"},
        {"new": 1}, {"share": "x"}, {"share": False}, {"places": 7}, {"places": [[1]]},
        {"places": [[1, "a", 2]]}, {"places": [["a", 1]]}, {"counts": []}, {"counts": {"a": "b"}},
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_refused(damage: dict[str, Any]) -> None:
    """The error names the field."""
    with pytest.raises((TypeError, ValueError), match=next(iter(damage))):
        decode(Thing, GOOD | damage)


def test_null_is_the_default_of_what_may_not_be_none() -> None:
    """Earlier versions wrote null for an empty list. A further field is passed over."""
    assert Thing(1, Colour.RED, True) == decode(Thing, GOOD | {"places": None, "more": 7})


@pytest.mark.parametrize("stored", [None, 7, [], "x"])
def test_what_is_no_object_is_refused(stored: object) -> None:
    """Anybody may have written the file."""
    with pytest.raises(TypeError, match="is not an object"):
        decode(Thing, stored)


def test_an_object_says_which_fields_its_file_has() -> None:
    """Those that are chosen, and those that are added later; the value stays."""
    thing = Thing(1, Colour.RED, True, share=0.5)
    few = thing.with_only("number", "share")
    assert ({"number": 1, "share": 0.5}, thing) == (encode(few), few)
    assert {"number": 1, "new": True} == encode(few.without("share").with_also("new"))
    with pytest.raises(AssertionError, match="is_new"):
        thing.with_only("is_new")
