"""The form of a fuzz target, and the law of all targets.

A target gives foreign bytes to the code that reads them. The code may raise what the target
declares, and nothing else. `feed` also asserts what must be true of every value that is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

FOUND = Path(__file__).parent / "found"
"""Inputs that once broke a target, each a file in the folder of its target."""
ZNODE_BYTES_MAX = 4096
"""Longest input that is made for a znode. Real ones have up to 1 MiB; length alone finds nothing
more.
"""


@dataclass(frozen=True)
class Target:
    """Code that reads foreign bytes. `seeds` are valid inputs, from which others are made.

    `memory_mib_max` is what the process may hold while it reads one input, Python and libraries
    (some 300 MiB with Arrow) included.
    """

    name: str
    feed: Callable[[bytes], object]
    seeds: Sequence[bytes]
    declared: tuple[type[Exception], ...] = ()
    bytes_max: int = ZNODE_BYTES_MAX
    memory_mib_max: int = 1024
    quick_examples: int = 150

    def found(self) -> list[bytes]:
        """Return the inputs that once broke this target, in the order of their names."""
        return [path.read_bytes() for path in sorted((FOUND / self.name).glob("*.bin"))]


def try_input(target: Target, data: bytes) -> bool:
    """Return whether the input was accepted. Raises on a breach of the law.

    The law: only a declared error is raised, and its text says what is wrong.
    """
    try:
        target.feed(data)
    except target.declared as error:
        assert str(error).strip(), f"{type(error).__name__} says nothing"
        str(error).encode("utf-8", "backslashreplace")
        return False
    return True


def check_storable(text: str | None) -> None:
    """Assert that a text can be written to a table or a file: lone surrogates cannot be."""
    if text is not None:
        text.encode("utf-8")
