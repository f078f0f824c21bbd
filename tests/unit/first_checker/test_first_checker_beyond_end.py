"""What the first checker finds above the end of a ledger, and what it has read for that."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.ends import EMPTY, ENDS, WHOLE, End
from support.stories import LEDGER

from auditor.first_checker.beyond_end import (
    BeyondEnd,
    EmptyLedger,
    end_reads,
    order_reads,
)
from auditor.first_checker.coverage import coverage
from auditor.model.availability import (
    HIGHEST_STORED,
    NO_COOKIE,
    Answer,
    AnswerStatus,
    ReadStatus,
)
from auditor.model.finding import Finding, Kind
from auditor.model.ledger import LedgerMetadata
from auditor.model.verdict import Unknown


def found(end: End, metadata: LedgerMetadata | None = None) -> BeyondEnd | None:
    """Return what lies above the end, by the first checker."""
    metadata = metadata or end.metadata
    seen = coverage(metadata, end.answers, end.reads)
    return BeyondEnd.of(LEDGER, metadata, end.answers, seen, end.reads)


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
def test_what_bookies_hold_above_the_end_is_found_with_what_headers_prove(end: End) -> None:
    """Of several headers the one counts that names the highest entry as acknowledged."""
    beyond = found(end)
    assert end.facts == (beyond and beyond.facts)
    if beyond is not None:
        kind = Kind.ENTRIES_BEYOND_END if end.cut_off is None else Kind.LEDGER_CLOSED_SHORT
        entries = end.entries if end.cut_off is None else end.cut_off
        total = sum(last - first + 1 for first, last in entries)
        assert beyond.finding == Finding(
            kind, beyond.facts, LEDGER, entries=entries, entries_total=total
        )


def wanted(end: End, *, probes: bool = True) -> tuple[tuple[str, int], ...]:
    """Return what is to be read at the end."""
    seen = coverage(end.metadata, end.answers, end.reads)
    return end_reads(end.metadata, end.answers, seen, end.reads, probes=probes)


LISTED = End({"b1": {9}, "b2": {9, 10, 11, 12, 13}, "b3": {8, 10}})


def test_the_highest_entry_above_the_end_is_read_on_each_bookie_that_lists_one() -> None:
    """b1 lists none, and is not read."""
    assert (("b2", 13), ("b3", 10)) == wanted(LISTED)


def test_lower_entries_are_read_before_a_length_above_the_last_entrys_counts() -> None:
    """Each of the four below the last is read on its write set, unless it was read before, or a
    header shows already that a lower entry was sent later.
    """
    long = End({}, {("b1", 9): (9, 8, 80)}, metadata=replace(WHOLE, length=500))
    seen = coverage(long.metadata, {}, long.reads)
    asked = order_reads(long.metadata, seen, long.reads)
    assert {8: ["b1", "b3"], 7: ["b2", "b3"], 6: ["b1", "b2"], 5: ["b1", "b3"]} == {
        e: sorted(b for b, entry in asked if entry == e) for e in dict.fromkeys(e for _, e in asked)
    }
    read = replace(long, sent={**long.sent, ("b3", 8): (8, 7, 72)})
    assert ("b3", 8) not in order_reads(read.metadata, seen, read.reads)
    late = replace(long, sent={**long.sent, ("b3", 8): (8, 7, 500)})
    assert () == order_reads(late.metadata, seen, late.reads)
    assert () == order_reads(WHOLE, seen, long.reads)


def empty(*statuses: AnswerStatus, detail: str = "", **sent: ReadStatus) -> EmptyLedger:
    """Return what bookies b1, b2 ... said of a ledger closed without entries.

    `sent` has the result of reading the highest entry on a bookie.
    """
    answers = {
        f"b{n}": Answer(f"b{n}", LEDGER, 1, 0, status, detail=detail)
        for n, status in enumerate(statuses, start=1)
    }
    reads = replace(
        ENDS["nothing lies above the end"],
        sent={(b, HIGHEST_STORED): status for b, status in sent.items()},
    ).reads
    seen = coverage(EMPTY, answers, reads, gone={b for b, a in answers.items() if a.is_gone})
    said = EmptyLedger.of(EMPTY, answers, seen, reads, probes=True)
    assert said is not None
    return said


HELD, NONE, SILENT, UNABLE = (
    AnswerStatus.HELD,
    AnswerStatus.NO_SUCH_LEDGER,
    AnswerStatus.SILENT,
    AnswerStatus.UNSUPPORTED,
)


@pytest.mark.parametrize(("heard", "is_shown"), [(0, False), (1, False), (2, True)])
def test_bookies_that_are_gone_show_of_no_ledger_that_it_is_empty(
    heard: int, is_shown: bool
) -> None:
    """They may have held what two of three acknowledged. What they held is gone with them."""
    gone = [AnswerStatus.UNREGISTERED] * (3 - heard)
    said = empty(*[HELD] * heard, *gone, detail=NO_COOKIE)
    assert is_shown is said.is_shown
    assert {Unknown.BOOKIE_SILENT} == set(said.unheard.values())
