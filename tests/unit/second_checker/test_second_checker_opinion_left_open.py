"""What the second checker leaves open: segments that are too expensive to try; for a marked ledger,
what the mark excuses; for a long one, what lies between the entries it looks at.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from struct import pack

import pytest
from support.stories import GRACE_MS, LEDGER, NOW_MS, groups

from auditor.model.availability import NO_COOKIE, Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.cluster import Surroundings
from auditor.model.evidence import LedgerEvidence, Look, Terms
from auditor.model.finding import RANGES_MAX, Kind
from auditor.model.ledger import LedgerRecord, Mark, RecordStatus, ZnodeStamp
from auditor.model.placement import PlacementRule, Policy
from auditor.model.verdict import Exempt, Standing, Unknown
from auditor.sandbox.notation import ledger
from auditor.second_checker.beyond_end import RUNS_MAX
from auditor.second_checker.blocks import blocks
from auditor.second_checker.opinion import Opinion, judge_entry_by_entry
from auditor.second_checker.schedule import stretches

RECENT, OLD = Mark(NOW_MS, None), Mark(NOW_MS - GRACE_MS - 1, None)
TOPOLOGY, SILENT, TIMEOUT = Unknown.TOPOLOGY_UNKNOWN, Unknown.BOOKIE_SILENT, Unknown.ANSWER_TIMEOUT
EXEMPT, INDETERMINATE, VIOLATED = Standing.EXEMPT, Standing.INDETERMINATE, Standing.VIOLATED
FORGOTTEN = "forgotten"
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


@pytest.mark.parametrize(
    ("mark", "answers", "expected"),
    [
        (
            None,
            {"b1": FORGOTTEN, "b2": ALL},
            (VIOLATED, set(), {"b1": (10, 10)}, [Kind.ENTRY_BELOW_WRITE_QUORUM]),
        ),
        (RECENT, {"b1": FORGOTTEN, "b2": ALL}, (EXEMPT, set(), {"b1": (10, 10)}, [])),
        (RECENT, {"b1": UNREGISTERED, "b2": ALL}, (EXEMPT, set(), {}, [])),
        (
            RECENT,
            {"b1": FORGOTTEN, "b2": FORGOTTEN},
            (
                VIOLATED,
                set(),
                {"b1": (10, 10), "b2": (10, 10)},
                [Kind.UNDERREPLICATED_UNRECOVERABLE],
            ),
        ),
        (
            RECENT,
            {"b1": FORGOTTEN, "b2": ALL, "b3": FORGOTTEN},
            (EXEMPT, set(), {"b1": (10, 10)}, []),
        ),
    ],
)
def test_a_bookie_that_is_gone_lacks_everything(
    mark: Mark | None,
    answers: Said,
    expected: tuple[Standing, set[Unknown], dict[str, tuple[int, int]], list[Kind]],
) -> None:
    """It has neither registration nor cookie, and is in the ensemble; the mark does not matter."""
    found = opinion("e2 w2 a1 0:[b1 b2] closed 9", answers, {}, mark)
    assert expected == (
        found.standing,
        set(found.unknowns),
        found.lacks,
        [one.kind for one in found.findings],
    )
    assert (None if mark is None else Exempt.MARKED_UNDERREPLICATED) is found.exempt


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


@pytest.mark.parametrize(
    "said", [set(), {0}, {7}, AnswerStatus.NO_SUCH_LEDGER, AnswerStatus.UNSUPPORTED, TIMED_OUT]
)
def test_what_a_bookie_says_to_which_nothing_was_written_leaves_nothing_open(
    said: AnswerStatus | set[int],
) -> None:
    """Bookie b3 is in the ensemble, and the only entry was written to the other two."""
    found = opinion("e3 w2 a1 0:[b1 b2 b3] closed 0", {"b1": {0}, "b2": {0}, "b3": said}, {}, None)
    assert (Standing.SOUND, set(), {}) == (found.standing, set(found.unknowns), found.lacks)


def test_of_a_ledger_looked_at_whole_no_more_ranges_are_kept_than_are_compared() -> None:
    """One range more is kept than findings show, so that each shown one has ended. Every entry is
    counted.
    """
    few = set(range(0, 10_000, 2))
    (finding,) = opinion("e1 w1 a1 0:[b1] closed 9999", {"b1": few}, {"b1": 1}, None).findings
    assert finding.entries is not None
    for kept in (finding.entries, finding.missing_on["b1"]):
        assert (RANGES_MAX + 1, 5_000) == (len(kept.ranges), kept.total)


def test_of_metadata_that_contradicts_itself_the_end_says_nothing() -> None:
    """Every bookie lists two entries above the end, which is reported only for consistent
    metadata.
    """
    beyond: Said = {bookie: set(range(12)) for bookie in ("b1", "b2", "b3")}
    sound, doubled = (
        "e3 w3 a2 0:[b1 b2 b3] closed 9",
        "e3 w3 a2 0:[b1 b2 b3] 4:[b1 b2 b3] 4:[b1 b2 b3] closed 9",
    )
    for text, kind in ((sound, Kind.ENTRIES_BEYOND_END), (doubled, Kind.METADATA_MALFORMED)):
        found = opinion(text, beyond, {}, None)
        assert ([kind], False) == ([one.kind for one in found.findings], found.end_is_open)


def test_more_runs_above_the_end_than_are_counted_leave_it_open() -> None:
    """Its twin has a thousand runs there."""
    for runs, is_open in ((1_000, False), (RUNS_MAX + 5, True)):
        above = Answer(
            "b1", LEDGER, 0, NOW_MS, AnswerStatus.HELD, pack(">qqii", 0, 3 * (runs + 3), 1, 3)
        )
        metadata = ledger("e3 w1 a1 0:[b1 b2 b3] closed 9")
        record = LedgerRecord(LEDGER, 0, NOW_MS, RecordStatus.FOUND, ZnodeStamp(1, 0, 0), metadata)
        assert (
            is_open
            is judge_entry_by_entry(
                LedgerEvidence(LEDGER, (Look(record, {"b1": above}, {}),) * 2), TERMS
            ).end_is_open
        )


def test_a_late_clock_leaves_open_whether_a_mark_is_beyond_the_grace() -> None:
    """Only of a mark that is not beyond it: that one would be by a clock that is right, too."""
    late = replace(TERMS, clock_lag_ms=1)
    held: Said = {"b1": {0, 1}, "b2": {0, 1}}
    for mark, standing, why in (
        (RECENT, INDETERMINATE, {Unknown.AUDITOR_LIMITED}),
        (OLD, VIOLATED, set()),
        (None, Standing.SOUND, set()),
    ):
        said = opinion("e2 w2 a2 0:[b1 b2] closed 1", held, {}, mark, late)
        assert (standing, why) == (said.standing, said.unknowns)
