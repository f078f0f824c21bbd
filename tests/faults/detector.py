"""A detector of lost, duplicated, reordered and corrupted verdicts, apart from the auditor: it reads what a run wrote and what
the proxies saw, and derives no verdict.

What a run goes through is a sequence: the ledgers in the order in which a bookie was asked about them. That order is the one a
proxy saw. The run's outputs are to be the same sequence again, with the state that belongs to each ledger: the answer that was
delivered, the verdict that is owed. Sequences are split by ledger id modulo M, so that what happens to one part of the ledgers
does not hide in the others, and looked at through windows of the last four, as one breach shifts all that follow it:

    asked    1 4 7 10            told  1 4 10        7 is lost:        [1 4 7 10] became [0 1 4 10]
                                 told  1 4 4 7 10    4 is duplicated
                                 told  1 7 4 10      reordered; also when each of two has the other's state
                                 told  1 4 7 13      13 was never asked, or has a state that nobody delivered: corrupted

    breaches(log, told, owed={7: frozenset({Judged("sound")})})         # `told`: see `told.py`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain

from faults.frames import Said
from faults.harm import Log, Passed
from faults.told import Heard, Key, Read, Row, Sampled, State, Told

M = 3
"""How many parts the ledgers of a sequence are split into."""
WINDOW = 4
HEARD = ("held", "no_such_ledger", "present", "no_entry", "no_ledger", "corrupt")
"""Answers to lists and to reads that say what is there. All others are answers that were not heard: never a breach."""

May = State | Sampled
"""What may be told of a ledger."""
By = Mapping[tuple[str, int], Sequence[Passed]]
"""Frames by bookie and look."""


class Sort(StrEnum):
    LOSS = "loss"
    DUPLICATION = "duplication"
    REORDERING = "reordering"
    CORRUPTION = "corruption"


@dataclass(frozen=True)
class Breach:
    """Of one sequence: what happened, to which ledger, and the window that ends with it as it was told."""

    sort: Sort
    sequence: str
    ledger_id: int
    window: tuple[int, ...]


def breaches(log: Log, told: Told, owed: Mapping[int, frozenset[May]]) -> list[Breach]:
    """Everything that is wrong. `owed`: what may be said of each ledger that the run was to judge.

    Where the verdicts' order means something it is that in which proxies first saw the ledgers asked for.
    """
    requests = [one.said for one in chain.from_iterable(log.epochs()) if not one.reply]
    named = (ledger for said in requests for ledger in (*said.metadata_of, said.ledger_id) if ledger is not None)
    return compared(by_look(log), told, owed, order=list(dict.fromkeys(named)))


def by_look(log: Log) -> By:
    """The frames of each bookie by the look that they belong to.

    A look at a ledger begins when its metadata is read: behind a mark in the log, or behind questions about the ledger. What
    is read again without either is a retry. All that is then asked about the ledger belongs to that look.
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
                mine = at[_exchange(one)] = found.setdefault((one.proxy, max(1, looks[one.said.ledger_id])), [])
                mine.append(one)
    return found


def compared(seen: By, told: Told, owed: Mapping[int, frozenset[May]], order: Sequence[int] | None = None) -> list[Breach]:
    """The same, where it is known which frames of a bookie belong to which look. `order`: of the verdicts."""
    places = sorted({*seen, *(row[:2] for row in (*told.answers, *told.reads))})
    found = [
        breach
        for place in places
        for operation, rows, in_order in (("list", told.answers, True), ("read", told.reads, told.reads_in_order))
        for breach in _answers(operation, place, seen.get(place, ()), rows, in_order)
    ]
    expected = [(ledger,) for ledger in dict.fromkeys((*(order or ()), *owed)) if ledger in owed]
    allowed = {(ledger,): states for ledger, states in owed.items()}
    judged = [((ledger,), verdict) for ledger, verdict in told.verdicts]
    return found + compare("verdicts", expected, allowed, judged, in_order=told.in_order)


def compare(
    sequence: str,
    expected: Sequence[Key],
    allowed: Mapping[Key, frozenset[May]],
    told: Sequence[tuple[Key, State]],
    *,
    in_order: bool = True,
) -> list[Breach]:
    """How what is told departs from what is expected; each part modulo M for itself."""
    found = []
    for part in range(M):
        mine = [one for one in told if one[0][0] % M == part]
        wanted = [key for key in expected if key[0] % M == part]
        found += _part(f"{sequence}, ids {part} modulo {M}", wanted, allowed, mine, in_order)
    return found


def _part(
    name: str,
    expected: Sequence[Key],
    allowed: Mapping[Key, frozenset[May]],
    told: Sequence[tuple[Key, State]],
    in_order: bool,
) -> list[Breach]:
    keys = [key for key, _ in told]
    known = [key for key in dict.fromkeys(keys) if key in expected]

    def breach(sort: Sort, key: Key) -> Breach:
        return Breach(sort, name, key[0], _window(keys, keys.index(key) if key in keys else len(keys) - 1))

    found = [breach(Sort.CORRUPTION, key) for key in dict.fromkeys(keys) if key not in expected]
    found += [breach(Sort.DUPLICATION, key) for key, n in Counter(keys).items() if n > 1 and key in expected]
    found += [breach(Sort.LOSS, key) for key in expected if key not in keys]
    kept = [key for key in expected if key in keys]
    if in_order and kept != known:
        at = next(n for n, pair in enumerate(zip(kept, known, strict=True)) if pair[0] != pair[1])
        found.append(breach(Sort.REORDERING, known[at]))
    return found + [breach(sort, key) for sort, key in _strange(told, allowed, known)]


def _strange(
    told: Sequence[tuple[Key, State]], allowed: Mapping[Key, frozenset[May]], known: Sequence[Key]
) -> list[tuple[Sort, Key]]:
    """Ledgers with a state that is not theirs: another's, where that one has lost its own, or nobody's."""
    wrong = {key: state for key, state in told if key in known and not _may_be(state, allowed[key])}
    found = []
    for key, state in wrong.items():
        owners = [other for other in wrong if other != key and _may_be(state, allowed[other])]
        found.append((Sort.REORDERING if owners else Sort.CORRUPTION, key))
    return found


def _may_be(state: State, allowed: frozenset[May]) -> bool:
    if isinstance(state, Heard | Read) and state.status not in HEARD:
        return True
    return state in allowed or any(one.allows(state) for one in allowed if isinstance(one, Sampled))


def _answers(
    operation: str, place: tuple[str, int], seen: Sequence[Passed], told: Sequence[Row], in_order: bool
) -> list[Breach]:
    """One bookie's answers of one look, to lists or to reads, against what its proxy saw. Answers that were not heard need not
    have been asked for: the bookie could not be reached."""
    asked = {_exchange(one): _key(one.said) for one in seen if not one.reply and one.said.operation == operation}
    rows = [(key, heard) for bookie, look, key, heard in told if (bookie, look) == place]
    rows = [(key, heard) for key, heard in rows if key in asked.values() or heard.status in HEARD]
    delivered: dict[Key, set[May]] = {key: set() for key in asked.values()}
    for one in seen:
        state = _delivered(one)
        if state is not None and _exchange(one) in asked:
            delivered[asked[_exchange(one)]].add(state)
    allowed = {key: frozenset(states) for key, states in delivered.items()}
    what = "" if operation == "list" else ", reads"
    return compare(f"{place[0]} at look {place[1]}{what}", list(delivered), allowed, rows, in_order=in_order)


def _delivered(one: Passed) -> Heard | Read | None:
    """What the auditor may have heard of a frame: an entry that is not as the bookie sent it is corrupt, or was not heard."""
    said, sent = one.said, one.sent
    if not one.reply or sent is None or (sent.operation, sent.txn_id) != (said.operation, said.txn_id):
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


def _window(keys: Sequence[Key], at: int) -> tuple[int, ...]:
    """The ledgers of the last WINDOW up to a place, zeros before the first."""
    return tuple(keys[n][0] if n >= 0 else 0 for n in range(at - WINDOW + 1, at + 1))
