"""The tables of what each bookie said: bookies by looks, and bookies by affected entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from auditor.model.availability import VALID_ANSWERS, AnswerStatus
from auditor.model.finding import Ranges
from auditor.model.finding_record import FindingRecord, RecordedLook
from auditor.model.identity import EntryId
from auditor.report.findings_text import answer_words
from auditor.report.layout import duration, moment, printable, ranges

BOOKIES_MAX = 40
"""At most this many bookies of a finding are shown, those that lack entries first."""
LOOKS_MAX = 8
"""At most this many looks of a finding are shown: if there are more, the first and the last
ones."""
RANGES_MAX = 20
"""At most this many ranges of entries of a finding are shown, as in findings.jsonl."""

LACKS, LACKS_SOME, CORRUPT, HOLDS, UNKNOWN, NOT_ASKED, NONE_MISSING, NOT_DUE, NOTHING_SAID = (
    "lacks", "lacks some", "digest wrong", "holds", "unknown", "not asked", "none missing",
    "not due", "",
)  # fmt: skip
"""The meaning of a cell for one bookie and one range of entries.

NONE_MISSING: it should hold some of these, gave its list, and is not said to lack any. NOT_DUE: it
should hold none of these. NOTHING_SAID: the finding does not tell which of the two."""

_VALID = frozenset(status.value for status in VALID_ANSWERS)


def looks_in_order(finding: FindingRecord) -> Sequence[RecordedLook]:
    """Return the looks that are shown, oldest first."""
    looks = finding.looks
    return looks if len(looks) <= LOOKS_MAX else (looks[0], *looks[1 - LOOKS_MAX :])


def time_line(finding: FindingRecord) -> list[dict[str, str]]:
    """Return for each look its day, its time, the time since the one before, and what was read."""
    before, line = None, []
    for look in looks_in_order(finding):
        at = moment(look.at)
        assert at is not None
        gap = "" if before is None else f"+{duration((at - before).total_seconds())}"
        line.append(
            {"day": f"{at:%Y-%m-%d}", "clock": f"{at:%H:%M:%S}", "gap": gap, "says": _says(look)}
        )
        before = at
    return line


def _says(look: RecordedLook) -> str:
    version = look.znode_version
    parts = ["" if version is None else f"version {version}", "marked" if look.marked else ""]
    return ", ".join(filter(None, parts))


def who_says_what(finding: FindingRecord) -> dict[str, Any]:
    """Return the table: `ranges` are its columns, `rows` have a bookie, its part, answers, cells.

    `bookies_left` counts bookies that are not shown. A finding without entries has no cells.
    """
    looks = looks_in_order(finding)
    columns = finding.entries[:RANGES_MAX]
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


def _bookies(finding: FindingRecord) -> Iterator[str]:
    """Yield each bookie of the finding once: those that lack entries first."""
    answered = {bookie for look in finding.looks for bookie in look.answers}
    order = [
        *finding.missing_on,
        *finding.facts.corrupt_copies,
        *finding.facts.found_first,
        *(finding.segment.ensemble if finding.segment else ()),
        *sorted(answered),
    ]
    yield from dict.fromkeys(order)


def cell(finding: FindingRecord, bookie: str, pair: tuple[EntryId, EntryId]) -> str:
    """Return what is known of one bookie and one range of entries."""
    first, last = pair
    lacking = finding.missing_on.get(bookie, ())
    if lacked := _overlap(lacking, first, last):
        return LACKS if lacked == last - first + 1 else LACKS_SOME
    if any(first <= entry <= last for entry in finding.facts.corrupt_copies.get(bookie, ())):
        return CORRUPT
    found = finding.facts.found_first.get(bookie)
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
    is_cut = len(lacking) >= RANGES_MAX and last > lacking[-1][1]
    is_list = newest == AnswerStatus.HELD.value
    return NONE_MISSING if is_due and is_list and not is_cut else NOTHING_SAID


def _is_due(finding: FindingRecord, bookie: str, first: int, last: int) -> bool | None:
    """Return whether a bookie should hold any of these entries; None if that is not known.

    Entry e belongs on the positions e, e + 1, ... of the ensemble, as many as the write quorum.
    """
    segment, copies = finding.segment, finding.copies
    if segment is None or copies is None or not copies.write_quorum:
        return None
    if first < segment.first_entry_id or last > segment.last_entry_id:
        return None
    ensemble, quorum = segment.ensemble, copies.write_quorum
    places = {place for place, member in enumerate(ensemble) if member == bookie}
    some = range(first, min(last, first + len(ensemble) - 1) + 1)
    return any((entry + step) % len(ensemble) in places for entry in some for step in range(quorum))


def _overlap(runs: Ranges, first: int, last: int) -> int:
    """Return how many entries of first..last are in `runs`, which are disjoint."""
    return sum(max(0, min(last, end) - max(first, start) + 1) for start, end in runs)


def _newest_answer(finding: FindingRecord, bookie: str) -> str | None:
    statuses = [look.answers[bookie] for look in finding.looks if bookie in look.answers]
    return statuses[-1] if statuses else None


def _part(finding: FindingRecord, bookie: str) -> str:
    """Return why the bookie is in the table; "" if only its answer is known."""
    facts, segment = finding.facts, finding.segment
    if bookie in facts.write_set:
        entry = facts.worst_entry
        return "in a blocked write set" if entry is None else f"should hold entry {entry}"
    if segment is not None and bookie in segment.ensemble:
        return "in the ensemble"
    return "found there by the search" if bookie in facts.found_first else ""
