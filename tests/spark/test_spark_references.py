"""What Pulsar's topics reference, in whole runs: findings, topics that are hit, and an interrupted
run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.audits import Outcome, accounted, audit
from support.topics import closed, put_topic

from auditor.evidence.journal import Journal
from auditor.model.finding import Kind
from auditor.model.topic import Cursor, DataLedger, Position
from auditor.pulsar.topic_paths import parse_topic, topic_path
from auditor.run import reference_looks
from auditor.sandbox.cluster import SandboxCluster
from auditor.sandbox.stories import with_owner

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

TEXT = "e3 w2 a2 0:[b1 b2 b3] closed 9"
SOUND, CUT, OPEN, ORPHAN, YOUNG, MISSING, OFFLOADED, EMPTY, NEWEST = 1, 2, 3, 4, 5, 70, 71, 72, 73
SIXTY_DAYS_MS = 60 * 24 * 3600 * 1000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield a topic with a missing and a truncated ledger, beside others without a finding; and an
    orphan beside a young ledger.
    """
    with SandboxCluster(tmp_path_factory.mktemp("references"), 3, named=True) as made:
        for ledger_id in (SOUND, CUT):
            made.place(ledger_id, made.ledger(TEXT))
        made.place(OPEN, made.ledger("e3 w2 a2 0:[b1 b2 b3] open"))
        now_ms = int(time.time() * 1000)
        for ledger_id, made_ms in ((ORPHAN, now_ms - SIXTY_DAYS_MS), (YOUNG, now_ms)):
            made.place(ledger_id, replace(with_owner(made.ledger(TEXT), "good"), ctime_ms=made_ms))
        ledgers = [
            closed(SOUND),
            closed(CUT, 12),
            closed(MISSING),
            closed(OFFLOADED, offloaded=True),
            closed(EMPTY, 0),
        ]
        cursors = {
            "late": Cursor(None, Position(SOUND, 9)),
            "in use": Cursor(OPEN, Position(SOUND, 9)),
        }
        put_topic(made.set_raw, "public/default/bad", [*ledgers, DataLedger(NEWEST)], cursors)
        put_topic(made.set_raw, "public/default/good", [closed(SOUND), DataLedger(OPEN)])
        yield made


@pytest.fixture(scope="module")
def whole(
    spark: SparkSession, cluster: SandboxCluster, tmp_path_factory: pytest.TempPathFactory
) -> Outcome:
    """Return a run that is not interrupted."""
    return accounted(audit(cluster, tmp_path_factory.mktemp("whole")))


def said(outcome: Outcome) -> list[tuple[str, int | None, dict[str, Any]]]:
    """Return what the findings say, without the times of the looks and the age that depends on
    them.
    """
    moving = ("apart_ms", "oldest_age_ms")
    return [
        (
            one["kind"],
            one["ledger_id"],
            {name: fact for name, fact in one["facts"].items() if name not in moving},
        )
        for one in outcome.findings
    ]


def test_losses_and_orphans_are_found_and_nothing_else(whole: Outcome) -> None:
    """A newest ledger is found apart; a ledger in long-term storage, and an empty
    one, have no finding.
    """
    assert [
        Kind.REFERENCED_LEDGER_MISSING,
        Kind.NEWEST_LEDGER_MISSING,
        Kind.LEDGER_TRUNCATED,
        Kind.LEDGER_ORPHANED,
    ] == whole.kinds
    missing, newest, cut, orphaned = whole.findings
    assert NEWEST == newest["ledger_id"]
    assert (MISSING, CUT, None) == (missing["ledger_id"], cut["ledger_id"], orphaned["ledger_id"])
    assert "public/default/persistent/bad" == missing["owner"]["name"] == cut["owner"]["name"]
    assert [ORPHAN] == orphaned["facts"]["some_ledgers"]
    references = whole.summary["references"]
    expected = {"missing": 1, "newest_missing": 1, "truncated": 1, "orphaned": 1}
    expected |= {"unreadable": 0, "unknown": 0}
    assert expected == {name: references[name] for name in expected}
    assert (2, 2, 7) == tuple(
        references[name] for name in ("topics", "cursors", "ledgers_referenced")
    )
    assert ("VIOLATED", 1, True) == tuple(
        whole.summary[name] for name in ("outcome", "exit_code", "complete")
    )
    assert ["sound", "sound"] == whole.standings(SOUND, CUT)


def test_topics_that_are_hit_are_written(whole: Outcome) -> None:
    """There is one line for each topic, with the subscriptions that the loss blocks; and the ids of
    the orphans.
    """
    assert whole.run_dir is not None
    (line,) = (whole.run_dir / "topics.jsonl").read_text().splitlines()
    topic = json.loads(line)
    assert ("persistent://public/default/bad", True, [CUT, MISSING, NEWEST]) == (
        topic["topic"],
        topic["has_loss"],
        topic["ledgers"],
    )
    assert (["late"], ["in use"]) == (
        topic["subscriptions_blocked"],
        topic["subscriptions_possibly_blocked"],
    )
    assert f"{ORPHAN}\n" == (whole.run_dir / "references" / "orphaned.txt").read_text()
    assert 1 == whole.summary["topics_hit"]


def test_a_reference_that_is_gone_at_the_second_look_is_no_finding(
    spark: SparkSession, cluster: SandboxCluster, tmp_path: Path
) -> None:
    """The broker trimmed the topic: after the delay nothing referenced the ledger."""
    path = topic_path(parse_topic("public/default/trimmed"))
    put_topic(cluster.set_raw, "public/default/trimmed", [closed(80), closed(SOUND)])
    try:
        outcome = accounted(
            audit(
                cluster, tmp_path, second_look_delay="60s",
                between=lambda _: put_topic(cluster.set_raw, "public/default/trimmed",
                [closed(SOUND)]),
            )
        )  # fmt: skip
    finally:
        cluster.delete_raw(path)
    assert not outcome.of(80) and outcome.of(MISSING)


def test_spark_tasks_write_what_the_driver_writes(
    spark: SparkSession,
    cluster: SandboxCluster,
    whole: Outcome,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The findings are the same if the driver reads no topic. The reads of tasks are counted,
    including those of connecting.
    """
    monkeypatch.setattr(reference_looks, "TOPICS_IN_PROCESS_MAX", 0)
    outcome = accounted(audit(cluster, tmp_path))
    assert said(whole) == said(outcome)
    assert whole.summary["references"] == outcome.summary["references"]
    assert (
        whole.summary["requests"]["zookeeper_reads"]
        < outcome.summary["requests"]["zookeeper_reads"]
    )


class CutDown(BaseException):
    """Raised to end the run, in place of a killed process."""


@pytest.mark.parametrize("stage", ["referenced ledgers", "references again"])
def test_a_run_that_is_cut_down_goes_on(
    spark: SparkSession,
    cluster: SandboxCluster,
    whole: Outcome,
    tmp_path: Path,
    stage: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is interrupted before a stage on references is in the journal; the references read before
    are not read again.
    """
    once: Callable[..., Any] = Journal.run_once

    def cut(self: Journal, name: str, *args: Any, **options: Any) -> Any:
        if name == stage:
            raise CutDown
        return once(self, name, *args, **options)

    monkeypatch.setattr(Journal, "run_once", cut)
    with pytest.raises(CutDown):
        audit(cluster, tmp_path)
    monkeypatch.setattr(Journal, "run_once", once)
    (run_dir,) = (tmp_path / "audits").glob("run-*")
    before = {
        file.name: file.read_bytes()
        for file in (run_dir / "evidence" / "references").glob("look-1*.parquet")
    }
    outcome = accounted(audit(cluster, tmp_path, resume=run_dir.name.removeprefix("run-")))
    assert said(whole) == said(outcome)
    after = {
        file.name: file.read_bytes()
        for file in (run_dir / "evidence" / "references").glob("look-1*.parquet")
    }
    assert before == after


def test_pulsar_may_be_left_out(
    spark: SparkSession, cluster: SandboxCluster, tmp_path: Path
) -> None:
    """--pulsar off: nothing is read of topics, and nothing is reported."""
    outcome = accounted(audit(cluster, tmp_path, pulsar="off"))
    assert ([], None) == (outcome.findings, outcome.summary["references"])
    assert outcome.run_dir is not None and not (outcome.run_dir / "topics.jsonl").exists()
