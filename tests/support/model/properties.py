"""What must hold after each action, each as a function that gives a sentence where it does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from support.model.engines import Judged
from support.model.truth import UNREGISTERED, Row, Truth

from auditor.confirm.agreement import differences
from auditor.judgement import Todo, settle
from auditor.model.availability import ABSENT_READS
from auditor.model.finding import Family
from auditor.model.verdict import Standing

LOOKS_OF_AN_ACCUSED = 2
"""Looks at which the bookies are asked before entries are said to be lost."""


def broken(truth: Truth, judged: Mapping[int, Judged], before: Mapping[int, Row], untouched: set[int]) -> Iterator[str]:
    """Every property that is broken, as a sentence. `before`: the rows of the audit before the action."""
    rows = {number: one.row for number, one in judged.items()}
    yield from wrong_verdicts(truth, rows)
    yield from moved(rows, before, untouched)
    for number, one in judged.items():
        yield from broken_by_one(number, one)
    yield from unaccounted(truth, rows)


def broken_by_one(number: int, one: Judged) -> Iterator[str]:
    """What must hold of the verdict on each ledger, whatever changed while it was looked at."""
    yield from hasty(number, one)
    yield from disputed(number, one)


def wrong_verdicts(truth: Truth, rows: Mapping[int, Row]) -> Iterator[str]:
    """No false alarm and no miss: each ledger gets exactly the verdict that the truth owes it."""
    for number, row in rows.items():
        owed = truth.owed(number)
        if row != owed:
            yield f"{_what_is_wrong(row, owed)} on ledger {number}: the audit says {row}\n  and the truth is {owed}"


def _what_is_wrong(row: Row, owed: Row) -> str:
    said, true = Counter(one.kind for one in row.findings), Counter(one.kind for one in owed.findings)
    if said - true:
        return "a false alarm"
    if true - said:
        return "a miss"
    return "a wrong word"


def moved(rows: Mapping[int, Row], before: Mapping[int, Row], untouched: set[int]) -> Iterator[str]:
    """A ledger that the action does not touch keeps its verdict."""
    for number in sorted(untouched & rows.keys() & before.keys()):
        if rows[number] != before[number]:
            yield f"ledger {number}, which was not touched, was {before[number]}\n  and is {rows[number]}"


def hasty(number: int, one: Judged) -> Iterator[str]:
    """Nothing is said to be lost before its bookies were asked twice, and the worst entry read on each that lacks it."""
    found = [f for f in one.verdict.findings if f.family is Family.ENTRY]
    if not found:
        return
    looks = [look for look in one.evidence.looks if look.answers]
    if len(looks) < LOOKS_OF_AN_ACCUSED:
        yield f"ledger {number} is said to have lost entries after {len(looks)} look at its bookies"
        return
    worst = int(dict(found[0].facts)["worst_entry"])
    for bookie, ranges in found[0].missing_on:
        gone = any(bookie in look.answers and look.answers[bookie].is_gone for look in looks)
        said = [look.reads[bookie, worst].status for look in looks if (bookie, worst) in look.reads]
        lacks = any(first <= worst <= last for first, last in ranges)
        if lacks and not gone and not ABSENT_READS.intersection(said):
            yield f"entry {worst} of ledger {number} is said to be missing on {bookie}, where nobody tried to read it"


def disputed(number: int, one: Judged) -> Iterator[str]:
    """The same evidence judged again gives the same verdict, and the second checker confirms it."""
    again = settle(one.evidence, one.terms)
    if again.todo is not Todo.NOTHING or again.verdict != one.verdict:
        yield f"ledger {number}, judged again from the same evidence, is another: {one.verdict}\n  and {again.verdict}"
    for sentence in differences(one.verdict, one.evidence, one.terms):
        yield f"the checkers differ on ledger {number}: {sentence}"


def unaccounted(truth: Truth, rows: Mapping[int, Row]) -> Iterator[str]:
    """Every ledger of the history has one verdict, and the standings add up."""
    standings = Counter(row.standing for row in rows.values())
    known = {standing.word for standing in Standing}
    if rows.keys() != truth.ledgers.keys() or sum(standings[word] for word in known) != len(truth.ledgers):
        yield f"{len(truth.ledgers)} ledgers, and verdicts on {sorted(rows)}: {dict(standings)}"


# Of a whole run on Spark


def differing(single: Mapping[int, Row], spark: Mapping[int, Row]) -> Iterator[str]:
    """A run says of each ledger, row for row, what the engine without Spark says; a deleted one it does not list."""
    for number in sorted(single.keys() | spark.keys()):
        one = single.get(number)
        if spark.get(number) != (None if one is not None and one.exempt == "deleted" else one):
            yield f"ledger {number} is {one}\n  and on Spark {spark.get(number)}"


def wrong_bookies(truth: Truth, found: Iterable[tuple[str, str]]) -> Iterator[str]:
    """No false alarm and no miss on bookies that are silent or gone, as (kind, bookie)."""
    told = {(kind, bookie) for kind, bookie in found if kind != "BOOKIE_LOST_CONTENT"}
    yield from (f"a false alarm: {kind} on {bookie}" for kind, bookie in sorted(told - truth.true_of_bookies()))
    yield from (f"a miss: {kind} on {bookie}" for kind, bookie in sorted(truth.owed_on_bookies() - told))
    for kind, bookie in found:
        if kind == "BOOKIE_LOST_CONTENT" and (truth.bookies[bookie].registered == UNREGISTERED or not truth.lacks_most(bookie)):
            yield f"a false alarm: {kind} on {bookie}"
