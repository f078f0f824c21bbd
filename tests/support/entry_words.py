"""What the second checker's sets of entries say, as one word for each entry."""

from __future__ import annotations

from auditor.second_checker.entry_bits import BitCounts
from auditor.second_checker.holdings import ABSENT, HELD, UNKNOWN
from auditor.second_checker.holdings import Testimony as Said


def words_of(said: Said, low: int, high: int) -> list[int]:
    """HELD, ABSENT or UNKNOWN for each entry of [low, high]; never two of them, and none beyond."""
    held, unknown = said.holding(low, high)
    assert not held & unknown and not (held | unknown) >> (high - low + 1)
    return [
        HELD if held >> at & 1 else UNKNOWN if unknown >> at & 1 else ABSENT
        for at in range(high - low + 1)
    ]


def numbers_of(counts: BitCounts) -> list[int]:
    """The number of each entry."""
    return [counts.at(at) for at in range(counts.everything.bit_length())]


def bits_of(entries: set[int] | list[int]) -> int:
    """The set of these entries, of a block that begins with entry 0."""
    return sum(1 << entry for entry in set(entries))
