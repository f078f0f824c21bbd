"""What must hold after each action. Each function returns a sentence for what does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from support.entry_by_entry import in_groups
from support.model.engines import Judged, written_out
from support.model.rows import Row, wrong_facts
from support.model.state import UNREGISTERED
from support.model.truth import Truth
from support.model.truth_of_bookies import lacks_most, owed_on_bookies, true_of_bookies

from auditor.judging.settle import Todo, settle
from auditor.model.availability import (
    ABSENT_READS,
    VALID_ANSWERS,
    AnswerStatus,
    EntryRead,
    ReadStatus,
)
from auditor.model.evidence import Look
from auditor.model.finding import Family, Kind
from auditor.second_checker.agreement import differences, worst_entry_of

LOOKS_OF_AN_ACCUSED = 2
"""Looks that must ask the bookies before a loss is reported."""


def broken(
    truth: Truth, judged: Mapping[int, Judged], before: Mapping[int, Row], untouched: set[int]
) -> Iterator[str]:
    """Yield every broken property, as a sentence. `before`: the rows of the audit before the
    action.
    """
    rows = {number: one.row for number, one in judged.items()}
    yield from wrong_verdicts(truth, rows)
    yield from moved(rows, before, untouched)
    for number, one in judged.items():
        yield from broken_by_one(number, one)


def broken_by_one(number: int, one: Judged) -> Iterator[str]:
    """Yield what is broken in the verdict on each ledger, whatever changed while it was looked
    at.
    """
    yield from hasty(number, one)
    yield from disputed(number, one)


def wrong_verdicts(truth: Truth, rows: Mapping[int, Row]) -> Iterator[str]:
    """Yield each false alarm, miss and false fact: each ledger must get exactly the verdict that
    the truth owes it.
    """
    for number, row in rows.items():
        owed = truth.owed(number)
        if row.bare() != owed.bare():
            yield (
                f"{_what_is_wrong(row, owed)} on ledger {number}: the audit says {row}\n  and the"
                f" truth is {owed}"
            )
        elif row != owed:
            yield from (
                f"a false fact on ledger {number}: {sentence}"
                for sentence in wrong_facts(row, owed)
            )


def _what_is_wrong(row: Row, owed: Row) -> str:
    said, true = (
        Counter(one.kind for one in row.findings),
        Counter(one.kind for one in owed.findings),
    )
    if said - true:
        return "a false alarm"
    if true - said:
        return "a miss"
    return "a wrong word"


def moved(rows: Mapping[int, Row], before: Mapping[int, Row], untouched: set[int]) -> Iterator[str]:
    """Yield the ledgers whose verdict changed although the action does not touch them. Facts may
    change: they also describe other bookies.
    """
    for number in sorted(untouched & rows.keys() & before.keys()):
        if rows[number].bare() != before[number].bare():
            yield (
                f"ledger {number}, which was not touched, was {before[number]}\n  and is"
                f" {rows[number]}"
            )


def hasty(number: int, one: Judged) -> Iterator[str]:
    """Yield the losses that were reported too early.

    A reported loss needs two looks at the same metadata, which was read once more after them. For
    each bookie said to lack entries a list must lack them, and reading the worst one must confirm
    it.
    """
    found = [
        f
        for f in one.verdict.findings
        if (f.family is Family.ENTRY and f.kind is not Kind.LEDGER_CLOSED_SHORT)
        or f.kind is Kind.UNDERREPLICATED_UNRECOVERABLE
    ]
    if not found:
        return
    looks = _of_the_same_metadata(one.evidence.looks)
    asked = sum(bool(look.answers) for look in looks)
    if asked < LOOKS_OF_AN_ACCUSED:
        yield (
            f"ledger {number} is said to have lost entries, and its bookies were asked at {asked}"
            " look of the same metadata"
        )
    if looks[-1].answers:
        yield (
            f"ledger {number} is said to have lost entries, and its metadata was not read again"
            " behind the answers"
        )
    worst = worst_entry_of(found[0])
    assert worst is not None, found
    for bookie, ranges in found[0].missing_on:
        said = _unfounded(looks, bookie, set(written_out(ranges)), worst)
        yield from (
            f"of ledger {number} {bookie} is said to lack entries, and {sentence}"
            for sentence in said
        )


def _of_the_same_metadata(looks: Sequence[Look]) -> list[Look]:
    """Return the looks, up to the last one, that saw the same metadata as the last one."""
    newest = looks[-1].record
    others = [
        at
        for at, look in enumerate(looks)
        if (look.record.status, look.record.stamp) != (newest.status, newest.stamp)
    ]
    return list(looks[max(others, default=-1) + 1 :])


def _unfounded(looks: Sequence[Look], bookie: str, lacks: set[int], worst: int) -> Iterator[str]:
    """Yield why one bookie's newest conclusive words are not enough to say that it lacks those
    entries.
    """
    answers = [look.answers[bookie] for look in looks if bookie in look.answers]
    if len(answers) < LOOKS_OF_AN_ACCUSED:
        yield f"it was asked at {len(answers)} look"
    if answers and answers[-1].is_gone:
        return
    lists = [answer for answer in answers if answer.status in VALID_ANSWERS]
    if not lists and answers[-1].status is not AnswerStatus.UNSUPPORTED:
        yield "it never said what it holds"
        return
    reads = {
        read.entry_id: read.status
        for look in looks
        for read in look.reads.values()
        if _tells_of(read, bookie)
    }
    listed = {entry for entry in lacks if lists and in_groups(lists[-1].groups, entry)}
    found = {entry for entry in lacks if reads.get(entry, ReadStatus.NO_ENTRY) not in ABSENT_READS}
    if listed or found:
        yield f"it listed {sorted(listed)} and {sorted(found)} could be read there"
    if not ABSENT_READS.intersection(reads.values()):
        yield "no read there says so"
    if worst in lacks and worst not in reads:
        yield f"no read of {worst}, the worst entry, says so"


def _tells_of(read: EntryRead, bookie: str) -> bool:
    return read.bookie_id == bookie and read.status in {
        *ABSENT_READS,
        ReadStatus.PRESENT,
        ReadStatus.CORRUPT,
    }


def disputed(number: int, one: Judged) -> Iterator[str]:
    """Yield where judging the same evidence again gives another verdict, or the second checker
    objects.
    """
    again = settle(one.evidence, one.terms)
    if again.todo is not Todo.NOTHING or again.verdict != one.verdict:
        yield (
            f"ledger {number}, judged again from the same evidence, is another: {one.verdict}\n "
            f" and {again.verdict}"
        )
    for sentence in differences(one.verdict, one.evidence, one.terms):
        yield f"the checkers differ on ledger {number}: {sentence}"


# Whole runs on Spark


def differing(single: Mapping[int, Row], spark: Mapping[int, Row]) -> Iterator[str]:
    """Yield where a run differs, row for row, from the engine without Spark. A run does not list a
    deleted ledger.
    """
    for number in sorted(single.keys() | spark.keys()):
        one = single.get(number)
        if spark.get(number) != (None if one is not None and one.exempt == "deleted" else one):
            yield f"ledger {number} is {one}\n  and on Spark {spark.get(number)}"


def wrong_bookies(truth: Truth, found: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield each false alarm and miss on bookies that are silent, gone or failing, as (kind,
    bookie).
    """
    claimed = {(kind, bookie) for kind, bookie in found if kind != "BOOKIE_LOST_CONTENT"}
    yield from (
        f"a false alarm: {kind} on {bookie}"
        for kind, bookie in sorted(claimed - true_of_bookies(truth))
    )
    yield from (
        f"a miss: {kind} on {bookie}" for kind, bookie in sorted(owed_on_bookies(truth) - claimed)
    )
    for kind, bookie in found:
        is_gone = truth.bookies[bookie].registered == UNREGISTERED
        if kind == "BOOKIE_LOST_CONTENT" and (is_gone or not lacks_most(truth, bookie)):
            yield f"a false alarm: {kind} on {bookie}"
