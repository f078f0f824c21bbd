"""Pair each fact of a finding with the same fact as the second checker derives it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set
from dataclasses import fields, replace
from functools import cache
from typing import Any, TypeAlias

from auditor.model.facts import (
    CONTRADICTIONS_MAX,
    ContradictionFacts,
    EntryFacts,
    Facts,
    MarkFacts,
    PlacementFacts,
    Search,
    UnrecoverableFacts,
    WhyMarked,
)
from auditor.second_checker.placement import WRITE_SETS_SHOWN_MAX

Pair: TypeAlias = tuple[str, object, object]

_NEEDS_EVERY_ENTRY = frozenset(
    {WhyMarked.NO_COPY_IN_REACH, WhyMarked.NO_SPARE_BOOKIE, WhyMarked.STALE}
)
"""Reasons for a mark that may depend on an entry that was not examined."""


def facts_compared(
    one: Facts, other: Facts, *, is_whole: bool = True, left_open: Set[int | None] = frozenset()
) -> Iterator[Pair]:
    """Yield (name of a fact, what the first checker says, what the second says), equal or not.

    If not `is_whole`, the second checker did not examine every entry. Facts that depend on every
    entry are then compared as far as the examined entries show. `left_open`: write sets whose
    placement the second could not try, by where they begin.
    """
    match one, other:
        case UnrecoverableFacts(), UnrecoverableFacts():
            yield from facts_compared(one.entries, other.entries, is_whole=is_whole)
            yield from facts_compared(one.mark, other.mark, is_whole=is_whole)
        case EntryFacts(), EntryFacts():
            yield from _entries(one, other, is_whole=is_whole)
        case MarkFacts(), MarkFacts() if not is_whole:
            yield from _each(_without_doubt(one), _without_doubt(other))
        case ContradictionFacts(), ContradictionFacts():
            yield from _contradictions(one, other)
        case PlacementFacts(), PlacementFacts():
            yield from _placement(one, other, left_open)
        case _ if type(one) is type(other):
            yield from _each(one, other)
        case _:
            yield "facts", type(one).__name__, type(other).__name__


def _each(
    one: Facts | Search, other: Facts | Search, *, but: Set[str] = frozenset()
) -> Iterator[Pair]:
    """Yield every fact but those named."""
    of: Any = type(one)
    for name, text in _names(of):
        if name not in but:
            yield text, getattr(one, name), getattr(other, name)


@cache
def _names(of: type[Any]) -> tuple[tuple[str, str], ...]:
    """Return the name of each fact, and the name as it is written to people."""
    return tuple((field.name, field.name.replace("_", " ")) for field in fields(of))


def _entries(one: EntryFacts, other: EntryFacts, *, is_whole: bool) -> Iterator[Pair]:
    search, again = one.search, other.search
    yield from _each(one, other, but={"search"} if is_whole else {"search", "at_tail"})
    if is_whole and search is not None and again is not None:
        yield from _each(search, again)
    elif is_whole:
        yield "search", search, again
    elif again is not None:
        # Without all entries, the second checker can only find fewer bookies than the first.
        found_on, corrupt_on = (search.found_on, search.corrupt_on) if search else ((), ())
        yield "found on", set(again.found_on).difference(found_on), set()
        yield "corrupt on", set(again.corrupt_on).difference(corrupt_on), set()


def _without_doubt(mark: MarkFacts) -> MarkFacts:
    return replace(
        mark, why=tuple(reason for reason in mark.why if reason not in _NEEDS_EVERY_ENTRY)
    )


def _contradictions(one: ContradictionFacts, other: ContradictionFacts) -> Iterator[Pair]:
    yield "contradictions in all", one.total, other.total
    yield "contradictions named", len(one.contradictions), min(CONTRADICTIONS_MAX, other.total)
    yield (
        "contradictions that are none",
        dict(Counter(one.contradictions) - Counter(other.contradictions)),
        {},
    )
    yield "beyond the end", one.beyond_end, other.beyond_end


def _placement(
    one: PlacementFacts, other: PlacementFacts, left_open: Set[int | None]
) -> Iterator[Pair]:
    """Compare all facts, except those of write sets that the second checker left open.

    There, the first checker decides how many write sets are at fault and why.
    """
    yield from _each(one, other, but={"shown", "deciding"})
    fewest, most = other.deciding, other.deciding + len(left_open)
    yield "write sets that decide", one.deciding, min(max(one.deciding, fewest), most)
    yield "write sets shown", len(one.shown), min(WRITE_SETS_SHOWN_MAX, one.deciding)
    tried = tuple(shown for shown in one.shown if shown.position not in left_open)
    yield "write sets at fault", tried, other.shown[: len(tried)] if left_open else other.shown
