"""Laws of runs in which Spark works on the next shard while the driver works on one.

This process stands for Spark (`support.asking_ahead`).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.asking_ahead import Talks, as_spark
from support.audits import FIRST_LOOK_ON_SPARK, ON_SPARK, Outcome, Pauses, accounted, audit

from auditor.errors import OutputError, StoreUnavailable
from auditor.evidence.journal import Journal
from auditor.run.ahead import Ahead
from auditor.run.judging_rounds import Judgings
from auditor.run.open_hours import OpenHours
from auditor.sandbox.bookie import Storage
from auditor.sandbox.cluster import SandboxCluster
from auditor.stop import Interrupted

LEDGERS, SHARD, SHARDS = range(1, 13), 3, 4
BOOKIES = ("b1", "b2", "b3")
METADATA = "evidence/ledgers"
LISTS = [f"steps/lists-look-01-shard-{number:04}" for number in range(1, SHARDS)]
AHEAD = [table for lists in LISTS for table in (METADATA, lists)]
"""What is asked ahead in a run: the metadata and the lists of each shard but the first."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield ledgers in four shards, with a suspect in each. Entries of three shards are read on a
    bookie that cannot list.
    """
    storages = [Storage.SORTED] * len(BOOKIES) + [Storage.DB]
    with SandboxCluster(
        tmp_path_factory.mktemp("ahead"), len(storages), named=True, storage=storages
    ) as made:
        for ledger_id in LEDGERS:
            made.place(ledger_id, made.ledger("e3 w2 a2 0:[b1 b2 b3] closed 29"))
        made.place(4, made.ledger("e2 w2 a2 0:[b1 b4] closed 9"))
        made.hold("b2", 8, "")
        for ledger_id in (2, 5, 11):
            for bookie in BOOKIES:
                made.hold(bookie, ledger_id, "0-3 5-29")
        made.mark(9)
        made.place(10, made.ledger("e3 w2 a2 0:[b1 b2 b3] open"))
        yield made


@pytest.fixture(scope="module")
def alone(cluster: SandboxCluster, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Return what a run says that takes one shard after the other."""
    return accounted(audit(cluster, tmp_path_factory.mktemp("alone"), shard_ledgers=SHARD))


@pytest.fixture
def talks(monkeypatch: pytest.MonkeyPatch) -> Talks:
    return as_spark(monkeypatch)


def audited(cluster: SandboxCluster, home: Path, **more: Any) -> Outcome:
    return audit(cluster, home, shard_ledgers=SHARD, **{**FIRST_LOOK_ON_SPARK, **more})


def said(outcome: Outcome) -> tuple[Any, ...]:
    found = sorted((one["id"], one["kind"], str(one["entries"])) for one in outcome.findings)
    return outcome.exit_code, found, outcome.verdicts, outcome.summary["ledgers"]


def threads_ahead() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name == "auditor-ahead"]


def test_both_work_at_once_and_nobody_talks_to_the_same_at_once(
    cluster: SandboxCluster, alone: Outcome, talks: Talks, tmp_path: Path
):
    """The metadata of a shard is read while the answers of the one before are written, its lists
    are asked for while that one is judged. The findings are those of a run that does not overlap.
    """
    talks.on_ahead, talks.is_slow = talks.await_main_thread, True
    outcome = accounted(audited(cluster, tmp_path))
    assert AHEAD == talks.ahead
    assert [] == talks.at_once
    assert said(alone) == said(outcome)
    assert [] == threads_ahead()


def test_a_run_that_is_not_open_begins_nothing_ahead(
    cluster: SandboxCluster,
    alone: Outcome,
    talks: Talks,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    """A shard that follows waits until the window opens."""
    monkeypatch.setattr(OpenHours, "is_open", lambda _: False)
    outcome = accounted(audited(cluster, tmp_path))
    assert [] == talks.ahead
    assert said(alone) == said(outcome)


def test_a_shard_whose_metadata_was_read_ahead_is_finished_outside_the_window(
    cluster: SandboxCluster, talks: Talks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The night is over once the metadata of the second shard was read."""
    waited: list[tuple[str, int]] = []
    monkeypatch.setattr(OpenHours, "is_open", lambda _: not talks.ahead)
    monkeypatch.setattr(
        OpenHours, "await_open", lambda _, then: waited.append((then, len(talks.ahead)))
    )
    accounted(audited(cluster, tmp_path))
    assert AHEAD[:2] == talks.ahead
    at_the_beginning, *by_shard = waited[:4]
    assert ("load", 0) == at_the_beginning
    assert [("load", 0), ("load", 2), ("load", 2)] == by_shard


def test_a_resumed_run_finishes_a_shard_whose_metadata_was_read_outside_the_window(
    cluster: SandboxCluster,
    alone: Outcome,
    talks: Talks,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    """It has begun, in whichever process that was."""

    def fail(asked: str) -> None:
        if asked == LISTS[0]:
            raise StoreUnavailable("ZooKeeper went away")

    talks.on_ahead = fail
    failed = audited(cluster, tmp_path)
    assert failed.run_dir is not None
    talks.on_ahead = lambda _: None
    talks.ahead.clear()
    monkeypatch.setattr(OpenHours, "is_open", lambda _: False)
    resumed = accounted(audited(cluster, tmp_path, resume=failed.run_dir.name.removeprefix("run-")))
    assert [LISTS[0]] == talks.ahead
    assert said(alone) == said(resumed)


@pytest.mark.parametrize(
    ("settings", "shard"),
    [
        pytest.param({}, SHARD, id="in this process"),
        pytest.param(FIRST_LOOK_ON_SPARK, len(LEDGERS), id="one shard"),
        pytest.param(ON_SPARK, SHARD, id="everything on Spark"),
    ],
)
def test_other_runs_begin_nothing_ahead(
    cluster: SandboxCluster,
    alone: Outcome,
    talks: Talks,
    tmp_path: Path,
    settings: dict[str, str],
    shard: int,
):
    outcome = accounted(audit(cluster, tmp_path, shard_ledgers=shard, **settings))
    assert [] == talks.ahead
    assert said(alone)[:2] == said(outcome)[:2]


@pytest.mark.parametrize("table", AHEAD[:2])
def test_an_error_ahead_ends_the_run_once_and_it_is_resumed(
    cluster: SandboxCluster, alone: Outcome, talks: Talks, tmp_path: Path, table: str
):
    """It surfaces in the main thread, like one of the stage itself, and no thread is left."""

    def fail(asked: str) -> None:
        if asked == table:
            raise StoreUnavailable("ZooKeeper went away")

    talks.on_ahead = fail
    failed = audited(cluster, tmp_path)
    assert 1 == failed.stdout.count("ZooKeeper went away"), failed.stdout
    assert [] == threads_ahead()
    assert failed.run_dir is not None
    talks.on_ahead = lambda _: None
    resumed = accounted(audited(cluster, tmp_path, resume=failed.run_dir.name.removeprefix("run-")))
    assert said(alone) == said(resumed)
    assert [] == talks.at_once


def test_an_error_of_the_main_thread_ends_what_is_ahead(
    cluster: SandboxCluster,
    alone: Outcome,
    talks: Talks,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    """Nobody waits for the lists any more: they are given up, and asked for by the resumed run."""
    begun = threading.Event()
    stops: list[Callable[[], None]] = []

    def until_abandoned(table: str) -> None:
        if table == LISTS[0]:
            begun.set()
            while True:
                stops[0]()
                threading.Event().wait(0.01)

    def fail(*_: object, **__: object) -> None:
        assert begun.wait(30)
        raise OutputError("the disk is full")

    talks.on_ahead = until_abandoned
    stop = Pauses()
    stops.append(stop.check)
    with monkeypatch.context() as patch:
        patch.setattr(Judgings, "judge", fail)
        failed = audited(cluster, tmp_path, stop=stop)
    assert "the disk is full" in failed.stdout
    assert [] == threads_ahead()
    assert failed.run_dir is not None
    talks.on_ahead = lambda _: None
    resumed = accounted(audited(cluster, tmp_path, resume=failed.run_dir.name.removeprefix("run-")))
    assert said(alone) == said(resumed)


@pytest.mark.parametrize("table", AHEAD[:2])
def test_a_signal_ends_both(
    cluster: SandboxCluster, alone: Outcome, talks: Talks, tmp_path: Path, table: str
):
    """The run stops, and leaves no thread. It can be resumed."""
    stop = Pauses()

    def terminate(asked: str) -> None:
        if asked == table:
            stop._remember(signal.SIGTERM, None)

    talks.on_ahead = terminate
    with pytest.raises(Interrupted, match="SIGTERM"):
        audited(cluster, tmp_path, stop=stop)
    assert [] == threads_ahead()
    (stopped,) = (tmp_path / "audits").glob("run-*")
    talks.on_ahead = lambda _: None
    resumed = accounted(audited(cluster, tmp_path, resume=stopped.name.removeprefix("run-")))
    assert said(alone) == said(resumed)


def test_no_stage_owns_the_files_of_what_is_ahead(
    cluster: SandboxCluster, talks: Talks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The journal names a file with the stage that wrote it, whatever ended meanwhile."""
    owned: dict[str, set[str]] = {}

    def once(self: Journal, stage: str, *args: Any, **options: Any) -> Any:
        before = set(self._files)
        result = plain(self, stage, *args, **options)
        written = {name.rpartition("/")[0] for name in self._files.keys() - before}
        owned.setdefault(stage, written)
        return result

    plain = Journal.run_once
    monkeypatch.setattr(Journal, "run_once", once)
    talks.on_ahead = talks.await_main_thread
    accounted(audited(cluster, tmp_path))
    for number in range(SHARDS):
        assert {METADATA} == owned[f"look 1 shard {number}: metadata"] - {"evidence/marks"}
        assert {"evidence/answers"} == owned[f"look 1 shard {number}: lists"]
        assert owned[f"look 1 shard {number}: spot reads"] <= {"evidence/reads"}
    judged = {tables for stage in owned if "judging" in stage for tables in owned[stage]}
    assert {one.partition("-judging")[0] for one in judged} <= {
        *(f"steps/look-{look}" for look in (1, 2, 3)),
        "evidence/reads",
    }


def test_at_most_one_request_is_ahead(tmp_path: Path):
    """A second one is a fault of the caller."""
    stop = Pauses()
    waits = threading.Event()
    ahead = Ahead(stop, Journal(None), lambda _: None)  # type: ignore[arg-type]
    request: Any = type("Waiting", (), {"table": "evidence/x", "ask": staticmethod(waits.wait)})
    ahead.begin(request)
    with pytest.raises(AssertionError, match="at most one"):
        ahead.begin(request)
    waits.set()
    ahead.hand_over()
    assert "" == ahead.journal.apart
    ahead.finish()


def test_a_thread_that_this_host_does_not_start_is_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    """What failed is said: no second error covers it."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    ahead = Ahead(Pauses(), Journal(None), lambda _: None)  # type: ignore[arg-type]
    request: Any = type("Unasked", (), {"table": "evidence/x", "ask": lambda: None})
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"), closing(ahead):
        ahead.begin(request)
    assert not ahead.is_at_work


def test_the_tasks_of_a_request_count_while_it_is_awaited():
    """Those of the main thread's own jobs count at once."""
    ticks: list[int] = []
    ahead = Ahead(Pauses(), Journal(None), ticks.append)  # type: ignore[arg-type]
    request: Any = type("Ticking", (), {"table": "evidence/x", "ask": lambda: ahead.count(3)})
    ahead.count(1)
    assert [1] == ticks
    ahead.begin(request)
    ahead.hand_over()
    assert [1, 3] == sorted({*ticks} - {0})
