"""The model's histories through a whole run on Spark: row for row equal to the engine without
Spark, and true.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import pytest
from support.falsehoods import FALSEHOODS, FIRST, OF_RUNS, RUN, SECOND
from support.model import actions
from support.model.clusters import started
from support.model.history import Broken, Cluster, draw_history
from support.model.machine import (
    ONE_ON_SPARK_OF,
    QUICK_HISTORIES,
    QUICK_SEED,
    drawn,
    those_on_spark,
)
from support.model.on_spark import SparkRun, judged_again, on_spark, wrong_run
from support.model.plants import (
    Plant,
    all_is_done_again,
    leftovers_stay,
    reported_before_it_is_done,
)
from support.model.spark import each_through_spark, end_through_spark, through_spark
from support.model.truth import Truth
from support.quick_forms import one_in

from auditor.summary import counts

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

SEED = 34
RESUMED = 2
"""Histories of this seed in which an audit is resumed."""
STEPS = 16
"""Actions after the beginning of each."""
CHANGED = (
    "create 1 e3 w2 a2 b1 b2 b3; append 1 9; close 1; create 2 e3 w2 a2 b1 b2 b3; append 2 9; close"
    " 2; create 3 e3 w2 a2 b2 b3 b4; append 3 9; close 3; create 4 e2 w2 a2 b1 b4; append 4 3;"
    " close 4; lose 1 4 b2 b3; lose 3 5 b4; crash b1 silent; {cut}; restart b1; mark 3; rereplicate"
    " 2 b3 b5; crash b4 lost; resume"
)
"""Four ledgers in two shards. Between cut and resume a bookie comes back, another goes, a ledger is
marked, another copied.
"""

LOST = "create 1 e3 w2 a2 b1 b2 b3; append 1 9; close 1; lose 1 4 b2 b3; {cut}; resume"


OF_A_RUN = (
    "create 1 e3 w2 a2 b1 b2 b3; append 1 9; close 1; create 2 e3 w2 a2 b1 b2 b3; append 2 9; close"
    " 2; create 3 e3 w2 a2 b1 b2 b3; append 3 9; close 3; create 4 e2 w2 a2 b4 b5; append 4 3;"
    " close 4; create 5 e2 w2 a2 b1 b5; append 5 3; close 5; create 6 e2 w2 a2 b1 b5; append 6 3;"
    " close 6; unlist b5; mark 5; mark 6; delete 6; time 150; refuse b3; crash b2 silent; rename"
    " b4 b6"
)
"""A failing bookie, a silent one, a renamed one; a mark with nothing to replicate, and one without
a ledger.
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with started(tmp_path_factory.mktemp("model")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def histories(cluster: Cluster) -> list[list[str]]:
    """Return every twentieth history of the quick form (`test_model_quick` checks these)."""
    return those_on_spark(drawn(cluster, QUICK_HISTORIES, QUICK_SEED), QUICK_HISTORIES)


@pytest.mark.parametrize("number", range(QUICK_HISTORIES // ONE_ON_SPARK_OF))
def test_a_run_says_what_the_single_engine_says(
    spark: object, cluster: Cluster, histories: list[list[str]], tmp_path: Path, number: int
):
    """Standing, exemption, reasons, findings with their entries, bookies and copies are equal; and
    what it says of bookies is true.
    """
    end_through_spark(cluster, histories[number], tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("number", range(QUICK_HISTORIES // ONE_ON_SPARK_OF))
def test_a_run_behind_each_action_says_what_the_single_engine_says(
    spark: object, cluster: Cluster, histories: list[list[str]], tmp_path: Path, number: int
):
    """This holds at every action, not only at the end of a history."""
    each_through_spark(cluster, histories[number], tmp_path)


@pytest.fixture(scope="module")
def run(spark: object, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> SparkRun:
    """Return a whole run at the end of OF_A_RUN."""
    cluster.end(actions.lines_of(OF_A_RUN))
    return on_spark(cluster.world.metadata_service_uri, tmp_path_factory.mktemp("run"))


def after_the_run() -> Truth:
    """Return what is true of the cluster then."""
    truth = Truth.of()
    for line in actions.lines_of(OF_A_RUN):
        assert actions.happen(truth, line), line
    return truth


def test_what_a_run_says_beside_the_ledgers_is_true(run: SparkRun):
    """This includes each bookie, marks and all copies; and each sort of it is said."""
    assert [] == list(wrong_run(after_the_run(), run))
    assert [] == list(wrong_run(after_the_run(), judged_again(run)))
    kinds = {one["kind"] for one in run.outcome.findings if one["ledger_id"] is None}
    assert {
        "BOOKIE_FAILING_REQUESTS",
        "BOOKIE_SILENT_YET_REGISTERED",
        "BOOKIE_LOST_UNNOTICED",
        "MARK_WITHOUT_LEDGER",
    } <= kinds
    assert run.outcome.summary["marks"]["stale"] == len(run.outcome.summary["bookies_renamed"]) == 1


@pytest.mark.parametrize("name", one_in(5, OF_RUNS))
def test_a_false_fact_of_a_run_contradicts_the_truth(
    run: SparkRun, name: str, monkeypatch: pytest.MonkeyPatch
):
    """It is planted in what judges the same evidence again."""
    OF_RUNS[name].plant(monkeypatch, RUN)
    assert list(wrong_run(after_the_run(), judged_again(run))), name


@pytest.mark.parametrize("name", ["what was read was listed", "no mark is stale"])
def test_a_false_row_of_a_run_contradicts_the_truth(
    run: SparkRun, name: str, monkeypatch: pytest.MonkeyPatch
):
    """The basis of copies and the reasons for a mark are also compared on the rows of a run."""
    FALSEHOODS[name].plant(monkeypatch, FIRST, SECOND)
    sentence, *_ = wrong_run(after_the_run(), judged_again(run))
    assert sentence.startswith("a false fact on ledger"), sentence


def test_a_false_count_of_stale_marks_contradicts_the_truth(
    run: SparkRun, monkeypatch: pytest.MonkeyPatch
):
    """No mark is said to be stale, and one is."""
    monkeypatch.setattr(counts, "stale_ledgers", lambda _verdicts: ())
    (sentence,) = wrong_run(after_the_run(), judged_again(run))
    assert "stale is 0, and in truth 1" in sentence


@pytest.mark.long
def test_runs_that_go_on_in_a_drawn_history_are_right(
    spark: object, cluster: Cluster, tmp_path: Path
):
    """The history may kill them at any stage, and anything may happen before they are resumed."""
    drawn_anew = (
        draw_history(f"{SEED}/{number}", STEPS, cluster.world.at_first) for number in count()
    )
    for lines in islice((lines for lines in drawn_anew if "resume" in lines), RESUMED):
        through_spark(cluster, lines, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("cut", ["cut 3 half", "cut 8 unrecorded", "cut 15 written", "cut 22 half"])
def test_a_run_that_went_on_is_right_though_the_cluster_changed(
    spark: object, cluster: Cluster, tmp_path: Path, cut: str
):
    """Each verdict is that of its ledger's last look, no written question is repeated, and the
    counts add up.
    """
    through_spark(cluster, actions.lines_of(CHANGED.format(cut=cut)), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    ("plant", "cut"),
    [
        pytest.param(reported_before_it_is_done, "cut 3 written", id="reported before it is done"),
        pytest.param(leftovers_stay, "cut 3 unrecorded", id="leftovers stay"),
        pytest.param(all_is_done_again, "cut 3 written", id="all is done again"),
    ],
)
def test_a_planted_bug_of_the_journal_breaks_a_history(
    spark: object,
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    plant: Plant,
    cut: str,
):
    """The model finds the bug when the lists of the first look are interrupted; and prints the
    command that replays the history.
    """
    lines = actions.lines_of(LOST.format(cut=cut))
    plant(monkeypatch)
    with pytest.raises(Broken) as failure:
        through_spark(cluster, lines, tmp_path, shrinks_max=0)
    assert f"tests/model/replay.py --spark '{'; '.join(lines)}'" in str(failure.value)
