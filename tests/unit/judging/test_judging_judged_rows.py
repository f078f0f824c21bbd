"""Judge, withhold or set aside a ledger: the step and the row, the same in run and replay."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from auditor.config import JudgingLimits
from auditor.evidence.rows import Row, table
from auditor.evidence.schemas import VERDICTS
from auditor.judging import judge as settling
from auditor.judging import verdict_rows
from auditor.judging import verdict_rows as rows
from auditor.judging.judge import Judge
from auditor.judging.settle import Step, Todo, end_unjudged
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import LedgerEvidence, Look, Terms
from auditor.model.ledger import LedgerRecord, Mark, RecordStatus
from auditor.model.verdict import CopyCounts, Exempt, Standing, Unknown, Verdict

LEDGER, JUDGED_AT_MS, MARKED_AT_MS = 7, 1_000, 400
FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", None, False, None)
LIMITS = JudgingLimits(ledger_time_max_ms=60_000, ledger_memory_max=256 * 2**20)
TERMS = Terms(JUDGED_AT_MS, 0, 1, 2)
POISONED = Step(Verdict(LEDGER, Standing.INDETERMINATE, unknowns=(Unknown.POISON,)), Todo.NOTHING)
DELETED = Step(Verdict(LEDGER, Standing.EXEMPT, Exempt.DELETED), Todo.NOTHING)
CLAIMED = Verdict(LEDGER, Standing.SOUND, copies=CopyCounts(60, 59, 1, 0))


def seen(status: RecordStatus = RecordStatus.GONE) -> LedgerEvidence:
    """Return two looks at a marked ledger."""
    looks = (
        Look(LedgerRecord(LEDGER, look, 0, status, mark=Mark(MARKED_AT_MS))) for look in (1, 2)
    )
    return LedgerEvidence(LEDGER, tuple(looks))


def verdict_fields(row: Row) -> dict[str, Any]:
    """Return the columns that this module decides."""
    found = table(VERDICTS, [row]).to_pylist()[0]
    return {
        name: found[name]
        for name in ("ledger_id", "standing", "unknowns", "looks", "mark_age_ms", "detail")
    }


def expected(standing: str, unknowns: list[str], detail: str) -> dict[str, Any]:
    age_ms = JUDGED_AT_MS - MARKED_AT_MS
    named = {"ledger_id": LEDGER, "standing": standing, "unknowns": unknowns}
    return {**named, "looks": 2, "mark_age_ms": age_ms, "detail": detail}


def test_a_ledger_that_was_judged_is_described_by_its_verdict() -> None:
    """The row has the mark's age at the time of judgement, and no detail."""
    step, row = rows.judge_to_row(seen(), TERMS, FACTS)
    assert (DELETED, expected("exempt", [], "")) == (step, verdict_fields(row))


def raising(error: BaseException) -> Any:
    def judge(*_: object) -> Any:
        raise error

    return judge


def judging(monkeypatch: pytest.MonkeyPatch, *, careful: bool) -> Row:
    """Return the row of one ledger, as a task judges it."""

    def aside(evidence: LedgerEvidence, detail: str) -> Row:
        return rows.set_aside(evidence, detail, TERMS, FACTS)[1]

    judge = Judge(
        lambda one: rows.judge_to_row(one, TERMS, FACTS)[1], aside, LIMITS, careful=careful
    )
    (row,) = judge.judge_all([seen()])
    return row


@pytest.mark.parametrize("careful", [True, False])
@pytest.mark.parametrize("error", [ValueError("odd"), SystemExit("odd")])
def test_a_ledger_on_which_judging_raises_is_set_aside(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, careful: bool
) -> None:
    """Its reason is `poison`, and the detail names the exception. This includes SystemExit, in the
    task's process and in a child.
    """
    monkeypatch.setattr("auditor.judging.settle.settle", raising(error))
    row = judging(monkeypatch, careful=careful)
    assert expected("indeterminate", ["poison"], f"{type(error).__name__}: odd") == verdict_fields(
        row
    )


def test_a_ledger_whose_row_cannot_be_made_is_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its verdict is dropped."""
    tries = iter([raising(KeyError("odd")), verdict_rows.verdict_row])
    monkeypatch.setattr(rows, "verdict_row", lambda *given: next(tries)(*given))
    row = judging(monkeypatch, careful=False)
    assert expected("indeterminate", ["poison"], "KeyError: 'odd'") == verdict_fields(row)


@pytest.mark.parametrize("careful", [True, False])
def test_a_fault_of_ours_is_raised(monkeypatch: pytest.MonkeyPatch, careful: bool) -> None:
    """A failed assertion says nothing about the ledger."""
    monkeypatch.setattr("auditor.judging.settle.settle", raising(AssertionError("ours")))
    with pytest.raises(AssertionError, match="ours"):
        judging(monkeypatch, careful=careful)


@pytest.mark.parametrize("careful", [True, False])
def test_a_ledger_that_takes_all_memory_is_stopped(
    monkeypatch: pytest.MonkeyPatch, careful: bool
) -> None:
    """The detail names the limit, not an exception."""
    monkeypatch.setattr("auditor.judging.settle.settle", raising(MemoryError("all of it")))
    detail = "judging was stopped: it took more memory than 256 MiB"
    assert expected("indeterminate", ["poison"], detail) == verdict_fields(
        judging(monkeypatch, careful=careful)
    )


def test_ledgers_on_which_judging_raises_are_not_counted_as_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They cost no time: each is set aside, however many there are."""
    monkeypatch.setattr("auditor.judging.judge.POISON_MAX", 1)
    judge = Judge(raising(ValueError("odd")), lambda _, why: why, LIMITS, careful=False)
    assert ["ValueError: odd"] * 3 == judge.judge_all([seen()] * 3)


def test_a_ledger_is_judged_by_the_terms_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is judged by everything that was seen of it, too."""
    given: list[object] = []
    settled = lambda *these: (given.append(these), (DELETED, ""))[1]  # noqa: E731
    monkeypatch.setattr(rows, "settle_and_check", settled)
    assert DELETED == rows.judge_to_row(seen(), TERMS, FACTS)[0]
    assert [(seen(), TERMS)] == given


def test_a_ledger_on_which_the_checkers_differ_says_in_what(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The difference is in its row, next to the step that withholds its verdict."""
    step = end_unjudged(LEDGER, Unknown.CHECKERS_DISAGREE)
    monkeypatch.setattr(rows, "settle_and_check", lambda *_: (step, "one says more"))
    found, row = rows.judge_to_row(seen(), TERMS, FACTS)
    assert (step, expected("indeterminate", ["checkers_disagree"], "one says more")) == (
        found,
        verdict_fields(row),
    )


def test_what_the_checkers_differ_on_is_reported_unchanged() -> None:
    """The ledger is not judged again."""
    step, row = rows.withheld(seen(), "the second one says otherwise", TERMS, FACTS)
    assert expected(
        "indeterminate", ["checkers_disagree"], "the second one says otherwise"
    ) == verdict_fields(row)
    assert (LEDGER, (Unknown.CHECKERS_DISAGREE,), Todo.NOTHING) == (
        step.verdict.ledger_id,
        step.verdict.unknowns,
        step.todo,
    )


def test_a_claim_that_the_first_checker_shares_stands() -> None:
    """The step and the row are those of a ledger of which nothing was claimed."""
    assert rows.judge_to_row(seen(), TERMS, FACTS) == rows.judge_claimed(
        seen(), DELETED.verdict, TERMS, FACTS
    )


@pytest.mark.parametrize(
    ("looks", "claimed", "detail"),
    [
        (
            2,
            CLAIMED,
            "by its columns it is sound with 59 copies listed of 60; the first checker says exempt"
            " with no copies, and next nothing",
        ),
        (
            1,
            DELETED.verdict,
            "by its columns it is exempt with no copies; the first checker says exempt with no"
            " copies, and next look",
        ),
    ],
    ids=["another verdict", "not final"],
)
def test_a_claim_that_the_first_checker_does_not_share_is_withheld(
    looks: int, claimed: Verdict, detail: str
) -> None:
    """A verdict that is not final yet does not confirm a claim, even if it is the same."""
    evidence = replace(seen(), looks=seen().looks[:looks])
    step, row = rows.judge_claimed(evidence, claimed, TERMS, FACTS)
    assert end_unjudged(LEDGER, Unknown.CHECKERS_DISAGREE) == step
    named = expected("indeterminate", ["checkers_disagree"], detail)
    assert {**named, "looks": looks} == verdict_fields(row)


def test_what_the_checkers_differ_on_is_reported_whatever_was_claimed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The row says how they differ, not how the claim does."""
    step = end_unjudged(LEDGER, Unknown.CHECKERS_DISAGREE)
    monkeypatch.setattr(rows, "settle_and_check", lambda *_: (step, "one says more"))
    found, row = rows.judge_claimed(seen(), CLAIMED, TERMS, FACTS)
    assert (step, expected("indeterminate", ["checkers_disagree"], "one says more")) == (
        found,
        verdict_fields(row),
    )


def test_a_ledger_that_is_set_aside_says_why() -> None:
    """The detail shows whether judging was stopped."""
    detail = settling.stopped_detail("it took longer than 0.4 s")
    step, row = rows.set_aside(seen(), detail, TERMS, FACTS)
    assert "judging was stopped: it took longer than 0.4 s" == detail
    assert (POISONED, expected("indeterminate", ["poison"], detail)) == (step, verdict_fields(row))
    assert settling.is_stopped(detail) and not settling.is_stopped("ValueError: odd")


def test_every_row_is_reported_with_the_facts_of_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Witnesses name the cluster."""
    given: list[object] = []
    monkeypatch.setattr(rows, "verdict_row", lambda *these: given.append(these[3]))
    rows.judge_to_row(seen(), TERMS, FACTS)
    rows.withheld(seen(), "differs", TERMS, FACTS)
    rows.set_aside(seen(), "stopped", TERMS, FACTS)
    rows.judge_claimed(seen(), CLAIMED, TERMS, FACTS)
    assert [FACTS] * 5 == given


@pytest.mark.parametrize("careful", [True, False])
def test_only_a_careful_judge_works_in_a_child(careful: bool) -> None:
    """A fork costs more than judging most ledgers."""
    judge = Judge(lambda _: os.getpid(), lambda _, why: why, LIMITS, careful=careful)
    (pid,) = judge.judge_all([seen()])
    assert careful is (pid != os.getpid())
