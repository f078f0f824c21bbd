"""Whole sentences of the text report: the page uses the report's words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from auditor.model.summary import Summary
from auditor.report.outcome_text import outcome_sentences
from auditor.report.surroundings_text import note_sentences
from auditor.report.text import verdict_notes

UNBROKEN = 1_000_000
"""A width at which no sentence is broken into lines."""


class Line(NamedTuple):
    """A line of a section, and its indentation. Lines without indentation are sentences."""

    depth: int
    text: str


def headline(summary: Summary) -> str:
    """Return what follows the outcome word in the first lines of the report."""
    return outcome_sentences(summary)


def notes(summary: Summary) -> list[str]:
    """Return what a reader must know before the counts, as the report has it below its headline."""
    return [*verdict_notes(summary), *note_sentences(summary)]


def section_lines(section: Iterable[str]) -> list[Line]:
    """Return the lines of a section of the report that was made UNBROKEN, without its heading."""
    return list(_lines(iter(section)))


def _lines(section: Iterator[str]) -> Iterator[Line]:
    next(section, None)
    for line in section:
        text = line.strip()
        if text:
            yield Line((len(line) - len(line.lstrip())) // 2 - 1, text)
