"""Name the ledgers of a bookie that keeps one index file for each: `current/XX/YY/ID.idx`, in hex.

InterleavedLedgerStorage and SortedLedgerStorage do. Only names are read.
"""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from auditor.model.identity import LEDGER_ID_MAX, LedgerId
from auditor.wire.ledger_pages import LedgerPage

FILES_A_PAGE_MAX = 50_000
"""Ledgers in one answer. Each page reads the names of all files again: larger pages than those of a
sorted index."""
DEPTH = 2
"""Directories between `current` and the files."""

_FILE = re.compile(r"([0-9a-f]{1,16})\.idx")


def page_of_files(
    directories: Sequence[Path], first: LedgerId, ledgers_max: int = FILES_A_PAGE_MAX
) -> LedgerPage:
    """Return the ledgers from `first` on that have an index file in one of these directories.

    Costs a walk through all files; memory holds the page. Raises OSError if a directory cannot be
    read.
    """
    files = (file for directory in directories for file in index_files(directory))
    ids = (ledger_id for ledger_id, _ in files if ledger_id >= first)
    enough = (ledgers_max + 1) * len(directories)  # a ledger may have a file in each of them
    found = sorted(set(heapq.nsmallest(enough, ids)))
    return LedgerPage(
        tuple(found[:ledgers_max]), found[ledgers_max] if len(found) > ledgers_max else None
    )


def index_files(directory: Path) -> Iterator[tuple[LedgerId, Path]]:
    """Yield each ledger with an index file below a `current` directory, and the file, in no order.

    A directory that the bookie removes meanwhile has none. Raises OSError if one cannot be read.
    """
    return _files_in(str(directory), DEPTH)


def _files_in(directory: str, depth: int) -> Iterator[tuple[LedgerId, Path]]:
    with suppress(FileNotFoundError), os.scandir(directory) as entries:
        for entry in entries:
            if depth and len(entry.name) <= 2 and entry.is_dir(follow_symlinks=False):
                yield from _files_in(entry.path, depth - 1)
            elif not depth and (match := _FILE.fullmatch(entry.name)):
                ledger_id = int(match[1], 16)
                if ledger_id <= LEDGER_ID_MAX:
                    yield ledger_id, Path(entry.path)
