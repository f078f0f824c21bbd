"""How many entries the fullest bookie should hold, by the metadata of the first look."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from support.entry_by_entry import expected_on
from support.stories import tell

from auditor.evidence.rows import ledger_row, table
from auditor.evidence.schemas import LEDGERS
from auditor.first_checker.probing import SWEPT_ENTRIES_MAX
from auditor.first_checker.schedule import expected_entries, extents, positions
from auditor.model.ledger import LedgerMetadata, LedgerRecord, LedgerState, RecordStatus, Segment
from auditor.sandbox.cluster import ledger
from auditor.summary.due_copies import (
    DUE_COLUMNS,
    SHARE_COLUMNS,
    due_by_bookie,
    shares_in,
)


def count_fullest(*ledgers: LedgerMetadata, look: int = 1) -> float:
    records = [
        LedgerRecord(n, look, 0, RecordStatus.FOUND, metadata=one) for n, one in enumerate(ledgers)
    ]
    batch = table(LEDGERS, [ledger_row(record) for record in records]).select(DUE_COLUMNS)
    due = due_by_bookie([batch, batch.slice(0, 0)])
    return max((share.copies for share in due.values()), default=0.0)


@pytest.mark.parametrize(
    ("expected", "texts"),
    [
        (100, ["e3 w3 a2 0:[b1 b2 b3] closed 99"]),
        (68, ["e3 w2 a2 0:[b1 b2 b3] closed 100"]),
        (150, ["e2 w2 a2 0:[b1 b2] 50:[b1 b3] closed 99", "e1 w1 a1 0:[b1] closed 49"]),
        (0, ["e1 w1 a1 0:[b1] open", "e1 w1 a1 0:[b1] closed -1"]),
        (60, ["e1 w1 a1 0:[b1] closed 9", "e1 w1 a1 0:[b1] 50:[b2] closed 99"]),
    ],
)
def test_entries_of_closed_ledgers_are_counted_by_bookie(expected: float, texts: list[str]):
    """They are added over segments and ledgers, and the highest sum is returned."""
    assert expected == count_fullest(*map(ledger, texts))


@pytest.mark.parametrize("seed", range(30))
def test_the_count_is_never_too_low_and_hardly_too_high(seed: int):
    """It is compared with the entries of each bookie, and may exceed them by two write quorums for
    each segment.
    """
    stories = [tell(60 * seed + n) for n in range(Random(seed).randrange(1, 9))]
    states = [one.states[0].metadata for one in stories if not one.base]
    found = [
        one
        for one in states
        if one is not None and one.state is LedgerState.CLOSED and one.last_entry_id is not None
    ]
    due: Counter[str] = Counter()
    for one in found:
        due.update({bookie: len(entries) for bookie, entries in expected_on(one).items()})
    slack = sum(one.write_quorum * len(one.segments) for one in found) * 2
    assert 0 <= count_fullest(*found) - max(due.values(), default=0) <= slack


@pytest.mark.parametrize("write_quorum", [0, -1])
def test_metadata_that_contradicts_itself_is_not_an_error(write_quorum: int):
    """The write quorum is zero, a segment ends before it begins, or an ensemble is empty."""
    whole = ledger("e2 w1 a1 0:[b1 b2] closed 4")
    back = replace(whole, segments=(Segment(5, ("b1", "b1")), Segment(3, ("b1", "b2"))))
    assert 0 == count_fullest(replace(whole, write_quorum=write_quorum))
    assert 1 == count_fullest(back)
    assert (
        0
        == count_fullest(replace(whole, segments=(Segment(0, ()),)))
        == count_fullest(replace(whole, segments=()))
    )


def test_a_later_look_is_not_counted_again():
    """Only records of the first look count."""
    assert 0 == count_fullest(ledger("e1 w1 a1 0:[b1] closed 49"), look=2)


def test_metadata_that_claims_everything_counts_as_much_as_can_be_swept():
    """The count is SWEPT_ENTRIES_MAX at most, and nothing overflows."""
    assert SWEPT_ENTRIES_MAX == count_fullest(
        replace(ledger(f"e2 w1 a1 0:[b1 b2] closed {2**63 - 1}"), length=0)
    )


def drawn_ledger(dice: Random) -> LedgerMetadata:
    """Return metadata that may contradict itself in each way that counts."""
    size = dice.randint(1, 5)
    firsts = [0, *sorted(dice.sample(range(-1, 40), dice.randint(0, 3)))]
    if dice.random() < 0.2:
        dice.shuffle(firsts)
    segments = []
    for first in firsts:
        names = dice.sample([f"b{n}" for n in range(1, 8)], size)
        if dice.random() < 0.1:
            names[-1] = names[0]
        if dice.random() < 0.05:
            names.append("b9")
        segments.append(Segment(first, tuple(names)))
    state = LedgerState.OPEN if dice.random() < 0.1 else LedgerState.CLOSED
    last = None if state is LedgerState.OPEN or dice.random() < 0.05 else dice.randint(-1, 60)
    write = dice.randint(1, size) if dice.random() < 0.95 else size + 1
    return LedgerMetadata(3, state, size, write, write, last, 0, tuple(segments))


def test_shares_are_what_the_schedule_says():
    """Of plain ledgers in columns, and of ledgers that contradict themselves one by one."""
    dice = Random(7)
    ledgers = [drawn_ledger(dice) for _ in range(3_000)]
    records = [
        LedgerRecord(n, 1, 0, RecordStatus.FOUND, metadata=one) for n, one in enumerate(ledgers)
    ]
    rows = table(LEDGERS, map(ledger_row, records)).select(SHARE_COLUMNS)
    shares = shares_in(rows)
    pairs = list(zip(shares.rows.tolist(), shares.bookies.tolist(), strict=True))
    assert len(pairs) == len(set(pairs))
    found = {
        (row, shares.names[bookie]): copies
        for (row, bookie), copies in zip(pairs, shares.copies.tolist(), strict=True)
        if copies
    }
    due: Counter[tuple[int, str]] = Counter()
    for number, one in enumerate(ledgers):
        for part in extents(one):
            for bookie, at in positions(part.segment.ensemble).items():
                entries = expected_entries(part, at, one.ensemble_size, one.write_quorum)
                due[number, bookie] += entries.count()
    assert {key: copies for key, copies in due.items() if copies} == found
    for row, last in zip(shares.rows.tolist(), shares.last_entries.tolist(), strict=True):
        end = ledgers[row].last_entry_id
        assert last == (extents(ledgers[row])[-1].last_entry_id if end is None else end)


def test_shares_of_vast_claims_are_exact():
    """A ledger may claim almost 2**63 entries."""
    metadata = replace(ledger("e3 w2 a2 0:[b1 b2 b3] closed 9"), last_entry_id=2**63 - 2)
    record = LedgerRecord(7, 1, 0, RecordStatus.FOUND, metadata=metadata)
    shares = shares_in(table(LEDGERS, [ledger_row(record)]).select(SHARE_COLUMNS))
    copies = dict(
        zip(shares.names, shares.copies[np.argsort(shares.bookies)].tolist(), strict=True)
    )
    entries = 2**63 - 1
    assert entries // 3 * 2 + min(entries % 3, 1) == copies["b1"]
