"""Judgings of a run: which rows become verdicts when a judging was done again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from auditor.evidence.ids import EVERYTHING
from auditor.evidence.journal import Journal
from auditor.evidence.run_directory import MemoryDirectory, Place, place
from auditor.evidence.schemas import ANSWERS, VERDICTS
from auditor.judging.settle import Todo
from auditor.run.judging_rounds import COUNTED_WRONGLY, DIFFERING_MAX, Judgings
from auditor.stages.stages import Stages
from auditor.stages.steps import STEPS, steps_name

DIFFER = {"standing": "indeterminate", "unknowns": ["checkers_disagree"], "detail": "they differ"}


class Stage:
    """Judges as a test says: counting answers settles ledgers 1 to 3, and leaves 4 and 5.

    On `differ` the checkers differ, unless the caller knows it. Counting found `claimed` healthy,
    which are in the sample; by the evidence `unsound` are `found`.
    """

    def __init__(
        self,
        run: Place,
        differ: Iterable[int],
        claimed: Iterable[int] = (),
        unsound: Iterable[int] = (),
        found: Mapping[str, Any] = {"standing": "violated"},
    ) -> None:
        self.run, self.differ = run, frozenset(differ)
        self.claimed, self.unsound, self.found = frozenset(claimed), frozenset(unsound), found
        self.judged: list[tuple[int, object, object]] = []

    def judge(self, look: int, number: int, _shard: object, only: Any, **options: Any) -> None:
        again = options.get("again_without")
        self.judged.append((number, only, again))
        if only is None and again is None:
            rows = [
                self.row(i)
                if i < 4
                else self.row(
                    i,
                    todo="evidence",
                    standing="sound" if i in self.claimed else "indeterminate",
                )
                for i in range(1, 6)
            ]
        else:
            ids = range(1, 6) if only is None else (4, 5)
            standing = "sound" if again is None else "violated"
            rows = [
                self.row(i, **DIFFER) if i in self.differ else self.row(i, standing=standing)
                for i in ids
            ]
            if again is None:
                rows = [
                    self.row(row["ledger_id"], **self.found)
                    if row["ledger_id"] in self.unsound
                    else row
                    for row in rows
                ]
        table = pa.Table.from_pylist(rows, schema=STEPS)
        self.run.write_table(steps_name(look, number), table, "kept")

    def row(self, ledger_id: int, **cells: Any) -> dict[str, Any]:
        sound = {
            "standing": "sound",
            "unknowns": [],
            "findings": [],
            "detail": "",
            "todo": "nothing",
        }
        return {**dict.fromkeys(STEPS.names), **sound, "ledger_id": ledger_id, **cells}


def judged(
    differ: Iterable[int], run: Place | None = None, **sample: Any
) -> tuple[Stage, Judgings, Place]:
    run = run or MemoryDirectory()
    run.write_table("evidence/answers", ANSWERS.empty_table(), "none")
    stage = Stage(run, differ, **sample)
    judgings = Judgings(cast(Stages, stage), run, Journal(run))
    judgings.judge(1, EVERYTHING)
    assert 2 == judgings.count_left_by_latest(Todo.EVIDENCE)
    judgings.judge(1, EVERYTHING, (judgings.latest, Todo.EVIDENCE))
    judgings.commit()
    return stage, judgings, run


def verdicts(run: Place) -> dict[int, str]:
    rows = run.read_table("verdicts", VERDICTS).to_pylist()
    found = {row["ledger_id"]: row["standing"] for row in rows}
    assert len(found) == len(rows), "one verdict a ledger"
    return found


def test_each_ledger_has_the_verdict_of_the_judging_that_settled_it() -> None:
    stage, judgings, run = judged([])
    assert dict.fromkeys(range(1, 6), "sound") == verdicts(run)
    assert [(0, None, None), (1, (0, Todo.EVIDENCE), None)] == stage.judged
    assert not any(judging.reopens for judging in judgings.done)


def test_if_checkers_differ_on_what_counting_left_all_ledgers_are_judged_again(
    tmp_path: Path,
) -> None:
    """What was settled by counts is not believed any more. A resumed run knows that too."""
    stage, judgings, run = judged([5], place(str(tmp_path)))
    expected = {**dict.fromkeys(range(1, 5), "violated"), 5: "indeterminate"}
    assert expected == verdicts(run)
    assert (1, None, {5: "they differ"}) == stage.judged[-1]
    resumed = Judgings(cast(Stages, stage), run, Journal.read(run))
    resumed.judge(1, EVERYTHING)
    resumed.judge(1, EVERYTHING, (0, Todo.EVIDENCE))
    assert judgings.done == resumed.done and resumed.done[-1].reopens
    assert 3 == len(stage.judged)


def test_if_too_many_differ_nothing_is_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auditor.run.judging_rounds.DIFFERING_MAX", 1)
    assert DIFFERING_MAX > 1
    stage, _, run = judged([4, 5])
    assert 2 == len(stage.judged)
    assert ["sound"] * 3 + ["indeterminate"] * 2 == [verdicts(run)[i] for i in range(1, 6)]


@pytest.mark.parametrize(
    "found",
    [
        {"standing": "violated"},
        {"standing": "indeterminate"},
        {"standing": "sound", "todo": "reads"},
        {"standing": "sound", "todo": "look"},
    ],
    ids=str,
)
def test_if_counting_calls_a_ledger_of_the_sample_healthy_that_is_not_all_are_judged_again(
    found: dict[str, str],
) -> None:
    """The ledger is withheld, and nothing that was settled by counts is believed."""
    stage, _, run = judged([], claimed=[4, 5], unsound=[5], found=found)
    assert (1, None, {5: COUNTED_WRONGLY}) == stage.judged[-1]
    assert dict.fromkeys((1, 2, 3, 4), "violated") == {
        ledger: standing for ledger, standing in verdicts(run).items() if ledger != 5
    }


def test_counting_is_not_wrong_about_a_ledger_that_it_left(tmp_path: Path) -> None:
    """Neither is it about one of the sample that was set aside, or on which the checkers differ."""
    stage, _, run = judged([], claimed=[4], unsound=[5])
    assert 2 == len(stage.judged)
    assert {**dict.fromkeys(range(1, 5), "sound"), 5: "violated"} == verdicts(run)
    aside = {"standing": "indeterminate", "unknowns": ["poison"], "detail": "it was set aside"}
    assert 2 == len(judged([], claimed=[4, 5], unsound=[5], found=aside)[0].judged)


def test_however_many_were_counted_wrongly_all_are_judged_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("auditor.run.judging_rounds.DIFFERING_MAX", 1)
    stage, _, _ = judged([], claimed=[4, 5], unsound=[4, 5])
    assert (1, None, {4: COUNTED_WRONGLY}) == stage.judged[-1]
