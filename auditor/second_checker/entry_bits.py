"""Sets of entries, one bit for each entry of a block.

Bit n of an integer stands for the n-th entry of the block. `&`, `|` and `^` of two integers go
through all entries of a block, some thirty at a time: 50,000 entries take a microsecond. To count
them (`bit_count`) takes ten, and so does to shift them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Bits: TypeAlias = int
Marks: TypeAlias = NDArray[np.bool_]
"""The same set as an array, a byte for each entry: for sets that are put together in pieces."""

PATTERNS_KEPT_MAX = 32
"""Repeated patterns that are kept, for the next ledgers: some 8 MB if all ledgers are the longest
that are examined whole."""
BLOCKS_KEPT_MAX = 8
"""Lengths of which the set of all entries is kept: a ledger's bookies share its blocks."""
FEW = 16
"""Most pieces of a set that are combined by shifting. More pieces are written into an array."""
WINDOW = 64
"""Entries looked through for runs at first. Each further window is twice as long."""
WINDOW_MAX = 65_536
"""Entries of the longest window: a text of as many characters."""

_RUN = re.compile("1+")
_FIRST = (1 << WINDOW) - 1


def all_bits(length: int) -> Bits:
    """Return the set of all entries of a block with `length` entries."""
    return (1 << length) - 1


block_bits = lru_cache(BLOCKS_KEPT_MAX)(all_bits)
"""The same, kept for the next bookie."""


def repeat_bits(pattern: Bits, period: int, length: int) -> Bits:
    """Return the first `length` bits of a pattern that begins again every `period` entries."""
    return _tiles(pattern, period, length.bit_length()) & block_bits(length)


def count_repeated(pattern: Bits, period: int, length: int) -> int:
    """Return how many entries `repeat_bits` finds."""
    rounds, rest = divmod(length, period)
    return rounds * pattern.bit_count() + (pattern & all_bits(rest)).bit_count()


@lru_cache(PATTERNS_KEPT_MAX)
def _tiles(pattern: Bits, period: int, doublings: int) -> Bits:
    """Return a pattern, repeated over 2 ** `doublings` entries or more."""
    found, filled = pattern, period
    while filled < 1 << doublings:
        found |= found << filled
        filled *= 2
    return found


def bits_at(positions: Sequence[int], length: int) -> Bits:
    """Return the set of the entries at these positions, which are below `length`."""
    if not positions:
        return 0
    packed = bytearray(length // 8 + 1)
    for position in positions:
        packed[position >> 3] |= 1 << (position & 7)
    return int.from_bytes(packed, "little")


def pack_marks(marks: Marks) -> Bits:
    """Return the set of the entries that are marked."""
    return int.from_bytes(np.packbits(marks, bitorder="little").tobytes(), "little")


def positions_of(bits: Bits) -> NDArray[np.intp]:
    """Return the positions of a set's entries, ascending. Costs some bytes for each entry."""
    packed = bits.to_bytes((bits.bit_length() + 7) // 8, "little")
    return np.flatnonzero(np.unpackbits(np.frombuffer(packed, np.uint8), bitorder="little"))


def lowest_of(bits: Bits) -> int:
    """Return the position of the lowest entry of a set that is not empty."""
    among = bits & _FIRST or bits
    return (among & -among).bit_length() - 1


def runs_of(bits: Bits, runs_max: int | None = None) -> list[tuple[int, int]]:
    """Return the first and last positions of the maximal runs of a set, ascending.

    At most the first `runs_max` are returned. Costs entries up to the last of these.
    """
    found: list[tuple[int, int]] = []
    at, width = 0, WINDOW
    while bits:
        window = bits & all_bits(width)
        if not window:
            skipped = lowest_of(bits)
            bits, at = bits >> skipped, at + skipped
            continue
        for run in _RUN.finditer(bin(window)[:1:-1]):
            first, end = run.span()
            if found and found[-1][1] == at + first - 1:  # it began in an earlier window
                found[-1] = found[-1][0], at + end - 1
            elif len(found) == runs_max:  # the last one has ended
                return found
            else:
                found.append((at + first, at + end - 1))
        bits, at, width = bits >> width, at + width, min(2 * width, WINDOW_MAX)
    return found


@dataclass(slots=True)
class BitCounts:
    """A number for each entry of a block, as binary digits.

    `digits` has for each digit, the lowest first, the set of the entries whose number has it.
    """

    everything: Bits
    digits: list[Bits] = field(default_factory=list)

    @classmethod
    def of(cls, everything: Bits, sets: Iterable[Bits]) -> BitCounts:
        """Return how many of the sets each entry is in. Costs a carry for each set and digit."""
        digits: list[Bits] = []
        for carry in sets:
            if not carry:
                continue
            for place, digit in enumerate(digits):
                digits[place], carry = digit ^ carry, digit & carry
                if not carry:
                    break
            if carry:
                digits.append(carry)
        return cls(everything, digits)

    def at(self, position: int) -> int:
        """Return the number of one entry."""
        return sum((digit >> position & 1) << place for place, digit in enumerate(self.digits))

    def at_most(self, number: int) -> Bits:
        """Return the entries with this number or a lower one."""
        if number < 0:
            return 0
        if number >> len(self.digits):
            return self.everything
        below, equal = 0, self.everything
        for place in reversed(range(len(self.digits))):
            has_digit = equal & self.digits[place]
            if number >> place & 1:
                below |= equal ^ has_digit
                equal = has_digit
            else:
                equal ^= has_digit
        return below | equal

    def lowest_among(self, entries: Bits) -> tuple[int, Bits]:
        """Return the lowest number of some entries, and those of them that have it."""
        number = 0
        for place in reversed(range(len(self.digits))):
            without = entries ^ (entries & self.digits[place])
            if without:
                entries = without
            else:
                number |= 1 << place
        return number, entries
