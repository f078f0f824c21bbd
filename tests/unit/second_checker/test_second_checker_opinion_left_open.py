"""What the second checker leaves open: segments that are too expensive to try; for a marked ledger,
what the mark excuses; for a long one, what lies between the entries it looks at.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest
from support.stories import GRACE_MS, LEDGER, NOW_MS, groups

from auditor.model.availability import NO_COOKIE, Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.cluster import Surroundings
from auditor.model.evidence import LedgerEvidence, Look, PlacementRule, Policy, Terms
from auditor.model.ledger import LedgerRecord, Mark, RecordStatus, ZnodeStamp
from auditor.model.verdict import Standing, Unknown
from auditor.sandbox.cluster import ledger
from auditor.second_checker.blocks import blocks, stretches
from auditor.second_checker.opinion import Opinion, judge_entry_by_entry

RECENT, OLD = Mark(NOW_MS, None), Mark(NOW_MS - GRACE_MS - 1, None)
TOPOLOGY, SILENT, TIMEOUT = Unknown.TOPOLOGY_UNKNOWN, Unknown.BOOKIE_SILENT, Unknown.ANSWER_TIMEOUT
EXEMPT, INDETERMINATE, VIOLATED = Standing.EXEMPT, Standing.INDETERMINATE, Standing.VIOLATED
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


ALL = set(range(10))
HOLDING: Said = dict.fromkeys(("b1", "b2", "b3", "b4", "b5", "n1", "n2", "n3"), ALL)
WITHOUT_4: Said = dict.fromkeys(("b1", "b2", "n1", "n2", "n3"), ALL - {4})


@pytest.mark.parametrize(
    ("mark", "answers", "expected"),
    [
        (None, HOLDING, (INDETERMINATE, {TOPOLOGY}, {0})),
        (RECENT, HOLDING, (EXEMPT, set(), set())),
        (RECENT, {}, (EXEMPT, set(), set())),
        (OLD, HOLDING, (VIOLATED, {TOPOLOGY}, {0})),
        (OLD, {}, (VIOLATED, {TOPOLOGY}, {0})),
        (OLD, {**HOLDING, **WITHOUT_4}, (VIOLATED, set(), set())),
    ],
)
def test_what_is_open_of_placement_is_reported_unless_a_mark_excuses_it_or_a_loss_stands_alone(
    mark: Mark | None, answers: Said, expected: tuple[Standing, set[Unknown], set[int]]
) -> None:
    """It does not matter whether a bookie was asked. The first segment has too many members without
    location to be tried, the second holds or fails by one.
    """
    around = Surroundings(
        locations={"b1": "/r1", "b2": "/r2", "b3": "/r1", "b4": "/r1", "b5": "/r1"}
    )
    terms = replace(TERMS, placement=PlacementRule(Policy.RACK), around=around)
    lacking = dict.fromkeys((bookie for bookie in answers if answers[bookie] != ALL), 4)
    text = "e5 w5 a3 0:[b1 b2 n1 n2 n3] 5:[b1 b3 b4 b5 n1] closed 9"
    found = opinion(text, answers, lacking, mark, terms)
    assert expected == (found.standing, set(found.unknowns), set(found.unjudged))


UNREGISTERED, TIMED_OUT = AnswerStatus.UNREGISTERED, AnswerStatus.TIMED_OUT


@pytest.mark.parametrize(
    ("mark", "answers", "expected"),
    [
        (None, {"b1": UNREGISTERED, "b2": ALL, "b3": ALL}, (INDETERMINATE, {SILENT})),
        (RECENT, {"b1": UNREGISTERED, "b2": ALL, "b3": ALL}, (EXEMPT, set())),
        (RECENT, {"b1": UNREGISTERED, "b2": TIMED_OUT, "b3": ALL}, (INDETERMINATE, {TIMEOUT})),
        (RECENT, {"b1": AnswerStatus.SILENT, "b2": ALL, "b3": ALL}, (INDETERMINATE, {SILENT})),
        (RECENT, {"b1": UNREGISTERED, "b3": ALL}, (INDETERMINATE, {SILENT})),
        (RECENT, {}, (EXEMPT, set())),
    ],
)
def test_that_a_bookie_is_not_registered_is_no_reason_of_a_marked_ledger(
    mark: Mark | None, answers: Said, expected: tuple[Standing, set[Unknown]]
) -> None:
    """The mark covers that. A silent bookie, or one that was not asked while others were, is a
    reason, and leaves the ledger open.
    """
    found = opinion("e3 w3 a2 0:[b1 b2 b3] closed 9", answers, {}, mark)
    assert expected == (found.standing, set(found.unknowns))


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
