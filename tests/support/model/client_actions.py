"""The actions of clients and of auto-recovery. `actions.ACTIONS` is the table of all actions."""

from __future__ import annotations

from support.model.acting import Chooser, Words, ledgers, of, require, some, takes_entries
from support.model.state import CLOSED, ENTRIES_MAX, IN_RECOVERY, OPEN, Ledger, Segment
from support.model.truth import Truth

LEDGERS_MAX = 5
"""Ledgers of one history: few enough that they use the same bookies again and again."""


# Clients


def draw_create(chooser: Chooser, truth: Truth) -> Words:
    up = [name for name, one in truth.bookies.items() if takes_entries(one)]
    require(up and len(truth.ledgers) < LEDGERS_MAX)
    size = chooser.pick([one for one in (3, 2, 1, 4, 5) if one <= len(up)] or [1])
    write = chooser.pick([one for one in (2, 3, 1, 4, 5) if one <= size])
    ack = chooser.pick(range(write, 0, -1))
    ensemble: Words = []
    while len(ensemble) < size:
        ensemble.append(chooser.pick([name for name in up if name not in ensemble]))
    return [str(len(truth.ledgers) + 1), f"e{size}", f"w{write}", f"a{ack}", *ensemble]


def create(truth: Truth, words: Words) -> None:
    number, (size, write, ack), ensemble = (
        int(words[0]),
        (int(word[1:]) for word in words[1:4]),
        words[4:],
    )
    require(
        number not in truth.ledgers
        and len(ensemble) == size
        and all(takes_entries(truth.bookies[b]) for b in ensemble)
    )
    truth.ledgers[number] = Ledger(size, write, ack, [Segment(0, ensemble)], made_at=truth.now)


def draw_append(chooser: Chooser, truth: Truth) -> Words:
    number = some(chooser, ledgers(truth, OPEN))
    room = ENTRIES_MAX - truth.ledgers[number].written
    return [
        str(number),
        str(some(chooser, [count for count in (1, 2, 3, 5, 9, 14) if count <= room])),
    ]


def append(truth: Truth, words: Words) -> None:
    """Append entry by entry while enough bookies accept the entry to acknowledge it."""
    number, ledger = of(truth, words[0], OPEN)
    require(ledger.written + int(words[1]) <= ENTRIES_MAX)
    for entry in range(ledger.written, ledger.written + int(words[1])):
        # A bookie that occurs twice is sent the entry twice, and acknowledges both.
        takers = [
            name
            for name in ledger.write_set(ledger.last_segment(), entry)
            if takes_entries(truth.bookies[name])
        ]
        if len(takers) < ledger.ack_quorum:
            return
        for name in takers:
            truth.bookies[name].store(number, [entry])
        ledger.written = entry + 1


def draw_close(chooser: Chooser, truth: Truth) -> Words:
    return [str(some(chooser, ledgers(truth, OPEN, IN_RECOVERY)))]


def close(truth: Truth, words: Words) -> None:
    _, ledger = of(truth, words[0], OPEN, IN_RECOVERY)
    ledger.state = CLOSED
    if ledger.last_segment().first >= ledger.written > 0:
        ledger.segments.pop()  # a segment without entries is dropped when its ledger is closed


def draw_fence(chooser: Chooser, truth: Truth) -> Words:
    return [str(some(chooser, ledgers(truth, OPEN)))]


def fence(truth: Truth, words: Words) -> None:
    of(truth, words[0], OPEN)[1].state = IN_RECOVERY


def draw_ensemble(chooser: Chooser, truth: Truth) -> Words:
    number = some(chooser, ledgers(truth, OPEN))
    ensemble = truth.ledgers[number].last_segment().ensemble
    position = chooser.pick(range(len(ensemble)))
    others = (
        name
        for name, one in truth.bookies.items()
        if takes_entries(one) and name != ensemble[position]
    )
    return [str(number), str(position), some(chooser, others)]


def ensemble(truth: Truth, words: Words) -> None:
    """Replace the bookie at one position from the next entry on. By mistake the new one may already
    be in the ensemble.
    """
    _, ledger = of(truth, words[0], OPEN)
    position, bookie = int(words[1]), words[2]
    before = ledger.last_segment()
    require(
        position < ledger.ensemble_size
        and takes_entries(truth.bookies[bookie])
        and before.ensemble[position] != bookie
    )
    after = [*before.ensemble]
    after[position] = bookie
    if before.first == ledger.written:
        before.ensemble = after
    else:
        ledger.segments.append(Segment(ledger.written, after))


# Auto-recovery


def draw_rereplicate(chooser: Chooser, truth: Truth) -> Words:
    number = some(chooser, ledgers(truth, CLOSED, entries=True))
    ledger = truth.ledgers[number]
    source = some(
        chooser, dict.fromkeys(b for segment in ledger.segments for b in segment.ensemble)
    )
    spare = (
        name for name, one in truth.bookies.items() if takes_entries(one) and not ledger.names(name)
    )
    return [str(number), source, some(chooser, spare)]


def rereplicate(truth: Truth, words: Words) -> None:
    """Copy what one bookie should hold to another one, segment by segment, from wherever a copy can
    be read.

    The metadata then names the other one. A segment with an entry that cannot be read anywhere
    stays as it is.
    """
    number, ledger = of(truth, words[0], CLOSED)
    source, target = words[1], truth.bookies[words[2]]
    require(ledger.names(source) and not ledger.names(words[2]) and takes_entries(target))
    for segment in ledger.segments:
        mine = [
            e
            for e in range(ledger.written)
            if ledger.segment_of(e) is segment and source in ledger.write_set(segment, e)
        ]
        if source in segment.ensemble and all(
            _is_readable(truth, number, ledger, segment, entry) for entry in mine
        ):
            target.store(number, mine)
            segment.ensemble = [words[2] if name == source else name for name in segment.ensemble]


def _is_readable(truth: Truth, number: int, ledger: Ledger, segment: Segment, entry: int) -> bool:
    copies = (truth.bookies[name] for name in ledger.write_set(segment, entry))
    return any(one.can_be_asked and one.can_read(number, entry) for one in copies)


def draw_mark(chooser: Chooser, truth: Truth) -> Words:
    return [
        str(
            some(
                chooser,
                (number for number in truth.listed() if truth.ledgers[number].marked_at is None),
            )
        )
    ]


def mark(truth: Truth, words: Words) -> None:
    require(int(words[0]) in truth.listed() and truth.ledgers[int(words[0])].marked_at is None)
    truth.ledgers[int(words[0])].marked_at = truth.now


def draw_lock(chooser: Chooser, truth: Truth) -> Words:
    require(not truth.is_real)
    number = some(
        chooser, (number for number, one in truth.ledgers.items() if one.marked_at is not None)
    )
    return [
        str(number),
        "nobody" if truth.ledgers[number].locked_by else chooser.pick(list(truth.bookies)),
    ]


def lock(truth: Truth, words: Words) -> None:
    """Lock a marked ledger as a replication worker does, or release the lock."""
    require(not truth.is_real and int(words[0]) in truth.ledgers)
    ledger = truth.ledgers[int(words[0])]
    require(ledger.marked_at is not None)
    require((words[1] in truth.bookies) if ledger.locked_by is None else words[1] == "nobody")
    ledger.locked_by = None if words[1] == "nobody" else words[1]


def draw_unmark(chooser: Chooser, truth: Truth) -> Words:
    return [
        str(
            some(
                chooser,
                (
                    number
                    for number in truth.listed()
                    if truth.ledgers[number].marked_at is not None
                ),
            )
        )
    ]


def unmark(truth: Truth, words: Words) -> None:
    require(int(words[0]) in truth.listed() and truth.ledgers[int(words[0])].marked_at is not None)
    ledger = truth.ledgers[int(words[0])]
    ledger.marked_at = ledger.locked_by = None
