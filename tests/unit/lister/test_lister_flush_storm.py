"""A storm of flushes and compactions of the index that another process writes: no list has a false
hole.

The write buffers have 64 KiB, the smallest there are, so a memtable is flushed every few batches.
The quick form checks some hundred lists, the long form checks them for ten minutes.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
from support.index_writer import FIRST

from auditor.first_checker.entry_set import EntrySet
from auditor.first_checker.schedule import held_entries
from auditor.lister.index_view import IndexInDoubt, IndexView, stamp_of
from auditor.lister.ledger_lists import LedgerLists, ListLimits
from auditor.wire.entry_availability import decode

SEED = 35
GROUPS_MAX = 1_000
LEDGERS_ASKED = 3
"""The newest ledger, which is being written, and those before it."""
LISTS_QUICK = 150
STORM_S = 600
FLUSHES_MIN = 5
"""Stamps that must have been seen, or there was no storm."""
DOUBTS_MAX_SHARE = 0.5
TESTS = Path(__file__).parents[2]


class Writer:
    """The writing process: `indexed` has, by ledger, how many entries are surely in the index by
    now.
    """

    def __init__(self, directory: Path) -> None:
        command = [sys.executable, "-m", "support.index_writer", str(directory), str(SEED)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=TESTS
        )
        self.indexed: dict[int, int] = {}
        assert self._process.stdout is not None
        self._follow(self._process.stdout.readline())
        self._thread = Thread(
            target=lambda: [self._follow(line) for line in self._process.stdout or ()]
        )
        self._thread.start()

    def _follow(self, line: str) -> None:
        ledger_id, entries = map(int, line.split())
        self.indexed[ledger_id] = entries

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._thread.join()
        if self._process.stdout is not None:
            self._process.stdout.close()
        assert 0 == self._process.wait(), "the writer failed"


@contextmanager
def writer(directory: Path) -> Iterator[Writer]:
    """A writer of an index in this directory, which has some of it."""
    found = Writer(directory)
    try:
        yield found
    finally:
        found.end()


def entries_of(lists: LedgerLists, ledger_id: int) -> EntrySet | None:
    """What is listed of a ledger; None if the index was in doubt."""
    try:
        return held_entries(decode(lists.list_ledger(ledger_id).payload, GROUPS_MAX).groups)
    except IndexInDoubt:
        return None


def check(tmp_path: Path, is_over: Iterator[bool]) -> None:
    """List until it is over. Each list is a whole beginning of its ledger, at least as long as what
    was indexed before.
    """
    print("seed", SEED)
    directory, links = tmp_path / "bookie", tmp_path / "links"
    links.mkdir()
    stamps, doubts, lists_made = set(), 0, 0
    with writer(directory) as storm:
        locations = directory / "current" / "locations"
        view = IndexView(locations, links)
        lists = LedgerLists(view, directory / "current", ListLimits(2**20, 0, 0))
        for _ in is_over:
            ledger_id = max(FIRST, max(storm.indexed) - lists_made % LEDGERS_ASKED)
            lists_made += 1
            at_least = storm.indexed[ledger_id]
            found = entries_of(lists, ledger_id)
            if found is None:
                doubts += 1
                continue
            stamps.add(stamp_of(locations).logs)
            assert found.first() == 0 and found.last() == found.count() - 1, "a hole"
            assert found.count() >= at_least, "the end is missing"
        view.close()
    assert len(stamps) >= FLUSHES_MIN, "nothing was flushed meanwhile"
    assert doubts <= DOUBTS_MAX_SHARE * lists_made, f"{doubts} of {lists_made} lists were not made"


def test_a_short_storm_makes_no_false_hole(tmp_path: Path) -> None:
    """Some hundred lists."""
    check(tmp_path, (False for _ in range(LISTS_QUICK)))


@pytest.mark.long
@pytest.mark.timeout(2 * STORM_S)
def test_a_storm_of_ten_minutes_makes_no_false_hole(tmp_path: Path) -> None:
    """Lists as fast as they are made."""

    def until_over() -> Iterator[bool]:
        ends_at = time.monotonic() + STORM_S
        while time.monotonic() < ends_at:
            yield False

    check(tmp_path, until_over())
