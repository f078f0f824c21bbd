"""The findings as data for the page's script: short rows for the table, and some of them in full.

All text in it is printable ASCII: names come from the cluster, where anybody may have chosen them.
Numbers that may exceed 2^53 are decimal strings, because the script would round them.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from auditor.model.finding import CATALOGUE
from auditor.model.finding_record import FindingRecord
from auditor.page.answers_table import time_line, who_says_what
from auditor.page.selection import choose_in_full, choose_listed
from auditor.report.findings_text import (
    COMMAND_CHARS_MAX,
    WITNESS_CHARS_MAX,
    muted_words,
    one_line,
    owner_text,
    seen_words,
)
from auditor.report.layout import printable
from auditor.witness.next_commands import sort_steps

FULL_BYTES_MAX = 16 * 2**20
"""Most bytes of all findings in full together: a browser reads them in a moment."""
BOOKIES_OF_A_ROW_MAX = 64
"""A row can be filtered by at most this many bookies. A row with more is shown for every bookie."""
COMMANDS_MAX = 20
"""At most this many commands of a finding: there are at most ten, and some that look at topics."""

Json = dict[str, Any]


def findings_data(findings: Sequence[FindingRecord], run_dir: str) -> Json:
    """Return {total, kinds, bookies, rows, full, run_dir}.

    A kind is [name, severity, meaning]. A row is [kind, ledger id, bookie, owner, entries, copies
    found, copies unknown, write quorum, bookies, finding id], with kinds and bookies as indices,
    null for what does not apply, and -1 among its bookies if there are more. A finding that is
    muted has one item more: the day until when. `full` has findings in full, by the index of their
    row.
    """
    listed = choose_listed(findings)
    kinds = list(dict.fromkeys(finding.kind for finding in listed))
    kind_index = {kind: place for place, kind in enumerate(kinds)}
    bookies: dict[str, int] = {}
    rows = [_row(finding, kind_index[finding.kind], bookies) for finding in listed]
    return {
        "total": len(findings),
        "kinds": [
            [kind.value, CATALOGUE[kind].severity.word, CATALOGUE[kind].says] for kind in kinds
        ],
        "bookies": list(bookies),
        "rows": rows,
        "full": _in_full(listed),
        "run_dir": shlex.quote(run_dir) if run_dir == printable(run_dir, len(run_dir)) else None,
    }


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
        bookies.setdefault(printable(one), len(bookies)) for one in named[:BOOKIES_OF_A_ROW_MAX]
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
        "save": [_command(one) for one in steps.save],
        "look": [_command(one) for one in steps.look],
        "change": [_command(one) for one in steps.change],
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
