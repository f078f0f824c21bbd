"""A detector of lost, duplicated, reordered and corrupted verdicts, independent of the auditor.

It reads what a run wrote and what the proxies saw, and derives no verdict.

A run goes through a sequence: the ledgers in the order in which a bookie was asked about them, as a
proxy saw it. The run's outputs must be the same sequence, with the state that belongs to each
ledger: the answer that was delivered, the verdict that is owed. Sequences are split by ledger id
modulo M, so that a breach in one part of the ledgers does not hide in the others. Each part is
compared with what is expected, window by window (`faults.windows`):

    asked    1 4 7 10    reported  1 4 10        7 is lost: [1 4 7 10] became [0 1 4 10]
                         reported  1 4 4 7 10    4 is duplicated
                         reported  1 7 4 10      reordered; also if each has the other's state
                         reported  1 4 7 13      corrupted: 13 was never asked about, or it has a
                                                 state that nobody delivered

An answer that was not heard, and a verdict that says less than the truth, are allowed only in the
window of a fault: at looks at which one is on before that bookie.

    breaches(log, reported, owed={7: frozenset({Judged("sound")})})  # `reported`: see reported.py
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
"""Number of parts into which the ledgers of a sequence are split."""
HEARD = ("held", "no_such_ledger", "present", "no_entry", "no_ledger", "corrupt")
"""Conclusive answers to lists and to reads. All others count as not heard: a breach, unless a fault
is on.
"""

May = State | Sampled | Partly
"""What a report may say of a ledger."""
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
    """A breach of one sequence: what happened, to which ledger, and the window of the report that
    shows it.
    """

    sort: Sort
    sequence: str
    ledger_id: int
    window: Window


def breaches(log: Log, reported: Reported, owed: Mapping[int, frozenset[May]]) -> list[Breach]:
    """Return every breach. `owed`: what the report may say of each ledger that the run was to
    judge.

    If the order of the verdicts means something, it must be the order in which proxies first saw
    questions about the ledgers.
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
    """Return the frames of each bookie by their look.

    The first look at a ledger begins when its metadata is read. A later one begins when it is read
    with the ledger's under-replication mark, after a mark in the log or after questions about the
    ledger. Any other repeated read is a retry, or checks that nothing has changed. All later
    questions about the ledger belong to that look.
    """
    looks: Counter[int] = Counter()
    over: set[int] = set()
    with_mark: set[int] = set()
    found: dict[tuple[str, int], list[Passed]] = {}
    at: dict[tuple[str, int, int], list[Passed]] = {}
    for epoch in log.epochs():
        over |= set(looks)
        for one in epoch:
            if one.reply:
                at.get(_exchange(one), []).append(one)
                continue
            with_mark.update(one.said.marks_of)
            for ledger in one.said.metadata_of:
                if not looks[ledger] or (ledger in over and ledger in with_mark):
                    looks[ledger] += 1
                    over.discard(ledger)
                with_mark.discard(ledger)
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
    """Return the breaches, given the frames of each bookie by look, and the windows of faults.
    `order`: of the verdicts.
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
    """Return the looks at which anything was asked about each ledger, or is reported to have
    been.
    """
    found: dict[int, set[int]] = {}
    for (_, look), frames in seen.items():
        for one in frames:
            if one.said.ledger_id is not None:
                found.setdefault(one.said.ledger_id, set()).add(look)
    for _, look, key, _ in (*reported.answers, *reported.reads):
        found.setdefault(key[0], set()).add(look)
    return found


class Allowed(Protocol):
    """What the report may say of one key."""

    def has(self, state: State) -> bool:
        """Return whether the report may say this."""


@dataclass(frozen=True)
class _Verdicts:
    """What it may say of a ledger, by the windows in which the ledger was looked at."""

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
    """What it may say of one bookie's answer at one look: what was delivered; or no answer, while a
    fault is on.
    """

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
    """Return how a report differs from what is expected.

    Each part modulo M is compared by itself, window by window. Rows without an order of their own
    are first sorted into the expected one.
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
    """Return rows with a state that is not their ledger's: that of another ledger, which has lost
    it, or of no ledger.
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
    """Compare one bookie's answers of one look, to lists or to reads, with what its proxy saw.

    While a fault is on, an answer that was not heard need not have been requested: the bookie may
    have been out of reach.
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
    """Return what the auditor may have heard of a frame. An entry that differs from the bookie's is
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
    """Return the key that a question and its answers share."""
    return one.proxy, one.connection, one.said.txn_id


def _key(said: Said) -> Key:
    """Return the subject of a question."""
    assert said.ledger_id is not None
    return (said.ledger_id,) if said.entry_id is None else (said.ledger_id, said.entry_id)
