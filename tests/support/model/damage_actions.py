"""Damage to entries and metadata. `actions.ACTIONS` is the table of all actions."""

from __future__ import annotations

from support.model.acting import Chooser, Words, ledgers, of, require, some
from support.model.state import BYTES, CLOSED, ENDLESS
from support.model.truth import Truth

# Damage to entries


def draw_lose(chooser: Chooser, truth: Truth) -> Words:
    number = some(chooser, ledgers(truth, entries=True))
    ledger = truth.ledgers[number]
    entry = chooser.pick([0, ledger.written - 1, ledger.written // 2, *range(ledger.written)])
    wanted = dict.fromkeys(ledger.write_set(ledger.segment_of(entry), entry))
    holders = [name for name in wanted if truth.bookies[name].has(number, entry)]
    require(holders)
    return [str(number), str(entry), *holders[: chooser.pick(range(1, len(holders) + 1))]]


def lose(truth: Truth, words: Words) -> None:
    """Lose one entry, on one bookie or several."""
    number, entry = int(words[0]), int(words[1])
    require(any(truth.bookies[name].has(number, entry) for name in words[2:]))
    for name in words[2:]:
        truth.bookies[name].drop(number, entry)


def draw_stripe(chooser: Chooser, truth: Truth) -> Words:
    held = [
        (number, name)
        for name, one in truth.bookies.items()
        for number in one.holds
        if number in truth.listed()
    ]
    number, name = some(chooser, held)
    return [str(number), name, chooser.pick(["emptied", "forgotten"])]


def stripe(truth: Truth, words: Words) -> None:
    """Lose everything that one bookie holds of one ledger. The bookie still knows the ledger, or it
    does not.
    """
    number, holds = int(words[0]), truth.bookies[words[1]].holds
    require(number in holds)
    truth.bookies[words[1]].forget(number)
    if words[2] != "forgotten":
        holds[number] = set()


def draw_stray(chooser: Chooser, truth: Truth) -> Words:
    number = some(chooser, ledgers(truth, CLOSED, entries=True))
    ledger = truth.ledgers[number]
    outside = [name for name in truth.bookies if not ledger.names(name)]
    return [str(number), str(chooser.pick(range(ledger.written))), some(chooser, outside)]


def stray(truth: Truth, words: Words) -> None:
    """Move the only copies of an entry to a bookie that the metadata does not name."""
    number, ledger = of(truth, words[0], CLOSED)
    entry, bookie = int(words[1]), words[2]
    require(entry < ledger.written and not ledger.names(bookie))
    for one in truth.bookies.values():
        one.drop(number, entry)
    truth.bookies[bookie].store(number, [entry])


def draw_spoil(chooser: Chooser, truth: Truth) -> Words:
    require(not truth.is_real)
    number = some(chooser, ledgers(truth, entries=True))
    holders = {name: one for name, one in truth.bookies.items() if one.holds.get(number)}
    name = some(chooser, [name for name, one in holders.items() if not one.lists] or holders)
    entry = chooser.pick(sorted(truth.bookies[name].holds[number]))
    return [str(number), name, chooser.pick(["digest", "ids"]), str(entry)]


def spoil(truth: Truth, words: Words) -> None:
    """Damage a bookie's copy of an entry: it does not match its `digest`, or the bookie sends the
    `ids` of other entries.
    """
    number, bookie, entry = int(words[0]), truth.bookies[words[1]], int(words[3])
    require(not truth.is_real and bookie.has(number, entry))
    if words[2] == "digest":
        bookie.wrong.setdefault(number, set()).add(entry)
    else:
        bookie.mixed_up.add(number)


# Damage to metadata


def draw_truncate(chooser: Chooser, truth: Truth) -> Words:
    number = some(chooser, ledgers(truth, CLOSED, entries=True))
    return [str(number), str(chooser.pick(range(1, truth.ledgers[number].written + 1)))]


def truncate(truth: Truth, words: Words) -> None:
    """Shorten the metadata of a closed ledger by so many entries. The bookies keep the entries."""
    _, ledger = of(truth, words[0], CLOSED)
    require(0 < int(words[1]) <= ledger.written)
    ledger.written -= int(words[1])
    ledger.segments = [
        one for one in ledger.segments if one.first < ledger.written
    ] or ledger.segments[:1]


def draw_swap(chooser: Chooser, truth: Truth) -> Words:
    number = some(
        chooser, (n for n in ledgers(truth, CLOSED) if truth.ledgers[n].ensemble_size > 1)
    )
    ledger = truth.ledgers[number]
    one = chooser.pick(range(ledger.ensemble_size))
    other = chooser.pick([position for position in range(ledger.ensemble_size) if position != one])
    return [str(number), str(chooser.pick(range(len(ledger.segments)))), str(one), str(other)]


def swap(truth: Truth, words: Words) -> None:
    """Swap two positions of one segment in the metadata. The entries stay where they are."""
    _, ledger = of(truth, words[0], CLOSED)
    index, one, other = map(int, words[1:])
    require(index < len(ledger.segments) and max(one, other) < ledger.ensemble_size)
    ensemble = ledger.segments[index].ensemble
    ensemble[one], ensemble[other] = ensemble[other], ensemble[one]


def draw_corrupt(chooser: Chooser, truth: Truth) -> Words:
    number = some(chooser, ledgers(truth))
    return [
        str(number),
        chooser.pick([BYTES, ENDLESS] if truth.ledgers[number].state == CLOSED else [BYTES]),
    ]


def corrupt(truth: Truth, words: Words) -> None:
    _, ledger = of(truth, words[0])
    require(words[1] == BYTES or ledger.state == CLOSED)
    ledger.flaw = words[1]


def draw_delete(chooser: Chooser, truth: Truth) -> Words:
    return [str(some(chooser, truth.listed()))]


def delete(truth: Truth, words: Words) -> None:
    require(int(words[0]) in truth.listed())
    truth.ledgers[int(words[0])].deleted = True
