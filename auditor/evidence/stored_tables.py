"""What a finished run stored in each table, so that a part that is lost later is noticed.

A table that lacks a file looks like one with fewer rows: ledgers would be judged by less than was
seen of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from auditor.errors import OutputError
from auditor.evidence.local_files import is_table_file
from auditor.evidence.run_directory import Place

STORED = "stored"
"""The field of summary.json: `{table: {"files": number, "bytes": number}}`."""
KEPT = ("evidence", "verdicts")
"""Directories of a run whose tables stay when it has finished."""


def count_stored(sizes: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Return the number of files and bytes of each table. `sizes` has the bytes of each file."""
    found: dict[str, dict[str, int]] = {}
    for file, size_bytes in sizes.items():
        if not is_table_file(file):
            continue
        folders = file.split("/")[:-1]
        table = found.setdefault("/".join(folders[: 1 + (folders[0] == "evidence")]), _nothing())
        table["files"] += 1
        table["bytes"] += size_bytes
    return dict(sorted(found.items()))


def _nothing() -> dict[str, int]:
    return {"files": 0, "bytes": 0}


def require_stored(run: Place, summary: Mapping[str, Any]) -> None:
    """Raise OutputError if a table of a finished run is not what its summary says was stored.

    Costs one listing of the run's files. Does nothing if the summary does not say it.
    """
    stored = summary.get(STORED)
    if stored is None:
        return
    present = count_stored(run.file_sizes(*KEPT))
    wrong = [name for name in {**stored, **present} if stored.get(name) != present.get(name)]
    if wrong:
        name = min(wrong)
        was, now = (one.get(name) or _nothing() for one in (stored, present))
        more = f", and {len(wrong) - 1} more tables are not as stored" if len(wrong) > 1 else ""
        raise OutputError(
            f"{run.address} has lost a part of what the run stored, or was changed: {name} has"
            f" {_words(now)}, and the run stored {_words(was)}{more}; use another run, or a copy of"
            " this one"
        )


def _words(table: Mapping[str, int]) -> str:
    files = table["files"]
    return f"{files} file{'' if files == 1 else 's'} of {table['bytes']:,} bytes"
