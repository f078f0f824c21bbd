"""A row that is dropped or doubled anywhere ends the run with exit 4, and nothing of it is
published.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from support.audits import FIRST_LOOK_ON_SPARK, ON_SPARK, audit

from auditor.run.judging_rounds import Judgings
from auditor.run.pipeline import Audit
from auditor.sandbox.cluster import SandboxCluster
from auditor.stages import stages
from auditor.stages.stages import Stages

LEDGERS = range(1, 21)
VIOLATED = 7
STRIPED = "e3 w2 a2 0:[b1 b2 b3] closed 29"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield twenty ledgers on three bookies; one lacks an entry."""
    with SandboxCluster(tmp_path_factory.mktemp("accounting"), 3) as cluster:
        for ledger_id in LEDGERS:
            cluster.place(ledger_id, cluster.ledger(STRIPED))
        cluster.hold("b2", VIOLATED, "")
        yield cluster


@pytest.fixture(scope="module")
def finished(cluster: SandboxCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return OUTPUT's parent, with one finished run and its metrics."""
    home = tmp_path_factory.mktemp("finished")
    outcome = audit(cluster, home, metrics_textfile=str(home / "auditor.prom"))
    assert 1 == outcome.exit_code, outcome.stdout
    return home


def test_the_counts_are_those_of_the_listing(finished: Path):
    """listed = sound + exempt + indeterminate + violated, and as many verdicts, each of one
    ledger.
    """
    (run,) = (finished / "audits").glob("run-*")
    summary = json.loads((run / "summary.json").read_text())
    assert {"listed": 20, "sound": 19, "exempt": 0, "indeterminate": 0, "violated": 1} == summary[
        "ledgers"
    ]
    verdicts = ds.dataset(run / "verdicts", format="parquet").to_table()["ledger_id"].to_pylist()
    assert list(LEDGERS) == sorted(verdicts)
    assert list(LEDGERS) == sorted(
        ds.dataset(run / "evidence" / "listing", format="parquet")
        .to_table()["ledger_id"]
        .to_pylist()
    )


def rewrite(table: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Replace all rows of a written table."""
    rows = change(ds.dataset(table, format="parquet").to_table())
    for part in table.glob("*.parquet"):
        part.unlink()
        (part.parent / f".{part.name}.crc").unlink(missing_ok=True)
    pq.write_table(rows, table / "planted.parquet")


def dropped(ledger_id: int) -> Callable[[pa.Table], pa.Table]:
    return lambda rows: rows.filter(ds.field("ledger_id") != ledger_id)


def doubled(ledger_id: int) -> Callable[[pa.Table], pa.Table]:
    return lambda rows: pa.concat_tables([rows, rows.filter(ds.field("ledger_id") == ledger_id)])


def planted(
    owner: type[Audit | Stages], stage: str, table: str, change: Callable[[pa.Table], pa.Table]
) -> Callable[..., Any]:
    """The stage, and a change to its output before the journal names it."""
    original = getattr(owner, stage)

    def staged(self: Audit | Stages, *arguments: Any, **named: Any) -> Any:
        rows = original(self, *arguments, **named)
        run = self.directory if isinstance(self, Audit) else self.local.run
        rewrite(Path(run.path) / table, change)
        return rows

    return staged


def planted_verdicts(change: Callable[[pa.Table], pa.Table]) -> Callable[..., Any]:
    """The rows of all verdicts, changed before they are written."""
    original = Judgings._settled_rows

    def settled(self: Judgings) -> Iterator[pa.RecordBatch]:
        yield from change(pa.Table.from_batches(list(original(self)))).to_batches()

    return settled


@pytest.fixture
def healed(cluster: SandboxCluster) -> Iterator[SandboxCluster]:
    """Repair the ledger. Without a loss there is no suspect and no second look, which takes most of
    a run's time.
    """
    metadata = cluster.ledger(STRIPED)
    cluster.spread(VIOLATED, metadata)
    yield cluster
    cluster.hold("b2", VIOLATED, "")


PLANTS = {
    "a verdict is lost": ("commit", "verdicts", dropped(3)),
    "a verdict is doubled": ("commit", "verdicts", doubled(3)),
    "a step is lost": ("judge", "steps/look-1-judging-0", dropped(3)),
    "a step is doubled": ("judge", "steps/look-1-judging-0", doubled(3)),
    "an id is doubled in the listing": ("list_ledgers", "evidence/listing", doubled(3)),
    "a record is lost": ("read_metadata", "evidence/ledgers", dropped(3)),
    "a record is doubled": ("read_metadata", "evidence/ledgers", doubled(3)),
    "an answer is doubled": ("_ask_lists", "evidence/answers", doubled(3)),
}
FIRST_LOOK = ("read_metadata", "_ask_lists")
"""Stages of a first look, whose requests Spark may carry out ahead."""
BY_SPARK = (
    pytest.param("a step is lost", marks=pytest.mark.long),
    pytest.param("a record is doubled", marks=pytest.mark.long),
    "an answer is doubled",
)
"""One change of each table that Spark writes."""
OF_THE_VIOLATED = {
    "the violated verdict is lost": ("commit", "verdicts", dropped(VIOLATED)),
    "a suspect's step is lost": ("judge", "steps/look-1-judging-0", dropped(VIOLATED)),
}


@pytest.mark.parametrize("plant", PLANTS)
def test_what_does_not_add_up_is_exit_4_and_publishes_nothing(
    finished: Path, healed: SandboxCluster, monkeypatch: pytest.MonkeyPatch, plant: str
):
    """There is no summary, latest.json and the metrics keep their values: only outcome and
    timestamp change.
    """
    nothing_is_published(healed, finished, monkeypatch, *PLANTS[plant])


@pytest.mark.spark
@pytest.mark.parametrize("plant", BY_SPARK)
def test_what_spark_wrote_is_counted_likewise(
    spark: object,
    finished: Path,
    healed: SandboxCluster,
    monkeypatch: pytest.MonkeyPatch,
    plant: str,
):
    """It does not matter which process lost or doubled it."""
    nothing_is_published(healed, finished, monkeypatch, *PLANTS[plant], **FIRST_LOOK_ON_SPARK)


@pytest.mark.parametrize("plant", OF_THE_VIOLATED)
def test_what_does_not_add_up_of_a_violated_ledger_is_no_clean_bill(
    finished: Path, cluster: SandboxCluster, monkeypatch: pytest.MonkeyPatch, plant: str
):
    """This also holds if the lost row is the finding."""
    nothing_is_published(cluster, finished, monkeypatch, *OF_THE_VIOLATED[plant])


def nothing_is_published(
    cluster: SandboxCluster,
    finished: Path,
    monkeypatch: pytest.MonkeyPatch,
    stage: str,
    table: str,
    change: Callable[[pa.Table], pa.Table],
    **way: str,
) -> None:
    metrics, latest = finished / "auditor.prom", finished / "audits" / "latest.json"
    before, named = values(metrics), latest.read_bytes()
    if stage == "commit":
        monkeypatch.setattr(Judgings, "_settled_rows", planted_verdicts(change))
    else:
        owner = Audit if stage in FIRST_LOOK else Stages
        monkeypatch.setattr(owner, stage, planted(owner, stage, table, change))
    outcome = audit(cluster, finished, metrics_textfile=str(metrics), keep_runs="0", **way)
    assert 4 == outcome.exit_code, outcome.stdout
    assert outcome.last_line.startswith("auditor: AUDITOR_FAULT run="), outcome.stdout
    assert "listed=" not in outcome.last_line
    assert outcome.run_dir is not None
    assert [] == [
        name
        for name in ("summary.json", "report.txt", "metrics.prom", "findings.jsonl")
        if (outcome.run_dir / name).exists()
    ]
    assert named == latest.read_bytes()
    after = values(metrics)
    moved = {
        series for series in before.keys() | after.keys() if before.get(series) != after.get(series)
    }
    assert {
        "bookkeeper_auditor_last_run_outcome",
        "bookkeeper_auditor_last_run_timestamp_seconds",
    } >= {series.partition("{")[0] for series in moved}
    assert ["AUDITOR_FAULT"] == [
        word for word in ("SOUND", "VIOLATED", "AUDITOR_FAULT") if is_outcome(after, word)
    ]


def values(metrics: Path) -> dict[str, str]:
    """Value by series."""
    lines = [line for line in metrics.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.rsplit(" ", 1) for line in lines)


def is_outcome(series: dict[str, str], word: str) -> bool:
    return any(
        f'outcome="{word}"' in name and "last_run_outcome" in name and value == "1.0"
        for name, value in series.items()
    )


@pytest.mark.spark
def test_workers_that_are_killed_at_every_attempt_end_the_run_without_a_verdict(
    spark: object, finished: Path, healed: SandboxCluster, monkeypatch: pytest.MonkeyPatch
):
    """Spark gives up twice, whatever is judged and by which process. The kill is none of our own
    logic: exit 5, with a sentence, and earlier results stay.
    """
    latest = (finished / "audits" / "latest.json").read_bytes()
    make = stages.judge_of

    def made(*arguments: Any, **named: Any) -> Any:
        work = make(*arguments, **named)

        def dies(batches: Any) -> Any:
            import os
            import signal

            yield from work(batches)
            os.kill(os.getpid(), signal.SIGKILL)

        return dies

    monkeypatch.setattr(stages, "judge_of", made)
    outcome = audit(healed, finished, **ON_SPARK)
    assert 5 == outcome.exit_code
    assert outcome.last_line.startswith("auditor: UNREACHABLE run="), outcome.stdout
    assert "ended in every attempt at a job (Python worker exited unexpectedly" in " ".join(
        outcome.stdout.split()
    )
    assert latest == (finished / "audits" / "latest.json").read_bytes()
