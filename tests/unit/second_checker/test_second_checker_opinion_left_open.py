"""What the second checker leaves open: segments that are too expensive to try; for a marked ledger,
what the mark excuses; for a long one, what lies between the entries it looks at.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from support.stories import GRACE_MS, LEDGER, NOW_MS, groups

from auditor.model.availability import NO_COOKIE, Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.evidence import LedgerEvidence, Look, Terms
from auditor.model.ledger import LedgerRecord, Mark, RecordStatus, ZnodeStamp
from auditor.sandbox.notation import ledger
from auditor.second_checker.blocks import blocks
from auditor.second_checker.opinion import Opinion, judge_entry_by_entry
from auditor.second_checker.schedule import stretches

TERMS = Terms(NOW_MS, GRACE_MS, 16, 5)

Said = Mapping[str, AnswerStatus | set[int] | str]


def opinion(
    text: str,
    answers: Said,
    lacking: Mapping[str, int],
    mark: Mark | None,
    terms: Terms = TERMS,
    claimed: Collection[int] = (),
) -> Opinion:
    """Return the opinion after two looks with these answers, in which the bookies lack an entry
    each.
    """
    said = {}
    for bookie, answer in answers.items():
        if isinstance(answer, set):
            said[bookie] = Answer(bookie, LEDGER, 0, NOW_MS, AnswerStatus.HELD, groups(answer))
        elif isinstance(answer, AnswerStatus):
            said[bookie] = Answer(bookie, LEDGER, 0, NOW_MS, answer)
        else:
            said[bookie] = Answer(
                bookie, LEDGER, 0, NOW_MS, AnswerStatus.UNREGISTERED, detail=NO_COOKIE
            )
    reads = {
        (b, e): EntryRead(b, LEDGER, e, 0, NOW_MS, ReadStatus.NO_ENTRY) for b, e in lacking.items()
    }
    record = LedgerRecord(
        LEDGER, 0, NOW_MS, RecordStatus.FOUND, ZnodeStamp(1, 0, 0), ledger(text), mark=mark
    )
    return judge_entry_by_entry(
        LedgerEvidence(LEDGER, (Look(record, said, reads),) * 2), terms, claimed
    )


UNREGISTERED, TIMED_OUT = AnswerStatus.UNREGISTERED, AnswerStatus.TIMED_OUT


def test_of_a_long_ledger_it_looks_where_something_was_listed_read_or_claimed() -> None:
    """Further entries are drawn from the ledger's number and the run's seed."""
    text = "e2 w2 a1 0:[b1 b2] closed 5000000"
    listed, lacking, claimed = 1_234_567, 3_456_789, 2_345_678
    found = opinion(text, {"b1": {listed}, "b2": {listed}}, {"b2": lacking}, None, TERMS, [claimed])
    chosen, is_whole = blocks(
        LEDGER, stretches(ledger(text)), {"b1": [listed]}, [lacking, claimed], TERMS
    )
    assert not is_whole
    assert (chosen, is_whole) == (found.blocks, found.is_whole)
