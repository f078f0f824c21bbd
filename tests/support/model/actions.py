"""What can happen to the model's cluster: a table of actions with their weights, and the notation
of a history.

    create 1 e3 w2 a2 b1 b2 b3
    append 1 9
    close 1
    lose 1 4 b1 b2

One action a line, or several on one line with `;` between. An action that is impossible in its
state, because one before it was removed, does nothing. Any part of a history is therefore a
history.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

from support.model import bookie_actions, client_actions, damage_actions
from support.model.acting import Action, Chooser, Impossible, Words, require
from support.model.state import OPEN
from support.model.truth import LEFT, Cut, Truth

TIME_STEPS = (150, 25, 50)
"""Minutes by which time moves (`truth.GRACE_MINUTES` gives the reason)."""
CUT_STAGES = (5, 3, 4, 2, 6, 7, 9, 11, 14, 18, 23, 29, 36, 1)
"""Stages at which an audit can be killed. An audit of few ledgers in shards of two has some forty
on Spark, some ten without.
"""


# Audits


def _draw_cut(chooser: Chooser, truth: Truth) -> Words:
    require(truth.cut is None and truth.listed())
    return [str(chooser.pick(CUT_STAGES)), chooser.pick(LEFT)]


def _cut(truth: Truth, words: Words) -> None:
    """Begin an audit and kill it. The following actions happen before it is resumed."""
    stage, left = int(words[0]), words[1]
    require(truth.cut is None and stage > 0 and left in LEFT and truth.listed())
    truth.cut = Cut(stage, left, deepcopy(truth))


def _draw_resume(chooser: Chooser, truth: Truth) -> Words:
    require(truth.cut)
    return []


def _resume(truth: Truth, words: Words) -> None:
    """Resume the killed audit, to its end."""
    require(truth.cut)
    truth.cut = None


# The other actions


def _draw_time(chooser: Chooser, truth: Truth) -> Words:
    return [str(chooser.pick(TIME_STEPS))]


def _time(truth: Truth, words: Words) -> None:
    truth.now += int(words[0])


def _draw_nothing(chooser: Chooser, truth: Truth) -> Words:
    return []


def _nothing(truth: Truth, words: Words) -> None:
    """Change nothing."""


ACTIONS = (
    Action("create", 3, client_actions.draw_create, client_actions.create),
    Action("append", 8, client_actions.draw_append, client_actions.append),
    Action("close", 8, client_actions.draw_close, client_actions.close),
    Action("fence", 4, client_actions.draw_fence, client_actions.fence),
    Action("ensemble", 5, client_actions.draw_ensemble, client_actions.ensemble),
    Action("rereplicate", 5, client_actions.draw_rereplicate, client_actions.rereplicate),
    Action("lose", 8, damage_actions.draw_lose, damage_actions.lose),
    Action("stripe", 4, damage_actions.draw_stripe, damage_actions.stripe),
    Action("stray", 2, damage_actions.draw_stray, damage_actions.stray),
    Action("swap", 4, damage_actions.draw_swap, damage_actions.swap),
    Action("wipe", 3, bookie_actions.draw_wipe, bookie_actions.wipe),
    Action("crash", 6, bookie_actions.draw_crash, bookie_actions.crash),
    Action("restart", 5, bookie_actions.draw_restart, bookie_actions.restart),
    Action("readonly", 3, bookie_actions.draw_readonly, bookie_actions.readonly),
    Action("mark", 6, client_actions.draw_mark, client_actions.mark),
    Action("unmark", 3, client_actions.draw_unmark, client_actions.unmark),
    Action("lock", 3, client_actions.draw_lock, client_actions.lock),
    Action("delete", 1, damage_actions.draw_delete, damage_actions.delete),
    Action("corrupt", 2, damage_actions.draw_corrupt, damage_actions.corrupt),
    Action("spoil", 6, damage_actions.draw_spoil, damage_actions.spoil),
    Action("truncate", 3, damage_actions.draw_truncate, damage_actions.truncate),
    Action("unlist", 5, bookie_actions.draw_unlist, bookie_actions.unlist),
    Action("refuse", 3, bookie_actions.draw_refuse, bookie_actions.refuse),
    Action("decommission", 2, bookie_actions.draw_decommission, bookie_actions.decommission),
    Action("rename", 3, bookie_actions.draw_rename, bookie_actions.rename),
    Action("rack", 3, bookie_actions.draw_rack, bookie_actions.rack),
    Action("elect", 2, bookie_actions.draw_elect, bookie_actions.elect),
    Action("replication", 2, bookie_actions.draw_replication, bookie_actions.replication),
    Action("patience", 1, bookie_actions.draw_patience, bookie_actions.patience),
    Action("time", 4, _draw_time, _time),
    Action("audit", 1, _draw_nothing, _nothing),
    Action("again", 1, _draw_nothing, _nothing),
    Action("cut", 5, _draw_cut, _cut),
    Action("resume", 20, _draw_resume, _resume),
)
"""Every action with its weight, relative to the sum of all.

`audit`: each ledger alone, in reverse order, gets the same verdict as all together. `again`: a
second audit of the unchanged cluster says the same. `cut` and `resume`: an audit that is killed at
a stage and resumed, with the actions between.
"""

SWARM = (1, 0, 1, 4)
"""Factors of the weights, drawn anew for each action and history. A history lacks a quarter of all
actions and often has a quarter of them. It reaches sooner what needs many actions of one kind, or
none of another (swarm testing).
"""

STRAIGHT = ("create", "append", "close")
BENT = ("create", "append", "ensemble", "append", "close")

BY_NAME = {action.name: action for action in ACTIONS}


def swarm(chooser: Chooser) -> list[Action]:
    """Return the urn of one history: each action as often as its weight there."""
    urn = [action for action in ACTIONS for _ in range(action.weight * chooser.pick(SWARM))]
    return urn or list(ACTIONS)


def draw(chooser: Chooser, urn: Sequence[Action], truth: Truth) -> str:
    """Draw the next action as a line. An impossible one is drawn again from the remaining ones."""
    while urn:
        action = chooser.pick(urn)
        try:
            return " ".join([action.name, *action.draw(chooser, truth)])
        except Impossible:
            urn = [one for one in urn if one is not action]
    return "again"


def draw_beginning(chooser: Chooser, truth: Truth) -> list[str]:
    """Draw the beginning of a history and apply it to the truth: one to three ledgers, written and
    closed, some across an ensemble change.
    """
    lines = []
    for _ in range(chooser.pick((1, 2, 3))):
        number = str(len(truth.ledgers) + 1)
        for name in chooser.pick(
            (STRAIGHT, STRAIGHT, BENT)
        ):  # every earlier ledger is closed, so this is the only open one
            words = [number] if name == "close" else BY_NAME[name].draw(chooser, truth)
            lines.append(" ".join([name, *words]))
            happen(truth, lines[-1])
    return lines


def happen(truth: Truth, line: str) -> bool:
    """Apply the action if it can happen, and return whether it did. Raises ValueError for an
    unknown action.
    """
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
    """Return the ledgers whose verdict the action may change, possibly too many. All others must
    keep theirs. `truth` is the one after the action.
    """
    name, *words = line.split()
    if name in ("audit", "again", "cut", "resume", "elect", "replication", "patience"):
        return set()
    if name == "time":
        return {
            number
            for number, one in truth.ledgers.items()
            if one.marked_at is not None or one.state == OPEN
        }
    if words[0] in truth.bookies:
        bookie = truth.bookies[words[0]]
        forgets_all = name in ("wipe", "rename", "decommission")
        return {
            n
            for n, one in truth.ledgers.items()
            if forgets_all or one.names(words[0]) or n in bookie.holds
        }
    return {int(words[0])}


def lines_of(history: str) -> list[str]:
    """Return the actions of a history, in order."""
    return [line.strip() for line in history.replace(";", "\n").splitlines() if line.strip()]
