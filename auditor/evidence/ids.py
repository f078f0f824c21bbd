"""Arrays of ledger ids and of other whole numbers, each once and in order."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ids: TypeAlias = npt.NDArray[np.int64]
"""Ledger ids, ascending, each once."""


def distinct_numbers(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the different numbers, ascending. Costs a sort.

    `numpy.unique` hashes them before it sorts, which takes some 40 times as long for millions of
    different ones.
    """
    in_order = np.sort(numbers)
    return in_order[last_of_each(in_order)]


def last_of_each(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which of the sorted numbers are the last of several equal ones."""
    return np.append(numbers[1:] != numbers[:-1], True)[: len(numbers)]
