"""The windows that the detector decides by: the last four of a sequence, and the looks at which a
fault is on.

**In a sequence.** A window is the last keys that were reported, up to four. In a correct report
each window equals that of the expected sequence at the same place. A window that does not is a
breach, unless an earlier breach explains it:

    expected    1 4 7 10    windows    0001  0014  0147  147(10) told        1 4 10
    0001  0014  014(10)                  7 is passed over told        1 7 4 10               0001
    0017  0174  174(10)            7 passes over 4, which comes late: reordered

**Of a fault.** The pauses of a run cut it into windows, the first look and what is behind the
pause. A fault is on in the window in which a frame first meets it, and in later ones until it is
healed. Only there, and only of a bookie behind it, may an answer be missing, or a verdict say less
than the truth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from faults.harm import Harm, Log
from faults.reported import Key

WINDOW = 4
Window = tuple[int, ...]
"""The ledgers told last, zeros before the first."""


@dataclass(frozen=True)
class Stray:
    """A key that makes a window another than the expected one; of one that was not told, the window
    that passes over it.
    """

    key: Key
    window: Window
    what: str


UNKNOWN, AGAIN, LATE, NEVER = "unknown", "again", "late", "never"
"""What a stray is: nothing that is expected, told before, told behind what follows it, not told at
all.
"""


def windows(keys: Iterable[Key]) -> list[Window]:
    """The window at each place."""
    last: Window = (0,) * WINDOW
    found = []
    for key in keys:
        last = (*last[1:], key[0])
        found.append(last)
    return found


def strays(expected: Sequence[Key], reported: Sequence[Key]) -> Iterator[Stray]:
    """What makes windows of what was told others than those of what was expected, place by place;
    `expected` has each key once.

    Where a stray was told, the windows behind it are those that are expected without it.
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
"""The windows of a run: its first look, and all behind the pause."""
ANY = ""
"""Every bookie, where a fault hits the processes that ask."""


@dataclass(frozen=True)
class FaultWindows:
    """In which window a fault is on before which bookie."""

    on: frozenset[tuple[str, int]] = frozenset()

    def is_on(self, bookie: str, look: int) -> bool:
        """Whether an answer of this bookie may be missing at this look."""
        window = FIRST if look == 1 else LATER
        return (bookie, window) in self.on or (ANY, window) in self.on

    def unheard(self, bookies: Iterable[str], looks: Iterable[int]) -> frozenset[str]:
        """Those of the bookies that may not have been heard at any of these looks."""
        at = set(looks)
        return frozenset(
            bookie for bookie in bookies if all(self.is_on(bookie, look) for look in at)
        )


def fault_windows(log: Log) -> FaultWindows:
    """Where faults are on, by the frames that met one and the pauses that healed them."""
    now: set[str] = set()
    on: set[tuple[str, int]] = set()
    for number, epoch in enumerate(log.epochs()):
        now = set() if number in log.healed else now
        now |= {
            ANY if one.fate == Harm.CALL else one.proxy for one in epoch if one.fate != "passed"
        }
        on |= {(bookie, min(number, LATER)) for bookie in now}
    return FaultWindows(frozenset(on))
