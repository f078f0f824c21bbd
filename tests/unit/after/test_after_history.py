"""The history of a finding: which run continues it, which ends it, and which knows nothing of
it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from support.report_stories import changed, finding

from auditor.after.compared_finding import ComparedFinding
from auditor.after.history import (
    GONE_RUNS_MAX,
    UNCHECKED_RUNS_MAX,
    Chain,
    EarlierRun,
    History,
    Sighting,
    first_history,
    trace,
    unknown_history,
)
from auditor.after.rechecks import Judged, Row
from auditor.model.cluster import Registration
from auditor.model.codec import encode
from auditor.model.finding import Kind
from auditor.model.finding_record import FindingRecord
from auditor.model.verdict import Unknown

FIRST, LAST, NOW = (f"2026-01-0{day}T03:00:00.000Z" for day in (1, 4, 5))
SOUND, UNKNOWN_ROW = Row(None, ()), Row(None, (Unknown.BOOKIE_SILENT,))
TERMS = {"placement": {}, "underreplication_grace_ms": 1, "stuck_after_ms": 1, "orphan_age_ms": 1}
LOSS = finding(Kind.ENTRY_BELOW_ACK_QUORUM, 7)


def sighting(found: FindingRecord = LOSS, **changes: Any) -> Sighting:
    return replace(Sighting(ComparedFinding.of(found), FIRST, 3), **changes)


def judged_run(rows: dict[int, Row], **changes: Any) -> Judged:
    given: dict[str, Any] = {
        "is_partial": False,
        "withholds": False,
        "are_references_known": True,
    } | changes
    return Judged(
        rows=rows, bookies={"b1": (Registration.WRITABLE, True)}, **({"terms": TERMS} | given)
    )


def trace_history(
    found: list[FindingRecord],
    *before: Sighting,
    row: Row | None = SOUND,
    carried: tuple[Sighting, ...] = (),
    **changes: Any,
) -> History:
    """Return the history of a run that has `found`, after a run that had `before`; `row` is the
    verdict on ledger 7.
    """
    rows = {} if row is None else {7: row}
    earlier = EarlierRun("r4", LAST, TERMS, before, carried)
    return trace(
        [ComparedFinding.of(one) for one in found], earlier, judged_run(rows, **changes), NOW
    )


def counts(history: History) -> dict[str, int]:
    assert history.changes is not None
    return {
        name: number
        for name, number in encode(history.changes).items()
        if type(number) is int and number
    }


def test_a_finding_that_was_there_continues():
    """It has one run more, and the same first_seen."""
    assert [Chain(FIRST, 4)] == trace_history([LOSS], sighting()).chains


def test_a_finding_that_was_not_there_is_new():
    """It was first seen by this run."""
    history = trace_history([LOSS])
    assert [Chain(NOW, 1)] == history.chains
    assert {"new": 1, "new_ledgers": 1} == counts(history)
    assert (
        history.changes is not None and {"ENTRY_BELOW_ACK_QUORUM": 1} == history.changes.new_by_kind
    )


def test_a_finding_that_became_worse_or_better_is_the_same_one():
    """On a ledger the family decides whether it is the same, as in a diff."""
    worse = trace_history([finding(Kind.ENTRY_WITHOUT_REPLICA, 7)], sighting())
    assert ([Chain(FIRST, 4)], {"worse": 1}) == (worse.chains, counts(worse))


def test_another_kind_on_a_bookie_is_another_finding():
    """No kind on a bookie is a weaker form of another."""
    lost = sighting(finding(Kind.BOOKIE_LOST_CONTENT, "b1"))
    history = trace_history([finding(Kind.BOOKIE_SILENT_YET_REGISTERED, "b1")], lost)
    assert [Chain(NOW, 1)] == history.chains


def test_a_run_of_named_ledgers_follows_a_bookie_that_it_finds():
    """It judges bookies by the named ledgers alone. A finding that it has is not new; a finding
    that it lacks is not compared.
    """
    lost, other = (sighting(finding(Kind.BOOKIE_LOST_UNNOTICED, bookie)) for bookie in ("b1", "b2"))
    history = trace_history(
        [finding(Kind.BOOKIE_LOST_UNNOTICED, "b1")], lost, other, is_partial=True
    )
    assert ([Chain(FIRST, 4)], {"still": 1}) == (history.chains, counts(history))
    assert [] == list(history.unchecked)


def test_placement_is_followed_by_segment():
    """A second segment that fails is new, and the first one keeps its history."""
    one = finding(Kind.PLACEMENT_FAILED, 7)
    other = changed(one, segment=one.fields["segment"] | {"first_entry_id": 500})
    assert [Chain(FIRST, 4), Chain(NOW, 1)] == trace_history(
        [one, other], sighting(one, setting={})
    ).chains


def test_a_run_that_checked_and_found_nothing_ends_the_history():
    """The finding is resolved, and is not handed on to the next run."""
    history = trace_history([], sighting())
    assert ((), {"resolved": 1}) == (tuple(history.unchecked), counts(history))


@pytest.mark.parametrize(
    "row", [UNKNOWN_ROW, Row("marked_underreplicated", ()), Row(None, (), "probed")]
)
def test_a_run_that_could_not_check_hands_the_finding_on(row: Row):
    """It does not count as a run that saw the finding. The next run that sees it continues the
    history.
    """
    history = trace_history([], sighting(), row=row)
    assert {"not_checked_again": 1} == counts(history)
    (kept,) = history.unchecked
    assert (FIRST, 3, 1, False) == (
        kept.first_seen,
        kept.runs_seen,
        kept.runs_unchecked,
        kept.is_gone,
    )
    again = trace_history([LOSS], carried=(kept,))
    assert ([Chain(FIRST, 4)], {"still": 1}) == (again.chains, counts(again))


def test_what_is_handed_on_is_forgotten_after_a_month_of_nights():
    """The file of unchecked findings must not grow without bound."""
    last = sighting(runs_unchecked=UNCHECKED_RUNS_MAX - 1)
    assert 1 == len(trace_history([], carried=(last,), row=UNKNOWN_ROW).unchecked)
    assert 0 == len(
        trace_history(
            [], carried=(replace(last, runs_unchecked=UNCHECKED_RUNS_MAX),), row=UNKNOWN_ROW
        ).unchecked
    )


def test_a_ledger_that_is_gone_is_said_once_and_handed_on_for_three_runs():
    """One short listing may have left it out, and it may come back."""
    history = trace_history([], sighting(), row=None)
    assert {"not_checked_again": 1, "gone": 1} == counts(history)
    for night in range(1, GONE_RUNS_MAX):
        (kept,) = history.unchecked
        assert night == kept.runs_unchecked
        history = trace_history([], carried=(kept,), row=None)
        assert {} == counts(history)
    (kept,) = history.unchecked
    assert [Chain(FIRST, 4)] == trace_history([LOSS], carried=(kept,)).chains
    assert [] == list(trace_history([], carried=(kept,), row=None).unchecked)


def test_a_run_with_another_setting_does_not_end_the_history():
    """Neither does the next run, which has the new setting too."""
    stuck = sighting(finding(Kind.LEDGER_STUCK, 7), setting=1)
    history = trace_history([], stuck, terms=TERMS | {"stuck_after_ms": 9})
    assert {"not_checked_again": 1} == counts(history)
    later = EarlierRun("r5", NOW, TERMS | {"stuck_after_ms": 9}, (), history.unchecked)
    again = trace([], later, judged_run({7: SOUND}, terms=TERMS | {"stuck_after_ms": 9}), NOW)
    assert (1, {}) == (len(again.unchecked), counts(again)), "it was counted in the run before"


def test_corruption_that_was_not_read_again_is_handed_on():
    """The next run needs the copies that were corrupt: they are handed on with the finding."""
    corrupt = finding(Kind.ENTRY_CORRUPT, 7)
    history = trace_history([], sighting(corrupt))
    assert {"not_checked_again": 1} == counts(history)
    (kept,) = history.unchecked
    assert corrupt.facts == Sighting.from_json(kept.as_json()).finding.facts
    read = trace_history([], carried=(kept,), reread=frozenset({7}))
    assert ((), {"resolved": 1}) == (tuple(read.unchecked), counts(read))


def test_a_drop_that_was_accepted_later_is_counted_once_more():
    """A run that allows any drop checks none. The next run accepts the number: it is resolved."""
    dropped = sighting(finding(Kind.LEDGER_POPULATION_DROPPED, "cluster"), setting=50)
    earlier = EarlierRun("r4", LAST, TERMS | {"population_drop": 50}, (dropped,))
    off = TERMS | {"population_drop": 0}
    history = trace([], earlier, judged_run({}, terms=off), NOW)
    assert {"not_checked_again": 1} == counts(history)
    after = EarlierRun("r5", NOW, off, (), history.unchecked)
    accepted = judged_run({}, terms=TERMS | {"population_drop": None})
    again = trace([], after, accepted, NOW)
    assert ((), {"resolved": 1}) == (tuple(again.unchecked), counts(again))


@pytest.mark.parametrize("unknown", [{}, {"first_seen": None}], ids=["known", "unknown"])
def test_unannounced_news_outlive_a_run_that_could_not_check_them(unknown: dict[str, Any]):
    """And so does it that a finding was muted. Both are of its last sighting."""
    last = {"unannounced_since": "r4", "was_muted": True}
    unheard = trace_history([], sighting(**last, **unknown), row=UNKNOWN_ROW)
    (kept,) = unheard.unchecked
    assert kept == Sighting.from_json(json.loads(json.dumps(kept.as_json())))
    (found,) = trace_history([LOSS], carried=(kept,)).chains
    assert ("r4", True) == (found.unannounced_since, found.was_muted)


def test_an_unknown_history_stays_unknown():
    """An unknown first_seen or runs_seen stays null when the finding is seen again."""
    for unknown in ({"first_seen": None}, {"runs_seen": None}):
        assert [Chain(None, None)] == trace_history([LOSS], sighting(**unknown)).chains
    lost = unknown_history([ComparedFinding.of(LOSS)], "it is damaged")
    assert ([Chain(None, None)], {"since": None, "problem": "it is damaged"}) == (
        lost.chains,
        encode(lost.changes),
    )
    first = first_history([ComparedFinding.of(LOSS)], NOW)
    assert ([Chain(NOW, 1)], None) == (first.chains, first.changes)


def test_a_resumed_run_may_have_begun_before_the_one_it_is_compared_with():
    """The finding was first seen at the earlier of both times."""
    assert [Chain(NOW, 4)] == trace_history(
        [LOSS], sighting(first_seen="2026-02-01T00:00:00.000Z")
    ).chains


def test_a_run_of_named_ledgers_says_nothing_of_others():
    """Findings on others are neither resolved nor unchecked; those on named ledgers keep their
    history.
    """
    other = sighting(finding(Kind.ENTRY_BELOW_ACK_QUORUM, 8))
    history = trace_history(
        [LOSS],
        sighting(),
        other,
        sighting(finding(Kind.BOOKIE_LOST_CONTENT, "b1")),
        is_partial=True,
    )
    assert ([Chain(FIRST, 4)], {"still": 1}) == (history.chains, counts(history))


def test_what_is_withheld_is_not_resolved():
    """A run that withheld something about bookies says nothing against a finding on one."""
    lost = sighting(finding(Kind.BOOKIE_LOST_CONTENT, "b1"))
    assert ({"resolved": 1}, {"not_checked_again": 1}) == (
        counts(trace_history([], lost)),
        counts(trace_history([], lost, withholds=True)),
    )


def test_the_changes_say_since_which_run_and_of_what_kind_of_run():
    """Each change is counted, zero included. A finding that was there before is not new."""
    history = trace_history([LOSS], sighting())
    assert {
        "since": {"run_id": "r4", "started_at": LAST},
        "partial": False,
        "new": 0,
        "worse": 0,
        "better": 0,
        "still": 1,
        "resolved": 0,
        "not_checked_again": 0,
        "gone": 0,
        "new_by_kind": {},
        "new_ledgers": 0,
    } == encode(history.changes)


def test_a_finding_on_entries_is_the_same_one_in_another_segment():
    """Such a finding belongs to its ledger: the lost entries may be in another segment now."""
    other = changed(LOSS, segment=LOSS.fields["segment"] | {"first_entry_id": 500})
    assert [Chain(FIRST, 4)] == trace_history([other], sighting()).chains


def test_what_is_handed_on_says_why():
    """The run may have another finding on the same ledger, or on the same bookie."""
    beyond = finding(Kind.UNDERREPLICATED_UNRECOVERABLE, 7)
    (loss,) = trace_history([beyond], sighting(), row=Row("marked_underreplicated", ())).unchecked
    assert "it has UNDERREPLICATED_UNRECOVERABLE now, which stands alone" == loss.why
    lost = sighting(finding(Kind.BOOKIE_LOST_CONTENT, "b1"))
    silent = finding(Kind.BOOKIE_FAILING_REQUESTS, "b1")
    (handed_on,) = trace_history([silent], lost).unchecked
    assert "it has BOOKIE_FAILING_REQUESTS now" == handed_on.why
    assert [] == list(trace_history([changed(silent, bookie_id="b2")], lost).unchecked)


def test_the_runs_without_a_ledger_are_counted_from_the_first_that_did_not_list_it():
    """Earlier runs listed the ledger and could not judge it. They do not count."""
    unheard = sighting(runs_unchecked=GONE_RUNS_MAX + 1)
    (kept,) = trace_history([], carried=(unheard,), row=None).unchecked
    assert (1, True) == (kept.runs_unchecked, kept.is_gone)


def test_what_still_cannot_be_checked_is_counted_each_time_if_its_setting_is_the_same():
    """A silent bookie may answer the next run. A changed setting is counted only in the run that
    changed it.
    """
    stuck = sighting(finding(Kind.LEDGER_STUCK, 7), setting=1, runs_unchecked=2)
    assert {"not_checked_again": 1} == counts(trace_history([], carried=(stuck,), row=UNKNOWN_ROW))


def test_a_run_without_a_readable_earlier_run_hands_nothing_on():
    """It knows no earlier finding."""
    assert () == first_history([], NOW).unchecked == unknown_history([], "it is damaged").unchecked
