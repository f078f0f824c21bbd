"""Render one finding in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from auditor.model.finding import CATALOGUE, RANGES_MAX, Severity
from auditor.model.finding_record import FindingRecord
from auditor.report.changes_text import muted_words, seen_words
from auditor.report.findings_text import commands_of, matrix, one_line
from auditor.report.layout import of, paint, printable, ranges, table, wrap

WITNESS_CHARS_MAX = 20_000
"""At most this many characters of a witness are shown. It is a few sentences."""
LOOKS_INDENT = "    "


def render_finding(finding: FindingRecord, width: int, color: bool) -> str:
    """Return everything that is known of a finding: facts, witness, looks, commands and page."""
    return "\n".join([*_lines(finding, width, color), ""])


def _lines(finding: FindingRecord, width: int, color: bool) -> Iterator[str]:
    hue = "red" if finding.severity is Severity.CRITICAL else "yellow"
    head = f"{finding.severity.name} {finding.kind.value}"
    yield f"{paint(head, hue, color)}  {printable(finding.id)}"
    yield from wrap(CATALOGUE[finding.kind].says, width, "  ")
    yield from wrap(one_line(finding), width, "  ", hang="  ")
    for words in filter(None, (seen_words(finding), muted_words(finding))):
        yield from wrap(words, width, "  ", hang="  ")
    yield ""
    yield from wrap(printable(finding.witness, WITNESS_CHARS_MAX), width, "  ")
    yield ""
    yield from _entries(finding, width)
    yield "  What each bookie answered"
    yield from matrix(finding, LOOKS_INDENT)
    yield ""
    if finding.next:
        yield "  What to do: save, then look"
        yield from commands_of(finding, width)
        yield ""
    yield from table([["page", printable(finding.runbook or "none")]], "  ")


def _entries(finding: FindingRecord, width: int) -> Iterator[str]:
    """Yield every stored range of entries, and what each bookie lacks."""
    stored, rest = finding.entries, finding.entries_unnamed
    if not stored:
        return
    more = f", and {of(rest, 'more entry', 'more entries')}" if rest > 0 else ""
    yield from wrap(f"Entries {ranges(stored, len(stored))}{more}", width, "  ", hang="  ")
    for bookie, lacking in finding.missing_on.items():
        yield from wrap(
            f"{printable(bookie)} lacks {ranges(lacking, len(lacking))}{_more_ranges(lacking)}",
            width,
            LOOKS_INDENT,
            hang="  ",
        )
    yield ""


def _more_ranges(stored: Sequence[Sequence[int]]) -> str:
    """Return the words after stored ranges that may not be all: further ranges are not counted."""
    return " ..." if len(stored) >= RANGES_MAX else ""
