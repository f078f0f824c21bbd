"""The quick form of the model: histories on the sandbox, audited after each action by the engine
without Spark.

Every failure prints the shortest history that fails and the command that replays it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from typing import cast

import pytest
from support.audits import Outcome
from support.model import actions, history, spark
from support.model.clusters import started
from support.model.engines import SparkFree
from support.model.history import Broken, Cluster, draw_history, first_broken, histories_with
from support.model.machine import FLEETING, QUICK_HISTORIES, QUICK_SEED, STEPS, drawn, run_machine
from support.model.on_spark import SparkRun
from support.model.plants import PLANTS, PLANTS_BETWEEN, Plant
from support.model.rows import Row
from support.model.spark import each_through_spark, end_through_spark, through_spark
from support.model.truth import Truth
from support.model.worlds import World
from support.quick_forms import few_or_all, one_in

from auditor.run import single_ledgers as single

PLANTED_HISTORIES_MAX = 60
"""Histories in which a planted bug must show."""
SHRINKS_MAX = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with started(tmp_path_factory.mktemp("model")) as cluster:
        yield cluster


@pytest.mark.timeout(900)  # Hypothesis shrinks a failure for up to five minutes
@pytest.mark.parametrize("histories", few_or_all(9, QUICK_HISTORIES))
def test_after_each_action_every_property_holds(cluster: Cluster, histories: int):
    """There is no false alarm and no miss, untouched verdicts stay, the same evidence gives the
    same verdict, and all ledgers are counted. Every action of the table happens: those that
    Hypothesis did not draw, which depends on all that it has seen, happen in histories of a fixed
    seed.
    """
    tally = run_machine(cluster, histories, QUICK_SEED)
    assert tally.histories == drawn(cluster, histories, QUICK_SEED), (
        "those through Spark are others (tests/spark)"
    )
    for lines in histories_with(
        actions.BY_NAME.keys() - tally.actions, STEPS, cluster.world.at_first
    ):
        cluster.run(lines)
        assert lines == cluster.lines, "every action happened"


def test_a_history_has_ledgers_of_each_standing(cluster: Cluster):
    """The properties are not checked on sound ledgers alone."""
    one_copy = ("create 3 e1 w1 a1 b5", "append 3 1", "close 3", "crash b5 silent")
    lost = ("create 4 e1 w1 a1 b4", "append 4 1", "close 4", "lose 4 0 b4")
    cluster.run([*WRITTEN, OPEN, *lost, *one_copy])
    assert {1: "sound", 2: "exempt", 3: "indeterminate", 4: "violated"} == {
        number: row.standing for number, row in cluster.rows.items()
    }


@pytest.mark.parametrize("plant", one_in(10, PLANTS))
def test_a_planted_bug_breaks_a_history(
    cluster: Cluster, plant: Plant, monkeypatch: pytest.MonkeyPatch
):
    """The model detects the bug, and prints the shortest history with the command that replays
    it.
    """
    bites(
        cluster,
        plant,
        monkeypatch,
        (draw_history(f"bite/{number}", 12, cluster.world.at_first) for number in count()),
    )


@pytest.mark.parametrize("plant", one_in(2, PLANTS_BETWEEN))
def test_a_planted_bug_breaks_a_history_in_which_an_audit_goes_on(
    cluster: Cluster, plant: Plant, monkeypatch: pytest.MonkeyPatch
):
    """These bugs show only if the cluster changes while an audit pauses."""
    drawn = (draw_history(f"between/{number}", 24, cluster.world.at_first) for number in count())
    failure = bites(cluster, plant, monkeypatch, (lines for lines in drawn if "resume" in lines))
    assert "resume" in failure.lines


def bites(
    cluster: Cluster,
    plant: Plant,
    monkeypatch: pytest.MonkeyPatch,
    histories: Iterable[Sequence[str]],
) -> Broken:
    """Return the shortest history that a planted bug breaks, and that holds without it."""
    plant(monkeypatch)
    failure = first_broken(cluster.end, islice(histories, PLANTED_HISTORIES_MAX), SHRINKS_MAX)
    assert failure is not None, f"{PLANTED_HISTORIES_MAX} histories and no property broke"
    assert f"tests/model/replay.py '{'; '.join(failure.lines)}'" in str(failure)
    monkeypatch.undo()
    cluster.run(failure.lines)
    return failure


class Nowhere:
    """An empty world."""

    at_first = property(lambda self: Truth.of())

    def become(self, truth: Truth) -> None:
        """Do nothing: this world is never audited."""


def lost_ledgers(truth: Truth) -> list[str]:
    written = [number for number, ledger in truth.ledgers.items() if ledger.written > 0]
    return [
        f"ledger {n} is lost"
        for n in written
        if not any(one.holds.get(n) for one in truth.bookies.values())
    ]


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Return a cluster that is never audited."""
    monkeypatch.setattr(Cluster, "judged", lambda self: {})
    monkeypatch.setattr(Cluster, "gone_on_with", lambda self, cut: [])
    monkeypatch.setattr(history, "broken", lambda truth, *_: [])
    return Cluster(cast(World, Nowhere()), cast(SparkFree, None))


def in_words(truth: Truth, *_: object) -> list[str]:
    return lost_ledgers(truth)


def by_raising(truth: Truth, *_: object) -> list[str]:
    assert not lost_ledgers(truth), "as the product may assert"
    return []


COPIES = 2
"""Copies of the one entry in the shortest history."""
UNAUDITED_HISTORIES = 40
"""Histories that no audit makes slow: enough that one of them loses all of a ledger."""


@pytest.mark.long
@pytest.mark.parametrize("fails", [in_words, by_raising])
def test_the_machine_tells_the_shortest_history(
    nowhere: Cluster, monkeypatch: pytest.MonkeyPatch, fails: Callable[..., object]
):
    """What Hypothesis drew is shrunk to the actions that matter, whether a property is broken or
    the product raises. Here a history fails if it loses all of a ledger.
    """
    monkeypatch.setattr(history, "broken", fails)
    with pytest.raises(Broken) as failure:
        run_machine(nowhere, UNAUDITED_HISTORIES, QUICK_SEED)
    lines = list(failure.value.lines)
    create, append, *losses = lines
    assert ("create", "append 1 1") == (create.split()[0], append)
    assert {loss.split()[0] for loss in losses} <= {"wipe", "lose", "stripe"}
    assert 1 <= len(losses) <= COPIES, "one action for both copies, or one for each"
    for at in range(len(lines)):
        nowhere.run(lines[:at] + lines[at + 1 :])  # no action can be removed
    assert f"tests/model/replay.py '{'; '.join(failure.value.lines)}'" in str(failure.value)


def test_the_machine_tells_a_history_that_failed_only_once(
    nowhere: Cluster, monkeypatch: pytest.MonkeyPatch
):
    """The failure says that the history did not fail again."""
    times = count()

    def fails(*_: object) -> list[str]:
        return ["so it was"] if next(times) == 7 else []

    monkeypatch.setattr(history, "broken", fails)
    with pytest.raises(Broken) as failure:
        run_machine(nowhere, UNAUDITED_HISTORIES, QUICK_SEED)
    assert ["so it was", FLEETING] == failure.value.sentences
    assert f"tests/model/replay.py '{'; '.join(failure.value.lines)}'" in str(failure.value)


def test_what_the_product_raises_is_reported_with_the_history(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    """It comes with the place where it was raised, for each way through the model."""

    def raises(*_: object) -> object:
        raise ValueError("two answers of one bookie")

    monkeypatch.setattr(single, "audit_ledgers", raises)
    for run in (cluster.run, cluster.end):
        with pytest.raises(Broken) as failure:
            run(["create 1 e1 w1 a1 b1", "cut 3 half", "resume"])
        (sentence,) = failure.value.sentences
        assert sentence.startswith("ValueError, raised by raises (test_model_quick.py, line ")
        assert sentence.endswith("): two answers of one bookie")
        assert isinstance(failure.value.__cause__, ValueError)


WRITTEN = ("create 1 e3 w2 a2 b1 b2 b3", "append 1 5", "close 1")
OPEN = "create 2 e1 w1 a1 b4"


@pytest.mark.parametrize("through", [through_spark, end_through_spark, each_through_spark])
def test_a_run_on_spark_that_says_something_else_is_reported_with_the_history(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, through: Callable[..., None]
):
    """It is the shortest failing one; here it is a history without any run, and a substitute calls
    every ledger sound.
    """

    def all_is_sound(_uri: str, _workdir: Path) -> SparkRun:
        rows = {number: Row("sound") for number in cluster.truth.listed()}
        return SparkRun(rows, Outcome(0, {}, [], {}, None, "", [], []))

    monkeypatch.setattr(spark, "on_spark", all_is_sound)
    with pytest.raises(Broken) as failure:
        through(cluster, [*WRITTEN, OPEN, "readonly b4", "crash b4 gone", "lose 1 4 b3"], tmp_path)
    (line,) = failure.value.lines
    assert line in (WRITTEN[0], OPEN), "an open ledger is exempt"
    assert f"tests/model/replay.py --spark '{line}'" in str(failure.value)


def test_what_a_run_on_spark_raises_is_reported_with_the_history(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """This holds for any exception."""

    def raises(*_: object) -> SparkRun:
        raise RuntimeError("the JVM is gone")

    monkeypatch.setattr(spark, "on_spark", raises)
    with pytest.raises(
        Broken, match=r"RuntimeError, raised by raises .*: the JVM is gone"
    ) as failure:
        end_through_spark(cluster, WRITTEN, tmp_path)
    assert "tests/model/replay.py --spark '" in str(failure.value)
