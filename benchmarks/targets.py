"""What is promised and what was measured: one line a target."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Target:
    """One promise. `figures` are what it was judged by, ready to print."""

    promise: str
    met: bool
    figures: tuple[str, ...]

    def __str__(self) -> str:
        lines = [
            f"{'MET   ' if self.met else 'MISSED'}  {self.promise}",
            *(f"          {figure}" for figure in self.figures),
        ]
        return "\n".join(lines)


def measure_rows(
    text: str | None,
    targets: Callable[[Path, int, int], Iterable[Target]],
    ledgers: int,
    rounds: int,
) -> int:
    """Be the command line of a benchmark on many ledgers: measure its targets, print each as soon
    as it is known, and return the exit code, 1 if one was missed.

    `text` is its help; `ledgers` and `rounds` are the defaults of its flags.
    """
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ledgers", type=int, default=ledgers)
    parser.add_argument("--rounds", type=int, default=rounds)
    chosen = parser.parse_args()
    missed = 0
    with tempfile.TemporaryDirectory() as directory:
        for target in targets(Path(directory), chosen.ledgers, chosen.rounds):
            print(target, flush=True)
            missed += not target.met
    return 1 if missed else 0
