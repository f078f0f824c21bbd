"""Ledgers of many segments, and the cost of judging one: counted in calls, not by the clock."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

from support.entry_by_entry import expected_on
from support.stories import Bookie, State, Story

import auditor
from auditor.model.availability import AnswerStatus
from auditor.model.ledger import LedgerMetadata, LedgerState, Segment

ENTRIES = 6
"""Entries of a segment."""
BOOKIES = [f"b{number}" for number in range(9)]
_CODE = str(Path(auditor.__file__).parent)


def _whole(metadata: LedgerMetadata) -> dict[str, set[int]]:
    held = expected_on(metadata)
    return {bookie: set(held.get(bookie, ())) for bookie in BOOKIES}


def _sound(metadata: LedgerMetadata) -> dict[str, Bookie]:
    return {bookie: Bookie(frozenset(entries)) for bookie, entries in _whole(metadata).items()}


def _copies_lost(metadata: LedgerMetadata, copies: int) -> dict[str, Bookie]:
    """Return what the bookies hold when the second entry of each segment has lost this many
    copies.
    """
    held = _whole(metadata)
    for segment in metadata.segments:
        entry = segment.first_entry_id + 1
        for copy in range(copies):
            held[segment.ensemble[(entry + copy) % 3]].discard(entry)
    return {bookie: Bookie(frozenset(entries)) for bookie, entries in held.items()}


HARMS: Mapping[str, Callable[[LedgerMetadata], dict[str, Bookie]]] = {
    "nothing is lost": _sound,
    "each segment lost a copy": lambda metadata: _copies_lost(metadata, 1),
    "each segment lost an entry": lambda metadata: _copies_lost(metadata, 2),
    "a bookie lost the ledger": lambda metadata: (
        _sound(metadata) | {"b0": Bookie(knows_ledger=False)}
    ),
    "a bookie is silent": lambda metadata: (
        _sound(metadata) | {"b0": Bookie(answer=AnswerStatus.SILENT)}
    ),
    "no bookie can list": lambda metadata: {
        bookie: Bookie(one.holds, answer=AnswerStatus.UNSUPPORTED)
        for bookie, one in _sound(metadata).items()
    },
}


def story(segments: int, harm: str) -> Story:
    """Return a story of a closed E=3 W=2 ledger, each segment on three of nine bookies."""
    draw = Random(segments)
    parts = tuple(
        Segment(ENTRIES * number, tuple(draw.sample(BOOKIES, 3))) for number in range(segments)
    )
    metadata = LedgerMetadata(
        3, LedgerState.CLOSED, 3, 2, 2, ENTRIES * segments - 1, 0, parts, None, 1, ()
    )
    return Story(harm, (State(metadata, HARMS[harm](metadata)),), more_terms={"probe_entries": 3})


def calls(work: Callable[[], object]) -> int:
    """Return how often `work` enters a function of the auditor, or resumes a generator."""
    count = 0

    def note(frame: object, event: str, _: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_filename.startswith(_CODE)  # type: ignore[attr-defined]

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count
