"""What tests write into a log: questions with their answers, and faults."""

from __future__ import annotations

from faults.frames import Said
from faults.harm import Harm, Log


def held(ledger: int) -> frozenset[int]:
    """What a bookie holds of a ledger: of none the same as of another."""
    return frozenset(range(ledger))


def exchange(seen: Log, bookie: str, asked: Said, said: Said, sent: Said | None = None) -> None:
    """A question and its answer; harmed, it is another where it arrives."""
    seen.add(bookie, 0, asked, asked, "passed", reply=False)
    seen.add(bookie, 0, said, sent or said, "corrupt" if sent else "passed", reply=True)


def harmed(seen: Log, *bookies: str) -> Log:
    """A fault meets a frame of each of these bookies from here on."""
    for bookie in bookies:
        said = Said("info", 9_000)
        seen.add(bookie, 0, said, None, Harm.RESET, reply=True)
    return seen
