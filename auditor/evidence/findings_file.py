"""findings.jsonl: one finding a line, the same fields in the same order, ASCII.

A file that is read may come from an earlier run, or from somebody else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from auditor.errors import OutputError
from auditor.model.finding import Kind
from auditor.model.finding_record import FIELDS, FindingHistory, FindingRecord


def parse_json(text: str, name: str) -> Any:
    """Return the value in a JSON text.

    Raises OutputError, which calls the text `name`, if it is not JSON, is nested too deeply for
    Python, or has a number with too many digits for Python.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise OutputError(f"{name} is nested too deeply: the auditor did not write it") from None
    except ValueError as error:
        raise OutputError(f"{name} is not JSON ({error}): it is damaged") from None


LINE_CHARS_MAX = 16 * 2**20
"""Longest line accepted, in characters. A finding is shorter: it has at most 20 ranges a bookie."""


def text(findings: Iterable[FindingRecord]) -> str:
    """Return the file with these findings, in the order given."""
    return "".join(f"{finding.line()}\n" for finding in findings)


def parse(text_lines: Iterable[str], name: str = "findings.jsonl") -> Iterator[FindingRecord]:
    """Yield the findings in these lines. Blank lines are skipped.

    A file of an earlier version may lack the history of its findings. It is read as unknown. Raises
    `OutputError` that names the line which is not a finding.
    """
    for number, line in enumerate(text_lines, start=1):
        if not line.strip():
            continue
        if len(line) > LINE_CHARS_MAX:
            raise OutputError(
                f"{name} line {number} is longer than {LINE_CHARS_MAX} characters: it is"
                " not a finding"
            )
        yield _parse_finding(line, f"{name} line {number}")


def _parse_finding(line: str, where: str) -> FindingRecord:
    try:
        stored = json.loads(line)
    except (ValueError, RecursionError):
        raise OutputError(
            f"{where} is not JSON: the file was cut short or changed; use another run"
        ) from None
    if not isinstance(stored, dict) or any(name not in stored for name in FIELDS):
        raise OutputError(
            f"{where} lacks a field of a finding: this file was not written by the auditor"
        )
    if not isinstance(stored["kind"], str) or stored["kind"] not in Kind.__members__:
        raise OutputError(
            f"{where} has the kind {stored['kind']!r}, which this version does not know: use the"
            " version that wrote it"
        )
    try:
        return FindingRecord.from_json(FindingHistory().as_json() | stored)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise OutputError(
            f"{where} has a field that no finding has ({error}): the file was changed; use another"
            " run"
        ) from None
