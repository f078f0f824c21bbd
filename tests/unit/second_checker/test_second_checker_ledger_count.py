"""Counts for one ledger: which reads are of copies, and which bookies are probed."""

from __future__ import annotations

from support.stories import GRACE_MS, LEDGER, NOW_MS, groups

from auditor.model.availability import Answer, AnswerStatus
from auditor.model.evidence import Terms
from auditor.model.ledger import LedgerRecord, RecordStatus, ZnodeStamp
from auditor.sandbox.notation import ledger
from auditor.second_checker.copies import Worst, count_entries, is_written
from auditor.second_checker.looks import Statements
from auditor.second_checker.schedule import stretches


def test_an_entry_was_written_to_the_bookies_of_its_stretch() -> None:
    """An entry outside every stretch has no bookies: before the first, behind the last, or in a
    segment whose ensemble has the wrong size.
    """
    parts = stretches(ledger("e3 w2 a2 3:[b1 b2 b3] 6:[b1 b2] 9:[b4 b2 b3] closed 11"))
    assert [(3, 5), (9, 11)] == [(part.first, part.last) for part in parts]
    bookies = ("b1", "b2", "b3", "b4")
    written = {
        entry: {bookie for bookie in bookies if is_written(parts, bookie, entry)}
        for entry in range(14)
    }
    there = {
        3: {"b1", "b2"},
        4: {"b2", "b3"},
        5: {"b3", "b1"},
        9: {"b4", "b2"},
        10: {"b2", "b3"},
        11: {"b3", "b4"},
    }
    assert {entry: there.get(entry, set()) for entry in range(14)} == written


def test_a_corrupt_copy_counts_where_the_entry_was_written() -> None:
    """It counts with the entry's copies. A wrong copy on another bookie does not count."""
    metadata = ledger("e3 w2 a2 0:[b1 b2 b3] closed 5")
    record = LedgerRecord(LEDGER, 0, NOW_MS, RecordStatus.FOUND, ZnodeStamp(1, 0, 0), metadata)
    listed = Answer("b1", LEDGER, 0, NOW_MS, AnswerStatus.HELD, groups({0, 2, 3, 5}))
    heard = Statements(record, (), {"b1": listed}, {}, frozenset({("b1", 3), ("b1", 4), ("b2", 9)}))
    (part,) = stretches(metadata)
    count = count_entries(heard, metadata, (part,), Terms(NOW_MS, GRACE_MS, 8, 3), ())
    assert {3: Worst(2, 1, 3, part)} == count.corrupt
