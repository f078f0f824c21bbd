"""The rows of suspects are taken from each file once, and are those that a scan gives."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, cast

import pyarrow as pa
import pytest

from auditor.evidence.ids import EVERYTHING, Shard
from auditor.evidence.run_directory import Place, place
from auditor.evidence.shard_files import ShardFiles
from auditor.evidence.table_scan import TableScan, are_of
from auditor.stages.kept_rows import KeptRows
from auditor.stages.local import LocalExecutor
from auditor.stages.selection import Suspects
from auditor.stages.stages import Stages
from auditor.stop import StopRequest
from auditor.zookeeper.metadata_store import StoreAddress
from auditor.zookeeper.session import ReadCounts

ROWS = pa.schema([("ledger_id", pa.int64()), ("word", pa.string())])
NAMES = ("evidence/answers", "evidence/reads")


def write(run: Place, name: str, file: str, *ids: int) -> None:
    words = [f"{file} {one}" for one in ids]
    run.write_table(name, pa.table({"ledger_id": [*ids], "word": words}, ROWS), file)


@pytest.fixture
def run(tmp_path: Path) -> Place:
    directory = place(str(tmp_path))
    for name in NAMES:
        write(directory, name, "low", *range(50))
        write(directory, name, "high", *range(50, 100))
    return directory


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the files that are decoded whole."""
    found: list[str] = []
    whole = TableScan.whole_within

    def recorded(scan: TableScan, bytes_max: int) -> pa.Table | None:
        found.extend(Path(part.path).stem for part in scan.rows.get_fragments())
        return whole(scan, bytes_max)

    monkeypatch.setattr(TableScan, "whole_within", recorded)
    return found


def sorted_rows(rows: pa.Table | None) -> list[tuple[int, str]]:
    assert rows is not None
    return sorted((row["ledger_id"], row["word"]) for row in rows.to_pylist())


@pytest.mark.parametrize("seed", range(20))
def test_kept_rows_are_those_of_a_scan(seed: int, run: Place) -> None:
    """Whatever is asked for in which order, and whenever files are added."""
    dice, kept = Random(seed), KeptRows(ShardFiles(run))
    ids = sorted(dice.sample(range(100), 30))
    shards = (EVERYTHING, Shard(1, 0, 49))
    for number in range(30):
        name, shard = dice.choice(NAMES), dice.choice(shards)
        if dice.random() < 0.2:
            write(run, name, f"new {number}", *dice.sample(range(120), 9))
        if dice.random() < 0.2:
            ids = sorted(dice.sample(range(120), 30))
        some = [one for one in ids if dice.random() < 0.7 and one <= shard.last] or [ids[0]]
        wanted = pa.array(some, pa.int64())
        found = kept.of(name, ROWS, shard, wanted)
        assert sorted_rows(run.read_table(name, ROWS, are_of(wanted))) == sorted_rows(found)


def test_each_file_is_read_once_for_the_same_ledgers(
    run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round of reads adds a file. The others are not opened for it."""
    opened: list[str] = []
    within = TableScan.table_within

    def counted(scan: TableScan, *args: object) -> pa.Table | None:
        opened.extend(Path(part.path).stem for part in scan.rows.get_fragments())
        return within(scan, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(TableScan, "table_within", counted)
    kept = KeptRows(ShardFiles(run))
    for number in range(3):
        for name in NAMES:
            kept.of(name, ROWS, EVERYTHING, pa.array([3, 60, 70 + number][: 3 - number]))
        write(run, NAMES[1], f"round {number}", 60)
    assert ["high", "low"] * 2 + ["round 0", "round 1"] == opened


def test_what_takes_too_much_memory_is_not_kept(
    run: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read each time instead."""
    monkeypatch.setattr("auditor.stages.kept_rows.KEPT_BYTES_MAX", 700)
    kept, ids = KeptRows(ShardFiles(run)), pa.array(range(25))
    assert kept.of(NAMES[0], ROWS, EVERYTHING, ids) is not None
    assert kept.of(NAMES[1], ROWS, EVERYTHING, ids) is None
    assert kept.of(NAMES[1], ROWS, EVERYTHING, pa.array([1])) is not None


def test_a_table_without_files_is_not_kept(run: Place) -> None:
    """Whoever reads it learns whether it was lost."""
    assert KeptRows(ShardFiles(run)).of("evidence/lost", ROWS, EVERYTHING, pa.array([1])) is None


def test_no_evidence_is_held_after_the_last_look(run: Place, read: list[str]) -> None:
    """Neither the rows of suspects nor those of a shard: the end of a run needs the memory."""
    suspects = Suspects(run)
    local = LocalExecutor(StopRequest(), run, suspects, cast(StoreAddress, None), ReadCounts())
    nothing = cast(Any, None)
    stages = Stages(nothing, local, suspects, nothing, nothing, nothing, 0, 0)
    ids, shard = pa.array([3, 60]), Shard(0, 0, 99)
    for _ in range(2):
        local.kept.of(NAMES[0], ROWS, shard, ids)
        suspects.files.scan(NAMES[0], ROWS, shard)
        assert ["high", "low"] == read
    stages.release()
    local.kept.of(NAMES[0], ROWS, shard, ids)
    assert ["high", "low"] * 2 == read
