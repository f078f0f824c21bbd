"""What can happen to the model's cluster: one table of actions with their weights, and how a history of them is written.

    create 1 e3 w2 a2 b1 b2 b3
    append 1 9
    close 1
    lose 1 4 b1 b2

One action a line, or several on one line with `;` between. An action that can't happen in the state it meets, for one before
it was left out, does nothing: so any part of a history is a history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import NamedTuple, Protocol, TypeVar

from support.model.state import (
    BYTES,
    CLOSED,
    ENDLESS,
    ENTRIES_MAX,
    IN_RECOVERY,
    OPEN,
    READONLY,
    UNREGISTERED,
    WRITABLE,
    Bookie,
    Ledger,
    Segment,
)
from support.model.truth import LEFT, Cut, Truth

T = TypeVar("T")
Words = list[str]

LEDGERS_MAX = 5
"""Ledgers of one history: few enough that they meet the same bookies again and again."""
TIME_STEPS = (150, 25, 50)
"""Minutes (`truth.GRACE_MINUTES` says why these)."""
CUT_STAGES = (5, 3, 4, 2, 6, 7, 9, 11, 14, 18, 23, 29, 36, 1)
"""Stages at which an audit is cut down; one of few ledgers in shards of two has some forty on Spark, some ten without."""
BYSTANDERS_MIN = 2
"""Bookies that keep their cookie and can be asked, at least: a cluster of which nobody answers is another story."""


class Chooser(Protocol):
    """Whoever draws a history: Hypothesis, which can shrink what it drew, or a seeded generator."""

    def pick(self, options: Sequence[T]) -> T:
        """One of them; the first is the simplest."""


class Impossible(Exception):
    """The action can't happen in this state."""


class Action(NamedTuple):
    """`draw` gives the words behind the name, or raises Impossible; `happen` changes the truth, or raises Impossible."""

    name: str
    weight: int
    draw: Callable[[Chooser, Truth], Words]
    happen: Callable[[Truth, Words], None]


def require(holds: object) -> None:
    if not holds:
        raise Impossible


# What an action meets


def ledgers(truth: Truth, *states: str, entries: bool = False) -> list[int]:
    """The ledgers whose znode is there and can be read, by state."""
    return [
        number
        for number, one in truth.ledgers.items()
        if not one.deleted
        and not one.flaw
        and one.state in (states or (OPEN, IN_RECOVERY, CLOSED))
        and (one.written or not entries)
    ]


def of(truth: Truth, word: str, *states: str) -> tuple[int, Ledger]:
    """The ledger that a word names, in one of these states."""
    number = int(word)
    require(number in ledgers(truth, *states))
    return number, truth.ledgers[number]


def some(chooser: Chooser, options: Iterable[T]) -> T:
    options = list(options)
    require(options)
    return chooser.pick(options)


def takes_entries(bookie: Bookie) -> bool:
    return bookie.listens and bookie.registered == WRITABLE


# Clients


def _draw_create(chooser: Chooser, truth: Truth) -> Words:
    up = [name for name, one in truth.bookies.items() if takes_entries(one)]
    require(up and len(truth.ledgers) < LEDGERS_MAX)
    size = chooser.pick([one for one in (3, 2, 1, 4, 5) if one <= len(up)] or [1])
    write = chooser.pick([one for one in (2, 3, 1, 4, 5) if one <= size])
    ack = chooser.pick(range(write, 0, -1))
    ensemble: Words = []
    while len(ensemble) < size:
        ensemble.append(chooser.pick([name for name in up if name not in ensemble]))
    return [str(len(truth.ledgers) + 1), f"e{size}", f"w{write}", f"a{ack}", *ensemble]


def _create(truth: Truth, words: Words) -> None:
    number, (size, write, ack), ensemble = int(words[0]), (int(word[1:]) for word in words[1:4]), words[4:]
    require(number not in truth.ledgers and len(ensemble) == size and all(takes_entries(truth.bookies[b]) for b in ensemble))
    truth.ledgers[number] = Ledger(size, write, ack, [Segment(0, ensemble)], made_at=truth.now)


def _draw_append(chooser: Chooser, truth: Truth) -> Words:
    number = some(chooser, ledgers(truth, OPEN))
    room = ENTRIES_MAX - truth.ledgers[number].written
    return [str(number), str(some(chooser, [count for count in (1, 2, 3, 5, 9, 14) if count <= room]))]


def _append(truth: Truth, words: Words) -> None:
    """Entry by entry, as long as enough bookies take it to be acknowledged."""
    number, ledger = of(truth, words[0], OPEN)
    require(ledger.written + int(words[1]) <= ENTRIES_MAX)
    for entry in range(ledger.written, ledger.written + int(words[1])):
        # A bookie that stands twice is sent the entry twice, and acknowledges both.
        takers = [name for name in ledger.write_set(ledger.last_segment(), entry) if takes_entries(truth.bookies[name])]
        if len(takers) < ledger.ack_quorum:
            return
        for name in takers:
            truth.bookies[name].store(number, [entry])
        ledger.written = entry + 1


def _draw_close(chooser: Chooser, truth: Truth) -> Words:
    return [str(some(chooser, ledgers(truth, OPEN, IN_RECOVERY)))]


def _close(truth: Truth, words: Words) -> None:
    _, ledger = of(truth, words[0], OPEN, IN_RECOVERY)
    ledger.state = CLOSED
    if ledger.last_segment().first >= ledger.written > 0:
        ledger.segments.pop()  # a segment without entries is dropped when its ledger is closed


def _draw_fence(chooser: Chooser, truth: Truth) -> Words:
    return [str(some(chooser, ledgers(truth, OPEN)))]


def _fence(truth: Truth, words: Words) -> None:
    of(truth, words[0], OPEN)[1].state = IN_RECOVERY


def _draw_ensemble(chooser: Chooser, truth: Truth) -> Words:
    number = some(chooser, ledgers(truth, OPEN))
    ensemble = truth.ledgers[number].last_segment().ensemble
    position = chooser.pick(range(len(ensemble)))
    others = (name for name, one in truth.bookies.items() if takes_entries(one) and name != ensemble[position])
    return [str(number), str(position), some(chooser, others)]


def _ensemble(truth: Truth, words: Words) -> None:
    """From the next entry on another bookie stands at one position; by mistake it may stand in the ensemble already."""
    _, ledger = of(truth, words[0], OPEN)
    position, bookie = int(words[1]), words[2]
    before = ledger.last_segment()
    require(position < ledger.ensemble_size and takes_entries(truth.bookies[bookie]) and before.ensemble[position] != bookie)
    after = [*before.ensemble]
    after[position] = bookie
    if before.first == ledger.written:
        before.ensemble = after
    else:
        ledger.segments.append(Segment(ledger.written, after))


# Auto-recovery


def _draw_rereplicate(chooser: Chooser, truth: Truth) -> Words:
    number = some(chooser, ledgers(truth, CLOSED, entries=True))
    ledger = truth.ledgers[number]
    source = some(chooser, dict.fromkeys(b for segment in ledger.segments for b in segment.ensemble))
    spare = (name for name, one in truth.bookies.items() if takes_entries(one) and not ledger.names(name))
    return [str(number), source, some(chooser, spare)]


def _rereplicate(truth: Truth, words: Words) -> None:
    """Segment by segment: what one bookie should hold is copied to another from wherever a copy can be read, and the metadata
    names the other; a segment of which an entry can be read nowhere stays as it is."""
    number, ledger = of(truth, words[0], CLOSED)
    source, target = words[1], truth.bookies[words[2]]
    require(ledger.names(source) and not ledger.names(words[2]) and takes_entries(target))
    for segment in ledger.segments:
        mine = [e for e in range(ledger.written) if ledger.segment_of(e) is segment and source in ledger.write_set(segment, e)]
        if source in segment.ensemble and all(_is_readable(truth, number, ledger, segment, entry) for entry in mine):
            target.store(number, mine)
            segment.ensemble = [words[2] if name == source else name for name in segment.ensemble]


def _is_readable(truth: Truth, number: int, ledger: Ledger, segment: Segment, entry: int) -> bool:
    copies = (truth.bookies[name] for name in ledger.write_set(segment, entry))
    return any(one.can_be_asked and one.can_read(number, entry) for one in copies)


def _draw_mark(chooser: Chooser, truth: Truth) -> Words:
    return [str(some(chooser, (number for number in truth.listed() if truth.ledgers[number].marked_at is None)))]


def _mark(truth: Truth, words: Words) -> None:
    require(int(words[0]) in truth.listed() and truth.ledgers[int(words[0])].marked_at is None)
    truth.ledgers[int(words[0])].marked_at = truth.now


def _draw_unmark(chooser: Chooser, truth: Truth) -> Words:
    return [str(some(chooser, (number for number in truth.listed() if truth.ledgers[number].marked_at is not None)))]


def _unmark(truth: Truth, words: Words) -> None:
    require(int(words[0]) in truth.listed() and truth.ledgers[int(words[0])].marked_at is not None)
    truth.ledgers[int(words[0])].marked_at = None


# What goes wrong with entries


def _draw_lose(chooser: Chooser, truth: Truth) -> Words:
    number = some(chooser, ledgers(truth, entries=True))
    ledger = truth.ledgers[number]
    entry = chooser.pick([0, ledger.written - 1, ledger.written // 2, *range(ledger.written)])
    wanted = dict.fromkeys(ledger.write_set(ledger.segment_of(entry), entry))
    holders = [name for name in wanted if truth.bookies[name].has(number, entry)]
    require(holders)
    return [str(number), str(entry), *holders[: chooser.pick(range(1, len(holders) + 1))]]


def _lose(truth: Truth, words: Words) -> None:
    """One entry, on one bookie or several."""
    number, entry = int(words[0]), int(words[1])
    require(any(truth.bookies[name].has(number, entry) for name in words[2:]))
    for name in words[2:]:
        truth.bookies[name].drop(number, entry)


def _draw_stripe(chooser: Chooser, truth: Truth) -> Words:
    held = [(number, name) for name, one in truth.bookies.items() for number in one.holds if number in truth.listed()]
    number, name = some(chooser, held)
    return [str(number), name, chooser.pick(["emptied", "forgotten"])]


def _stripe(truth: Truth, words: Words) -> None:
    """All that one bookie holds of one ledger; the ledger is still known there, or not."""
    number, holds = int(words[0]), truth.bookies[words[1]].holds
    require(number in holds)
    truth.bookies[words[1]].forget(number)
    if words[2] != "forgotten":
        holds[number] = set()


def _draw_stray(chooser: Chooser, truth: Truth) -> Words:
    number = some(chooser, ledgers(truth, CLOSED, entries=True))
    ledger = truth.ledgers[number]
    outside = [name for name in truth.bookies if not ledger.names(name)]
    return [str(number), str(chooser.pick(range(ledger.written))), some(chooser, outside)]


def _stray(truth: Truth, words: Words) -> None:
    """The only copies of an entry lie on a bookie that the metadata does not name."""
    number, ledger = of(truth, words[0], CLOSED)
    entry, bookie = int(words[1]), words[2]
    require(entry < ledger.written and not ledger.names(bookie))
    for one in truth.bookies.values():
        one.drop(number, entry)
    truth.bookies[bookie].store(number, [entry])


def _draw_spoil(chooser: Chooser, truth: Truth) -> Words:
    require(not truth.is_real)
    number = some(chooser, ledgers(truth, entries=True))
    holders = {name: one for name, one in truth.bookies.items() if one.holds.get(number)}
    name = some(chooser, [name for name, one in holders.items() if not one.lists] or holders)
    entry = chooser.pick(sorted(truth.bookies[name].holds[number]))
    return [str(number), name, chooser.pick(["digest", "ids"]), str(entry)]


def _spoil(truth: Truth, words: Words) -> None:
    """A bookie's copy of an entry does not match its `digest` any more; or what it sends of the ledger has the `ids` of other
    entries."""
    number, bookie, entry = int(words[0]), truth.bookies[words[1]], int(words[3])
    require(not truth.is_real and bookie.has(number, entry))
    if words[2] == "digest":
        bookie.wrong.setdefault(number, set()).add(entry)
    else:
        bookie.mixed_up.add(number)


# What goes wrong with metadata


def _draw_truncate(chooser: Chooser, truth: Truth) -> Words:
    number = some(chooser, ledgers(truth, CLOSED, entries=True))
    return [str(number), str(chooser.pick(range(1, truth.ledgers[number].written + 1)))]


def _truncate(truth: Truth, words: Words) -> None:
    """The metadata of a closed ledger promises so many entries fewer; the bookies keep them."""
    _, ledger = of(truth, words[0], CLOSED)
    require(0 < int(words[1]) <= ledger.written)
    ledger.written -= int(words[1])
    ledger.segments = [one for one in ledger.segments if one.first < ledger.written] or ledger.segments[:1]


def _draw_swap(chooser: Chooser, truth: Truth) -> Words:
    number = some(chooser, (n for n in ledgers(truth, CLOSED) if truth.ledgers[n].ensemble_size > 1))
    ledger = truth.ledgers[number]
    one = chooser.pick(range(ledger.ensemble_size))
    other = chooser.pick([position for position in range(ledger.ensemble_size) if position != one])
    return [str(number), str(chooser.pick(range(len(ledger.segments)))), str(one), str(other)]


def _swap(truth: Truth, words: Words) -> None:
    """Two positions of one segment change their places in the metadata; the entries stay where they are."""
    _, ledger = of(truth, words[0], CLOSED)
    index, one, other = map(int, words[1:])
    require(index < len(ledger.segments) and max(one, other) < ledger.ensemble_size)
    ensemble = ledger.segments[index].ensemble
    ensemble[one], ensemble[other] = ensemble[other], ensemble[one]


def _draw_corrupt(chooser: Chooser, truth: Truth) -> Words:
    number = some(chooser, ledgers(truth))
    return [str(number), chooser.pick([BYTES, ENDLESS] if truth.ledgers[number].state == CLOSED else [BYTES])]


def _corrupt(truth: Truth, words: Words) -> None:
    _, ledger = of(truth, words[0])
    require(words[1] == BYTES or ledger.state == CLOSED)
    ledger.flaw = words[1]


def _draw_delete(chooser: Chooser, truth: Truth) -> Words:
    return [str(some(chooser, truth.listed()))]


def _delete(truth: Truth, words: Words) -> None:
    require(int(words[0]) in truth.listed())
    truth.ledgers[int(words[0])].deleted = True


# Bookies


def _may_crash(truth: Truth, name: str) -> bool:
    sound = [one for one in truth.bookies.values() if one.can_be_asked and one.cookie and one is not truth.bookies[name]]
    return truth.bookies[name].listens and len(sound) >= BYSTANDERS_MIN


def _draw_crash(chooser: Chooser, truth: Truth) -> Words:
    return [
        some(chooser, (name for name in truth.bookies if _may_crash(truth, name))),
        chooser.pick(["silent", "lost", "gone"]),
    ]


def _crash(truth: Truth, words: Words) -> None:
    """Nobody listens any more: `silent` leaves the registration, `lost` the cookie, `gone` nothing."""
    require(_may_crash(truth, words[0]))
    bookie = truth.bookies[words[0]]
    bookie.listens = False
    if words[1] != "silent":
        bookie.registered = UNREGISTERED
        bookie.cookie = words[1] != "gone"


def _draw_restart(chooser: Chooser, truth: Truth) -> Words:
    return [some(chooser, (n for n, one in truth.bookies.items() if not one.listens or one.registered != WRITABLE))]


def _restart(truth: Truth, words: Words) -> None:
    """With all that it held."""
    bookie = truth.bookies[words[0]]
    require(not bookie.listens or bookie.registered != WRITABLE)
    bookie.listens, bookie.registered, bookie.cookie = True, WRITABLE, True


def _draw_readonly(chooser: Chooser, truth: Truth) -> Words:
    return [some(chooser, (name for name, one in truth.bookies.items() if takes_entries(one)))]


def _readonly(truth: Truth, words: Words) -> None:
    require(takes_entries(truth.bookies[words[0]]))
    truth.bookies[words[0]].registered = READONLY


def _draw_wipe(chooser: Chooser, truth: Truth) -> Words:
    return [some(chooser, (name for name, one in truth.bookies.items() if one.listens and one.holds))]


def _wipe(truth: Truth, words: Words) -> None:
    """It holds nothing any more, and goes on."""
    bookie = truth.bookies[words[0]]
    require(bookie.listens and bookie.holds)
    for number in list(bookie.holds):
        bookie.forget(number)


def _draw_unlist(chooser: Chooser, truth: Truth) -> Words:
    require(not truth.is_real)
    return [some(chooser, truth.bookies)]


def _unlist(truth: Truth, words: Words) -> None:
    """The bookie stops to answer which entries it holds, as Pulsar's storage does; or answers again."""
    require(not truth.is_real and not truth.cut)
    truth.bookies[words[0]].lists ^= True


def _draw_decommission(chooser: Chooser, truth: Truth) -> Words:
    return [some(chooser, (name for name in truth.bookies if _may_crash(truth, name)))]


def _decommission(truth: Truth, words: Words) -> None:
    """An operator takes the bookie out: its closed ledgers are copied elsewhere as far as possible, its cookie is deleted."""
    require(_may_crash(truth, words[0]))
    for number in ledgers(truth, CLOSED, entries=True):
        spare = [name for name, one in truth.bookies.items() if takes_entries(one) and not truth.ledgers[number].names(name)]
        if truth.ledgers[number].names(words[0]) and spare:
            _rereplicate(truth, [str(number), words[0], spare[0]])
    _crash(truth, [words[0], "gone"])


def _draw_rename(chooser: Chooser, truth: Truth) -> Words:
    named = some(chooser, (name for name in truth.bookies if _may_crash(truth, name) and truth.bookies[name].holds))
    return [named, some(chooser, (name for name, one in truth.bookies.items() if takes_entries(one) and not one.holds))]


def _rename(truth: Truth, words: Words) -> None:
    """What a bookie holds is under another id from now on, and its own is gone; the metadata still names that."""
    require(_may_crash(truth, words[0]) and not truth.is_real)
    bookie, other = truth.bookies[words[0]], truth.bookies[words[1]]
    require(bookie.holds and takes_entries(other) and not other.holds and words[0] != words[1])
    other.holds, other.wrong, other.mixed_up, other.lists = bookie.holds, bookie.wrong, bookie.mixed_up, bookie.lists
    bookie.holds, bookie.wrong, bookie.mixed_up = {}, {}, set()
    _crash(truth, [words[0], "gone"])


def _draw_rack(chooser: Chooser, truth: Truth) -> Words:
    return [some(chooser, truth.bookies), chooser.pick(sorted(truth.racks.values()))]


def _rack(truth: Truth, words: Words) -> None:
    """The bookie stands in that rack from now on."""
    require(words[0] in truth.bookies and words[1].startswith("/") and not truth.cut)
    truth.racks[words[0]] = words[1]


# Auto-recovery's switches


def _draw_elect(chooser: Chooser, truth: Truth) -> Words:
    require(not truth.is_real)
    return [chooser.pick([*truth.bookies, "nobody"])]


def _elect(truth: Truth, words: Words) -> None:
    """The bookie is BookKeeper's auditor from now on, or nobody is."""
    require(not truth.is_real and (words[0] in truth.bookies or words[0] == "nobody"))
    truth.auditor = "" if words[0] == "nobody" else words[0]


def _draw_replication(chooser: Chooser, truth: Truth) -> Words:
    require(not truth.is_real)
    return ["on" if truth.replication_disabled else "off"]


def _replication(truth: Truth, words: Words) -> None:
    """Auto-recovery is switched on or off."""
    require(not truth.is_real and words[0] in ("on", "off"))
    truth.replication_disabled = words[0] == "off"


def _draw_patience(chooser: Chooser, truth: Truth) -> Words:
    require(not truth.is_real)
    return [chooser.pick(["0", "60", "86400"])]


def _patience(truth: Truth, words: Words) -> None:
    """lostBookieRecoveryDelay is so many seconds from now on."""
    require(not truth.is_real)
    truth.lost_bookie_recovery_delay_s = int(words[0])


# Audits


def _draw_cut(chooser: Chooser, truth: Truth) -> Words:
    require(truth.cut is None and truth.listed())
    return [str(chooser.pick(CUT_STAGES)), chooser.pick(LEFT)]


def _cut(truth: Truth, words: Words) -> None:
    """An audit begins, and is cut down; whatever follows happens before it goes on."""
    stage, left = int(words[0]), words[1]
    require(truth.cut is None and stage > 0 and left in LEFT and truth.listed())
    truth.cut = Cut(stage, left, deepcopy(truth))


def _draw_resume(chooser: Chooser, truth: Truth) -> Words:
    require(truth.cut)
    return []


def _resume(truth: Truth, words: Words) -> None:
    """The audit that was cut down goes on, to its end."""
    require(truth.cut)
    truth.cut = None


# The rest


def _draw_time(chooser: Chooser, truth: Truth) -> Words:
    return [str(chooser.pick(TIME_STEPS))]


def _time(truth: Truth, words: Words) -> None:
    truth.now += int(words[0])


def _draw_nothing(chooser: Chooser, truth: Truth) -> Words:
    return []


def _nothing(truth: Truth, words: Words) -> None:
    """Nothing happens to the cluster."""


ACTIONS = (
    Action("create", 3, _draw_create, _create),
    Action("append", 8, _draw_append, _append),
    Action("close", 8, _draw_close, _close),
    Action("fence", 4, _draw_fence, _fence),
    Action("ensemble", 5, _draw_ensemble, _ensemble),
    Action("rereplicate", 5, _draw_rereplicate, _rereplicate),
    Action("lose", 8, _draw_lose, _lose),
    Action("stripe", 4, _draw_stripe, _stripe),
    Action("stray", 2, _draw_stray, _stray),
    Action("swap", 4, _draw_swap, _swap),
    Action("wipe", 3, _draw_wipe, _wipe),
    Action("crash", 6, _draw_crash, _crash),
    Action("restart", 5, _draw_restart, _restart),
    Action("readonly", 3, _draw_readonly, _readonly),
    Action("mark", 6, _draw_mark, _mark),
    Action("unmark", 3, _draw_unmark, _unmark),
    Action("delete", 1, _draw_delete, _delete),
    Action("corrupt", 2, _draw_corrupt, _corrupt),
    Action("spoil", 6, _draw_spoil, _spoil),
    Action("truncate", 3, _draw_truncate, _truncate),
    Action("unlist", 5, _draw_unlist, _unlist),
    Action("decommission", 2, _draw_decommission, _decommission),
    Action("rename", 3, _draw_rename, _rename),
    Action("rack", 3, _draw_rack, _rack),
    Action("elect", 2, _draw_elect, _elect),
    Action("replication", 2, _draw_replication, _replication),
    Action("patience", 1, _draw_patience, _patience),
    Action("time", 4, _draw_time, _time),
    Action("audit", 1, _draw_nothing, _nothing),
    Action("again", 1, _draw_nothing, _nothing),
    Action("cut", 5, _draw_cut, _cut),
    Action("resume", 20, _draw_resume, _resume),
)
"""Every action with how often it is drawn, against the sum of all. `audit`: each ledger alone, last one first, says the same as
all together. `again`: a second audit of the unchanged cluster says the same. `cut` and `resume`: an audit that is cut down at a
stage and goes on, with whatever happened in between."""

SWARM = (1, 0, 1, 4)
"""What each weight is multiplied with, drawn anew for each action and history: a history lacks a quarter of all actions and
has a quarter of them often. What needs many of one kind, or none of another, is reached sooner so (swarm testing)."""

STRAIGHT = ("create", "append", "close")
BENT = ("create", "append", "ensemble", "append", "close")

BY_NAME = {action.name: action for action in ACTIONS}


def swarm(chooser: Chooser) -> list[Action]:
    """The urn of one history: each action as often as it weighs there."""
    urn = [action for action in ACTIONS for _ in range(action.weight * chooser.pick(SWARM))]
    return urn or list(ACTIONS)


def draw(chooser: Chooser, urn: Sequence[Action], truth: Truth) -> str:
    """The next action as a line. One that finds nothing to happen to is drawn again, from what is left."""
    while urn:
        action = chooser.pick(urn)
        try:
            return " ".join([action.name, *action.draw(chooser, truth)])
        except Impossible:
            urn = [one for one in urn if one is not action]
    return "again"


def draw_beginning(chooser: Chooser, truth: Truth) -> list[str]:
    """What a history begins with: one to three ledgers, written and closed, some across a change of ensemble. Happens to the
    truth as well."""
    lines = []
    for _ in range(chooser.pick((1, 2, 3))):
        number = str(len(truth.ledgers) + 1)
        for name in chooser.pick((STRAIGHT, STRAIGHT, BENT)):  # every earlier ledger is closed: only this one can be meant
            words = [number] if name == "close" else BY_NAME[name].draw(chooser, truth)
            lines.append(" ".join([name, *words]))
            happen(truth, lines[-1])
    return lines


def happen(truth: Truth, line: str) -> bool:
    """Whether the action could happen; then it has. Raises ValueError for what is no action."""
    name, *words = line.split()
    if name not in BY_NAME:
        raise ValueError(f"no action is called {name!r}; there are {' '.join(BY_NAME)}")
    try:
        BY_NAME[name].happen(truth, words)
    except Impossible:
        return False
    except (IndexError, KeyError, ValueError) as error:
        raise ValueError(f"{line!r} is no action: {error}") from error
    return True


def touched(truth: Truth, line: str) -> set[int]:
    """The ledgers whose verdict the action may change, generously; of all others it must stay. `truth` is that after it."""
    name, *words = line.split()
    if name in ("audit", "again", "cut", "resume", "elect", "replication", "patience"):
        return set()
    if name == "time":
        return {number for number, one in truth.ledgers.items() if one.marked_at is not None or one.state == OPEN}
    if words[0] in truth.bookies:
        bookie = truth.bookies[words[0]]
        forgets_all = name in ("wipe", "rename", "decommission")
        return {n for n, one in truth.ledgers.items() if forgets_all or one.names(words[0]) or n in bookie.holds}
    return {int(words[0])}


def lines_of(history: str) -> list[str]:
    """The actions of a history, in order."""
    return [line.strip() for line in history.replace(";", "\n").splitlines() if line.strip()]
