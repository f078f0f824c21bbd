"""What is counted of one ledger: which reads are of copies, and who is probed."""

from __future__ import annotations

from auditor.sandbox.notation import ledger
from auditor.second_checker.ledger_count import is_written
from auditor.second_checker.schedule import stretches


def test_an_entry_was_written_to_the_bookies_of_its_stretch() -> None:
    """And to nobody where no stretch has it: below, behind, or in a segment whose ensemble is of
    the wrong size.
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
