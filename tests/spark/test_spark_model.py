"""The model's histories through a whole run on Spark: row for row what the engine without Spark says, and what is true."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import pytest
from support.model import actions
from support.model.clusters import started
from support.model.history import Broken, Cluster, told
from support.model.machine import ONE_ON_SPARK_OF, QUICK_HISTORIES, QUICK_SEED, drawn, those_on_spark
from support.model.plants import Plant, all_is_done_again, leftovers_stay, told_before_it_is_done
from support.model.spark import each_through_spark, end_through_spark, through_spark

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

SEED = 34
RESUMED = 2
"""Histories of this seed in which an audit goes on."""
STEPS = 16
"""Actions behind the beginning of each."""
CHANGED = (
    "create 1 e3 w2 a2 b1 b2 b3; append 1 9; close 1; create 2 e3 w2 a2 b1 b2 b3; append 2 9; close 2; "
    "create 3 e3 w2 a2 b2 b3 b4; append 3 9; close 3; create 4 e2 w2 a2 b1 b4; append 4 3; close 4; "
    "lose 1 4 b2 b3; lose 3 5 b4; crash b1 silent; {cut}; restart b1; mark 3; rereplicate 2 b3 b5; crash b4 lost; resume"
)
"""Four ledgers in two shards. Between cut and resume a bookie comes back, another goes, a ledger is marked, another copied."""

LOST = "create 1 e3 w2 a2 b1 b2 b3; append 1 9; close 1; lose 1 4 b2 b3; {cut}; resume"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with started(tmp_path_factory.mktemp("model")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def histories(cluster: Cluster) -> list[list[str]]:
    """Every twentieth of the quick form: the very histories (`test_model_quick` holds that)."""
    return those_on_spark(drawn(cluster, QUICK_HISTORIES, QUICK_SEED), QUICK_HISTORIES)


@pytest.mark.parametrize("number", range(QUICK_HISTORIES // ONE_ON_SPARK_OF))
def test_a_run_says_what_the_single_engine_says(
    spark: object, cluster: Cluster, histories: list[list[str]], tmp_path: Path, number: int
):
    """Standing, exemption, reasons, findings with their entries, bookies and copies; and what it says of bookies is true."""
    end_through_spark(cluster, histories[number], tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("number", range(QUICK_HISTORIES // ONE_ON_SPARK_OF))
def test_a_run_behind_each_action_says_what_the_single_engine_says(
    spark: object, cluster: Cluster, histories: list[list[str]], tmp_path: Path, number: int
):
    """Not at the end of a history alone."""
    each_through_spark(cluster, histories[number], tmp_path)


@pytest.mark.long
def test_runs_that_go_on_in_a_drawn_history_are_right(spark: object, cluster: Cluster, tmp_path: Path):
    """Wherever the history cuts them down, and whatever happens before they go on."""
    drawn_anew = (told(f"{SEED}/{number}", STEPS, cluster.world.at_first) for number in count())
    for lines in islice((lines for lines in drawn_anew if "resume" in lines), RESUMED):
        through_spark(cluster, lines, tmp_path)


@pytest.mark.parametrize(
    "cut",
    [
        pytest.param("cut 3 half", marks=pytest.mark.long),
        "cut 8 untold",
        pytest.param("cut 15 written", marks=pytest.mark.long),
        pytest.param("cut 22 half", marks=pytest.mark.long),
    ],
)
def test_a_run_that_went_on_is_right_though_the_cluster_changed(spark: object, cluster: Cluster, tmp_path: Path, cut: str):
    """Each verdict is that of its ledger's last look, nothing that was written is asked again, and the accounts add up."""
    through_spark(cluster, actions.lines_of(CHANGED.format(cut=cut)), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    ("plant", "cut"),
    [
        pytest.param(told_before_it_is_done, "cut 3 written", id="told before it is done"),
        pytest.param(leftovers_stay, "cut 3 untold", id="leftovers stay"),
        pytest.param(all_is_done_again, "cut 3 written", id="all is done again"),
    ],
)
def test_a_planted_bug_of_the_journal_breaks_a_history(
    spark: object, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Plant, cut: str
):
    """The model bites where the lists of the first look are cut down; and the command that replays the history is told."""
    lines = actions.lines_of(LOST.format(cut=cut))
    plant(monkeypatch)
    with pytest.raises(Broken) as failure:
        through_spark(cluster, lines, tmp_path, shrinks_max=0)
    assert f"tests/model/replay.py --spark '{'; '.join(lines)}'" in str(failure.value)
