"""Draw numbers from numbers, for many at once.

A cryptographic hash costs a microsecond a ledger in Python. What is drawn here need not be safe
from somebody who chooses ledger ids.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]


def mix(words: Words) -> Words:
    """Return words of which each bit depends on all bits of the given ones: different words for
    different ones.

    It is the finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
    """
    words = (words ^ words >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ words >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return words ^ words >> np.uint64(31)


def mix_one(word: int) -> int:
    """Return what `mix` makes of one word below 2^64."""
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    word = (word ^ word >> 27) * 0x94D049BB133111EB & _WORD
    return word ^ word >> 31


_WORD = 2**64 - 1
