"""What is added to the findings of a run behind its conclusion, and what a mute does to its exit
code.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from support import report_stories

from auditor.evidence.findings_file import HISTORY_FIELDS
from auditor.evidence.schemas import VERDICTS
from auditor.evidence.table_scan import scan_rows
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import Terms
from auditor.model.finding import Kind
from auditor.run.conclusion import Conclusion
from auditor.run.finding_history import Mutes, add_history, restore_history
from auditor.summary.about import About
from auditor.summary.changes.earlier_run import EarlierRun, Sighting, Unreadable, keep_compared
from auditor.summary.changes.mute_state import state_of
from auditor.summary.changes.mutes import Mute

FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", "inst", False, None)
BEGAN, TODAY = "2026-01-01T03:00:00.000Z", date(2026, 1, 1)
ABOUT = About("20260101T030000Z-000001", BEGAN, FACTS, Terms(1, 2, 3, 4), "warning", False)
LOSS = report_stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 7, id="a")
OTHER = report_stories.finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 8, id="b")


def conclusion(*found: dict[str, Any], code: int = 1, clean: int = 0) -> Conclusion:
    """A run with these findings, as they stand before anything is added."""
    plain = [
        {name: value for name, value in one.items() if name not in HISTORY_FIELDS} for one in found
    ]
    summary = report_stories.summary(
        outcome="VIOLATED", exit_code=code, findings=report_stories.counted(list(found))
    )
    return Conclusion(
        summary | {"exit_code_if_clean": clean},
        [json.dumps(one, separators=(",", ":")) for one in plain],
    )


def added(
    done: Conclusion,
    *muted: dict[str, Any],
    earlier: EarlierRun | Unreadable | None = None,
    problem: str | None = None,
) -> Conclusion:
    mutes = [
        Mute(one["id"], TODAY, "known", Kind(one["kind"]), "on", "r", state_of(one))
        for one in muted
    ]
    return add_history(
        done, ABOUT, scan_rows(VERDICTS.empty_table()), [], earlier, Mutes(mutes, TODAY, problem)
    )


def fields(done: Conclusion) -> list[tuple[Any, ...]]:
    return [tuple(json.loads(line)[name] for name in HISTORY_FIELDS) for line in done.findings]


def test_the_fields_stand_behind_all_others_and_change_none_of_them():
    """A line is what it was, with three fields more."""
    before = conclusion(LOSS, OTHER)
    after = added(before)
    assert [(BEGAN, 1, None)] * 2 == fields(after)
    for old, new in zip(before.findings, after.findings, strict=True):
        assert new.startswith(old[:-1]) and list(HISTORY_FIELDS) == list(json.loads(new))[-3:]


def test_after_a_run_that_cannot_be_read_nothing_is_known():
    """Neither since when, nor what changed."""
    after = added(conclusion(LOSS), earlier=Unreadable("it is damaged"))
    assert [(None, None, None)] == fields(after)
    assert {"since": None, "problem": "it is damaged"} == after.summary["changes"]


@pytest.mark.parametrize(
    ("expected", "muted", "code", "clean"),
    [
        (1, [], 1, 0),
        (1, [LOSS], 1, 0),
        (1, [OTHER], 1, 3),
        (0, [LOSS, OTHER], 1, 0),
        (3, [LOSS, OTHER], 1, 3),
        (4, [LOSS, OTHER], 4, 4),
        (3, [LOSS, OTHER], 3, 3),
    ],
)
def test_only_what_is_not_muted_makes_exit_code_1(
    expected: int, muted: list[dict[str, Any]], code: int, clean: int
):
    """What could not be judged, and a fault of ours, stay what they are; so does the outcome."""
    after = added(conclusion(LOSS, OTHER, code=code, clean=clean), *muted)
    assert (expected, "VIOLATED", len(muted)) == (
        after.summary["exit_code"], after.summary["outcome"], after.summary["mutes"]["findings"],
    )  # fmt: skip


def test_a_replay_takes_history_and_mutes_from_what_was_stored():
    """To the byte; of a finding that was not stored nothing is known, and it counts for the exit
    code.
    """
    run = added(conclusion(LOSS), LOSS)
    stored = [json.loads(line) for line in run.findings]
    same = restore_history(conclusion(LOSS), ABOUT, stored, run.summary)
    assert (run.findings, 0, run.summary["mutes"]) == (
        same.findings,
        same.summary["exit_code"],
        same.summary["mutes"],
    )
    more = restore_history(conclusion(LOSS, OTHER), ABOUT, stored, run.summary)
    assert ((None, None, None), 1) == (fields(more)[1], more.summary["exit_code"])


def test_a_replay_of_an_earlier_version_adds_nothing():
    """Else each of its findings would differ from the stored one."""
    plain = conclusion(LOSS)
    assert plain is restore_history(plain, ABOUT, [LOSS], report_stories.summary())


def test_a_file_that_cannot_be_read_is_said():
    """Nothing is muted."""
    assert (
        "m mutes nothing"
        == added(conclusion(LOSS), problem="m mutes nothing").summary["mutes"]["problem"]
    )


def test_a_replay_that_finds_more_is_not_muted():
    """Today's code may see what the code that ran did not."""
    run = added(conclusion(LOSS), LOSS)
    stored = [json.loads(line) for line in run.findings]
    more = LOSS | {"entries_total": LOSS["entries_total"] + 1}
    again = restore_history(conclusion(more), ABOUT, stored, run.summary)
    assert ([(BEGAN, 1, None)], 1) == (fields(again), again.summary["exit_code"])


@pytest.mark.parametrize(
    "damage",
    [{"entries_total": "x"}, {"ledger_id": True}, {"bookie_id": 5}, {"family": []}, {"kind": 7}],
)
def test_no_file_of_an_earlier_run_costs_a_verdict(damage: dict[str, Any]):
    """Its fields were not checked one by one: if they cause any error, the history is unknown."""
    before = Sighting(keep_compared(LOSS) | damage, BEGAN, 1)
    earlier = EarlierRun("r", BEGAN, {}, [before])
    after = added(conclusion(LOSS), earlier=earlier)
    assert [(None, None, None)] == fields(after) and 1 == after.summary["exit_code"]
    assert (
        after.summary["changes"]["since"] is None
        and "cannot be used" in after.summary["changes"]["problem"]
    )


def test_no_file_of_mutes_costs_a_verdict():
    """One that cannot be compared mutes nothing, and says so."""
    state = replace(state_of(LOSS), copies_confirmed="1")  # type: ignore[arg-type]
    mutes = [Mute(LOSS["id"], TODAY, "known", Kind(LOSS["kind"]), "on", "r", state)]
    after = add_history(
        conclusion(LOSS), ABOUT, scan_rows(VERDICTS.empty_table()), [], None, Mutes(mutes, TODAY)
    )
    assert (1, [(BEGAN, 1, None)]) == (after.summary["exit_code"], fields(after))
    assert "nothing is muted" in after.summary["mutes"]["problem"]
