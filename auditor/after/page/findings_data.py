"""The findings as data for the page's script: short rows for the table, and some of them in full.

A finding in full has the tables of who says what of it: bookies by looks, and bookies by affected
entries.

All text in it is printable ASCII: names come from the cluster, where anybody may have chosen them.
Numbers that may exceed 2^53 are decimal strings, because the script would round them.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from auditor.model.availability import VALID_ANSWERS, AnswerStatus
from auditor.model.finding import CATALOGUE, Kind, Ranges
from auditor.model.finding_record import FindingRecord, RecordedLook
from auditor.model.identity import EntryId
from auditor.report.findings_text import (
    COMMAND_CHARS_MAX,
    WITNESS_CHARS_MAX,
    answer_words,
    by_kind,
    muted_words,
    one_line,
    owner_text,
    seen_words,
    worst,
)
from auditor.report.layout import duration, moment, printable, ranges
from auditor.witness.finding_lines import runbook
from auditor.witness.next_commands import sort_steps

BOOKIES_MAX = 40
"""At most this many bookies of a finding are shown, those that lack entries first."""
LOOKS_MAX = 8
"""At most this many looks of a finding are shown: if there are more, the first and the last
ones."""
RANGES_MAX = 20
"""At most this many ranges of entries of a finding are shown, as in findings.jsonl."""

Json = dict[str, Any]

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


def time_line(finding: FindingRecord) -> list[Json]:
    """Return for each look its day, its time, the time since the one before, what was read, and
    when it was: 0 for the first of these looks, 1 for the last one.
    """
    before, line = None, list[Json]()
    times = [at.timestamp() for look in looks_in_order(finding) if (at := moment(look.at))]
    first, span = min(times, default=0.0), max(times, default=0.0) - min(times, default=0.0)
    for look in looks_in_order(finding):
        at = moment(look.at)
        assert at is not None
        gap = "" if before is None else f"+{duration((at - before).total_seconds())}"
        line.append(
            {
                "day": f"{at:%Y-%m-%d}",
                "clock": f"{at:%H:%M:%S}",
                "gap": gap,
                "says": _says(look),
                "at": round((at.timestamp() - first) / span, 4) if span else 0.0,
            }
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


LISTED_MAX = 100_000
"""At most this many findings are in the page's table. A row takes some 100 bytes, and a browser
filters this many at once."""
IN_FULL_MAX = 1_000
"""At most this many findings have their witness, answers and commands. Each takes some 3 kB; nobody
reads more."""


def share_fairly(wanted: Sequence[int], limit: int) -> list[int]:
    """Return how many of each group to take, at most `limit` together.

    Small groups are taken whole; large ones get equal shares of the rest.
    """
    taken, left = [0] * len(wanted), limit
    order = sorted(range(len(wanted)), key=lambda group: wanted[group])
    for place, group in enumerate(order):
        taken[group] = min(wanted[group], left // (len(order) - place))
        left -= taken[group]
    return taken


def choose_listed(
    findings: Sequence[FindingRecord], limit: int = LISTED_MAX
) -> list[FindingRecord]:
    """Return the findings of the table, the worst kind first, every kind with some.

    If they are at most `limit`, all of them in their order; else the worst of each kind.
    """
    groups = by_kind(findings)
    shares = share_fairly([len(group) for group in groups.values()], limit)
    return [
        finding
        for group, share in zip(groups.values(), shares, strict=True)
        for finding in (group if share == len(group) else worst(group, share))
    ]


def choose_in_full(listed: Sequence[FindingRecord], limit: int = IN_FULL_MAX) -> list[int]:
    """Return the positions in `listed` of the findings to hold in full: the worst of each kind.

    The most important ones come first.
    """
    at = {id(finding): place for place, finding in enumerate(listed)}
    groups = by_kind(listed)
    shares = share_fairly([len(group) for group in groups.values()], limit)
    return [
        at[id(f)]
        for group, share in zip(groups.values(), shares, strict=True)
        for f in worst(group, share)
    ]


FULL_BYTES_MAX = 16 * 2**20
"""Most bytes of all findings in full together: a browser reads them in a moment."""
BOOKIES_OF_A_ROW_MAX = 64
"""A row can be filtered by at most this many bookies. A row with more is shown for every bookie."""
COMMANDS_MAX = 20
"""At most this many commands of a finding: there are at most ten, and some that look at topics."""
MUTE_DAYS = 30
"""Days after the run until which the page proposes to mute a finding."""


def findings_data(
    findings: Sequence[FindingRecord],
    run_dir: str,
    finished_at: str | None = None,
    runbooks: str | None = None,
) -> Json:
    """Return {total, kinds, bookies, rows, full, run_dir, mute}.

    A kind is [name, severity, meaning, address of its runbook or null]. A row is [kind, ledger id,
    bookie, owner, entries, copies found, copies unknown, write quorum, bookies, finding id], with
    kinds and bookies as indices, null for what does not apply, and -1 among its bookies if there
    are more. A finding that is muted has one item more: the day until when. `full` has findings in
    full, by the index of their row. `mute` is a command, or null.
    """
    listed = choose_listed(findings)
    kinds = list(dict.fromkeys(finding.kind for finding in listed))
    kind_index = {kind: place for place, kind in enumerate(kinds)}
    bookies: dict[str, int] = {}
    rows = [_row(finding, kind_index[finding.kind], bookies) for finding in listed]
    return {
        "total": len(findings),
        "kinds": [
            [
                kind.value,
                CATALOGUE[kind].severity.word,
                CATALOGUE[kind].says,
                None if runbooks is None else runbook_address(kind, runbooks),
            ]
            for kind in kinds
        ],
        "bookies": list(bookies),
        "rows": rows,
        "full": _in_full(listed),
        "run_dir": shlex.quote(run_dir) if _is_plain(run_dir) else None,
        "mute": _mute_command(run_dir, finished_at),
    }


def runbook_address(kind: Kind, base: str) -> str:
    """Return where the page on a kind is below `base`, an address of the project's site."""
    return f"{base.rstrip('/')}/{runbook(kind).removeprefix('docs/').removesuffix('.md')}.html"


def _is_plain(text: str) -> bool:
    return text == printable(text, len(text))


def _mute_command(run_dir: str, finished_at: str | None) -> str | None:
    """Return the command that mutes the finding ID; None if it cannot be shown as it must be."""
    finished = moment(finished_at)
    if finished is None or not _is_plain(run_dir):
        return None
    until = finished + timedelta(days=MUTE_DAYS)
    run, output = shlex.quote(run_dir), shlex.quote(run_dir.rpartition("/")[0] or "/")
    return f"auditor mute ID {run} --output {output} --until {until:%Y-%m-%d} --why 'say why'"


def _row(finding: FindingRecord, kind: int, bookies: dict[str, int]) -> list[Any]:
    ledger, bookie, copies = finding.ledger_id, finding.bookie_id, finding.copies
    named = list(
        dict.fromkeys(
            [
                *([bookie] if bookie else ()),
                *finding.missing_on,
                *finding.facts.corrupt_copies,
            ]
        )
    )
    numbers = [
        bookies.setdefault(printable(bookie), len(bookies))
        for bookie in named[:BOOKIES_OF_A_ROW_MAX]
    ]
    return [
        kind,
        None if ledger is None else str(ledger),
        bookies[printable(bookie)] if bookie else None,
        owner_text(finding.owner) if finding.owner else "",
        str(finding.entries_total),
        copies.confirmed if copies else None,
        copies.unknown if copies else None,
        copies.write_quorum if copies else None,
        numbers + ([-1] if len(named) > BOOKIES_OF_A_ROW_MAX else []),
        printable(finding.id),
        *([printable(finding.muted.until)] if finding.muted else ()),
    ]


def _in_full(listed: Sequence[FindingRecord]) -> dict[str, Json]:
    """Return the findings that are held in full, by their place, up to FULL_BYTES_MAX."""
    full: dict[str, Json] = {}
    left = FULL_BYTES_MAX
    for place in choose_in_full(listed):
        finding = finding_in_full(listed[place])
        left -= len(json.dumps(finding))
        if left < 0:
            break
        full[str(place)] = finding
    return full


def finding_in_full(finding: FindingRecord) -> Json:
    """Return everything that the page shows of a finding when it is opened."""
    steps = sort_steps(finding.next[:COMMANDS_MAX])
    return {
        "line": one_line(finding),
        "muted": muted_words(finding),
        "seen": seen_words(finding),
        "witness": printable(finding.witness, WITNESS_CHARS_MAX),
        "time_line": time_line(finding),
        "answers": who_says_what(finding),
        "notes": [printable(note, COMMAND_CHARS_MAX) for note in steps.notes],
        "save": [_command(line) for line in steps.save],
        "look": [_command(line) for line in steps.look],
        "change": [_command(line) for line in steps.change],
        "page": printable(finding.runbook),
        "more": _entries_beyond(finding),
    }


def _command(command: str) -> Json:
    """Return a command as `text`, and `copy`: whether it is shown unchanged.

    Others get no copy button: a control character in a name must not reach a terminal.
    """
    shown = printable(command, COMMAND_CHARS_MAX)
    return {"text": shown, "copy": shown == command}


def _entries_beyond(finding: FindingRecord) -> str:
    """Return how many entries are hit beyond the ranges that the finding stores, as digits; "" if
    none.
    """
    return str(finding.entries_unnamed or "")
