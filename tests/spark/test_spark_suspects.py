"""Ledgers looked at by the driver and by Spark: the same evidence, the same findings, one
journal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.audits import FIRST_LOOK_ON_SPARK, ON_SPARK, Outcome, accounted, audit

from auditor.evidence.journal import Journal
from auditor.evidence.run_directory import place
from auditor.evidence.schemas import ANSWERS, BOOKIES, LEDGERS, LISTING, MARKS, READS
from auditor.sandbox.bookie import LedgerFault, Storage
from auditor.sandbox.cluster import SandboxCluster
from auditor.spark.executor import SparkExecutor
from auditor.stages.local import LocalExecutor

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

IN_PROCESS: Mapping[str, str] = {}
LEDGERS_ALL = range(1, 13)
SHARD = 6
RUN_ID = "20260102T030405Z-abcdef"
"""One id for every run here: it determines which entries are probed."""
TABLES = {
    "listing": LISTING,
    "ledgers": LEDGERS,
    "answers": ANSWERS,
    "reads": READS,
    "bookies": BOOKIES,
    "marks": MARKS,
}
TIMES = re.compile(
    r'\d{4}-\d\d-\d\d(T[\d:.]+Z)?|\d\d:\d\d:\d\d|"\w+_ms":\d+|[\d.]+ (?:ms|s|min|h)(?: \d+ s)?'
    r" apart"
)
OF_ONE_RUN = ("read_at_ms", "asked_at_ms", "greeting_detail")
"""Columns that may also differ between two runs of Spark: times, and which of two shards' answers
of a bookie is kept.
"""
CUTS = (
    "look 1 shard 0: metadata",
    "look 1 shard 0: lists",
    "steps/look-1-judging-0",
    "look 1: reads of judging ",
    "steps/look-1-judging-3",
    "look 2 shard 0: metadata",
    "steps/look-2-judging-1",
    "look 2 shard 1: lists",
    "look 3 shard 0: metadata",
)
"""How the stages begin after which a run is interrupted, before they are in its journal. Where the
driver counts answers, the first judging that wants reads has another number than elsewhere."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield twelve ledgers in two shards on four bookies that list, one that cannot and one that is
    silent.
    """
    storages = [Storage.SORTED] * 4 + [Storage.DB, Storage.SORTED]
    with SandboxCluster(
        tmp_path_factory.mktemp("suspects"), 6, named=True, storage=storages
    ) as cluster:
        seed(cluster)
        yield cluster


def seed(cluster: SandboxCluster) -> None:
    """Write sound ledgers, losses of each sort in both shards, and lists that reads contradict."""
    for ledger_id in LEDGERS_ALL:
        cluster.place(ledger_id, cluster.ledger("e3 w2 a2 0:[b1 b2 b3] closed 29"))
    for ledger_id in (2, 8):
        cluster.hold("b2", ledger_id, "")
    for bookie in ("b1", "b2", "b3"):
        cluster.hold(bookie, 3, "0-3 5-29")
        cluster.hold(bookie, 9, "0-3 5-29")
    cluster.hold("b4", 9, "4")
    cluster.place(4, cluster.ledger("e2 w2 a2 0:[b1 b5] closed 9"))
    cluster.place(5, cluster.ledger("e3 w2 a2 0:[b1 b2 gone] closed 9"))
    cluster.place(10, cluster.ledger("e3 w2 a2 0:[b1 b2 b6] closed 9"))
    cluster.place(11, cluster.ledger("e3 w3 a2 0:[b1 b2 b5] closed 9"))
    cluster.corrupt("b5", 11, 0)
    cluster.mark(6)
    cluster.place(12, cluster.ledger("e3 w2 a2 0:[b1 b2 b3] closed"), written=9)
    for bookie in ("b1", "b2", "b3"):
        cluster.fault(bookie, 1, LedgerFault.LIST_OUT_OF_ORDER)
        cluster.fault(bookie, 7, LedgerFault.READS_DENIED)
    cluster.stop_bookie("b6")


@pytest.fixture(autouse=True)
def _one_run_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auditor.run.run.new_run_id", lambda _now: RUN_ID)


def audited(cluster: SandboxCluster, home: Path, way: Mapping[str, str], **more: object) -> Outcome:
    return audit(cluster, home, shard_ledgers=SHARD, **way, **more)


@pytest.fixture(scope="module")
def on_spark(
    spark: SparkSession, cluster: SandboxCluster, tmp_path_factory: pytest.TempPathFactory
) -> Outcome:
    """Return a run in which Spark does everything."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("auditor.run.run.new_run_id", lambda _now: RUN_ID)
        return accounted(audited(cluster, tmp_path_factory.mktemp("on-spark"), ON_SPARK))


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let later looks take each shard by itself, however few suspects it has."""
    monkeypatch.setattr(
        "auditor.run.looks.first_of_each_group", lambda counts, _: list(range(len(counts)))
    )


def without_times(text: str) -> str:
    """Return what a run wrote, without the times."""
    return TIMES.sub("", text)


def evidence(outcome: Outcome) -> dict[str, list[str]]:
    """Return every row of evidence, without the times, in an order that does not depend on the
    run.
    """
    assert outcome.run_dir is not None
    run = place(str(outcome.run_dir))
    return {
        name: rows_of(run.read_table(f"evidence/{name}", schema).to_pylist())
        for name, schema in TABLES.items()
    }


def rows_of(rows: Sequence[dict[str, Any]]) -> list[str]:
    return sorted(
        str({name: cell for name, cell in row.items() if name not in OF_ONE_RUN}) for row in rows
    )


def findings(outcome: Outcome) -> str:
    """Return the file of findings, byte for byte except for times."""
    assert outcome.run_dir is not None
    return without_times((outcome.run_dir / "findings.jsonl").read_text())


def note_judgings(monkeypatch: pytest.MonkeyPatch, executor: Any) -> set[tuple[int, int]]:
    """Return a set that gets the look and the number of each judging of an executor."""
    judgings: set[tuple[int, int]] = set()
    write = executor.write

    def note(self: Any, rows: Any, table: str, name: str) -> None:
        if found := re.fullmatch(r"steps/look-(\d+)-judging-(\d+)", table):
            judgings.add((int(found[1]), int(found[2])))
        write(self, rows, table, name)

    monkeypatch.setattr(executor, "write", note)
    return judgings


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize("way", [FIRST_LOOK_ON_SPARK, IN_PROCESS], ids=["suspects", "everything"])
def test_both_ways_give_the_same_evidence_and_findings(
    cluster: SandboxCluster,
    on_spark: Outcome,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: Mapping[str, str],
):
    """The driver's rows differ from Spark's only in their times. The limits are those of the whole
    run: no bookie had two connections at a time. The driver begins to judge at each look: at the
    first one it counts answers where Spark asked for them.
    """
    judgings = note_judgings(monkeypatch, LocalExecutor)
    outcome = accounted(audited(cluster, tmp_path, way))
    assert {1, 2, 3} == {look for look, judging in judgings if judging == 0}
    assert 1 == max(cluster.listener(bookie).connections_open_max for bookie in cluster.bookie_ids)
    assert len(findings(on_spark).splitlines()) >= 6
    expected, found = evidence(on_spark), evidence(outcome)
    for name in TABLES:
        assert expected[name] == found[name], name
    assert findings(on_spark) == findings(outcome)
    assert on_spark.verdicts == outcome.verdicts
    for key in ("ledgers", "bookies", "copies", "indeterminate", "exempt"):
        assert on_spark.summary[key] == outcome.summary[key], key
    before, requests = dict(on_spark.summary["requests"]), dict(outcome.summary["requests"])
    # Each session with ZooKeeper reads one znode to find out what the server can do.
    assert requests.pop("zookeeper_reads") < before.pop("zookeeper_reads")
    assert before == requests


def test_later_looks_at_few_suspects_take_both_shards_together(
    cluster: SandboxCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
):
    """The evidence of ledgers is that of shards one by one, in fewer stages. Bookies are greeted
    less often.
    """
    stages: list[str] = []
    once = Journal.run_once

    def note(self: Journal, stage: str, *args: Any, **options: Any) -> Any:
        stages.append(stage)
        return once(self, stage, *args, **options)

    monkeypatch.setattr(Journal, "run_once", note)
    joined = accounted(audited(cluster, tmp_path / "joined", IN_PROCESS))
    after = [one for one in stages if re.match(r"look [2-9] shard", one)]
    assert "look 2: shards" in stages
    stages.clear()
    request.getfixturevalue("apart")
    alone = accounted(audited(cluster, tmp_path / "alone", IN_PROCESS))
    before = [one for one in stages if re.match(r"look [2-9] shard", one)]
    assert [one for one in before if "shard 0" in one] == after
    assert len(before) > len(after) > 0
    expected, found = evidence(alone), evidence(joined)
    for name in TABLES:
        assert of_ledgers(expected[name]) == of_ledgers(found[name]), name
    assert findings(alone) == findings(joined)
    assert alone.verdicts == joined.verdicts


def of_ledgers(rows: Sequence[str]) -> list[str]:
    """Return the rows without greetings."""
    return [row for row in rows if "'ledger_id': None" not in row]


class CutDown(BaseException):
    """Raised to end the run, in place of a killed process."""


@pytest.mark.long
@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize(
    ("first", "cuts"),
    [
        pytest.param(ON_SPARK, CUTS, id="spark first"),
        pytest.param(IN_PROCESS, CUTS, id="in process first"),
    ],
)
def test_a_run_may_change_between_the_two_ways_wherever_it_was_cut_down(
    cluster: SandboxCluster,
    on_spark: Outcome,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: Mapping[str, str],
    cuts: Sequence[str],
):
    """Each of its lives continues in the other way than the one before, and nothing is lost or
    asked twice.
    """
    left = list(cuts)
    once = Journal.run_once

    def cut_down(
        self: Journal, stage: str, work: Callable[..., Any], *args: Any, **options: Any
    ) -> Any:
        def work_and_die(*args: Any, **options: Any) -> Any:
            result = work(*args, **options)
            begun = [cut for cut in left if stage.startswith(cut)]
            if begun:
                left.remove(begun[0])
                raise CutDown(stage)
            return result

        return once(self, stage, work_and_die, *args, **options)

    monkeypatch.setattr(Journal, "run_once", cut_down)
    more: dict[str, object] = {}
    for life in range(len(cuts) + 1):
        way = first if life % 2 == 0 else ON_SPARK if first is IN_PROCESS else IN_PROCESS
        try:
            outcome = accounted(audited(cluster, tmp_path, way, **more))
        except CutDown:
            more = {"resume": RUN_ID}
    assert [] == left
    assert len(cuts) == len(outcome.summary["resumed_at"])
    assert evidence(on_spark) == evidence(outcome)
    assert findings(on_spark) == findings(outcome)


@pytest.mark.parametrize(
    ("suspects_max", "expected"),
    [pytest.param(0, set(), marks=pytest.mark.long), (1, {1, 2, 3})],
)
def test_no_spark_job_is_started_for_so_few_suspects(
    spark: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    suspects_max: int,
    expected: set[int],
):
    """One suspect is one; 0 leaves everything to Spark. Counts settle the sound ledger."""
    judgings = note_judgings(monkeypatch, SparkExecutor)
    with SandboxCluster(tmp_path / "cluster", 3, named=True) as cluster:
        cluster.place(1, cluster.ledger("e3 w2 a2 0:[b1 b2 b3] closed 29"), {"b1": "4", "b2": "4"})
        cluster.place(2, cluster.ledger("e3 w2 a2 0:[b1 b2 b3] closed 29"))
        few = {"ledgers_in_process_max": "0", "suspects_in_process_max": str(suspects_max)}
        settled = {"spot_reads": "0", "sound_sample": "0%"}
        outcome = accounted(audited(cluster, tmp_path, {**few, **settled}))
    assert {1, 2, 3} - expected == {look for look, _ in judgings - {(1, 0)}}
    assert ["violated", "sound"] == outcome.standings(1, 2)
