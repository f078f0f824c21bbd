"""Laws of whole runs that work at night only (`--window`), beside a run that nothing disturbs.

The nights here are short: a night is over once the metadata of a shard was read in it. Each look at
a shard therefore takes a night. The days between pass without sleeping.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.audits import Outcome, Pauses, accounted, audit

from auditor.config.units import DailyWindow
from auditor.context import Context, Watch
from auditor.errors import ConfigError
from auditor.run.open_hours import NAP_S, OpenHours
from auditor.sandbox.cluster import SandboxCluster
from auditor.stages.stages import Stages
from auditor.stop import Interrupted
from auditor.telemetry.progress import Progress

NIGHT = DailyWindow(time(1), time(5))
SHARD, SHARDS = 4, 3
"""Ledgers of a shard: ten make three shards."""
PAUSES = 2 + 1 + 1 + 1
"""Pauses of a run: before the second and third shard, before the second and the closing look, which
take all shards together, and before the end.
"""
DAY_NAPS = 20 * 3600 / NAP_S
"""Naps from five o'clock until one."""
BOOKIES = ("b1", "b2", "b3")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield ten ledgers: 2 lost its copy on a bookie, 6 lost an entry, 9 is marked, 10 is open."""
    with SandboxCluster(tmp_path_factory.mktemp("cluster"), len(BOOKIES), named=True) as made:
        for ledger_id in range(1, 11):
            made.place(ledger_id, made.ledger("e3 w2 a2 0:[b1 b2 b3] closed 29"))
        made.hold("b2", 2, "")
        for bookie in BOOKIES:
            made.hold(bookie, 6, "0-3 5-29")
        made.mark(9)
        made.place(10, made.ledger("e3 w2 a2 0:[b1 b2 b3] open"))
        yield made


@pytest.fixture(scope="module")
def undisturbed(
    cluster: SandboxCluster, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Outcome, Counter[tuple[str, int]]]:
    """Return what a run of the same shards says that works at all hours, and the lists that it
    asked for.
    """
    before, home = lists_asked(cluster), tmp_path_factory.mktemp("undisturbed")
    outcome = accounted(audit(cluster, home, shard_ledgers=SHARD))
    return outcome, lists_asked(cluster) - before


class ShortNights(Pauses):
    """A StopRequest and a clock. It is night until a shard was read, and naps pass the day.

    `asked_by_day` are the requests that bookies got during each pause. SIGTERM comes in the pause
    of number `stopped_in`.
    """

    def __init__(self, cluster: SandboxCluster, home: Path, stopped_in: int = 0) -> None:
        super().__init__()
        self._cluster, self._home, self._stopped_in = cluster, home, stopped_in
        self.at = datetime(2026, 11, 24, 2, tzinfo=UTC)
        self._read_at_dusk, self._asked_at_dawn = self._read(), 0
        self.naps: list[int] = []
        self.asked_by_day: list[int] = []

    def now(self) -> datetime:
        """Return the time. Five o'clock strikes as soon as a shard was read this night."""
        if self._is_night() and self._read() > self._read_at_dusk:
            self.at = self.at.replace(hour=5)
            self._asked_at_dawn = self._requests_so_far()
            self.naps.append(0)
        return self.at

    def wait(self, seconds: float) -> None:
        if self._is_night():
            super().wait(seconds)
            return
        self.naps[-1] += 1
        if len(self.naps) == self._stopped_in and self.naps[-1] == DAY_NAPS // 2:
            self._remember(signal.SIGTERM, None)
        self.check()
        self.at += timedelta(seconds=seconds)
        if self._is_night():
            self._read_at_dusk = self._read()
            self.asked_by_day.append(self._requests_so_far() - self._asked_at_dawn)

    def _is_night(self) -> bool:
        return NIGHT.seconds_until_open(self.at) == 0

    def _read(self) -> int:
        """Return how many times the metadata of a shard was written."""
        return len(list(self._home.glob("audits/run-*/evidence/ledgers/**/*.parquet")))

    def _requests_so_far(self) -> int:
        return sum(self._cluster.bookie(name).operations.total() for name in BOOKIES)


@pytest.fixture
def by_night(
    cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Outcome]:
    """Return a function that audits the cluster by the clock of these nights."""

    def audit_by(nights: ShortNights, **more: object) -> Outcome:
        hours_of = OpenHours.of

        def hours(context: Context, progress: Progress) -> OpenHours:
            return replace(hours_of(context, progress), now=nights.now)

        monkeypatch.setattr(OpenHours, "of", hours)
        flags = {"window": str(NIGHT), "shard_ledgers": SHARD, **more}
        return audit(cluster, tmp_path, stop=nights, **flags)

    return audit_by


def lists_asked(cluster: SandboxCluster) -> Counter[tuple[str, int]]:
    """Return how often each bookie was asked so far for the list of each ledger."""
    return Counter({(b, i): n for b in BOOKIES for i, n in cluster.bookie(b).asked.items()})


def said(outcome: Outcome) -> tuple[Any, ...]:
    """Return everything that depends only on the cluster, and what was asked of its bookies."""
    found = sorted((one["id"], one["kind"], str(one["entries"])) for one in outcome.findings)
    names = ("ledgers", "findings", "bookies", "indeterminate", "exempt", "copies")
    counts = {name: outcome.summary[name] for name in names}
    requests = {**outcome.summary["requests"], "zookeeper_reads": None}
    return outcome.exit_code, found, outcome.verdicts, counts, requests


def events(outcome: Outcome) -> list[str]:
    return [one["event"] for one in outcome.events if one["event"] in ("run_pauses", "run_goes_on")]


def test_a_run_that_crosses_its_window_asks_nobody_by_day_and_says_the_same(
    cluster: SandboxCluster,
    undisturbed: tuple[Outcome, Counter[tuple[str, int]]],
    by_night: Callable[..., Outcome],
    tmp_path: Path,
):
    """The window closes after each shard of each look. The run pauses until one o'clock, and goes
    on. It asks what a run asks that nothing disturbs.
    """
    nights, before = ShortNights(cluster, tmp_path), lists_asked(cluster)
    outcome = accounted(by_night(nights))
    assert [DAY_NAPS] * PAUSES == nights.naps
    assert [0] * PAUSES == nights.asked_by_day
    assert ["run_pauses", "run_goes_on"] * PAUSES == events(outcome)
    assert (said(undisturbed[0]), undisturbed[1]) == (said(outcome), lists_asked(cluster) - before)
    assert undisturbed[0].summary["requests"] == outcome.summary["requests"]


def test_the_time_of_a_shard_goes_to_the_stage_that_takes_it(
    cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Each shard is read in the stage load, asked about in ask, and judged in judge: what reading a
    later shard takes is not counted as judging.
    """
    stages, work = ["load"], []
    begin_stage = Watch.stage

    def stage(watch: Watch, name: str, *more: Any, **others: Any) -> None:
        stages.append(name)
        begin_stage(watch, name, *more, **others)

    def recorded(name: str) -> Callable[..., Any]:
        carry_out = getattr(Stages, name)

        def method(self: Stages, *more: Any, **others: Any) -> Any:
            work.append((stages[-1], name))
            return carry_out(self, *more, **others)

        return method

    monkeypatch.setattr(Watch, "stage", stage)
    for name in ("reading", "asking", "judge"):
        monkeypatch.setattr(Stages, name, recorded(name))
    accounted(audit(cluster, tmp_path, shard_ledgers=SHARD))
    of_first_look = [pair for pair in work if pair[0] != "second look"]
    assert {("load", "reading"), ("ask", "asking"), ("judge", "judge")} == {*of_first_look}
    assert SHARDS == of_first_look.count(("load", "reading"))


@pytest.mark.parametrize("stopped_in", [1, 3])
def test_a_run_that_is_stopped_by_day_is_finished_by_night(
    cluster: SandboxCluster,
    undisturbed: tuple[Outcome, Counter[tuple[str, int]]],
    by_night: Callable[..., Outcome],
    tmp_path: Path,
    stopped_in: int,
):
    """SIGTERM ends the pause after the first shard, or after the first look. `--resume` repeats no
    shard: both parts ask the bookies what one run asks that nothing disturbs.
    """
    stopped, before = ShortNights(cluster, tmp_path, stopped_in), lists_asked(cluster)
    with pytest.raises(Interrupted) as interrupted:
        by_night(stopped)
    (run,) = (tmp_path / "audits").glob("run-*")
    run_id = run.name.removeprefix("run-")
    assert f"auditor run --resume {run_id} continues" in interrupted.value.advice
    assert [*[DAY_NAPS] * (stopped_in - 1), DAY_NAPS // 2] == stopped.naps
    assert not (tmp_path / "audits" / "latest.json").exists()
    resumed = ShortNights(cluster, tmp_path)
    outcome = accounted(by_night(resumed, resume=run_id))
    assert [0] * (PAUSES - stopped_in) == resumed.asked_by_day
    assert (said(undisturbed[0]), undisturbed[1]) == (said(outcome), lists_asked(cluster) - before)
    assert 1 == len(outcome.summary["resumed_at"])


def test_a_run_that_is_too_old_when_its_window_opens_is_refused_by_day(
    cluster: SandboxCluster, by_night: Callable[..., Outcome], tmp_path: Path
):
    """It does not wait first. Nobody is asked."""
    with pytest.raises(Interrupted):
        by_night(ShortNights(cluster, tmp_path, stopped_in=1))
    (run,) = (tmp_path / "audits").glob("run-*")
    late, before = ShortNights(cluster, tmp_path), lists_asked(cluster)
    late.at = (datetime.now(UTC) + timedelta(days=1)).replace(hour=12)
    with pytest.raises(ConfigError, match=r"older than --resume-age-max allows \(24h\)"):
        by_night(late, resume=run.name.removeprefix("run-"))
    assert ([], []) == (late.naps, late.seconds)
    assert before == lists_asked(cluster)
