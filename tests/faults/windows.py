"""The windows of the detector: the last four of a sequence, and the looks at which a fault is on.

**In a sequence.** A window is the last keys that were reported, up to four. In a correct report
each window equals that of the expected sequence at the same place. A window that does not is a
breach, unless an earlier breach explains it:

    expected    1 4 7 10    windows    0001  0014  0147  147(10)
    reported    1 4 10                 0001  0014  014(10)           7 is skipped
    reported    1 7 4 10               0001  0017  0174  174(10)     7 skips 4, which is reordered

**Of a fault.** The pauses of a run split it into windows: the first look, and everything after the
pause. A fault is on in the window in which it first hits a frame, and in later ones until it is
healed. Only there, and only from a bookie behind it, may an answer be missing, or a verdict say
less than the truth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from faults.harm import Harm, Log
from faults.reported import Key

WINDOW = 4
Window = tuple[int, ...]
"""The last reported ledgers, zeros before the first."""


@dataclass(frozen=True)
class Stray:
    """A key whose window is not the expected one. If the key is missing, it is the window that
    skips it.
    """

    key: Key
    window: Window
    what: str


UNKNOWN, AGAIN, LATE, NEVER = "unknown", "again", "late", "never"
"""Sorts of strays: not expected, reported before, reported after its successor, not reported."""


def windows(keys: Iterable[Key]) -> list[Window]:
    """Return the window at each place."""
    last: Window = (0,) * WINDOW
    found = []
    for key in keys:
        last = (*last[1:], key[0])
        found.append(last)
    return found


def strays(expected: Sequence[Key], reported: Sequence[Key]) -> Iterator[Stray]:
    """Yield why the windows of a report differ from the expected ones, place by place; `expected`
    has each key once.

    After a stray the windows are those that are expected without it.
    """
    place = {key: n for n, key in enumerate(expected)}
    due = 0
    passed_over: dict[Key, Window] = {}
    window: Window = (0,) * WINDOW
    for key, window in zip(reported, windows(reported), strict=True):
        at = place.get(key)
        if at is None:
            yield Stray(key, window, UNKNOWN)
        elif at >= due:
            passed_over |= dict.fromkeys(expected[due:at], window)
            due = at + 1
        elif passed_over.pop(key, None) is not None:
            yield Stray(key, window, LATE)
        else:
            yield Stray(key, window, AGAIN)
    for key, where in {**passed_over, **dict.fromkeys(expected[due:], window)}.items():
        yield Stray(key, where, NEVER)


FIRST, LATER = 0, 1
"""The windows of a run: its first look, and everything after the pause."""
ANY = ""
"""Stands for every bookie, if a fault hits the processes that ask."""


@dataclass(frozen=True)
class FaultWindows:
    """The window in which a fault is on, by bookie."""

    on: frozenset[tuple[str, int]] = frozenset()

    def is_on(self, bookie: str, look: int) -> bool:
        """Return whether an answer of this bookie may be missing at this look."""
        window = FIRST if look == 1 else LATER
        return (bookie, window) in self.on or (ANY, window) in self.on

    def unheard(self, bookies: Iterable[str], looks: Iterable[int]) -> frozenset[str]:
        """Return the bookies that may not have been heard at any of these looks."""
        at = set(looks)
        return frozenset(
            bookie for bookie in bookies if all(self.is_on(bookie, look) for look in at)
        )


def fault_windows(log: Log) -> FaultWindows:
    """Return where faults are on, by the frames that they hit and the pauses that healed them."""
    now: set[str] = set()
    on: set[tuple[str, int]] = set()
    for number, epoch in enumerate(log.epochs()):
        now = set() if number in log.healed else now
        now |= {
            ANY if one.fate == Harm.CALL else one.proxy for one in epoch if one.fate != "passed"
        }
        on |= {(bookie, min(number, LATER)) for bookie in now}
    return FaultWindows(frozenset(on))
