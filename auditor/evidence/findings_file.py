"""findings.jsonl: one finding a line, the same fields in the same order, ASCII.

What is read was written by an earlier run, or by somebody in its place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from auditor.errors import OutputError
from auditor.model.finding import Kind


def parse_json(text: str, name: str) -> Any:
    """Return the value in a JSON text.

    Raises OutputError, which calls the text `name`, if it is not JSON, is nested deeper than
    Python's stack, or has a number of more digits than Python converts.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise OutputError(f"{name} is nested too deeply: the auditor did not write it") from None
    except ValueError as error:
        raise OutputError(f"{name} is not JSON ({error}): it is damaged") from None


FIELDS = (
    "id", "kind", "family", "severity", "ledger_id", "bookie_id", "owner", "segment", "entries",
    "entries_total",
    "missing_on", "copies", "facts", "witness", "looks", "next", "runbook", "assurance",
)  # fmt: skip
"""The fields of contract section 4, in the order they are written."""
HISTORY_FIELDS = ("first_seen", "runs_seen", "muted")
"""The fields that follow. A file of an earlier version may lack them; they are read as null.

Any other fields follow in alphabetical order."""

LINE_CHARS_MAX = 16 * 2**20
"""Longest line accepted, in characters. A finding is shorter: it has at most 20 ranges a bookie."""


def line(finding: Mapping[str, Any]) -> str:
    """Return one finding as one line, ending in a newline. Absent fields are written as null."""
    ordered = {name: finding.get(name) for name in (*FIELDS, *HISTORY_FIELDS)}
    ordered.update({name: finding[name] for name in sorted(finding) if name not in ordered})
    return json.dumps(ordered, allow_nan=False, separators=(",", ":")) + "\n"


def lines(findings: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Return each finding as one line, in the order given."""
    return map(line, findings)


def parse(text_lines: Iterable[str], name: str = "findings.jsonl") -> Iterator[dict[str, Any]]:
    """Yield the findings in these lines. Blank lines are skipped.

    Raises `OutputError` that names the line which is not a finding."""
    for number, text in enumerate(text_lines, start=1):
        if not text.strip():
            continue
        if len(text) > LINE_CHARS_MAX:
            raise OutputError(
                f"{name} line {number} is longer than {LINE_CHARS_MAX} characters: it is"
                " not a finding"
            )
        yield _parse_finding(text, f"{name} line {number}")


def _parse_finding(text: str, where: str) -> dict[str, Any]:
    try:
        finding = json.loads(text)
    except (ValueError, RecursionError):
        raise OutputError(
            f"{where} is not JSON: the file was cut short or changed; use another run"
        ) from None
    if not isinstance(finding, dict) or any(name not in finding for name in FIELDS):
        raise OutputError(
            f"{where} lacks a field of a finding: this file was not written by the auditor"
        )
    if not isinstance(finding["kind"], str) or finding["kind"] not in Kind.__members__:
        raise OutputError(
            f"{where} has the kind {finding['kind']!r}, which this version does not know: use the"
            " version that wrote it"
        )
    return {**finding, **{name: finding.get(name) for name in HISTORY_FIELDS}}
