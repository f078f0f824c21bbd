"""What an action of the model is, and the state of the cluster that actions use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from support.model.state import CLOSED, IN_RECOVERY, OPEN, WRITABLE, Bookie, Ledger
from support.model.truth import Truth

T = TypeVar("T")
Words = list[str]


class Chooser(Protocol):
    """The source of choices for a history: Hypothesis, which can shrink what it drew, or a seeded
    generator.
    """

    def pick(self, options: Sequence[T]) -> T:
        """Return one of them; the first is the simplest."""


class Impossible(Exception):
    """The action cannot happen in this state."""


class Action(NamedTuple):
    """An action: `draw` returns the words after the name, or raises Impossible; `happen` changes
    the truth, or raises Impossible.
    """

    name: str
    weight: int
    draw: Callable[[Chooser, Truth], Words]
    happen: Callable[[Truth, Words], None]


def require(holds: object) -> None:
    if not holds:
        raise Impossible


# The state that an action needs


def ledgers(truth: Truth, *states: str, entries: bool = False) -> list[int]:
    """Return the ledgers whose znode exists and can be read, by state."""
    return [
        number
        for number, one in truth.ledgers.items()
        if not one.deleted
        and not one.flaw
        and one.state in (states or (OPEN, IN_RECOVERY, CLOSED))
        and (one.written or not entries)
    ]


def of(truth: Truth, word: str, *states: str) -> tuple[int, Ledger]:
    """Return the ledger that a word names, in one of these states."""
    number = int(word)
    require(number in ledgers(truth, *states))
    return number, truth.ledgers[number]


def some(chooser: Chooser, options: Iterable[T]) -> T:
    options = list(options)
    require(options)
    return chooser.pick(options)


def takes_entries(bookie: Bookie) -> bool:
    return bookie.can_be_asked and bookie.registered == WRITABLE
