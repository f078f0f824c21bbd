"""What is added to the findings of a run after its conclusion, and how mutes change its exit
code.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from support import report_stories
from support.tables_in_memory import Tables

from auditor.after.compared_finding import ComparedFinding
from auditor.after.history import EarlierRun, Sighting, UnreadableRun
from auditor.after.mutes import Mute, Mutes, state_of
from auditor.after.rechecks import terms_json
from auditor.evidence.rows import answer_row, table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import ANSWERS, READS, VERDICTS
from auditor.evidence.table_scan import scan_rows
from auditor.model.availability import Answer, AnswerStatus, Greeting
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration
from auditor.model.evidence import Terms
from auditor.model.finding import Kind
from auditor.model.finding_record import HISTORY_FIELDS, FindingRecord
from auditor.run.conclusion import Conclusion, add_history, restore_history
from auditor.summary.about import About

NOWHERE = cast(Place, Tables())
FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", "inst", False, None)
BEGAN, TODAY = "2026-01-01T03:00:00.000Z", date(2026, 1, 1)
ABOUT = About("20260101T030000Z-000001", BEGAN, FACTS, Terms(1, 2, 3, 4), "warning", False)
LOSS = report_stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 7, id="a")
OTHER = report_stories.finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 8, id="b")


def conclusion(*found: FindingRecord, code: int = 1, clean: int = 0) -> Conclusion:
    """Return the conclusion of a run with these findings, before their history is added."""
    plain = [replace(one, history=None) for one in found]
    summary = report_stories.summary(
        outcome="VIOLATED", exit_code=code, findings=report_stories.counted(list(found))
    )
    return Conclusion(replace(summary, exit_code_if_clean=clean), plain)


def added(
    done: Conclusion,
    *muted: FindingRecord,
    earlier: EarlierRun | UnreadableRun | None = None,
    problem: str | None = None,
    fail_on: str = "warning",
    until: date = TODAY,
) -> Conclusion:
    mutes = [Mute(one.id, until, "known", one.kind, "on", "r", state_of(one)) for one in muted]
    return add_history(
        done,
        NOWHERE,
        replace(ABOUT, fail_on=fail_on),
        scan_rows(VERDICTS.empty_table()),
        [],
        earlier,
        Mutes(mutes, TODAY, problem),
    )


def fields(done: Conclusion) -> list[tuple[Any, ...]]:
    return [tuple(one.as_json()[name] for name in HISTORY_FIELDS) for one in done.findings]


def test_the_fields_stand_behind_all_others_and_change_none_of_them():
    """A line is what it was, with five fields more."""
    before = conclusion(LOSS, OTHER)
    after = added(before)
    assert [(BEGAN, 1, None, "new", ABOUT.run_id)] * 2 == fields(after)
    for old, new in zip(before.findings, after.findings, strict=True):
        assert new.line().startswith(old.line()[:-1])
        assert list(HISTORY_FIELDS) == list(new.as_json())[-5:]


def test_after_a_run_that_cannot_be_read_nothing_is_known():
    """It is unknown since when a finding is seen, and what changed."""
    after = added(conclusion(LOSS), earlier=UnreadableRun("it is damaged"))
    assert [(None, None, None, None, ABOUT.run_id)] == fields(after)
    assert {"since": None, "problem": "it is damaged"} == after.summary.as_json()["changes"]


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
    expected: int, muted: list[FindingRecord], code: int, clean: int
):
    """Where every finding is muted, the exit code is that of a run without findings. Codes 3 and 4
    stay, and so does the outcome.
    """
    after = added(conclusion(LOSS, OTHER, code=code, clean=clean), *muted)
    assert (expected, "VIOLATED", len(muted)) == (
        after.summary.exit_code, after.summary.outcome, after.summary.mutes.findings,
    )  # fmt: skip


def earlier_run(*found: FindingRecord, **changes: Any) -> EarlierRun:
    """Return the run before, which had these findings. `changes`: fields of each sighting."""
    seen = [replace(Sighting(ComparedFinding.of(one), BEGAN, 1), **changes) for one in found]
    return EarlierRun("r", BEGAN, terms_json(ABOUT), seen)


SMALLER = replace(LOSS, entries_total=LOSS.entries_total - 1)
INFO = report_stories.finding(Kind.LEDGER_STUCK, 9, id="c")


@pytest.mark.parametrize(
    ("code", "became", "found", "earlier"),
    [
        (1, ["new"], [LOSS], None),
        (1, ["new"], [LOSS], earlier_run(OTHER)),
        (1, ["worse"], [LOSS], earlier_run(SMALLER)),
        (0, ["still"], [LOSS], earlier_run(LOSS)),
        (0, ["still", "new"], [LOSS, INFO], earlier_run(LOSS)),
        (1, ["still", "new"], [LOSS, OTHER], earlier_run(LOSS)),
        (1, [None], [LOSS], UnreadableRun("it is damaged")),
    ],
)
def test_with_fail_on_new_only_news_make_exit_code_1(
    code: int,
    became: list[str | None],
    found: list[FindingRecord],
    earlier: EarlierRun | UnreadableRun | None,
):
    """News are of warning or above, and new or worse; what is not known counts. The outcome stays,
    and code 3 where something is unknown.
    """
    after = added(conclusion(*found), earlier=earlier, fail_on="new")
    assert became == [one.change for one in after.findings]
    assert (code, "VIOLATED") == (after.summary.exit_code, after.summary.outcome)
    unknown = added(conclusion(*found, clean=3), earlier=earlier, fail_on="new")
    assert (code or 3) == unknown.summary.exit_code
    assert 1 == added(conclusion(*found), earlier=earlier).summary.exit_code


def test_a_finding_whose_mute_ended_is_news_once():
    """It was accepted until a day, or as it was: it is news on the first night without the mute.
    Muted ones are never news.
    """
    for was_muted in (True, False):
        before = earlier_run(LOSS, was_muted=was_muted)
        muted = added(conclusion(LOSS), LOSS, earlier=before, fail_on="new")
        over = added(
            conclusion(LOSS), LOSS, earlier=before, fail_on="new", until=TODAY - timedelta(days=1)
        )
        outgrown = added(conclusion(LOSS), SMALLER, earlier=before, fail_on="new")
        removed = added(conclusion(LOSS), earlier=before, fail_on="new")
        codes = [one.summary.exit_code for one in (muted, over, outgrown, removed)]
        assert [0, *[int(was_muted)] * 3] == codes


def test_unannounced_news_stay_news():
    """They say since which run. A muted finding is not news even then."""
    before = earlier_run(LOSS, unannounced_since="r0")
    announced = added(conclusion(LOSS, OTHER), earlier=before, fail_on="new")
    assert [("still", "r0"), ("new", ABOUT.run_id)] == [
        (one.change, one.news_since) for one in announced.findings
    ]
    alone = added(conclusion(LOSS), earlier=before, fail_on="new")
    muted = added(conclusion(LOSS), LOSS, earlier=before, fail_on="new")
    assert (1, 0) == (alone.summary.exit_code, muted.summary.exit_code)


def test_a_replay_takes_the_news_from_what_was_stored():
    """What is worse than it was stored counts, whatever it was then."""
    about = replace(ABOUT, fail_on="new")
    run = added(conclusion(LOSS), earlier=earlier_run(LOSS), fail_on="new")
    again = restore_history(conclusion(LOSS), about, run.findings, run.summary)
    assert (0, run.findings) == (again.summary.exit_code, again.findings)
    more = replace(LOSS, entries_total=LOSS.entries_total + 1)
    assert (
        1 == restore_history(conclusion(more), about, run.findings, run.summary).summary.exit_code
    )


def test_a_replay_takes_history_and_mutes_from_what_was_stored():
    """The findings are equal to the byte. A finding that was not stored has no history, and it
    counts for the exit code.
    """
    run = added(conclusion(LOSS), LOSS)
    stored = run.findings
    same = restore_history(conclusion(LOSS), ABOUT, stored, run.summary)
    assert (run.findings, 0, run.summary.as_json()["mutes"]) == (
        same.findings,
        same.summary.exit_code,
        same.summary.as_json()["mutes"],
    )
    more = restore_history(conclusion(LOSS, OTHER), ABOUT, stored, run.summary)
    unknown = (None, None, None, None, ABOUT.run_id)
    assert (unknown, 1) == (fields(more)[1], more.summary.exit_code)


def test_a_replay_of_an_earlier_version_adds_nothing():
    """The stored findings have no history. With one, each finding would differ from its stored
    line.
    """
    plain = conclusion(LOSS)
    assert plain is restore_history(plain, ABOUT, [LOSS], report_stories.summary())


def test_a_file_of_mutes_that_cannot_be_read_is_reported():
    """The summary has the problem."""
    assert (
        "m mutes nothing"
        == added(conclusion(LOSS), problem="m mutes nothing").summary.mutes.problem
    )


def test_a_replay_that_finds_more_is_not_muted():
    """Today's code may see what the code that ran did not."""
    run = added(conclusion(LOSS), LOSS)
    stored = run.findings
    more = replace(LOSS, entries_total=LOSS.entries_total + 1)
    again = restore_history(conclusion(more), ABOUT, stored, run.summary)
    assert ([(BEGAN, 1, None, None, ABOUT.run_id)], 1) == (fields(again), again.summary.exit_code)


@pytest.mark.parametrize(
    "damage",
    [{"entries_total": "x"}, {"bookie_id": 5}, {"missing_on": 7}, {"kind": 7}],
)
def test_no_file_of_an_earlier_run_costs_a_verdict(damage: dict[str, Any]):
    """A stored finding may have fields of wrong types. Then the history is unknown, and the exit
    code is that of the findings.
    """
    before = Sighting(replace(ComparedFinding.of(LOSS), **damage), BEGAN, 1)
    earlier = EarlierRun("r", BEGAN, {}, [before])
    after = added(conclusion(LOSS), earlier=earlier)
    assert [(None, None, None, None, ABOUT.run_id)] == fields(
        after
    ) and 1 == after.summary.exit_code
    assert after.summary.changes.since is None and "cannot be used" in after.summary.changes.problem


def test_lost_content_is_not_resolved_by_a_greeting(tmp_path: Path):
    """The run's own evidence says whether the bookie answered for its ledgers."""
    run = place(str(tmp_path))
    answers = [
        answer_row(Answer("b1", ledger, 1, 0, AnswerStatus.TIMED_OUT)) for ledger in range(4)
    ]
    run.write_table("evidence/answers", table(ANSWERS, answers), "all")
    run.write_table("evidence/reads", table(READS, []), "all")
    emptied = report_stories.finding(Kind.BOOKIE_LOST_CONTENT, "b1")
    lost = Sighting(ComparedFinding.of(emptied), BEGAN, 1)
    bookie = BookieRecord("b1", 1, 0, Registration.WRITABLE, greeting=Greeting.ANSWERED)
    done = conclusion()
    verdicts = scan_rows(VERDICTS.empty_table())
    earlier, mutes = EarlierRun("r", BEGAN, {}, [lost]), Mutes([], TODAY)
    after = add_history(done, run, ABOUT, verdicts, [bookie], earlier, mutes)
    assert (0, 1) == tuple(
        after.summary.as_json()["changes"][name] for name in ("resolved", "not_checked_again")
    )
    (line,) = after.unchecked
    assert "it answered for 0 of 4 ledgers" == json.loads(line)["why"]


def test_no_file_of_mutes_costs_a_verdict():
    """A mute whose state cannot be compared mutes nothing, and the summary says so."""
    state = replace(state_of(LOSS), copies_confirmed="1")  # type: ignore[arg-type]
    mutes = [Mute(LOSS.id, TODAY, "known", LOSS.kind, "on", "r", state)]
    after = add_history(
        conclusion(LOSS),
        NOWHERE,
        ABOUT,
        scan_rows(VERDICTS.empty_table()),
        [],
        None,
        Mutes(mutes, TODAY),
    )
    assert (1, [(BEGAN, 1, None, "new", ABOUT.run_id)]) == (after.summary.exit_code, fields(after))
    assert "nothing is muted" in after.summary.mutes.problem
