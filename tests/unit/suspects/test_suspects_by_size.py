"""Who does a stage: Spark, or this process if there are few ledgers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Thread
from typing import Any, cast

import pytest

from auditor.evidence.ids import EVERYTHING, Shard
from auditor.judging.settle import Todo
from auditor.model.evidence import Sweep, Terms
from auditor.spark.lanes import Directory
from auditor.spark.stages import Stages
from auditor.suspects.by_size import StagesBySize
from auditor.suspects.in_process import InProcessStages
from auditor.suspects.remaining import Suspects
from auditor.zookeeper.ledgers import ListingPartition

NOBODY = Directory({}, frozenset())
LISTED, LEFT_BY_A_LOOK, LEFT_BY_A_JUDGING = 5, 3, 2


class Recorder:
    """Stages that record what they were asked to do."""

    def __init__(self, name: str, done: list[str]) -> None:
        self._name, self._done = name, done

    def note(self, stage: str) -> bool:
        """Record a stage, and return that it was done."""
        self._done.append(f"{self._name} {stage}")
        return True

    def __getattr__(self, stage: str) -> Any:
        return lambda *_, **__: self.note(stage)


class Listener:
    """A stand-in that records each call with its arguments."""

    def __init__(self, heard: list[object]) -> None:
        self._heard = heard

    def __getattr__(self, name: str) -> Any:
        def hear(*given: object, **options: object) -> tuple[()]:
            self._heard.append((name, given, options) if options else (name, given))
            return ()

        return hear


class Counted:
    """Suspects of which only the number matters."""

    def count_listed(self) -> int:
        return LISTED

    def open_ledgers(self, _look: int, _shard: Shard) -> Sequence[int]:
        return range(LEFT_BY_A_LOOK)

    def ledgers_left(self, _look: int, _judging: int, _todo: Todo) -> Sequence[int]:
        return range(LEFT_BY_A_JUDGING)


def done_by(suspects_max: int, ledgers_max: int = 0) -> tuple[StagesBySize, list[str]]:
    """Return the stages, and a list of what each way has done so far."""
    done: list[str] = []
    spark, here = (
        cast(Stages, Recorder("spark", done)),
        cast(InProcessStages, Recorder("here", done)),
    )
    return (
        StagesBySize(lambda: spark, here, cast(Suspects, Counted()), suspects_max, ledgers_max),
        done,
    )


SIZES = [
    (1_000, 0, "spark"),
    (1_000, LISTED - 1, "spark"),
    (1_000, LISTED, "here"),
    (0, LISTED, "spark"),
]
"""Bounds on suspects and on listed ledgers, and who takes the first look."""


@dataclass(frozen=True)
class Termed:
    """Stages of which only the terms matter."""

    terms: Terms


def test_other_terms_hold_for_both_ways() -> None:
    """With different terms the driver and Spark's tasks would draw different entries to read."""
    before, after = Terms(1, 0, 16, 5), Terms(1, 0, 16, 5, sweep=Sweep(3, 4, 100, 64))
    spark, here = cast(Stages, Termed(before)), cast(InProcessStages, Termed(before))
    stages = StagesBySize(lambda: spark, here, cast(Suspects, Counted()), 7, 9)
    changed = stages.with_terms(after)
    assert (after, after, after) == (
        changed.terms,
        changed.on_spark().terms,
        changed.in_process.terms,
    )
    assert (before, stages.suspects, 7, 9) == (
        stages.terms,
        changed.suspects,
        changed.suspects_max,
        changed.ledgers_max,
    )


@pytest.mark.parametrize(("suspects_max", "ledgers_max", "way"), SIZES)
def test_the_first_look_goes_by_the_ledgers_that_were_listed(
    suspects_max: int, ledgers_max: int, way: str
) -> None:
    """This process does it for at most `ledgers_max` ledgers, and never if either bound is 0."""
    stages, done = done_by(suspects_max, ledgers_max)
    stages.read_ledgers(1, EVERYTHING, None)
    stages.plan()
    stages.ask_lists(1, NOBODY, EVERYTHING)
    stages.judge(1, 0, EVERYTHING)
    assert [f"{way} {stage}" for stage in ("read_ledgers", "plan", "ask_lists", "judge")] == done


def test_a_run_of_one_ledger_may_be_the_only_one_without_spark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A bound of 1 allows one ledger."""
    monkeypatch.setattr(Counted, "count_listed", lambda _: 1)
    stages, done = done_by(1, 1)
    stages.judge(1, 0)
    assert ["here judge"] == done


def test_a_run_of_few_ledgers_has_no_stage_on_spark_however_many_are_suspect() -> None:
    """A small damaged cluster does not start a JVM at its second look."""
    stages, done = done_by(1, LISTED)
    stages.read_entries(1, 0, NOBODY)
    stages.read_ledgers(2)
    stages.ask_lists(2, NOBODY, EVERYTHING, 0)
    stages.judge(2, 1, EVERYTHING, (0, Todo.LISTS))
    assert {"here"} == {one.split()[0] for one in done}


def portions(*parents: int) -> list[ListingPartition]:
    """Return portions of a listing, each with this many parents."""
    return [
        ListingPartition(tuple(f"/{portion}/{n}" for n in range(count)))
        for portion, count in enumerate(parents)
    ]


@pytest.mark.parametrize(
    ("parents", "suspects_max", "ledgers_max", "expected"),
    [
        ((9,), 0, 0, ["here"]),
        ((), 0, 0, ["here"]),
        ((2, 2), 1, 4, ["here"]),
        ((2, 2), 1, 3, ["spark"]),
        ((2, 2), 0, 4, ["spark"]),
        ((2, 2), 1, 0, ["spark"]),
    ],
)
def test_a_listing_goes_by_its_parents(
    parents: tuple[int, ...],
    suspects_max: int,
    ledgers_max: int,
    expected: list[str],
) -> None:
    """One portion is always listed here. Several are only if they have at most `ledgers_max`
    parents and neither bound is 0.
    """
    stages, done = done_by(suspects_max, ledgers_max)
    assert (expected == ["spark"]) == stages.list_ledgers(portions(*parents))
    assert [f"{way} list_ledgers" for way in expected] == done


def test_a_listing_with_too_many_ledgers_is_repeated_on_spark() -> None:
    """This process stops above the bound and writes nothing."""
    heard: list[object] = []
    listener: Any = Listener(heard)
    stages = StagesBySize(lambda: listener, listener, listener, 1, 4)
    assert stages.list_ledgers(portions(2, 2), "a table")
    assert [
        ("list_ledgers", (portions(2, 2), 4, "a table")),
        ("list_ledgers", (portions(2, 2), "a table")),
    ] == heard


def test_one_portion_is_listed_here_however_many_ledgers_it_has() -> None:
    """It takes a moment, and the number of ledgers is not known before."""
    heard: list[object] = []
    listener: Any = Listener(heard)
    StagesBySize(lambda: listener, listener, listener, 1, 4).list_ledgers(portions(2))
    assert ("list_ledgers", (portions(2), None, "evidence/listing")) == heard[0]


def test_ledgers_that_are_named_are_written_here() -> None:
    """No ledger is counted and Spark is not needed."""
    stages, heard = heard_by(0)
    stages.take_listing([3, 1])
    assert [("take_listing", ([3, 1], "evidence/listing"))] == heard
    stages, done = done_by(0)
    stages.take_listing([3, 1])
    assert ["here take_listing"] == done


@pytest.mark.parametrize(
    ("suspects_max", "way"),
    [(0, "spark"), (LEFT_BY_A_LOOK - 1, "spark"), (LEFT_BY_A_LOOK, "here"), (1_000, "here")],
)
def test_a_later_look_goes_by_the_suspects_that_the_look_before_left(
    suspects_max: int, way: str
) -> None:
    """This process does it for at most `suspects_max` suspects, and never if that is 0."""
    stages, done = done_by(suspects_max)
    stages.read_ledgers(2)
    stages.judge(2, 0)
    assert [f"{way} read_ledgers", f"{way} judge"] == done


@pytest.mark.parametrize(
    ("suspects_max", "way"),
    [(0, "spark"), (LEFT_BY_A_JUDGING - 1, "spark"), (LEFT_BY_A_JUDGING, "here")],
)
def test_what_follows_a_judging_goes_by_what_it_left(suspects_max: int, way: str) -> None:
    """This holds at the first look too."""
    stages, done = done_by(suspects_max)
    stages.read_entries(1, 0, NOBODY)
    stages.judge(1, 1, EVERYTHING, (0, Todo.READS))
    stages.ask_lists(2, NOBODY, EVERYTHING, 0)
    assert [f"{way} read_entries", f"{way} judge", f"{way} ask_lists"] == done


def test_spark_does_the_stages_of_other_threads_than_the_main_one() -> None:
    """A child that is forked from another thread would end the main thread's connection to the
    JVM.
    """
    stages, done = done_by(1_000, LISTED)
    for look in (1, 2):
        thread = Thread(target=stages.judge, args=(look, 0))
        thread.start()
        thread.join()
    assert ["spark judge"] * 2 == done


@pytest.mark.parametrize(("suspects_max", "way"), [(0, "spark"), (1, "here")])
def test_without_suspects_bookies_are_greeted_here_unless_the_bound_is_0(
    suspects_max: int, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bound of 0 means never, also for no suspects."""
    monkeypatch.setattr(Counted, "ledgers_left", lambda *_: ())
    stages, done = done_by(suspects_max)
    stages.ask_lists(2, NOBODY, EVERYTHING, 0)
    assert [f"{way} ask_lists"] == done


def heard_by(suspects_max: int) -> tuple[StagesBySize, list[object]]:
    """Return the stages, and a list of the calls to Spark, to this process and to the suspects, in
    order.
    """
    heard: list[object] = []
    anybody: Any = Listener(heard)
    return StagesBySize(lambda: anybody, anybody, anybody, suspects_max, 0), heard


SHARD = Shard(7, 10, 19)


def test_the_first_look_hands_on_what_it_is_given() -> None:
    """With `ledgers_max` 0 no ledgers are counted."""
    marks: dict[int, Any] = {3: "a mark"}
    stages, heard = heard_by(1_000)
    stages.read_ledgers(1, SHARD, marks)
    stages.ask_lists(1, NOBODY, SHARD)
    stages.judge(1, 0, SHARD, again_without={3: "differs"})
    assert [
        ("read_ledgers", (1, SHARD, marks)),
        ("ask_lists", (1, NOBODY, SHARD, None)),
        ("judge", (1, 0, SHARD, None), {"retested": False, "again_without": {3: "differs"}}),
    ] == heard


@pytest.mark.parametrize("suspects_max", [0, 1_000])
def test_a_later_stage_counts_its_own_suspects_and_hands_on_what_it_is_given(
    suspects_max: int,
) -> None:
    """Only the ledgers that the stage will do something about are counted."""
    stages, heard = heard_by(suspects_max)
    stages.read_ledgers(3, SHARD)
    stages.ask_lists(3, NOBODY, SHARD)
    stages.ask_lists(3, NOBODY, SHARD, 1)
    stages.read_entries(3, 1, NOBODY)
    stages.judge(3, 0, SHARD, again_without={3: "differs"})
    stages.judge(3, 2, SHARD, (1, Todo.READS))
    assert [
        ("open_ledgers", (2, SHARD)),
        ("read_ledgers", (3, SHARD, None)),
        ("open_ledgers", (2, SHARD)),
        ("ask_lists", (3, NOBODY, SHARD, None)),
        ("ledgers_left", (3, 1, Todo.LISTS)),
        ("ask_lists", (3, NOBODY, SHARD, 1)),
        ("ledgers_left", (3, 1, Todo.READS)),
        ("read_entries", (3, 1, NOBODY)),
        ("open_ledgers", (2, SHARD)),
        ("judge", (3, 0, SHARD, None), {"retested": False, "again_without": {3: "differs"}}),
        ("ledgers_left", (3, 1, Todo.READS)),
        ("judge", (3, 2, SHARD, (1, Todo.READS)), {"retested": False, "again_without": None}),
    ] == heard
