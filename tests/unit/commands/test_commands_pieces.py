"""Parts of commands: files of ledger ids, run ids, and the watch that measures stages."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import structlog

from auditor import context
from auditor.commands import ledger_ids
from auditor.context import Watch, new_run_id
from auditor.errors import ConfigError
from auditor.evidence.newest_run import RUN_NAME
from auditor.telemetry.progress import LedgersDone, Silent


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "ids"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ([], ""),
        ([], "\n\n# nothing\n"),
        ([7], "7"),
        ([7, 3], "7\n3\n7\n"),
        ([0, 2**63 - 1], f"0\n{2**63 - 1}\n"),
        ([5], "  5  # the ledger in question\r\n"),
        ([12], "0012\n"),
        ([0], "0" * 6000),
    ],
)
def test_ids_one_a_line_each_once(tmp_path: Path, expected: list[int], text: str):
    """Blank lines and comments are skipped, and the order stays."""
    assert expected == ledger_ids.read_ledger_ids(written(tmp_path, text))


@pytest.mark.parametrize(
    "word",
    ["seven", "-1", "1.0", "0x7", "7 8", "7,8", "+7", "1_000", str(2**63), "9" * 5000, "L0007"],
)
def test_what_is_not_an_id_is_named_with_its_line(tmp_path: Path, word: str):
    """The error shows at most 50 characters of it."""
    with pytest.raises(ConfigError, match=r"line 2: .{1,50} is not a ledger id"):
        ledger_ids.read_ledger_ids(written(tmp_path, f"1\n{word}\n"))


@pytest.mark.parametrize("data", ["é\n".encode(), b"\xff\xfe7\n", "٣\n".encode()])
def test_bytes_that_are_not_ascii_are_refused(tmp_path: Path, data: bytes):
    """Digits of other scripts are refused, although Python's `int` accepts them."""
    with pytest.raises(ConfigError, match="cannot be read as a list of ids"):
        ledger_ids.read_ledger_ids(written(tmp_path, data))


def test_a_file_that_is_not_there_or_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The error names the file, or the largest size."""
    with pytest.raises(ConfigError, match="nowhere"):
        ledger_ids.read_ledger_ids(tmp_path / "nowhere")
    monkeypatch.setattr(ledger_ids, "LEDGER_FILE_BYTES_MAX", 3)
    with pytest.raises(ConfigError, match="larger than 3 bytes"):
        ledger_ids.read_ledger_ids(written(tmp_path, "1234"))


def test_run_ids_sort_by_time_and_differ():
    """The name of a run's directory is one that pruning knows."""
    noon = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)
    ids = [new_run_id(noon) for _ in range(200)]
    assert 200 == len(set(ids))
    assert all(RUN_NAME.fullmatch(f"run-{one}") for one in ids)
    assert new_run_id(noon) < new_run_id(noon + timedelta(seconds=1))
    assert re.match("20260102T120000Z-", ids[0])


class Recorded(Silent):
    """Progress that records its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def stage(
        self, name: str, total: int | None = None, ledgers: LedgersDone | None = None
    ) -> None:
        self.calls.append((name, total) if ledgers is None else (name, total, ledgers))

    def advance(self, n: int = 1) -> None:
        self.calls.append((n,))

    def pause(self, seconds: float) -> None:
        self.calls.append(("pause", seconds))

    def silent(self, bookies: Collection[str]) -> None:
        self.calls.append(("silent", *bookies))


def test_the_watch_measures_each_stage_and_adds_up(monkeypatch: pytest.MonkeyPatch):
    """The times of a stage that runs twice add up. The stage that still runs is not reported. Names
    are the keys of the summary.
    """
    clock = iter([10.0, 13.0, 13.0, 14.0, 14.0, 20.0])
    monkeypatch.setattr(context.time, "monotonic", lambda: next(clock))
    watch = Watch(Recorded(), structlog.get_logger())
    watch.stage("load")
    watch.stage("second look", 5)
    watch.stage("load")
    assert {"load": 3.0, "second_look": 1.0} == watch.durations()
    watch.close()
    assert {"load": 9.0, "second_look": 1.0} == watch.durations()
    watch.close()
    assert {"load": 9.0, "second_look": 1.0} == watch.durations()


def test_progress_never_goes_back():
    """The finished tasks of a job are counted up. The next job of the stage starts at 0."""
    recorded = Recorded()
    watch = Watch(recorded, structlog.get_logger())
    watch.stage("ask", 10)
    for count in (2, 2, 5, 0, 3):
        watch.done(count)
    assert [("ask", 10), (2,), (3,), (3,)] == recorded.calls


def test_the_watch_hands_on_what_the_screen_shows():
    """Ledgers, pauses and silent bookies are passed on, and not measured."""
    recorded = Recorded()
    watch = Watch(recorded, structlog.get_logger())
    watch.stage("ask", 2, LedgersDone(5, 9))
    watch.pause(3.0)
    watch.silent(["b1"])
    assert [("ask", 2, LedgersDone(5, 9)), ("pause", 3.0), ("silent", "b1")] == recorded.calls
