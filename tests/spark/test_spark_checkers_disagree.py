"""The second checker in whole runs: differences are withheld, everything else is reported, and the
run ends with exit 4.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from support.audits import (
    FIRST_LOOK_ON_SPARK,
    ON_SPARK,
    Outcome,
    accounted,
    audit,
    audit_ledgers,
    replay_run,
)

from auditor.evidence.ids import Ids
from auditor.evidence.run_directory import place
from auditor.evidence.schemas import VERDICTS
from auditor.judging import settle as judgement
from auditor.judging.counted_answers import COUNTED
from auditor.judging.healthy_ledgers import Healthy
from auditor.model.evidence import LedgerEvidence, Terms
from auditor.model.verdict import Standing, Verdict
from auditor.run import judging_rounds as judgings
from auditor.sandbox.cluster import SandboxCluster
from auditor.stages import asking, selection, steps

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]  # a worker cannot import a test

LEDGERS_ALL = range(1, 9)
LACKING, LACKING_TOO = 5, 6
SOUND = 3

Settle = Callable[[LedgerEvidence, Terms], judgement.Step]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield eight ledgers on three bookies; two lack an entry on the two bookies that should hold
    it.
    """
    with SandboxCluster(tmp_path_factory.mktemp("checkers"), 3) as cluster:
        for ledger_id in LEDGERS_ALL:
            lose = {"b1": "6", "b2": "6"} if ledger_id in (LACKING, LACKING_TOO) else {}
            cluster.place(ledger_id, cluster.ledger("e3 w2 a2 0:[b1 b2 b3] closed 29"), lose=lose)
        yield cluster


def one_entry_too_many(verdict: Verdict) -> Verdict:
    """Make the first checker count wrongly."""
    return replace(
        verdict,
        findings=tuple(
            replace(one, entries_total=one.entries_total + 1) for one in verdict.findings
        ),
    )


def nothing_wrong(verdict: Verdict) -> Verdict:
    """Make the first checker overlook everything."""
    return Verdict(verdict.ledger_id, Standing.SOUND)


def wrong_on(ledger_id: int, wrongly: Callable[[Verdict], Verdict], right: Settle) -> Settle:
    """Change the first checker's verdict on one ledger."""

    def settled(evidence: LedgerEvidence, terms: Terms) -> judgement.Step:
        step = right(evidence, terms)
        is_meant = evidence.ledger_id == ledger_id and step.todo is judgement.Todo.NOTHING
        return replace(step, verdict=wrongly(step.verdict)) if is_meant else step

    return settled


def plant_in_workers(monkeypatch: pytest.MonkeyPatch, with_bug: Callable[[Settle], Settle]) -> None:
    """Plant the bug in the first checker of every task that judges."""
    from auditor.stages import stages

    make = stages.judge_of

    def made(*arguments: Any, **named: Any) -> Any:
        work = make(*arguments, **named)

        def planted(batches: Any) -> Any:
            from auditor.judging import settle as judgement

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(judgement, "settle", with_bug(judgement.settle))
                yield from work(batches)

        return planted

    monkeypatch.setattr(stages, "judge_of", made)


def detail_of(outcome: Outcome, ledger_id: int) -> str:
    """Return why nothing is reported of a ledger, from its row."""
    rows = place(str(outcome.run_dir)).read_table("verdicts", VERDICTS).to_pylist()
    return str(next(row["detail"] for row in rows if row["ledger_id"] == ledger_id))


def test_without_a_bug_nothing_is_withheld(cluster: SandboxCluster, tmp_path: Path) -> None:
    """Every ledger is given to the second checker, and it confirms them all."""
    outcome = accounted(audit(cluster, tmp_path, sound_sample="100%"))
    assert 1 == outcome.exit_code, outcome.stdout
    assert 0 == outcome.summary["indeterminate"]["checkers_disagree"]
    assert {"violated": 2, "sound": 6} == {
        word: n for word, n in outcome.summary["ledgers"].items() if n and word != "listed"
    }


def test_what_the_checkers_differ_on_is_withheld_and_all_else_is_said(
    cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 4, one INDETERMINATE(checkers_disagree) with both sides, every other verdict unchanged.
    The evidence is kept, so a replay without the bug gives the withheld verdict.
    """
    with monkeypatch.context() as planted:
        plant_in_workers(planted, partial(wrong_on, LACKING, one_entry_too_many))
        outcome = audit(cluster, tmp_path)
    assert 4 == outcome.exit_code, outcome.stdout
    assert ("AUDITOR_FAULT", 4) == (outcome.summary["outcome"], outcome.summary["exit_code"])
    assert outcome.last_line.startswith("auditor: AUDITOR_FAULT run="), outcome.stdout
    assert outcome.last_line.endswith("listed=8 sound=6 exempt=0 indeterminate=1 violated=1")
    assert 1 == outcome.summary["indeterminate"]["checkers_disagree"]
    assert [LACKING_TOO] == [found["ledger_id"] for found in outcome.findings]
    assert "entries in all: the first checker says 2, the second 1" in detail_of(outcome, LACKING)
    assert "its two checkers differ on the same evidence for 1 ledger" in outcome.stdout
    assert [{"ledger_id": LACKING, "detail": detail_of(outcome, LACKING)}] == outcome.summary[
        "checkers_disagree"
    ]
    assert f"ledger {LACKING}: " in outcome.stdout
    assert outcome.run_dir is not None
    again = replay_run(outcome.run_dir)
    assert 1 == again.exit_code, again.stdout
    alone = replay_run(outcome.run_dir / "poison" / f"ledger-{LACKING}")
    assert ["violated"] == alone.standings(LACKING)


def test_a_comparison_that_is_wrong_discredits_every_list_that_is_not_stored(
    cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One damaged ledger is in the sample, and its lists show the fault. Nothing is said of the
    others, whose lists cannot be looked at any more. A replay without the bug says so too. It has
    no reads that confirm the loss.
    """
    with monkeypatch.context() as planted:
        planted.setattr(asking, "_is_as_expected", lambda _answer, _question: True)
        planted.setattr(steps, "is_in_sample", lambda ledger_id, _terms: ledger_id == LACKING)
        outcome = audit(cluster, tmp_path, spot_reads="0")
    unknown = "indeterminate: checkers_disagree"
    assert [unknown] * 8 == outcome.standings(*LEDGERS_ALL)
    assert 4 == outcome.exit_code, outcome.stdout
    assert "by its columns it is sound" in detail_of(outcome, LACKING)
    assert outcome.run_dir is not None
    again = replay_run(outcome.run_dir)
    assert ["indeterminate: answer_timeout"] == again.standings(LACKING)
    others = [one for one in LEDGERS_ALL if one != LACKING]
    assert [unknown] * len(others) == again.standings(*others)


def test_a_sound_ledger_is_checked_again_where_the_sample_has_it(
    cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first checker overlooks is found if the sample is everything, and not otherwise."""
    plant_in_workers(monkeypatch, partial(wrong_on, LACKING, nothing_wrong))
    (tmp_path / "all").mkdir()
    (tmp_path / "none").mkdir()
    outcome = audit(cluster, tmp_path / "all", ledger_ids=[SOUND, LACKING], sound_sample="100%")
    assert (4, 1) == (
        outcome.exit_code,
        outcome.summary["indeterminate"]["checkers_disagree"],
    ), outcome.stdout
    assert "standing: the first checker says sound, the second violated" in detail_of(
        outcome, LACKING
    )
    outcome = audit(cluster, tmp_path / "none", ledger_ids=[SOUND, LACKING], sound_sample="0%")
    assert (0, 0) == (
        outcome.exit_code,
        outcome.summary["indeterminate"]["checkers_disagree"],
    ), outcome.stdout


def test_what_columns_overlook_shows_in_the_sample_and_is_judged_again(
    cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two losses are healthy by columns, and one of them is in the sample. It is withheld, and the
    other one is found: the whole shard is judged again without columns.
    """
    from auditor.stages import steps

    def found(batch: Any, _: Terms) -> dict[int, Healthy]:
        return dict.fromkeys(range(batch.num_rows), Healthy(60, 0))

    monkeypatch.setattr(steps, "healthy_ledgers", found)
    monkeypatch.setattr(steps, "is_in_sample", lambda ledger_id, _: ledger_id == LACKING)
    outcome = audit(cluster, tmp_path, sound_sample="0%")
    assert ["indeterminate: checkers_disagree", "violated"] == outcome.standings(
        LACKING, LACKING_TOO
    )
    assert detail_of(outcome, LACKING).startswith(
        "by its columns it is sound with 60 copies listed of 60; the first checker"
    )
    assert 4 == outcome.exit_code, outcome.stdout
    problems = [
        event["problem"]
        for event in outcome.events
        if "was done again, ledger by ledger" in event.get("problem", "")
    ]
    assert 1 == len(problems)


def test_single_ledgers_are_given_to_both_checkers_too(
    cluster: SandboxCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`auditor ledger` withholds the verdict, gives both sides, and ends with exit 4."""
    monkeypatch.setattr(
        judgement, "settle", wrong_on(LACKING, one_entry_too_many, judgement.settle)
    )
    outcome = audit_ledgers(cluster, [SOUND, LACKING, LACKING_TOO])
    assert 4 == outcome.exit_code, outcome.stdout
    assert ["sound", "indeterminate: checkers_disagree", "violated"] == outcome.standings(
        SOUND, LACKING, LACKING_TOO
    )
    assert (
        "entries in all: the first checker says 2, the second 1"
        in outcome.verdicts[LACKING].report["detail"]
    )


def all_healthy(ledger_ids: Ids, *_: object) -> pa.RecordBatch:
    """Count every ledger as healthy."""
    ids = ledger_ids.tolist()
    cells = (ids, [60] * len(ids), [0] * len(ids))
    return pa.RecordBatch.from_arrays([pa.array(one) for one in cells], schema=COUNTED)


@pytest.mark.spark
def test_what_counts_overlook_shows_in_the_sample_and_is_judged_again(
    spark: object, cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two losses are healthy by the counts, and one of them is in the sample. It is withheld, and
    the other one is found.
    """
    monkeypatch.setattr(selection, "count_answers", all_healthy)
    monkeypatch.setattr(steps, "are_in_sample", lambda ids, _: ids == LACKING)
    monkeypatch.setattr(steps, "is_in_sample", lambda ledger_id, _: ledger_id == LACKING)
    outcome = audit(cluster, tmp_path, **FIRST_LOOK_ON_SPARK)
    assert ["indeterminate: checkers_disagree", "violated"] == outcome.standings(
        LACKING, LACKING_TOO
    )
    assert detail_of(outcome, LACKING).startswith("by the counts of its answers it is sound")
    assert 4 == outcome.exit_code, outcome.stdout


def spoilt_by(ledger_id: int, marks: Path, right: Settle) -> Settle:
    """Break the first checker at one ledger: that one gets a wrong verdict, and every later one is
    sound, in all workers of that generation and in their children.
    """
    spoilt = marks / os.environ.get("BOOKKEEPER_AUDITOR_WORKERS", "first")

    def settled(evidence: LedgerEvidence, terms: Terms) -> judgement.Step:
        if evidence.ledger_id == ledger_id:
            spoilt.touch()
        step = right(evidence, terms)
        if step.todo is not judgement.Todo.NOTHING or not spoilt.exists():
            return step
        wrongly = one_entry_too_many if evidence.ledger_id == ledger_id else nothing_wrong
        return replace(step, verdict=wrongly(step.verdict))

    return settled


@pytest.mark.spark
@pytest.mark.parametrize(
    ("standing", "differing_max"),
    [
        pytest.param("violated", judgings.DIFFERING_MAX, id="judged again"),
        pytest.param("sound", 0, id="not judged again", marks=pytest.mark.long),
    ],
)
def test_what_a_process_judged_that_cannot_be_trusted_is_judged_again(
    spark: object,
    cluster: SandboxCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    standing: str,
    differing_max: int,
) -> None:
    """A new process judges the same evidence, without the ledger that showed the fault. Otherwise a
    loss would be overlooked.
    """
    plant_in_workers(monkeypatch, partial(spoilt_by, LACKING, tmp_path))
    monkeypatch.setattr(judgings, "DIFFERING_MAX", differing_max)
    chosen = [LACKING, LACKING_TOO]
    outcome = audit(cluster, tmp_path, ledger_ids=chosen, sound_sample="0%", **ON_SPARK)
    assert ["indeterminate: checkers_disagree", standing] == outcome.standings(LACKING, LACKING_TOO)
    assert "entries in all: the first checker says 2, the second 1" in detail_of(outcome, LACKING)
    problems = [
        event["problem"]
        for event in outcome.events
        if "was done again, ledger by ledger" in event.get("problem", "")
    ]
    assert bool(differing_max) == bool(problems)
    assert 4 == outcome.exit_code, outcome.stdout
