"""What an audit owes that was killed and resumed while the cluster changed.

The audit saw the cluster in parts, in several states. Each part has its truth. The rule, ledger by
ledger:

- Its metadata and its mark are those of the part in which they were read last. What bookies said in
  a part with other metadata does not count.
- A bookie is what it was when it was last asked for its list and could answer: the newest word
  counts. Silence does not undo a word, unless the bookie is gone for good. If anything of the
  ledger was asked in a later part, the bookie may also be what it was then: what its list lacks
  counts as lost only after it was read, and entries are read after the lists.

A loss is therefore only reported if it was true at the last look, and a sound ledger was sound when
it was looked at. If nothing happened to a ledger and its bookies, the audit owes it one verdict.

A ledger that was read at two looks before its metadata changed is given up if it needs a third
delay: it is "unsettled". Nothing is said of it but a mark that stood at both of its last looks.

Each fact beside a verdict is owed by one of the states that owe this verdict. With a single such
state all facts are exact. The state of auto-recovery and the registrations may be those of any
part. Entries without a copy may have been read on other bookies in an earlier part: the number
looked for and the number found are those of a part, or between those of two. A copy that arrived
after its bookie's list was read. A copy that was damaged between two looks is unknown, and need not
be a finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from support.model import truth_of_facts as facts_of
from support.model.rows import CopyFacts, FindingRow, Row, flat
from support.model.state import GRACE_MINUTES, OPEN, REMARKS, UNREGISTERED, Bookie, Ledger
from support.model.truth import Truth
from support.model.truth_of_bookies import lacks_most, owed_on_bookies, true_of_bookies

DELAYS_MAX = 2
"""Second-look delays that an audit waits for one ledger (decision 0030)."""
COUNTS_OF_A_SEARCH = frozenset(
    f"search.entries{rest}" for rest in ("", "_found", "_unnamed", "_left")
)
"""Facts that may lie between those of two parts, if an audit was killed while it read entries."""


@dataclass
class Heard:
    """The parts of an audit in which one ledger was looked at: its metadata last, its list on each
    bookie, and anything at all.
    """

    read: int
    lists: dict[str, set[int]] = field(default_factory=dict)
    asked: int = 0
    looks_before: int = 0
    """The looks that read its metadata in parts before `read`."""


def owed_across(parts: Sequence[Truth], number: int, heard: Heard) -> list[Row]:
    """Return the verdicts that are right for a ledger, without facts. It is a single verdict if no
    relevant state changed.
    """
    return list(dict.fromkeys(row.bare() for row in rows_across(parts, number, heard)))


def rows_across(parts: Sequence[Truth], number: int, heard: Heard) -> list[Row]:
    """Return the rows owed by each state in which the audit may have seen a ledger, facts
    included.
    """
    truth = parts[heard.read]
    ledger = truth.ledgers[number]
    same = [
        number in one.ledgers and written(one, number) == written(truth, number) for one in parts
    ]
    chain = [at for at, is_same in enumerate(same) if is_same or at >= heard.read]
    names = list(truth.bookies)
    states = (
        _states(parts, name, number, heard, chain, is_named=ledger.names(name)) for name in names
    )
    before = [parts[at] for at in chain if at < heard.asked]
    # Another look at the same metadata may have read entries elsewhere in an earlier part.
    read = dict.fromkeys((frozenset[int](), *(one.read_elsewhere(number) for one in before)))
    there = {
        name for name in names for at in chain if parts[at].bookies[name].registered != UNREGISTERED
    }
    served = dict.fromkeys((frozenset[str](), frozenset(there)))
    clusters = (
        replace(
            truth,
            bookies=dict(zip(names, some, strict=True)),
            ledgers={number: ledger},
            around=part,
            unable=part.known_unable(),
            read_before=entries,
            perhaps_served=bookies,
        )
        for some in product(*states)
        for part in parts
        for entries in read
        for bookies in served
    )
    last = parts[heard.read - 1].ledgers.get(number) if heard.looks_before >= DELAYS_MAX else None
    if last is None or _is_same_metadata(last, ledger):
        owed = (one.owed(number) for one in clusters)
    else:
        was_marked = last.marked_at is not None
        owed = (_owed_without_a_delay(one, number, was_marked=was_marked) for one in clusters)
    rows = list(dict.fromkeys([*owed, *_owed_of_spoilt_since(parts, number, heard, chain)]))
    if not all(same):
        rows += [row for one in rows if (row := _without_remarks(one)) != one]
    return rows


def _owed_of_spoilt_since(
    parts: Sequence[Truth], number: int, heard: Heard, chain: Sequence[int]
) -> Iterator[Row]:
    """Yield what is owed where copies have a wrong digest now, but had a right one when the bookie
    was asked in an earlier part.

    Such a copy is unknown, not a finding (docs/soundness.md).
    """
    now = parts[heard.asked]
    for at in [one for one in chain if one < heard.asked and number in now.ledgers]:
        twice = deepcopy(now)
        for name, bookie in twice.bookies.items():
            if at in heard.lists.get(name, ()):
                bookie.wrong[number] = bookie.wrong.get(number, set()) & parts[at].bookies[
                    name
                ].wrong.get(number, set())
        if twice.bookies != now.bookies:
            full, row = now.owed(number), twice.owed(number)
            standing = (
                "indeterminate" if full.unknowns and row.standing != "violated" else row.standing
            )
            yield full._replace(standing=standing, findings=row.findings)


def _is_same_metadata(one: Ledger, other: Ledger) -> bool:
    marks: dict[str, Any] = {"marked_at": None, "locked_by": None, "made_at": 0}
    return replace(one, **marks) == replace(other, **marks)


def _owed_without_a_delay(truth: Truth, number: int, *, was_marked: bool) -> Row:
    """Return what is owed of a ledger that changed after its second look: only what needs no
    further delay.

    `was_marked`: it was marked at that look. Two marked looks are enough for a mark.
    """
    row, mark = truth.owed(number), "UNDERREPLICATED_BEYOND_GRACE"
    if row.standing in ("sound", "exempt"):
        return row
    marked_at = truth.ledgers[number].marked_at
    if not was_marked or marked_at is None or truth.now - marked_at <= GRACE_MINUTES:
        return Row("indeterminate", None, ("unsettled",))
    if [one.kind for one in row.findings] == [mark] and not row.unknowns:
        return row
    found = FindingRow(mark, facts=flat(facts_of.mark(truth, number, [])))
    return Row("violated", "marked_underreplicated", ("unsettled",), (found,))


def written(truth: Truth, number: int) -> tuple[Ledger, int]:
    """Return what the znode of a ledger says: its metadata, and how old it is while it is open."""
    ledger = truth.ledgers[number]
    return replace(ledger, marked_at=None, locked_by=None, made_at=0), (
        truth.now - ledger.made_at if ledger.state == OPEN else 0
    )


def _states(
    parts: Sequence[Truth],
    name: str,
    number: int,
    heard: Heard,
    chain: Sequence[int],
    *,
    is_named: bool,
) -> list[Bookie]:
    """Return the states in which a bookie may have been for a ledger."""
    asked = sorted(heard.lists.get(name, set()) & set(chain))
    asked_at = [at for at in asked if parts[at].bookies[name].can_be_asked]
    if is_named and asked_at and asked_at[-1] == heard.asked:
        return [_for(number, parts[asked_at[-1]].bookies[name])]
    # A part reads the registrations before it asks, so they may date from before the kill.
    seen = [
        _for(number, one.bookies[name])
        for one in parts[asked_at[-1] if is_named and asked_at else 0 :]
    ]
    mixed = [
        replace(after, registered=one.registered, cookie=one.cookie)
        for one, after in product(seen, seen)
    ]
    return [one for at, one in enumerate(mixed) if one not in mixed[:at]]


def _for(number: int, bookie: Bookie) -> Bookie:
    """Return the bookie as far as one ledger knows it."""
    return replace(
        bookie,
        holds={number: bookie.holds[number]} if number in bookie.holds else {},
        wrong={number: bookie.wrong[number]} if number in bookie.wrong else {},
        mixed_up=bookie.mixed_up & {number},
    )


def _without_remarks(row: Row) -> Row:
    """Return the row without remarks: a remark needs two equal reads."""
    return row._replace(findings=tuple(one for one in row.findings if one.kind not in REMARKS))


def wrong_across(
    parts: Sequence[Truth], rows: Mapping[int, Row], heard: Mapping[int, Heard]
) -> Iterator[str]:
    """Yield a sentence for each false alarm, miss, false fact, and each changed verdict of a
    ledger that nothing happened to.
    """
    for number, row in rows.items():
        owed = rows_across(parts, number, heard[number])
        same = [one for one in owed if one.bare() == row.bare()]
        if not same:
            right = "\n  or ".join(map(str, dict.fromkeys(one.bare() for one in owed)))
            yield (
                f"the audit that went on says of ledger {number} {row}\n  and the truth is"
                f" {right}\n  ({heard[number]})"
            )
        later = any(max(at) < heard[number].asked for at in heard[number].lists.values())
        for sentence in facts_across(row, same, is_read_later=later) if same else ():
            yield (
                f"a false fact of the audit that went on, on ledger {number}: {sentence}\n "
                f" ({heard[number]})"
            )


def facts_across(row: Row, owed: Sequence[Row], *, is_read_later: bool = False) -> Iterator[str]:
    """Yield each fact of a row that is in no row of `owed`, all of the same verdict; as a
    sentence.

    `is_read_later`: some bookie gave its list in an earlier part than entries were read in.
    """
    for at, found in enumerate(row.findings):
        truths = [dict(one.findings[at].facts) for one in owed]
        says = dict(found.facts)
        for name in sorted(says.keys() | truths[0].keys()):
            right = list(dict.fromkeys(one.get(name) for one in truths))
            if says.get(name) not in right and not _is_between(name, says.get(name), right):
                yield f"{found.kind}: {name} is {says.get(name)}, and in truth {_or(right)}"
    right = list(dict.fromkeys(one.copies for one in owed))
    arrived = is_read_later and any(_is_read_instead(row.copies, one) for one in right)
    if row.copies not in right and not arrived:
        yield f"copies: {row.copies}, and in truth {_or(right)}"
    if row.is_mark_stale not in {one.is_mark_stale for one in owed}:
        yield f"a stale mark: {row.is_mark_stale}, and in truth {not row.is_mark_stale}"


def _is_between(name: str, value: object, right: Sequence[object]) -> bool:
    """Return whether the fact counts entries looked for or found, with a value that an audit killed
    while reading them can have.
    """
    numbers = [one for one in right if isinstance(one, int)]
    if name.removeprefix("entries.") not in COUNTS_OF_A_SEARCH:
        return False
    return isinstance(value, int) and bool(numbers) and min(numbers) <= value <= max(numbers)


def _is_read_instead(said: CopyFacts | None, owed: CopyFacts | None) -> bool:
    """Return whether copies that arrived after the list were read, and the truth has them as
    listed.
    """
    if said is None or owed is None:
        return False
    more = said.read - owed.read
    return more > 0 and said == owed._replace(listed=owed.listed - more, read=said.read)


def _or(values: Iterable[object]) -> str:
    return " or ".join(map(str, values))


def wrong_bookies_across(parts: Sequence[Truth], found: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield a sentence for each finding on bookies that was never true, and for each missing one
    that was always true.

    Findings are (kind, bookie). One may only be missed if no ledger needed the bookie throughout.
    """
    claimed = {(kind, bookie) for kind, bookie in found if kind != "BOOKIE_LOST_CONTENT"}
    ever = set().union(*(true_of_bookies(one) for one in parts))
    same = [
        number for number in parts[0].listed() if len({_needs(one, number) for one in parts}) == 1
    ]
    being_marked = {("BOOKIE_LOST_UNNOTICED", bookie) for bookie in _marked_meanwhile(parts)}
    always = set.intersection(*(owed_on_bookies(_only(one, same)) for one in parts)) - being_marked
    yield from (f"a false alarm: {kind} on {bookie}" for kind, bookie in sorted(claimed - ever))
    yield from (f"a miss: {kind} on {bookie}" for kind, bookie in sorted(always - claimed))
    for kind, bookie in found:
        if kind == "BOOKIE_LOST_CONTENT" and not any(lacks_most(one, bookie) for one in parts):
            yield f"a false alarm: {kind} on {bookie}"


def _marked_meanwhile(parts: Sequence[Truth]) -> set[str]:
    """Return the bookies of ledgers that are marked in some part and not in an earlier one: the
    cluster is still marking these.
    """
    found: set[str] = set()
    for at, later in enumerate(parts):
        for number, ledger in later.ledgers.items():
            before = (one.ledgers[number] for one in parts[:at] if number in one.ledgers)
            if ledger.marked_at is not None and any(one.marked_at is None for one in before):
                found |= later.due(ledger)
    return found


def _needs(truth: Truth, number: int) -> str:
    """Return the metadata of a ledger, and whether it is marked."""
    return f"{written(truth, number)} {truth.ledgers[number].marked_at is None}"


def _only(truth: Truth, numbers: Iterable[int]) -> Truth:
    """Return the cluster with only some of its ledgers."""
    return replace(truth, ledgers={number: truth.ledgers[number] for number in numbers})
