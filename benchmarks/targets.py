"""What is promised and what was measured: one line a target."""

from __future__ import annotations

from dataclasses import dataclass


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
