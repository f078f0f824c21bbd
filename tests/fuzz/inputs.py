"""Inputs for a target without Atheris: Hypothesis over bytes for the long form, random bytes for
the quick one.

Random bytes are a hundred times faster than Hypothesis, which so few inputs cannot guide.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from hypothesis import strategies as st
from targets import Target

PRODUCT = str(Path(__file__).parents[2] / "auditor")
PIECE_BYTES_MAX = 16
CHANGES_MAX = 6
SORTS = ("insert", "replace", "delete", "repeat", "splice")
NUMBERS = tuple(
    (number % 2**64).to_bytes(width, order)
    for number in (0, 1, 127, 128, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, -1)
    for width in (1, 4, 8)
    for order in ("big", "little")
    if number % 2**64 < 256**width
)
"""Numbers at which formats break, in each width and byte order."""
WORDS = (
    b"\x1b[31m",
    b"\n",
    b"\0",
    b"\xff\xfe",
    "\u202e".encode(),
    b"\xed\xa0\x80",
    b"9" * 5000,
    b"[" * 3000,
    b"\xc2\xb2",
    b"-1",
)


def random_inputs(target: Target, seed: int, count: int) -> Iterator[bytes]:
    """Yield `count` inputs: seeds and found cases with changes, the same for the same seed."""
    chance = random.Random(f"{target.name}/{seed}")
    seeds = [*target.seeds, *target.found()]
    for _ in range(count):
        changes = [
            (chance.choice(SORTS), chance.random(), _piece(chance, seeds))
            for _ in range(chance.randint(1, CHANGES_MAX))
        ]
        yield apply_changes(chance.choice(seeds), changes)[: target.bytes_max]


def _piece(chance: random.Random, seeds: Sequence[bytes]) -> bytes:
    pieces = (
        chance.randbytes(chance.randint(1, PIECE_BYTES_MAX)),
        chance.choice(NUMBERS),
        chance.choice(WORDS),
    )
    return chance.choice((*pieces, chance.choice(seeds)))


def inputs(target: Target) -> st.SearchStrategy[bytes]:
    """Return a strategy for inputs: any bytes, or seeds and found cases with changes."""
    seeds = [*target.seeds, *target.found()]
    change = st.tuples(
        st.sampled_from(SORTS),
        st.floats(0, 1),
        st.one_of(
            st.binary(min_size=1, max_size=PIECE_BYTES_MAX),
            st.sampled_from((*NUMBERS, *WORDS)),
            st.sampled_from(seeds),
        ),
    )
    changed = st.builds(
        apply_changes, st.sampled_from(seeds), st.lists(change, max_size=CHANGES_MAX)
    )
    return st.one_of(changed, changed, st.binary(max_size=64)).map(
        lambda data: data[: target.bytes_max]
    )


def apply_changes(seed: bytes, changes: Sequence[tuple[str, float, bytes]]) -> bytes:
    """Return the seed after these changes, each at its share of the length."""
    data = seed
    for what, share, piece in changes:
        at = int(share * len(data))
        if what == "insert":
            data = data[:at] + piece + data[at:]
        elif what == "replace":
            data = data[:at] + piece + data[at + len(piece) :]
        elif what == "delete":
            data = data[:at] + data[at + len(piece) :]
        elif what == "repeat":
            data = data[:at] + data[at : at + len(piece)] * 3 + data[at:]
        else:
            data = data[:at] + piece
    return data


def count_lines(work: Callable[[], object]) -> int:
    """Return how many different lines of the product `work` runs: the number that Hypothesis
    maximises.
    """
    lines: set[tuple[str, int]] = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PRODUCT):
            return None
        if event == "line":
            lines.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return len(lines)
