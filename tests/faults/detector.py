"""A detector of lost, duplicated, reordered and corrupted verdicts, apart from the auditor: it
reads what a run wrote and what the proxies saw, and derives no verdict.

What a run goes through is a sequence: the ledgers in the order in which a bookie was asked about
them. That order is the one a proxy saw. The run's outputs are to be the same sequence again, with
the state that belongs to each ledger: the answer that was delivered, the verdict that is owed.
Sequences are split by ledger id modulo M, so that what happens to one part of the ledgers does not
hide in the others, and each part is held to what is expected window by window (`faults.windows`):

    asked    1 4 7 10            told  1 4 10        7 is lost:        [1 4 7 10] became [0 1 4 10]
                                 told  1 4 4 7 10    4 is duplicated told  1 7 4 10      reordered;
                                 also when each of two has the other's state told  1 4 7 13      13
                                 was never asked, or has a state that nobody delivered: corrupted

An answer that was not heard, and a verdict that says less than the truth, are held to the window of
the fault: they are allowed at looks at which one is on before that bookie, and nowhere else.

    breaches(log, reported, owed={7: frozenset({Judged("sound")})})  # `reported`: see `reported.py`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Protocol

from faults.frames import Said
from faults.harm import Log, Passed
from faults.reported import Heard, Judged, Key, Partly, Read, Reported, Row, Sampled, State
from faults.windows import (
    AGAIN,
    LATE,
    NEVER,
    UNKNOWN,
    FaultWindows,
    Window,
    fault_windows,
    strays,
    windows,
)

M = 3
"""How many parts the ledgers of a sequence are split into."""
HEARD = ("held", "no_such_ledger", "present", "no_entry", "no_ledger", "corrupt")
"""Answers to lists and to reads that say what is there. All others are answers that were not heard:
a breach, unless a fault is on.
"""

May = State | Sampled | Partly
"""What may be told of a ledger."""
By = Mapping[tuple[str, int], Sequence[Passed]]
"""Frames by bookie and look."""


class Sort(StrEnum):
    LOSS = "loss"
    DUPLICATION = "duplication"
    REORDERING = "reordering"
    CORRUPTION = "corruption"


SORTS = {UNKNOWN: Sort.CORRUPTION, AGAIN: Sort.DUPLICATION, LATE: Sort.REORDERING, NEVER: Sort.LOSS}


@dataclass(frozen=True)
class Breach:
    """Of one sequence: what happened, to which ledger, and the window in which it shows, as it was
    told.
    """

    sort: Sort
    sequence: str
    ledger_id: int
    window: Window


def breaches(log: Log, reported: Reported, owed: Mapping[int, frozenset[May]]) -> list[Breach]:
    """Everything that is wrong. `owed`: what may be said of each ledger that the run was to judge.

    Where the verdicts' order means something it is that in which proxies first saw the ledgers
    asked for.
    """
    requests = [one.said for one in chain.from_iterable(log.epochs()) if not one.reply]
    named = (
        ledger
        for said in requests
        for ledger in (*said.metadata_of, said.ledger_id)
        if ledger is not None
    )
    return compared(
        by_look(log), reported, owed, fault_windows(log), order=list(dict.fromkeys(named))
    )


def by_look(log: Log) -> By:
    """The frames of each bookie by the look that they belong to.

    A look at a ledger begins when its metadata is read: behind a mark in the log, or behind
    questions about the ledger. What is read again without either is a retry. All that is then asked
    about the ledger belongs to that look.
    """
    looks: Counter[int] = Counter()
    over: set[int] = set()
    found: dict[tuple[str, int], list[Passed]] = {}
    at: dict[tuple[str, int, int], list[Passed]] = {}
    for epoch in log.epochs():
        over |= set(looks)
        for one in epoch:
            if one.reply:
                at.get(_exchange(one), []).append(one)
                continue
            for ledger in one.said.metadata_of:
                looks[ledger] += ledger in over or not looks[ledger]
                over.discard(ledger)
            if one.said.operation in ("list", "read") and one.said.ledger_id is not None:
                over.add(one.said.ledger_id)
                mine = at[_exchange(one)] = found.setdefault(
                    (one.proxy, max(1, looks[one.said.ledger_id])), []
                )
                mine.append(one)
    return found


def compared(
    seen: By,
    reported: Reported,
    owed: Mapping[int, frozenset[May]],
    faults: FaultWindows,
    order: Sequence[int] | None = None,
) -> list[Breach]:
    """The same, where it is known which frames of a bookie belong to which look, and when faults
    are on. `order`: of the verdicts.
    """
    places = sorted({*seen, *(row[:2] for row in (*reported.answers, *reported.reads))})
    found = [
        breach
        for place in places
        for operation, rows, in_order in (
            ("list", reported.answers, True),
            ("read", reported.reads, reported.reads_in_order),
        )
        for breach in _answers(
            operation, place, seen.get(place, ()), rows, in_order, is_on=faults.is_on(*place)
        )
    ]
    expected = [(ledger,) for ledger in dict.fromkeys((*(order or ()), *owed)) if ledger in owed]
    judged = [((ledger,), verdict) for ledger, verdict in reported.verdicts]
    looks = _looks(seen, reported)
    allowed = {
        (ledger,): _Verdicts(states, faults, looks.get(ledger, {1}))
        for ledger, states in owed.items()
    }
    return found + compare("verdicts", expected, allowed, judged, in_order=reported.in_order)


def _looks(seen: By, reported: Reported) -> dict[int, set[int]]:
    """At which looks anything was asked about each ledger, or is said to have been."""
    found: dict[int, set[int]] = {}
    for (_, look), frames in seen.items():
        for one in frames:
            if one.said.ledger_id is not None:
                found.setdefault(one.said.ledger_id, set()).add(look)
    for _, look, key, _ in (*reported.answers, *reported.reads):
        found.setdefault(key[0], set()).add(look)
    return found


class Allowed(Protocol):
    """What may be told of one key."""

    def has(self, state: State) -> bool:
        """Whether this may be told."""


@dataclass(frozen=True)
class _Verdicts:
    """Of a ledger, by the windows in which it was looked at."""

    states: frozenset[May]
    faults: FaultWindows
    looks: Collection[int]

    def has(self, state: State) -> bool:
        partial = [one for one in self.states if isinstance(one, Sampled | Partly)]
        return state in self.states or any(
            one.allows(state, self.faults.unheard(one.bookies, self.looks)) for one in partial
        )


@dataclass(frozen=True)
class _Delivered:
    """Of one bookie's answer at one look: what was delivered; or none, while a fault is on."""

    states: frozenset[Heard | Read]
    is_on: bool

    def has(self, state: State) -> bool:
        assert not isinstance(state, Judged)
        return self.is_on if state.status not in HEARD else state in self.states


def compare(
    sequence: str,
    expected: Sequence[Key],
    allowed: Mapping[Key, Allowed],
    states: Sequence[tuple[Key, State]],
    *,
    in_order: bool = True,
) -> list[Breach]:
    """How what is told departs from what is expected; each part modulo M for itself, window by
    window. What has no order of its own is put into the expected one first.
    """
    place = {key: n for n, key in enumerate(expected)}
    rows = (
        list(states) if in_order else sorted(states, key=lambda row: place.get(row[0], len(place)))
    )
    found = []
    for part in range(M):
        name = f"{sequence}, ids {part} modulo {M}"
        mine = [row for row in rows if row[0][0] % M == part]
        keys = [key for key, _ in mine]
        wanted = [key for key in expected if key[0] % M == part]
        found += [
            Breach(SORTS[one.what], name, one.key[0], one.window) for one in strays(wanted, keys)
        ]
        found += _strange(name, mine, {key: allowed[key] for key in wanted})
    return found


def _strange(
    name: str, states: Sequence[tuple[Key, State]], allowed: Mapping[Key, Allowed]
) -> list[Breach]:
    """Rows with a state that is not their ledger's: another's, where that one has lost its own, or
    nobody's.
    """
    at = windows(key for key, _ in states)
    wrong = [
        (key, state, window)
        for (key, state), window in zip(states, at, strict=True)
        if key in allowed and not allowed[key].has(state)
    ]
    found = []
    for key, state, window in wrong:
        owners = [other for other, _, _ in wrong if other != key and allowed[other].has(state)]
        found.append(Breach(Sort.REORDERING if owners else Sort.CORRUPTION, name, key[0], window))
    return found


def _answers(
    operation: str,
    place: tuple[str, int],
    seen: Sequence[Passed],
    reported_rows: Sequence[Row],
    in_order: bool,
    *,
    is_on: bool,
) -> list[Breach]:
    """One bookie's answers of one look, to lists or to reads, against what its proxy saw. While a
    fault is on, an answer that was not heard need not have been asked for: the bookie could not be
    reached.
    """
    asked = {
        _exchange(one): _key(one.said)
        for one in seen
        if not one.reply and one.said.operation == operation
    }
    rows = [(key, heard) for bookie, look, key, heard in reported_rows if (bookie, look) == place]
    unasked = [
        key
        for key, heard in rows
        if is_on and key not in asked.values() and heard.status not in HEARD
    ]
    rows = [(key, heard) for key, heard in rows if key not in unasked or heard.status in HEARD]
    delivered: dict[Key, set[Heard | Read]] = {key: set() for key in asked.values()}
    for one in seen:
        state = _delivered(one)
        if state is not None and _exchange(one) in asked:
            delivered[asked[_exchange(one)]].add(state)
    allowed = {key: _Delivered(frozenset(states), is_on) for key, states in delivered.items()}
    name = f"{place[0]} at look {place[1]}" + ("" if operation == "list" else ", reads")
    twice = [
        Breach(Sort.DUPLICATION, name, key[0], window)
        for n, (key, window) in enumerate(zip(unasked, windows(unasked), strict=True))
        if key in unasked[:n]
    ]
    return twice + compare(name, list(delivered), allowed, rows, in_order=in_order)


def _delivered(one: Passed) -> Heard | Read | None:
    """What the auditor may have heard of a frame: an entry that is not as the bookie sent it is
    corrupt, or was not heard.
    """
    said, sent = one.said, one.sent
    if (
        not one.reply
        or sent is None
        or (sent.operation, sent.txn_id) != (said.operation, said.txn_id)
    ):
        return None
    if (sent.ledger_id, sent.entry_id) != (said.ledger_id, said.entry_id):
        return None
    if sent.operation == "list":
        return Heard(sent.status, sent.entries)
    return Read("corrupt" if sent.status == "present" and sent.body != said.body else sent.status)


def _exchange(one: Passed) -> tuple[str, int, int]:
    """What a question and its answers have in common."""
    return one.proxy, one.connection, one.said.txn_id


def _key(said: Said) -> Key:
    """What a question is about."""
    assert said.ledger_id is not None
    return (said.ledger_id,) if said.entry_id is None else (said.ledger_id, said.entry_id)
