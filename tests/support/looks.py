"""The looks at one ledger, in a notation of one word for each look.

A letter is what ZooKeeper said: A to F metadata (another letter means another write), M N
undecodable bytes, U unreadable, G deleted. `!` means that the bookies were asked at this look, `+`
that the ledger was marked.
"""

from __future__ import annotations

from auditor.model.availability import Answer, AnswerStatus
from auditor.model.evidence import Look
from auditor.model.ledger import LedgerRecord, Malformed, Mark, RecordStatus, ZnodeStamp


def looks(text: str) -> tuple[Look, ...]:
    """Return the looks that this notation describes."""
    return tuple(_look(number, word) for number, word in enumerate(text.split()))


def _look(number: int, word: str) -> Look:
    letter = word[0]
    status = {
        "M": RecordStatus.MALFORMED,
        "N": RecordStatus.MALFORMED,
        "U": RecordStatus.UNREADABLE,
        "G": RecordStatus.GONE,
    }
    known = status.get(letter, RecordStatus.FOUND)
    record = LedgerRecord(
        ledger_id=7,
        look=number,
        read_at_ms=number,
        status=known,
        stamp=None if letter in "UG" else ZnodeStamp(1, ord(letter), 0),
        malformed=Malformed("x", 0, 1, "") if known is RecordStatus.MALFORMED else None,
        mark=Mark(0) if "+" in word else None,
    )
    said = {"b": Answer("b", 7, number, number, AnswerStatus.HELD)} if "!" in word else {}
    return Look(record, said)
