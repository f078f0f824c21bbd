"""Causes for a person: what explains most of the ledgers that are hit, first, and in which file their ids are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from auditor.report.layout import count, of, paint, printable, wrapped

KINDS_SHOWN_MAX = 4
"""Kinds and reasons named for one cause; the rest is counted."""
SAYS_CHARS_MAX = 400
"""Characters of a cause's sentence."""
SAYS_LINES_MAX = 4


def causes_section(summary: Mapping[str, Any], width: int, color: bool) -> Iterator[str]:
    """Three lines or so a cause, at most ten causes (`accounting.causes`), however many ledgers are hit."""
    rows = list(summary.get("causes") or ())
    if not rows:
        return
    yield paint("Causes, the one that explains most first", "bold", color)
    for number, row in enumerate(rows, start=1):
        says = printable(row["says"], SAYS_CHARS_MAX)
        yield from wrapped(f"{number}. {says}", width, "  ", SAYS_LINES_MAX, hang="   ")
        yield from wrapped(f"{of(int(row['ledgers']), 'ledger')}: {_kinds(row['kinds'])}", width, "     ", 2, hang="  ")
        yield f"     ids: {printable(row['file'])}"
    rest, unexplained = summary.get("causes_rest") or {}, int(summary.get("ledgers_without_cause") or 0)
    if rest.get("causes"):
        more = of(int(rest["causes"]), "more cause"), of(int(rest["ledgers"]), "ledger")
        yield f"  ... and {more[0]} of {more[1]}, without a file"
    if unexplained:
        yield f"  {of(unexplained, 'ledger is', 'ledgers are')} hit beside these, for no cause in common"
    yield ""


def _kinds(kinds: Mapping[str, int]) -> str:
    shown = [f"{printable(kind)} {count(int(number))}" for kind, number in list(kinds.items())[:KINDS_SHOWN_MAX]]
    more = len(kinds) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
