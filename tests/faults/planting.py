"""Questions with answers, and faults, that tests write into a log."""

from __future__ import annotations

from faults.frames import Said
from faults.harm import Harm, Log


def held(ledger: int) -> frozenset[int]:
    """Return what a bookie holds of a ledger. No two ledgers have the same."""
    return frozenset(range(ledger))


def exchange(seen: Log, bookie: str, asked: Said, said: Said, sent: Said | None = None) -> None:
    """Write a question and its answer; a harmed answer arrives as another one."""
    seen.add(bookie, 0, asked, asked, "passed", reply=False)
    seen.add(bookie, 0, said, sent or said, "corrupt" if sent else "passed", reply=True)


def harmed(seen: Log, *bookies: str) -> Log:
    """Let a fault hit a frame of each of these bookies from here on."""
    for bookie in bookies:
        said = Said("info", 9_000)
        seen.add(bookie, 0, said, None, Harm.RESET, reply=True)
    return seen
