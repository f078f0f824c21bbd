"""What happens to bookies and to the switches of auto-recovery. `actions.ACTIONS` is the table of
these actions.
"""

from __future__ import annotations

from support.model.acting import Chooser, Words, ledgers, require, some, takes_entries
from support.model.client_actions import rereplicate
from support.model.state import CLOSED, READONLY, UNREGISTERED, WRITABLE
from support.model.truth import Truth

BYSTANDERS_MIN = 2
"""Minimum number of bookies that keep their cookie and can be asked. A cluster in which no bookie
answers is another story.
"""


# Bookies


def _may_crash(truth: Truth, name: str) -> bool:
    sound = [
        one
        for one in truth.bookies.values()
        if one.can_be_asked and one.cookie and one is not truth.bookies[name]
    ]
    return truth.bookies[name].listens and len(sound) >= BYSTANDERS_MIN


def draw_crash(chooser: Chooser, truth: Truth) -> Words:
    return [
        some(chooser, (name for name in truth.bookies if _may_crash(truth, name))),
        chooser.pick(["silent", "lost", "gone"]),
    ]


def crash(truth: Truth, words: Words) -> None:
    """Stop the bookie: `silent` leaves the registration, `lost` the cookie, `gone` nothing."""
    require(_may_crash(truth, words[0]))
    bookie = truth.bookies[words[0]]
    bookie.listens = False
    if words[1] != "silent":
        bookie.registered = UNREGISTERED
        bookie.cookie = words[1] != "gone"


def draw_restart(chooser: Chooser, truth: Truth) -> Words:
    return [
        some(
            chooser,
            (
                n
                for n, one in truth.bookies.items()
                if not one.listens or one.registered != WRITABLE
            ),
        )
    ]


def restart(truth: Truth, words: Words) -> None:
    """Start the bookie with everything that it held."""
    bookie = truth.bookies[words[0]]
    require(not bookie.listens or bookie.registered != WRITABLE)
    bookie.listens, bookie.registered, bookie.cookie = True, WRITABLE, True


def draw_readonly(chooser: Chooser, truth: Truth) -> Words:
    return [some(chooser, (name for name, one in truth.bookies.items() if takes_entries(one)))]


def readonly(truth: Truth, words: Words) -> None:
    require(takes_entries(truth.bookies[words[0]]))
    truth.bookies[words[0]].registered = READONLY


def draw_wipe(chooser: Chooser, truth: Truth) -> Words:
    return [
        some(chooser, (name for name, one in truth.bookies.items() if one.listens and one.holds))
    ]


def wipe(truth: Truth, words: Words) -> None:
    """Empty the bookie while it runs."""
    bookie = truth.bookies[words[0]]
    require(bookie.listens and bookie.holds)
    for number in list(bookie.holds):
        bookie.forget(number)


def draw_unlist(chooser: Chooser, truth: Truth) -> Words:
    require(not truth.is_real)
    return [some(chooser, truth.bookies)]


def unlist(truth: Truth, words: Words) -> None:
    """Make the bookie unable to list its entries, as with Pulsar's storage; or able again."""
    require(not truth.is_real and not truth.cut)
    truth.bookies[words[0]].lists ^= True


def draw_refuse(chooser: Chooser, truth: Truth) -> Words:
    require(not truth.is_real)
    return [
        some(
            chooser, (n for n, one in truth.bookies.items() if one.refuses or _may_crash(truth, n))
        )
    ]


def refuse(truth: Truth, words: Words) -> None:
    """Make the bookie answer each request with an error status from now on; or make it serve
    again.
    """
    bookie = truth.bookies[words[0]]
    require(not truth.is_real and (bookie.refuses or _may_crash(truth, words[0])))
    bookie.refuses ^= True


def draw_decommission(chooser: Chooser, truth: Truth) -> Words:
    return [some(chooser, (name for name in truth.bookies if _may_crash(truth, name)))]


def decommission(truth: Truth, words: Words) -> None:
    """Decommission the bookie: its closed ledgers are copied elsewhere as far as possible, and its
    cookie is deleted.
    """
    require(_may_crash(truth, words[0]))
    for number in ledgers(truth, CLOSED, entries=True):
        spare = [
            name
            for name, one in truth.bookies.items()
            if takes_entries(one) and not truth.ledgers[number].names(name)
        ]
        if truth.ledgers[number].names(words[0]) and spare:
            rereplicate(truth, [str(number), words[0], spare[0]])
    crash(truth, [words[0], "gone"])


def draw_rename(chooser: Chooser, truth: Truth) -> Words:
    named = some(
        chooser,
        (name for name in truth.bookies if _may_crash(truth, name) and truth.bookies[name].holds),
    )
    return [
        named,
        some(
            chooser,
            (name for name, one in truth.bookies.items() if takes_entries(one) and not one.holds),
        ),
    ]


def rename(truth: Truth, words: Words) -> None:
    """Move what a bookie holds to another id. The old id is gone, but the metadata still names
    it.
    """
    require(_may_crash(truth, words[0]) and not truth.is_real)
    bookie, other = truth.bookies[words[0]], truth.bookies[words[1]]
    require(bookie.holds and takes_entries(other) and not other.holds and words[0] != words[1])
    other.holds, other.wrong, other.mixed_up, other.lists = (
        bookie.holds,
        bookie.wrong,
        bookie.mixed_up,
        bookie.lists,
    )
    bookie.holds, bookie.wrong, bookie.mixed_up = {}, {}, set()
    crash(truth, [words[0], "gone"])


def draw_rack(chooser: Chooser, truth: Truth) -> Words:
    return [some(chooser, truth.bookies), chooser.pick(sorted(truth.racks.values()))]


def rack(truth: Truth, words: Words) -> None:
    """Move the bookie to that rack."""
    require(words[0] in truth.bookies and words[1].startswith("/") and not truth.cut)
    truth.racks[words[0]] = words[1]


# Auto-recovery's switches


def draw_elect(chooser: Chooser, truth: Truth) -> Words:
    require(not truth.is_real)
    return [chooser.pick([*truth.bookies, "nobody"])]


def elect(truth: Truth, words: Words) -> None:
    """Make the bookie BookKeeper's auditor, or leave the cluster without one."""
    require(not truth.is_real and (words[0] in truth.bookies or words[0] == "nobody"))
    truth.auditor = "" if words[0] == "nobody" else words[0]


def draw_replication(chooser: Chooser, truth: Truth) -> Words:
    require(not truth.is_real)
    return ["on" if truth.replication_disabled else "off"]


def replication(truth: Truth, words: Words) -> None:
    """Switch auto-recovery on or off."""
    require(not truth.is_real and words[0] in ("on", "off"))
    truth.replication_disabled = words[0] == "off"


def draw_patience(chooser: Chooser, truth: Truth) -> Words:
    require(not truth.is_real)
    return [chooser.pick(["0", "60", "86400"])]


def patience(truth: Truth, words: Words) -> None:
    """Set lostBookieRecoveryDelay, in seconds."""
    require(not truth.is_real)
    truth.lost_bookie_recovery_delay_s = int(words[0])
