"""What an audit owes that was cut down and went on when the cluster was another: it saw it in
parts, as several states.

Each part has its truth. The rule, ledger by ledger:

- Its metadata and its mark are those of the part in which they were read last. What bookies said in
  a part in which the metadata was another does not count.
- A bookie is what it was when it was last asked for its list and could answer: the newest word
  counts, and no word is undone by silence, unless the bookie is gone for good. Where anything of
  the ledger was asked in a later part, it may also be what it was then: what its list lacks is not
  lost before it was read, and entries are read behind the lists.

So a loss is only said that was true at the last look, and a ledger is only sound that was so when
it was looked at. A ledger that nothing happened to, and whose bookies are what they were, is owed
one verdict: its own.

A ledger that was read at two looks before its metadata changed is given up where it would need a
third delay: it is "unsettled", and nothing is said of it but a mark that stood at both of its last
looks.

Each fact beside a verdict is what one of the states owes that owe this verdict; where these are
one, all facts are exact. What auto-recovery left around the ledgers, and who is registered, may be
that of any part. Entries without a copy may have been read on other bookies in an earlier part: how
many were looked for and found is what was in each, or between. A copy that came behind its bookie's
list was read. A copy that was spoilt between two looks is unknown, and may be no finding yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from support.model import truth_of_facts as facts_of
from support.model.rows import CopyFacts, FindingRow, Row, flat
from support.model.state import GRACE_MINUTES, OPEN, REMARKS, Bookie, Ledger
from support.model.truth import Truth
from support.model.truth_of_bookies import lacks_most, owed_on_bookies, true_of_bookies

DELAYS_MAX = 2
"""Second-look delays that an audit waits for one ledger (decision 0030)."""
COUNTS_OF_A_SEARCH = frozenset(
    f"search.entries{rest}" for rest in ("", "_found", "_unnamed", "_left")
)
"""Facts that may lie between those of two parts, where an audit was cut down while it read
entries.
"""


@dataclass
class Heard:
    """In which parts of an audit one ledger was looked at: its metadata last, its list on each
    bookie, and anything at all.
    """

    read: int
    lists: dict[str, set[int]] = field(default_factory=dict)
    asked: int = 0
    looks_before: int = 0
    """The looks that read its metadata in parts before `read`."""


def owed_across(parts: Sequence[Truth], number: int, heard: Heard) -> list[Row]:
    """The verdicts that are right of a ledger, without facts; one, where nothing changed that
    concerns it.
    """
    return list(dict.fromkeys(row.bare() for row in rows_across(parts, number, heard)))


def rows_across(parts: Sequence[Truth], number: int, heard: Heard) -> list[Row]:
    """Return the rows that each state owes which the audit may have seen of a ledger, facts
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
    clusters = (
        replace(
            truth,
            bookies=dict(zip(names, some, strict=True)),
            ledgers={number: ledger},
            around=part,
            unable=part.known_unable(),
            read_before=entries,
        )
        for some in product(*states)
        for part in parts
        for entries in read
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
    """Yield what is owed where copies have a wrong digest that had none when the bookie was asked
    in an earlier part: such a copy is unknown, and no finding (docs/soundness.md).
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
    """Return what is owed of a ledger that changed behind its second look: nothing that takes
    another delay.

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
    """What the znode of a ledger says: its metadata, and how old it is while it is open."""
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
    """What a bookie may have been for a ledger."""
    asked = sorted(heard.lists.get(name, set()) & set(chain))
    asked_at = [at for at in asked if parts[at].bookies[name].can_be_asked]
    if is_named and asked_at and asked_at[-1] == heard.asked:
        return [_for(number, parts[asked_at[-1]].bookies[name])]
    # A part finds out who is registered before it asks: that may be known from before it was cut
    # down.
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
    """The bookie as far as one ledger knows it."""
    return replace(
        bookie,
        holds={number: bookie.holds[number]} if number in bookie.holds else {},
        wrong={number: bookie.wrong[number]} if number in bookie.wrong else {},
        mixed_up=bookie.mixed_up & {number},
    )


def _without_remarks(row: Row) -> Row:
    """A remark is only made of what was read twice alike."""
    return row._replace(findings=tuple(one for one in row.findings if one.kind not in REMARKS))


def wrong_across(
    parts: Sequence[Truth], rows: Mapping[int, Row], heard: Mapping[int, Heard]
) -> Iterator[str]:
    """No false alarm, no miss, no false fact, and what nothing happened to keeps its verdict; a
    sentence where that does not hold.
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
    """Return each fact of a row that no row of `owed`, all of the same verdict, has; as a sentence.

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
    """Whether it counts entries looked for or found, and an audit cut down while it read them has
    as many.
    """
    numbers = [one for one in right if isinstance(one, int)]
    if name.removeprefix("entries.") not in COUNTS_OF_A_SEARCH:
        return False
    return isinstance(value, int) and bool(numbers) and min(numbers) <= value <= max(numbers)


def _is_read_instead(said: CopyFacts | None, owed: CopyFacts | None) -> bool:
    """Whether copies that came behind the list were read, and are listed in truth."""
    if said is None or owed is None:
        return False
    more = said.read - owed.read
    return more > 0 and said == owed._replace(listed=owed.listed - more, read=said.read)


def _or(values: Iterable[object]) -> str:
    return " or ".join(map(str, values))


def wrong_bookies_across(parts: Sequence[Truth], found: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Of bookies, as (kind, bookie), nothing is said that was never true, and nothing is missed
    that always was, of a bookie that one and the same ledger needed throughout.
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
    """The bookies of ledgers that were marked in some part and not in one before: of these the
    cluster is marking.
    """
    found: set[str] = set()
    for at, later in enumerate(parts):
        for number, ledger in later.ledgers.items():
            before = (one.ledgers[number] for one in parts[:at] if number in one.ledgers)
            if ledger.marked_at is not None and any(one.marked_at is None for one in before):
                found |= later.due(ledger)
    return found


def _needs(truth: Truth, number: int) -> str:
    """The metadata of a ledger, and whether it is marked."""
    return f"{written(truth, number)} {truth.ledgers[number].marked_at is None}"


def _only(truth: Truth, numbers: Iterable[int]) -> Truth:
    """The cluster with some of its ledgers."""
    return replace(truth, ledgers={number: truth.ledgers[number] for number in numbers})
