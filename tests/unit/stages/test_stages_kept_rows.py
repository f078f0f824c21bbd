"""The rows of suspects are taken from each file once, and are those that a scan gives."""

from __future__ import annotations

from collections.abc import Sequence
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


def is_within(shard: Shard, ledger_id: int) -> bool:
    return shard.first <= ledger_id <= shard.last


@pytest.mark.parametrize("seed", range(40))
def test_kept_rows_are_those_of_a_scan(seed: int, run: Place) -> None:
    """Whatever is asked for in which order, and whenever files are added."""
    dice, kept = Random(seed), KeptRows(ShardFiles(run))
    ids = sorted(dice.sample(range(100), 30))
    low, high = Shard(1, 0, 49), Shard(2, 50)
    shards = (EVERYTHING, low, high)
    for number in range(60):
        name, shard = dice.choice(NAMES), dice.choice(shards)
        if dice.random() < 0.2:
            write(run, name, f"new {number}", *dice.sample(range(120), 9))
        if dice.random() < 0.2:
            ids = sorted(dice.sample(range(120), 30))
        if dice.random() < 0.3:
            part = dice.choice(shards)
            kept.set_aside(part, [one for one in dice.sample(ids, 20) if is_within(part, one)])
        some = [one for one in ids if dice.random() < 0.7 and is_within(shard, one)]
        if not some:
            continue
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


def look_at(kept: KeptRows, shard: Shard, *ids: int) -> list[list[tuple[int, str]]]:
    return [sorted_rows(kept.of(name, ROWS, shard, pa.array(ids, pa.int64()))) for name in NAMES]


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the files of which rows are taken."""
    found: list[str] = []
    scan_files = ShardFiles.scan_files

    def recorded(
        files: ShardFiles, table: str, schema: pa.Schema, names: Sequence[str]
    ) -> TableScan:
        found.extend(Path(name).stem for name in names)
        return scan_files(files, table, schema, names)

    monkeypatch.setattr(ShardFiles, "scan_files", recorded)
    return found


def test_suspects_of_joined_shards_are_taken_back(run: Place, scanned: list[str]) -> None:
    """Of two shards at the first look, of both together at the next ones. Only what was written
    since is read.
    """
    low, high = Shard(0, 0, 49), Shard(1, 50)
    kept = KeptRows(ShardFiles(run))
    look_at(kept, low, 3, 7, 9)
    kept.set_aside(low, [3, 9])
    look_at(kept, high, 60, 70)
    kept.set_aside(high, [60])
    kept.of(NAMES[0], ROWS, low, pa.array([11]))
    write(run, NAMES[0], "look 2", 3, 60, 70)
    scanned.clear()
    found = look_at(kept, EVERYTHING, 3, 9, 60)
    assert ["look 2", "look 2"] == scanned
    lists = [(3, "look 2 3"), (3, "low 3"), (9, "low 9"), (60, "high 60"), (60, "look 2 60")]
    assert [lists, [(3, "low 3"), (9, "low 9"), (60, "high 60")]] == found
    kept.set_aside(EVERYTHING, [3, 60])
    look_at(kept, low, 11)
    scanned.clear()
    assert [(3, "look 2 3"), (3, "low 3")] == look_at(kept, EVERYTHING, 3)[0]
    assert [] == scanned


def test_suspects_of_other_shards_stay_set_aside(run: Place, scanned: list[str]) -> None:
    """A look takes back those of its shard, and of the next shard when it comes there."""
    shards = {Shard(0, 0, 49): 3, Shard(1, 50): 60}
    kept = KeptRows(ShardFiles(run))
    for shard, ledger_id in shards.items():
        look_at(kept, shard, ledger_id)
        kept.set_aside(shard, [ledger_id])
    look_at(kept, EVERYTHING, 11)
    scanned.clear()
    found = [look_at(kept, shard, ledger_id)[0] for shard, ledger_id in shards.items()]
    assert [[(3, "low 3")], [(60, "high 60")]] == found
    assert [] == scanned


def test_suspects_are_read_again_unless_all_were_set_aside(run: Place, scanned: list[str]) -> None:
    """A ledger may become a suspect of which this process did not judge the rest."""
    kept = KeptRows(ShardFiles(run))
    look_at(kept, EVERYTHING, 3, 9)
    kept.set_aside(EVERYTHING, [3, 9, 60])
    look_at(kept, EVERYTHING, 70)
    scanned.clear()
    assert [(3, "low 3"), (60, "high 60")] == look_at(kept, EVERYTHING, 3, 60)[0]
    assert ["high", "low"] * 2 == scanned
    kept.set_aside(Shard(0, 0, 99), [3, 60])
    look_at(kept, EVERYTHING, 70)
    assert [(3, "low 3"), (60, "high 60")] == look_at(kept, EVERYTHING, 3, 60)[0]


def test_suspects_stay_aside_when_some_are_read_with_other_ledgers(
    run: Place, scanned: list[str]
) -> None:
    """Bookies in doubt are read more densely: of suspects, and of ledgers that were settled."""
    kept = KeptRows(ShardFiles(run))
    look_at(kept, EVERYTHING, 3, 9)
    kept.set_aside(EVERYTHING, [3, 9])
    look_at(kept, EVERYTHING, 9, 60, 70)
    kept.set_aside(EVERYTHING, [3, 9, 60])
    look_at(kept, EVERYTHING, 11)
    write(run, NAMES[0], "look 2", 9)
    scanned.clear()
    found = look_at(kept, EVERYTHING, 3, 9, 60)[0]
    assert [(3, "low 3"), (9, "look 2 9"), (9, "low 9"), (60, "high 60")] == found
    assert {"look 2"} == set(scanned)


@pytest.mark.parametrize("limit", ["ASIDE_BYTES_MAX", "KEPT_BYTES_MAX"])
def test_what_is_set_aside_is_bounded(
    limit: str, run: Place, scanned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = KeptRows(ShardFiles(run))
    look_at(kept, EVERYTHING, 3, 9)
    if limit == "ASIDE_BYTES_MAX":
        monkeypatch.setattr(f"auditor.stages.kept_rows.{limit}", 100)
    kept.set_aside(EVERYTHING, [3, 9])
    look_at(kept, EVERYTHING, 70)
    monkeypatch.setattr(f"auditor.stages.kept_rows.{limit}", 100)
    write(run, NAMES[0], "long", *[3] * 50)
    scanned.clear()
    if limit == "ASIDE_BYTES_MAX":
        look_at(kept, EVERYTHING, 3, 9)
        assert ["high", "long", "low", "high", "low"] == scanned
    else:
        assert kept.of(NAMES[0], ROWS, EVERYTHING, pa.array([3, 9])) is None


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
