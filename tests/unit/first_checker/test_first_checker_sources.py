"""Which lists are believed, and which have too many runs to judge."""

from __future__ import annotations

from support.stories import LEDGER

from auditor.first_checker.coverage import coverage
from auditor.first_checker.shares import FOREIGN_RUNS_MAX
from auditor.model.availability import Answer, AnswerStatus, SequenceGroup
from auditor.model.verdict import Unknown
from auditor.sandbox.cluster import ledger
from auditor.wire.entry_availability import canonical


def _listed(bookie: str, group: SequenceGroup, received_bytes: int = 0) -> Answer:
    groups = canonical([group])
    return Answer(bookie, LEDGER, 0, 0, AnswerStatus.HELD, groups, received_bytes=received_bytes)


def test_a_list_foreign_to_striping_and_endless_is_invalid() -> None:
    """A few bytes that stand for more runs than can be judged are not an answer. A list that a
    broken bookie can really have is one.
    """
    metadata = ledger(f"e5 w3 0:[b1 b2 b3 b4 b5] closed {2**62}")
    period, many = 2**31 - 1, FOREIGN_RUNS_MAX
    endless = _listed("b1", SequenceGroup(0, period * many, 1, period))
    some = _listed("b2", SequenceGroup(0, period * (many - 1), 1, period))
    seen = coverage(metadata, {"b1": endless, "b2": some}, {})
    assert {"b2"} == set(seen.held)
    assert Unknown.ANSWER_INVALID in seen.unknowns


def test_runs_that_were_sent_one_by_one_are_believed_however_regular() -> None:
    """A bookie that lost every hundredth entry of two million really sends 20,000 runs: that is a
    loss, not a false list.
    """
    metadata = ledger("e3 w3 0:[b1 b2 b3] closed 1999999")
    regular = SequenceGroup(0, 1_999_900, 99, 100)
    sent = _listed("b1", regular, received_bytes=64 + 24 * 20_000)
    answer = _listed("b2", regular, received_bytes=64 + 24)
    seen = coverage(metadata, {"b1": sent, "b2": answer}, {})
    assert {"b1"} == set(seen.held)
    shares = seen.extents[0].shares
    assert [20_000] == [one.lacking.count() for one in shares if one.bookie_id == "b1"]
