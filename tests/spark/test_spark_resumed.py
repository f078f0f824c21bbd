"""An interrupted run is resumed: the same verdicts, and no written question is repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from support.asking_ahead import as_spark
from support.audits import FIRST_LOOK_ON_SPARK, Outcome, Pauses, accounted, audit

from auditor.evidence.journal import Journal
from auditor.evidence.run_directory import Place
from auditor.model.finding import Kind
from auditor.sandbox.bookie import Storage
from auditor.sandbox.cluster import SandboxCluster
from auditor.stop import Interrupted

pytestmark = pytest.mark.timeout(600)

LEDGERS = range(1, 11)
SHARD = 5
"""Ledgers of a shard: ten make two shards."""
BOOKIES = ("b1", "b2", "b3", "b4")
SOME = (
    "listing",
    "look 1 shard 1: metadata",
    "look 1 shard 1: lists",
    "look 1 shard 1: spot reads",
    "look 1: reads of judging 1",
    "look 1 shard 1: reads in doubt",
    "steps/look-1-judging-2",
    "look 2: shards",
    "look 2 shard 0: metadata",
    "look 2 shard 0: lists",
    "verdicts",
)
"""One stage of each sort; those of the second shard, so that the first one is there. Later looks
take both shards together."""
SOME_IF_COUNTED = [stage.replace("reads of judging 1", "reads of judging 3") for stage in SOME]
"""The same where answers are counted: each shard has a judging more."""
CUTS_MAX = 60
"""Times a run may be interrupted before its stages must be used up."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield ten ledgers on three bookies that list and one that cannot: an entry lost, a copy lost,
    a mark, an open one; and a znode among the marks that marks nothing.
    """
    storages = [Storage.SORTED, Storage.SORTED, Storage.SORTED, Storage.DB]
    with SandboxCluster(
        tmp_path_factory.mktemp("resumed"), len(BOOKIES), named=True, storage=storages
    ) as cluster:
        for ledger_id in LEDGERS:
            cluster.place(ledger_id, cluster.ledger("e3 w2 a2 0:[b1 b2 b3] closed 29"))
        cluster.hold("b2", 2, "")
        for bookie in BOOKIES[:3]:
            cluster.hold(bookie, 6, "0-3 5-29")
        cluster.place(9, cluster.ledger("e3 w2 a2 0:[b1 b2 b3] open"))
        cluster.place(10, cluster.ledger("e2 w2 a2 0:[b1 b4] closed 9"))
        cluster.mark(3)
        cluster.set_raw("/ledgers/underreplication/ledgers/stray", b"")
        yield cluster


@pytest.fixture(scope="module")
def whole(cluster: SandboxCluster, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Return what a run says that is not interrupted and not split."""
    return accounted(audit(cluster, tmp_path_factory.mktemp("whole")))


class CutDown(BaseException):
    """Raised to end the run, in place of a killed process."""


def cut_down_at_each(
    stages: Container[str], stage_written: bool, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """End the run once at each of the stages, after it is in the journal, or just before. Yield
    their names.
    """
    cut: list[str] = []
    write = Place.write_text

    def once(self: Journal, stage: str, work: Callable[..., Any], *args: Any) -> Any:
        def note(place: Place, name: str, text: str) -> None:
            if place.path.endswith("/journal") and stage in stages and stage not in cut:
                cut.append(stage)
                if stage_written:
                    write(place, name, text)
                raise CutDown(stage)
            write(place, name, text)

        monkeypatch.setattr(Place, "write_text", note)
        return right(self, stage, work, *args)

    right = Journal.run_once
    monkeypatch.setattr(Journal, "run_once", once)
    return cut


def gone_on_with(cluster: SandboxCluster, home: Path, **way: str) -> tuple[Outcome, int]:
    """Resume the run until it is over; return it, and how often it was interrupted."""
    more: dict[str, str] = {}
    for cuts in range(CUTS_MAX):
        try:
            return audit(cluster, home, shard_ledgers=SHARD, **way, **more), cuts
        except CutDown:
            journals = sorted((home / "audits").glob("run-*/journal/*.json"))
            more = {"resume": journals[0].parts[-3].removeprefix("run-")} if journals else {}
    raise AssertionError(f"still not over after {CUTS_MAX} times")


def asked_of(cluster: SandboxCluster) -> Counter[tuple[str, int]]:
    """Return the lists each bookie was asked for so far."""
    return Counter({(b, i): n for b in BOOKIES for i, n in cluster.bookie(b).asked.items()})


def questions(run: Path) -> list[tuple[str, int, int]]:
    """Return the questions in the written evidence: bookie, ledger, look. b4 cannot list: questions
    before that shows may be repeated.
    """
    rows = ds.dataset(run / "evidence" / "answers", format="parquet").to_table().to_pylist()
    keys = [
        (row["bookie_id"], row["ledger_id"], row["look"])
        for row in rows
        if row["ledger_id"] is not None
    ]
    assert len(keys) == len(set(keys)), "a question is answered twice at one look"
    return [key for key in keys if key[0] != "b4"]


def said(outcome: Outcome) -> tuple[Any, ...]:
    """Return everything that depends only on the cluster."""
    found = sorted((one["id"], one["kind"], str(one["entries"])) for one in outcome.findings)
    problems = [event["problem"] for event in outcome.events if "problem" in event]
    assert any("mark nothing at their place" in problem for problem in problems), problems
    return (
        outcome.exit_code,
        found,
        outcome.verdicts,
        outcome.summary["ledgers"],
        outcome.summary["bookies"],
        problems,
    )


def is_ahead_of_lists(stage: str) -> bool:
    """Return whether the lists of the second shard may be asked for while this stage is done."""
    return "judging" in stage and "look-2" not in stage and "look 2" not in stage


class Every:
    """All stages except those with which each resumption begins: interrupted there, a run would
    never get further.
    """

    def __contains__(self, stage: object) -> bool:
        return not str(stage).startswith("resumption ")


@pytest.mark.parametrize(
    ("stages", "stage_written"),
    [
        pytest.param(None, False, id="not written down yet"),
        pytest.param(
            Every(), False, id="every stage, not written down yet", marks=pytest.mark.long
        ),
        pytest.param(Every(), True, id="every stage, written down", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize(
    "way",
    [
        pytest.param({}, id="in process"),
        pytest.param(FIRST_LOOK_ON_SPARK, id="ahead of the driver"),
        pytest.param(
            FIRST_LOOK_ON_SPARK, id="on Spark", marks=[pytest.mark.spark, pytest.mark.long]
        ),
    ],
)
def test_a_run_cut_down_again_and_again_says_the_same(
    cluster: SandboxCluster,
    whole: Outcome,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    stages: Container[str] | None,
    stage_written: bool,
    way: dict[str, str],
):
    """What was written stays, and what was half done is done again: verdicts, findings and counts
    are those of a whole run.
    """
    if "ahead of the driver" in request.node.name:
        as_spark(monkeypatch)
    elif way:
        request.getfixturevalue("spark")
    before, some = asked_of(cluster), SOME_IF_COUNTED if way else SOME
    cut = cut_down_at_each(stages or some, stage_written, monkeypatch)
    outcome, cuts = gone_on_with(cluster, tmp_path, **way)
    assert len(cut) == cuts == len(set(cut))
    assert set(some) <= set(cut)
    assert said(whole) == said(outcome)
    accounted(outcome)
    assert outcome.run_dir is not None
    expected: Counter[tuple[str, int]] = Counter()
    for bookie, ledger, look in questions(outcome.run_dir):
        number = (ledger - 1) // SHARD if look == 1 else 0
        stage = f"look {look} shard {number}: lists"
        expected[bookie, ledger] += 2 if stage in cut and not stage_written else 1
    asked = Counter({one: n for one, n in (asked_of(cluster) - before).items() if one[0] != "b4"})
    repeated = asked - expected
    assert not expected - asked
    assert all((ledger - 1) // SHARD == 1 for _, ledger in repeated), "only what was ahead"
    assert not way or max(repeated.values(), default=0) <= sum(map(is_ahead_of_lists, cut))
    assert way or not repeated
    # With nothing in its journal a run is begun anew; what topics reference is its first stage.
    resumed = cuts if stage_written or "references" not in cut else cuts - 1
    assert resumed == len(outcome.summary["resumed_at"])
    assert f"interrupted and resumed {resumed} times" in outcome.stdout


def test_shards_say_what_one_piece_says(cluster: SandboxCluster, whole: Outcome, tmp_path: Path):
    """The size of the shards does not matter."""
    assert said(whole) == said(accounted(audit(cluster, tmp_path, shard_ledgers=SHARD)))


def test_a_finished_run_keeps_no_journal(whole: Outcome):
    """It has evidence and results, and nothing that only a resumption needs."""
    assert whole.run_dir is not None
    assert {"evidence", "verdicts", "marks"} == {
        path.name for path in whole.run_dir.iterdir() if path.is_dir()
    }


def test_the_pause_is_made_again_by_the_run_that_goes_on(
    cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It does not matter how long the run was down: a bookie that was gone before may have been
    back, and may be restarting now.
    """
    cut_down_at_each(["look 2 shard 0: metadata"], True, monkeypatch)
    outcome, cuts = gone_on_with(cluster, tmp_path)
    assert (1, 1) == (cuts, len(outcome.pauses_s))


@pytest.mark.parametrize(
    ("expected", "is_back"), [([], True), ([Kind.BOOKIE_LOST_UNNOTICED], False)]
)
def test_a_bookie_that_came_back_and_went_again_was_not_lost(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    expected: list[Kind],
    is_back: bool,
):
    """It was gone when the run was interrupted, there when it was resumed, and gone at the next
    look: it restarts. One that stays away is lost.
    """
    with SandboxCluster(tmp_path / "cluster", 2) as cluster:
        cluster.place(1, cluster.ledger("e2 w2 a2 0:[b1 b2] closed 9"))
        cluster.lose_bookie("b2", cookie=True)
        stop = Pauses(lambda _: cluster.unregister("b2"))
        monkeypatch.setattr("auditor.run.bookie_register.now_ms", stop.skipped_clock())
        cut_down_at_each(["look 1: bookies"], True, monkeypatch)
        with pytest.raises(CutDown):
            audit(cluster, tmp_path, stop=stop)
        if is_back:
            cluster.register("b2")
        stop.seconds.append(20 * 3600)  # the run is down for this long
        (run,) = (tmp_path / "audits").glob("run-*")
        outcome = audit(cluster, tmp_path, stop=stop, resume=run.name.removeprefix("run-"))
    assert (expected, ["indeterminate: bookie_silent"]) == (
        outcome.kinds,
        outcome.standings(1),
    ), outcome.stdout


def test_a_run_that_was_stopped_says_how_to_go_on(
    cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It prints the command, with the run's id; before anything is written there is nothing to
    resume.
    """
    once = Journal.run_once

    def stopped(self: Journal, stage: str, work: Callable[..., Any], *args: Any) -> Any:
        if stage.startswith(at):
            raise Interrupted(15)
        return once(self, stage, work, *args)

    monkeypatch.setattr(Journal, "run_once", stopped)
    at = "look 1"
    with pytest.raises(Interrupted) as interrupted:
        audit(cluster, tmp_path)
    (run,) = (tmp_path / "audits").glob("run-*")
    assert (
        f"auditor run --resume {run.name.removeprefix('run-')} continues"
        in interrupted.value.advice
    )
    at = "listing"
    with pytest.raises(Interrupted) as interrupted:
        audit(cluster, tmp_path)
    assert "" == interrupted.value.advice
