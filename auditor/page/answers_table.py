"""The tables of who says what of a finding: bookies by looks, and bookies by affected entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from auditor.model.availability import VALID_ANSWERS, AnswerStatus
from auditor.report.findings_text import FindingRow, answer_words
from auditor.report.layout import duration, moment, printable, ranges

BOOKIES_MAX = 40
"""Bookies shown of one finding, those that lack entries first."""
LOOKS_MAX = 8
"""Looks shown of one finding: the first one and the last ones if there are more."""
RANGES_MAX = 20
"""Ranges of entries shown of one finding: as many as findings.jsonl has."""

LACKS, LACKS_SOME, CORRUPT, HOLDS, UNKNOWN, NOT_ASKED, NONE_MISSING, NOT_DUE, NOTHING_SAID = (
    "lacks", "lacks some", "digest wrong", "holds", "unknown", "not asked", "none missing",
    "not due", "",
)  # fmt: skip
"""What a cell says of one bookie and one range of entries.

NONE_MISSING: it should hold some of these, gave its list, and is not said to lack any. NOT_DUE: it
should hold none of these. NOTHING_SAID: the finding does not tell which of both.
"""

_VALID = frozenset(status.value for status in VALID_ANSWERS)

Ranges = Sequence[Sequence[int]]


def looks_in_order(finding: FindingRow) -> list[Mapping[str, Any]]:
    """Return the looks that are shown, oldest first."""
    looks = list(finding.get("looks") or ())
    return looks if len(looks) <= LOOKS_MAX else [looks[0], *looks[1 - LOOKS_MAX :]]


def time_line(finding: FindingRow) -> list[dict[str, str]]:
    """Return for each look its day, its time, how long after the one before, and what was read."""
    before, line = None, []
    for look in looks_in_order(finding):
        at = moment(str(look["at"]))
        assert at is not None
        gap = "" if before is None else f"+{duration((at - before).total_seconds())}"
        line.append(
            {"day": f"{at:%Y-%m-%d}", "clock": f"{at:%H:%M:%S}", "gap": gap, "says": _says(look)}
        )
        before = at
    return line


def _says(look: Mapping[str, Any]) -> str:
    version = look.get("znode_version")
    parts = [
        "" if version is None else f"version {version}",
        "marked" if look.get("marked") else "",
    ]
    return ", ".join(filter(None, parts))


def who_says_what(finding: FindingRow) -> dict[str, Any]:
    """Return the table: `ranges` are its columns, `rows` have a bookie, its part, answers, cells.

    `bookies_left` counts bookies that are not shown. A finding without entries has no cells.
    """
    looks = looks_in_order(finding)
    columns: Ranges = list(finding.get("entries") or ())[:RANGES_MAX]
    bookies = list(_bookies(finding))
    return {
        "ranges": [ranges([pair]) for pair in columns],
        "rows": [
            {
                "bookie": printable(bookie),
                "part": _part(finding, bookie),
                "answers": [answer_words(look, bookie) for look in looks],
                "cells": [cell(finding, bookie, pair) for pair in columns],
            }
            for bookie in bookies[:BOOKIES_MAX]
        ],
        "bookies_left": max(0, len(bookies) - BOOKIES_MAX),
    }


def _bookies(finding: FindingRow) -> Iterator[str]:
    """Yield each bookie of the finding once: those that lack entries first."""
    answered = {bookie for look in finding.get("looks") or () for bookie in look.get("answers", {})}
    segment = finding.get("segment") or {}
    order = [
        *(finding.get("missing_on") or ()),
        *corrupt_copies(finding),
        *_found_first(finding),
        *segment.get("ensemble", ()),
        *sorted(answered),
    ]
    yield from dict.fromkeys(order)


def cell(finding: FindingRow, bookie: str, pair: Sequence[int]) -> str:
    """Return what is known of one bookie and one range of entries."""
    first, last = pair
    lacking = _overlap((finding.get("missing_on") or {}).get(bookie, ()), first, last)
    if lacking:
        return LACKS if lacking == last - first + 1 else LACKS_SOME
    if any(first <= entry <= last for entry in corrupt_copies(finding).get(bookie, ())):
        return CORRUPT
    found = _found_first(finding).get(bookie)
    if found is not None and first <= found <= last:
        return HOLDS if first == last else f"{HOLDS} {found}"
    newest = _newest_answer(finding, bookie)
    if newest is None:
        return NOT_ASKED
    if newest not in _VALID:
        return UNKNOWN
    is_due = _is_due(finding, bookie, first, last)
    if is_due is False:
        return NOT_DUE
    lacking = (finding.get("missing_on") or {}).get(bookie, ())
    is_cut = len(lacking) >= RANGES_MAX and last > lacking[-1][1]
    is_list = newest == AnswerStatus.HELD.value
    return NONE_MISSING if is_due and is_list and not is_cut else NOTHING_SAID


def _is_due(finding: FindingRow, bookie: str, first: int, last: int) -> bool | None:
    """Return whether a bookie should hold any of these entries; None where that is not known.

    Entry e belongs on the positions e, e + 1, ... of the ensemble, as many as the write quorum.
    """
    segment, copies = finding.get("segment"), finding.get("copies")
    if not segment or not copies or not copies.get("write_quorum"):
        return None
    end = segment["last_entry_id"]
    if first < segment["first_entry_id"] or (end is not None and last > end):
        return None
    ensemble, quorum = segment["ensemble"], int(copies["write_quorum"])
    places = {place for place, member in enumerate(ensemble) if member == bookie}
    some = range(first, min(last, first + len(ensemble) - 1) + 1)
    return any((entry + step) % len(ensemble) in places for entry in some for step in range(quorum))


def _overlap(runs: Ranges, first: int, last: int) -> int:
    """Return how many entries of first..last are in `runs`, which are disjoint."""
    return sum(max(0, min(last, end) - max(first, start) + 1) for start, end in runs)


def _newest_answer(finding: FindingRow, bookie: str) -> str | None:
    statuses = [
        str(look["answers"][bookie])
        for look in finding.get("looks") or ()
        if bookie in look.get("answers", {})
    ]
    return statuses[-1] if statuses else None


def _facts(finding: FindingRow) -> Mapping[str, Any]:
    """Return the facts on entries. Those of UNDERREPLICATED_UNRECOVERABLE are one level down."""
    facts = finding.get("facts") or {}
    inner = facts.get("entries")
    return inner if isinstance(inner, Mapping) else facts


def corrupt_copies(finding: FindingRow) -> dict[str, list[int]]:
    """Return the bookies that sent entries with a wrong digest, with these entries
    (ENTRY_CORRUPT).
    """
    copies = _facts(finding).get("copies") or ()
    return {str(bookie): list(entries) for bookie, entries in copies}


def _found_first(finding: FindingRow) -> dict[str, int]:
    """Return the bookies on which the search found entries, each with the lowest of them."""
    search = _facts(finding).get("search") or {}
    return dict(zip(search.get("found_on") or (), search.get("found_first") or (), strict=False))


def _part(finding: FindingRow, bookie: str) -> str:
    """Return why the bookie is in the table; "" if only its answer is known."""
    facts, segment = _facts(finding), finding.get("segment") or {}
    if bookie in (facts.get("write_set") or ()):
        entry = facts.get("worst_entry")
        return "in a blocked write set" if entry is None else f"should hold entry {entry}"
    if bookie in segment.get("ensemble", ()):
        return "in the ensemble"
    return "found there by the search" if bookie in _found_first(finding) else ""
